"""For tests: a server in a thread, and sandboxes of a local or a remote server. See docs/testing.md.

A sandbox is driven over HTTP with the standard library only; the modules of the server are imported when one
is started here.
"""

import contextlib
import os
import secrets
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paymock.client.http import ConnectionPool, Json, Refused, Unreachable, normalize_url
from paymock.client.sandbox import NotReached, Sandbox

__all__ = ["Json", "NotReached", "Refused", "Sandbox", "ServerHandle", "Unreachable", "remote", "serve"]

before_reset: "list[Callable[[Sandbox], None]]" = getattr(
    sys.modules.get("_paymock_pytest"), "before_reset", []
)
"""What is called with each sandbox of a ServerHandle at the end of its block, before the reset."""

open_sandboxes: "list[Sandbox]" = []
"""The sandboxes of each ServerHandle whose block has not ended."""

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


class ServerHandle:
    """A running server: its `url`, and fresh sandboxes of it.

    `api_keys` are the keys to use, which the server must accept; without any, the server must be in open
    mode. The sandboxes share their connections, so that most tests need not open one.
    """

    def __init__(self, url: str, api_keys: Iterable[str] = ()) -> None:
        self.url = normalize_url(url)
        self._connections = ConnectionPool(self.url)
        weakref.finalize(self, self._connections.close)
        self._is_open = not api_keys
        self._keys = _checked(api_keys)  # those that are free

    @contextlib.contextmanager
    def sandbox(self) -> Iterator[Sandbox]:
        """Yield a sandbox that is empty, frozen and used by nobody else; reset it at the end of the block.

        In open mode it has a new random API key, otherwise one of the configured ones, after a reset. A child
        process that is forked within the block can use the sandbox, and does not reset it. Raises Refused
        when the server does not accept the key, Unreachable when it does not answer, and RuntimeError when
        all configured keys are in use.
        """
        process = os.getpid()
        api_key = self._take_key()
        try:
            sandbox = Sandbox(self.url, api_key, self._connections)
            self._prepare(sandbox)
            open_sandboxes.append(sandbox)
            try:
                yield sandbox
            finally:
                open_sandboxes.remove(sandbox)
                if os.getpid() == process:
                    for call in before_reset:
                        call(sandbox)
                    sandbox.call("reset")
        finally:
            self._keys.append(api_key)

    def close(self) -> None:
        """Close the connections of the sandboxes. The handle stays usable: the next call opens a new one."""
        self._connections.close()

    def _take_key(self) -> str:
        if self._is_open:
            return f"mk_test_{secrets.token_hex(16)}"
        try:
            return self._keys.pop(0)
        except IndexError:
            message = "every configured API key is in use; a key serves one sandbox at a time"
            raise RuntimeError(message) from None

    def _prepare(self, sandbox: Sandbox) -> None:
        try:
            if not self._is_open:
                sandbox.call("reset")
            sandbox.freeze()
        except Refused as refused:
            if refused.status == 401:
                refused.add_note(
                    "For a server that is not in open mode, set PAYMOCK_API_KEY to one of its API keys."
                )
            raise

    def __repr__(self) -> str:
        return f"<ServerHandle on {self.url}>"


def remote(url: str | None = None, api_keys: Iterable[str] | None = None) -> ServerHandle:
    """Return a handle on a running server: by default the one at `PAYMOCK_URL`, with the keys in
    `PAYMOCK_API_KEY`, separated by commas. Without keys, the server must be in open mode.

    Raises ValueError when there is no URL, or not an HTTP URL.
    """
    url = os.environ.get("PAYMOCK_URL", "") if url is None else url
    return ServerHandle(url, api_keys_from_environment() if api_keys is None else api_keys)


def api_keys_from_environment() -> list[str]:
    """The keys in the variable `PAYMOCK_API_KEY`, which are separated by commas, without duplicates."""
    keys = os.environ.get("PAYMOCK_API_KEY", "").split(",")
    return list(dict.fromkeys(key.strip() for key in keys if key.strip()))


@contextlib.contextmanager
def serve(**settings: Any) -> Iterator[ServerHandle]:
    """Run a server for the length of the block: in a thread, on a free port, with the in-memory store.

    It handles no signals, and can be started from any thread. `settings` are those of
    `paymock.settings.Settings`: `fee_bps=50`, `seed="demo"`, `api_keys=["k"]`. The log goes to standard
    error; `access_log=True` adds every request. Raises TypeError for a setting of a wrong type, and
    SettingsError, FileError or StartError when the server cannot start with them.
    """
    # Imported here, since it takes long, and a remote sandbox does not need it.
    from pathlib import Path

    from paymock.server.run import serve_in_thread
    from paymock.settings import MEMORY_STORE, Settings, SettingsError
    from paymock.web.telemetry.access_log import RequestLog

    if "api_keys" in settings:
        settings["api_keys"] = tuple(_checked(settings["api_keys"]))
    for name in {"catalog", "scenarios", "api_keys_file"} & settings.keys():
        settings[name] = settings[name] and Path(settings[name])
    options = Settings(**{"port": 0, "access_log": False, **settings}).with_keys_of_file()
    if options.store != MEMORY_STORE or options.ready_file or options.metrics_address:
        raise SettingsError(
            "a server in a thread supports neither another store, nor a ready file, nor a metrics address"
        )
    log = RequestLog(sys.stderr, options.log, requests=options.access_log, secrets=tuple(options.api_keys))
    with (
        serve_in_thread(options, log) as url,
        contextlib.closing(ServerHandle(url, options.api_keys)) as handle,
    ):
        yield handle


def _checked(api_keys: Iterable[str]) -> list[str]:
    """API keys without duplicates. Raises TypeError, whose message shows none of them."""
    keys = [] if isinstance(api_keys, str) else [*dict.fromkeys(api_keys)]
    if isinstance(api_keys, str) or not all(isinstance(key, str) for key in keys):
        raise TypeError("api_keys must be a list of strings")
    return keys
