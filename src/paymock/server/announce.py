"""What a start leads to: an address that is announced, or the reason why there is none."""

import contextlib
import json
import os
from pathlib import Path

from paymock import __version__
from paymock.settings import MEMORY_STORE, OPEN_KEY_EXAMPLE, Settings
from paymock.web.telemetry.access_log import RequestLog


class StartError(Exception):
    """The server cannot start; the message is one line for the person at the terminal."""


def write_ready_file(path: Path, url: str, port: int, metrics: str | None = None) -> None:
    """Tells whoever waits for the server where it is, and its metrics: the file appears whole, or not at all.
    Raises StartError.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    told = {"url": url, "port": port, "pid": os.getpid()} | ({"metrics": metrics} if metrics else {})
    try:
        draft.write_text(json.dumps(told) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise StartError(f"cannot write the ready file {path}: {error.strerror}") from None


def remove_ready_file(path: Path) -> None:
    """Removes what an earlier server left: it would tell of a server that is gone. Raises StartError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"cannot write the ready file {path}: {error.strerror}") from None


def announce(settings: Settings, url: str, log: RequestLog, metrics: str | None = None) -> None:
    """Says where the server and its `metrics` are, which keys it takes, what it runs on, and that it is a
    mock.
    """
    store = _without_secrets(settings.store)
    if settings.log == "json":
        log.event(
            "started",
            url=url,
            open_mode=settings.open_mode,
            workers=settings.workers,
            store=store,
            version=__version__,
            mock=True,
            **({"metrics": metrics} if metrics else {}),
        )
        return
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
    lines["Stop"] = "Ctrl-C"
    rows = [f"  {name:<10}{text}" for name, text in lines.items()]
    log.line("\n".join([f"paymock {__version__}    MOCK: no real funds", *rows]))


def _without_secrets(url: str) -> str:
    """What may be shown of a store's URL: of a file where it is, of a server only what kind it is."""
    scheme = url.partition("://")[0]
    return url.partition("?")[0] if scheme == "sqlite" else f"{scheme}://"
