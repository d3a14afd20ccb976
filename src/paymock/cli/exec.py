"""The command `exec`: a server for one command, as a child process that ends with it."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from paymock.cli.serve import serve
from paymock.server.process import in_foreground
from paymock.settings import ApplicationSettings, SettingsError
from paymock.text import OPEN_KEY

_GRACE_SECONDS = 3.0
"""How long COMMAND may take to end. With the server, which may take four seconds, this is less than 8."""

_SERVER_ENDED = 3
_NAMES = {"SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"}
_SIGNALS = [number for number in signal.Signals if number.name in _NAMES]
_OF_TERMINALS = [number for number in _SIGNALS if number.name in ("SIGINT", "SIGQUIT")]


class _ExecCommand(click.Command):
    """Keeps what stands before COMMAND, the options of the server, in `ctx.obj`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        ctx.obj = given[: len(given) - len(ctx.params["command"] or ())]  # None: completion
        return rest


@click.command(
    cls=_ExecCommand,
    params=[
        one for one in serve.params if one.name not in ("ready_file", "exit_on_stdin_close", "reuse_port")
    ],
    context_settings={"allow_interspersed_args": False, "default_map": {"port": 0, "no_access_log": True}},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def exec(  # noqa: A001 - the name of the command
    ctx: click.Context,
    /,
    command: tuple[str, ...],
    api_keys: tuple[str, ...],
    api_keys_file: Path | None,
    **_: Any,
) -> None:
    """Run COMMAND with its own server.

    The server listens on a free port, and stops when COMMAND ends. PAYMOCK_URL has its URL. The exit status
    is that of COMMAND.
    """
    variables = dict(os.environ)
    try:
        settings = ApplicationSettings(api_keys=api_keys, api_keys_file=api_keys_file).with_keys_of_file()
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    keys = settings.api_keys
    if keys and variables.get("PAYMOCK_API_KEY") not in keys:
        variables["PAYMOCK_API_KEY"] = keys[0]
    elif not keys and not OPEN_KEY.fullmatch(variables.get("PAYMOCK_API_KEY", "")):
        variables.pop("PAYMOCK_API_KEY", None)
    folders = variables.get("PATH", os.defpath), str(_command_folder())
    variables["PATH"] = os.pathsep.join(filter(None, folders))
    module = [] if hasattr(sys, "frozen") else ["-P", "-m", "paymock"]  # frozen: scripts/binary
    with subprocess.Popen(  # noqa: S603 - the end of the block closes its standard input, and waits for it
        [sys.executable, *module, "serve", "--ready-file", "-", "--exit-on-stdin-close", *ctx.obj],
        env={"PAYMOCK_NO_ACCESS_LOG": "1", **variables, "PAYMOCK_PORT": "0", "PAYMOCK_REUSE_PORT": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # out of reach of Ctrl-C, as on Windows in a group of its own
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    ) as server:
        ready = next(iter(server.stdout or ()), None)
        if ready is None:
            ctx.exit(max(server.wait(), 0) or _SERVER_ENDED)
        variables["PAYMOCK_URL"] = json.loads(ready)["url"]
        mark = f"PAYMOCK_EXEC_{secrets.token_hex(8)}"  # in what COMMAND starts, and in nothing else
        variables[mark] = "1"
        signals = _SignalForwarder()
        try:
            process = subprocess.Popen(  # noqa: S603 - what the user has typed
                command, env=variables, executable=shutil.which(command[0], path=variables["PATH"])
            )
        except OSError as error:
            click.echo(f"Error: {command[0]}: {error.strerror}", err=True)
            ctx.exit(127 if isinstance(error, FileNotFoundError) else 126)
        signals.pass_to(process)

        def stop_with_server() -> None:
            server.wait()
            if process.returncode is None:
                click.echo("Error: the server ended before the command: sending it SIGTERM", err=True)
                process.terminate()
                _kill_after_timeout(process)

        threading.Thread(target=stop_with_server, daemon=True).start()
        status = process.wait()
        if signals.has_stop or server.returncode is not None:
            from paymock.verify.process import end_processes_with  # imported here, since it takes long

            end_processes_with(f"{mark}=1", _GRACE_SECONDS)
        if server.returncode is not None:
            ctx.exit(_SERVER_ENDED)
        ctx.exit(status if status >= 0 else 128 - status)


def _command_folder() -> Path:
    """A folder with a `paymock` that is this program, whose file has another name if it was downloaded."""
    program = Path(sys.executable)
    if not hasattr(sys, "frozen") or program.stem == "paymock":
        return program.parent
    folder = Path(getattr(sys, "_MEIPASS"), "command")  # noqa: B009 - where it is unpacked; in no type stub
    folder.mkdir(exist_ok=True)
    with suppress(FileExistsError):  # `exec` in `exec`
        (folder / "paymock").symlink_to(program)
    return folder


class _SignalForwarder:
    """Passes signals on to a command, once it runs; those that were ignored stay so."""

    def __init__(self) -> None:
        self.has_stop = False
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)

    def pass_to(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        for number in self._early:
            self._pass_on(number)

    def _pass_on(self, number: int, frame: object = None) -> None:
        if self._process is None:
            self._early.append(number)
            return
        if number not in _OF_TERMINALS or not (sys.platform == "win32" or in_foreground()):
            self._process.send_signal(number)  # but Ctrl-C, which it gets, too
        if number in (signal.SIGINT, signal.SIGTERM):
            self.has_stop = True
            _kill_after_timeout(self._process)


def _kill_after_timeout(process: "subprocess.Popen[bytes]") -> None:
    timer = threading.Timer(_GRACE_SECONDS, process.kill)
    timer.daemon = True
    timer.start()
