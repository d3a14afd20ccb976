"""The command `exec`: a server for one command, as a child process that ends with it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import click

from paymock.cli.serve import serve
from paymock.server.terminal import in_foreground
from paymock.settings import OPEN_KEY

_GRACE_SECONDS = 3.0
"""How long COMMAND may take to end. With the server, which may take four seconds, this is less than 8."""

_NOT_EXECUTABLE, _NOT_FOUND, _SIGNALED = 126, 127, 128
"""The exit statuses of a shell."""

_SERVER_ENDED = 3
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _ExecCommand(click.Command):
    """Keeps what stands before COMMAND, the options of the server, in `ctx.obj`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        ctx.obj = given[: len(given) - len(ctx.params["command"])]
        return rest


@click.command(
    cls=_ExecCommand,
    params=[one for one in serve.params if one.name not in ("ready_file", "exit_on_stdin_close")],
    context_settings={
        "allow_interspersed_args": False,
        "default_map": {"port": 0, "no_access_log": True},
    },
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def exec(  # noqa: A001 - the name of the command
    ctx: click.Context, /, command: tuple[str, ...], api_keys: tuple[str, ...], **_: Any
) -> None:
    """Run COMMAND with a server of its own.

    Its URL is in PAYMOCK_URL. The server uses a free port, and ends with COMMAND. The exit status is that of
    COMMAND.
    """
    variables = dict(os.environ)
    if api_keys:
        variables["PAYMOCK_API_KEY"] = api_keys[0]
    elif not OPEN_KEY.fullmatch(variables.get("PAYMOCK_API_KEY", "")):
        variables.pop("PAYMOCK_API_KEY", None)
    arguments = ["--ready-file", "-", "--exit-on-stdin-close", *ctx.obj]
    with subprocess.Popen(  # noqa: S603 - the end of the block closes its standard input, and waits for it
        [sys.executable, "-P", "-m", "paymock", "serve", *arguments],
        env={"PAYMOCK_PORT": "0", "PAYMOCK_NO_ACCESS_LOG": "1", **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # out of reach of Ctrl-C, as on Windows in a group of its own
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    ) as server:
        if ready := next(iter(server.stdout or ()), None):
            variables["PAYMOCK_URL"] = json.loads(ready)["url"]
            status = _run(command, variables, server)
        else:
            status = server.wait()
    ctx.exit(status)


def _run(command: Sequence[str], variables: Mapping[str, str], server: "subprocess.Popen[bytes]") -> int:
    """Run a command while the server runs; return the exit status."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: object = None) -> None:
        if process is None:
            early.append(number)
            return
        if number != signal.SIGINT or not (sys.platform == "win32" or in_foreground()):
            process.send_signal(number)  # but Ctrl-C, which it gets, too
        if number in (signal.SIGINT, signal.SIGTERM):
            _kill_after_timeout(process)

    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as the command is to find it
            signal.signal(number, pass_on)
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user has typed
            command, env=variables, executable=shutil.which(command[0])
        )
    except OSError as error:
        click.echo(f"Error: {command[0]}: {error.strerror}", err=True)
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    for number in early:
        pass_on(number)
    threading.Thread(target=_stop_with_server, args=[process, server], daemon=True).start()
    status = process.wait()
    if server.returncode is not None:
        return _SERVER_ENDED
    return status if status >= 0 else _SIGNALED - status


def _stop_with_server(process: "subprocess.Popen[bytes]", server: "subprocess.Popen[bytes]") -> None:
    """Stop a command that still runs when the server has ended."""
    server.wait()
    if process.returncode is None:
        click.echo("Error: the server has ended before the command, which gets SIGTERM", err=True)
        process.terminate()
        _kill_after_timeout(process)


def _kill_after_timeout(process: "subprocess.Popen[bytes]") -> None:
    timer = threading.Timer(_GRACE_SECONDS, process.kill)
    timer.daemon = True
    timer.start()
