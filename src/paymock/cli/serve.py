"""The command `serve`. Every option has an environment variable; the option takes precedence over it."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from paymock.cache import JOURNAL_LENGTH, MAX_JOURNAL, MIN_JOURNAL
from paymock.cli.options import FILE, Choice, CommonOption, Duration, Integer, Number, gone
from paymock.rules.amounts import DEFAULT_FEE_BPS, MAX_FEE_BPS
from paymock.rules.clock import MAX_SPEED
from paymock.server import process
from paymock.server.process import STANDARD_OUTPUT, StartError, end_line
from paymock.settings import DEFAULT_PORT, MEMORY_STORE, Settings, SettingsError
from paymock.text import OPEN_KEY

F = TypeVar("F", bound=Callable[..., Any])


class CommaSeparated(click.types.StringParamType):
    """A string; in an environment variable, several, separated by commas."""

    envvar_list_splitter = ","

    def split_envvar_value(self, rv: str) -> list[str]:
        parts = [part.strip() for part in rv.split(",")]
        if not all(parts):
            self.fail("a value before or after a comma is empty")
        return parts


def _option(flag: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """An option with a variable PAYMOCK_FLAG for each of its flags. The help shows a default given here."""
    flags = [name.partition("/")[0] for name in (flag, *names) if name.startswith("--")]
    variables = ["PAYMOCK_" + name.removeprefix("--").replace("-", "_").upper() for name in flags]
    settings.setdefault("envvar", variables if len(variables) > 1 else variables[0])
    shown: dict[str, Any] = {"show_envvar": True, "show_default": "default" in settings}
    return click.option(flag, *names, cls=CommonOption, **shown, **settings)


_RETENTION = Duration(86_400)
_RETENTION.like = " seconds, like 36h or 30d"
_SEVERAL: dict[str, Any] = {"multiple": True, "type": CommaSeparated()}


@click.command()
@_option("--host", help="Address to bind. [default: 127.0.0.1 and ::1]")
@_option("--port", type=Integer(0, 65535), default=DEFAULT_PORT, help="Port; 0 picks a free one.")
@_option(
    "--reuse-port/--no-reuse-port",
    help="Share the port with other servers on the same SQLite or Redis store. Linux only.",
)
@_option(
    "--api-key",
    "api_keys",
    **_SEVERAL,
    metavar="KEY",
    envvar="PAYMOCK_API_KEYS",
    help="Accept only this API key and its KEY.NAMEs. Repeatable. [default: open mode, any mk_test_NAME]",
)
@_option(
    "--api-keys-file",
    type=FILE,
    help="File with more API keys, one per line; # starts a comment. Reloaded on SIGHUP.",
)
@_option("--open/--no-open", help="Allow open mode beyond loopback.")
@_option(
    "--allowed-host",
    "allowed_hosts",
    **_SEVERAL,
    metavar="HOST",
    help="Also accept this host name in the Host header. Repeatable.",
)
@_option(
    "--frame-ancestor",
    "--frame-ancestors",
    "frame_ancestors",
    **_SEVERAL,
    metavar="ORIGIN",
    help="Allow pages of this origin to embed the checkout. Repeatable. [default: none]",
)
@_option(
    "--root-path",
    default="",
    metavar="PATH",
    help="Path under which a proxy serves paymock, like /paymock: links start with it. [default: none]",
)
@_option(
    "--fee-bps",
    type=Integer(0, MAX_FEE_BPS),
    default=DEFAULT_FEE_BPS,
    help="Service fee in hundredths of a percent.",
)
@_option(
    "--journal",
    type=Integer(MIN_JOURNAL, MAX_JOURNAL),
    default=JOURNAL_LENGTH,
    help="Number of requests to keep per sandbox; the same on all servers of a store.",
)
@_option("--catalog", type=FILE, help="TOML file of chains and assets that replaces the built-in catalog.")
@_option("--scenarios", type=FILE, help="TOML file of scenarios to add to the built-in ones.")
@_option(
    "--speed",
    type=Number(0, MAX_SPEED),
    default=1,
    help="Initial speed factor of every sandbox, relative to real time.",
)
@_option("--seed", help="Make ids, addresses and hashes reproducible.")
@_option(
    "--store",
    default=MEMORY_STORE,
    metavar="URL",
    help="Store of the payments: memory://, sqlite:file.db, sqlite:///absolute/path/file.db, redis://, "
    "rediss:// or redis+sentinel://.",
)
@_option(
    "--max-payments",
    type=Integer(1),
    help="Maximum number of payments in all sandboxes. [default: 1000000 in memory, else no limit]",
)
@_option(
    "--retention",
    type=_RETENTION,
    callback=lambda _, __, seconds: seconds and int(seconds),
    help="Delete data in SQLite or Redis this long after its creation: 36h, 30d; at least 24h. "
    "[default: never]",
)
@_option(
    "--ready-file",
    type=FILE,
    help="Write URL, port and process id to this file, as JSON, once ready; - for standard output.",
)
@_option(
    "--exit-on-stdin-close", is_flag=True, help="Exit when standard input closes, as when the parent dies."
)
@_option("--log", type=Choice(["text", "json"]), default="text", help="Format of the log.")
@_option(
    "--metrics-address",
    metavar="HOST:PORT",
    help="Serve Prometheus metrics at this address, at /metrics; needs the extra `metrics`. [default: none]",
)
@_option("--no-access-log/--access-log", help="Do not log requests.")
@_option("--no-control/--control", help="Disable the control API, /_mock, and faults.")
@_option("--workers", **gone("start several servers with --reuse-port"))
@_option("--now", **gone("set the time of a sandbox: `paymock clock TIME`, PUT /_mock/clock, freeze(at=)"))
@_option("--reset-time/--no-reset-time", **gone("the store holds no time any more, so omit it"))
def serve(**options: Any) -> None:
    """Start the server."""

    def exit_early(*_: object) -> None:
        end_line()
        os._exit(0)

    # These handlers apply until the server installs its own. They do not raise an exception, since Python
    # ignores those of some callbacks, and the signal would be lost.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, exit_early)
    process.suspend_collections()
    from paymock.cli.output import program  # imported here, since they take long
    from paymock.payments.files import FileError
    from paymock.server.run import serve as serve_forever

    try:
        settings = settings_from_options(**options)
        client_key = os.environ.get("PAYMOCK_API_KEY")
        if settings.open_mode and client_key and not OPEN_KEY.fullmatch(client_key):
            raise SettingsError(
                "PAYMOCK_API_KEY is for clients. Set PAYMOCK_API_KEYS to the keys of this server, or neither"
            )
        if settings.exit_on_stdin_close and sys.stdin is None:
            raise SettingsError("--exit-on-stdin-close requires a standard input")
        log = sys.stderr if settings.ready_file == STANDARD_OUTPUT else sys.stdout
        serve_forever(settings, log, program())
    except (SettingsError, FileError, StartError) as error:
        raise click.ClickException(str(error)) from None


def settings_from_options(*, no_access_log: bool, no_control: bool, **options: Any) -> Settings:
    return Settings(access_log=not no_access_log, control=not no_control, **options)
