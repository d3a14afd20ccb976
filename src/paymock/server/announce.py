"""The ready file and the banner, which announce that the server is ready."""

import contextlib
import json
import os
import shlex
import sys
from pathlib import Path

from paymock import __version__
from paymock.server.errors import StartError
from paymock.server.streams import STANDARD_OUTPUT, end_line
from paymock.settings import DEFAULT_PORT, MEMORY_STORE, OPEN_KEY_EXAMPLE, Settings
from paymock.stores.opening import sqlite_path
from paymock.web.telemetry.access_log import RequestLog


def write_ready_file(path: Path, url: str, port: int, metrics: str | None = None) -> None:
    """Write the addresses of the server and of its metrics, and the process id, as JSON. The file is created
    atomically. Raises StartError.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    content = {"url": url, "port": port, "pid": os.getpid()} | ({"metrics": metrics} if metrics else {})
    line = json.dumps(content) + "\n"
    if path == STANDARD_OUTPUT:
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    try:
        draft.write_text(line, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise StartError(f"cannot write the ready file {path}: {error.strerror}") from None


def remove_ready_file(path: Path) -> None:
    """Remove the ready file of an earlier server. Raises StartError."""
    if path == STANDARD_OUTPUT:
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"cannot write the ready file {path}: {error.strerror}") from None


def announce(
    settings: Settings, url: str, log: RequestLog, metrics: str | None = None, program: str = "paymock"
) -> None:
    """Log the banner, or the event `started`: the addresses of the server and of its `metrics`, the API keys,
    the store and the number of workers. The banner ends with a command of `program` to start with.
    Nothing is logged if the ready file is standard output: a program has started the server.
    """
    if settings.ready_file == STANDARD_OUTPUT:
        return
    store = _without_secrets(settings.store)
    keys = (
        f"any mk_test_NAME, for example {OPEN_KEY_EXAMPLE} (open mode)"
        if settings.open_mode
        else f"{len(settings.api_keys)} configured"
    )
    lines = {"Dashboard": f"{url}/"} if settings.control else {}
    lines |= {"API": f"{url}/v1", "API keys": keys, "Swagger": f"{url}/swagger/"}
    if store != MEMORY_STORE:
        lines["Store"] = store
    if metrics:
        lines["Metrics"] = metrics
    if settings.workers > 1:
        lines["Workers"] = str(settings.workers)
    lines["Next"] = f"{program}{_client_options(settings, url)} create"
    lines["Stop"] = "Ctrl-C"
    rows = [f"  {name:<10}{text}" for name, text in lines.items()]
    log.event(
        "started",
        "\n".join([f"paymock {__version__}    MOCK: no real funds", *rows]),
        url=url,
        open_mode=settings.open_mode,
        workers=settings.workers,
        store=store,
        version=__version__,
        mock=True,
        **({"metrics": metrics} if metrics else {}),
    )


def announce_stop(settings: Settings, log: RequestLog, reason: str) -> None:
    """Log the event `stopped`, unless nothing was logged at the start."""
    if settings.ready_file != STANDARD_OUTPUT:
        end_line()
        log.event("stopped", f"stopped ({reason})", reason=reason)


def _client_options(settings: Settings, url: str) -> str:
    """The options with which a command reaches the server, where the defaults do not."""
    server = "" if url == f"http://127.0.0.1:{DEFAULT_PORT}" else f" --url {shlex.quote(url)}"
    return server if settings.open_mode else f"{server} --key KEY"


def _without_secrets(url: str) -> str:
    """Return the part of a store's URL that holds no secrets: the path of a file, or only the scheme."""
    scheme = url.partition(":")[0]
    return f"sqlite://{sqlite_path(url)}" if scheme == "sqlite" else f"{scheme}://"
