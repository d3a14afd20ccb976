"""For tests: a server in a thread, and sandboxes of a local or a remote server. See docs/testing.md.

A sandbox is driven over HTTP with the standard library only; the modules of the server are imported when one
is started here.
"""

import contextlib
import json
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

from paymock import __version__
from paymock.client.http import Client, ConnectionPool, Json, Refused, Unreachable, normalize_url
from paymock.client.sandbox import NotReached, Sandbox

__all__ = ["Json", "NotReached", "Refused", "Sandbox", "ServerHandle", "Unreachable", "remote", "serve"]

open_sandboxes: list[Sandbox] = []
"""The sandboxes of each ServerHandle whose block has not ended."""

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


class ServerHandle:
    """A running server: its `url`, and fresh sandboxes of it.

    `api_key` is a key that the server was started with; each sandbox of it has a name of its own. Without a
    key, the server must be in open mode. The sandboxes share their connections, so that most tests need not
    open one.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = normalize_url(url)
        self._connections = ConnectionPool(self.url)
        weakref.finalize(self, self._connections.close)
        self._api_key = api_key
        self._is_compared = False

    @contextlib.contextmanager
    def sandbox(self, name: str | None = None) -> Iterator[Sandbox]:
        """Yield a sandbox that is empty, frozen and used by nobody else; reset it at the end of the block.

        Its name is random, unless `name` or PAYMOCK_SANDBOX chooses one; a key of the form mk_test_NAME is
        used as it is. A child process that is forked within the block can use the sandbox, and does not reset
        it. Raises Refused when the server does not accept the key, Unreachable when it does not answer,
        ValueError for an invalid name, and RuntimeError when this process uses the sandbox already.
        """
        process = os.getpid()
        sandbox = Sandbox.own(self.url, self._api_key, name, self._connections)
        if any((one.url, one.api_key) == (self.url, sandbox.api_key) for one in open_sandboxes):
            raise RuntimeError("this sandbox is in use: choose another name, or unset PAYMOCK_SANDBOX")
        if not self._is_compared:
            self._is_compared = True
            client = Client(self.url, connections=self._connections)
            version = client.send("GET", "/livez", decode=json.loads).result().get("version", "")
            if version.split(".")[:2] != __version__.split(".")[:2]:
                versions = f"is version {version or 'below 0.2'}, this helper is {__version__}"
                warnings.warn(
                    f"paymock: the server at {self.url} {versions}: install the same version", stacklevel=3
                )
        try:
            sandbox.call("reset")  # it may have been used before, if its name is chosen
            sandbox.freeze()
        except Refused as refused:
            if refused.status == 401:
                refused.add_note(
                    "For a server that is not in open mode, set PAYMOCK_API_KEY to one of its API keys, "
                    "without the name of a sandbox."
                )
            raise
        open_sandboxes.append(sandbox)
        try:
            yield sandbox
        finally:
            open_sandboxes.remove(sandbox)
            if os.getpid() == process:
                plugin = sys.modules.get("_paymock_pytest")  # where pytest has imported it
                for call in plugin.before_reset if plugin else ():
                    call(sandbox)
                sandbox.call("reset")

    def close(self) -> None:
        """Close the connections of the sandboxes. The handle stays usable: the next call opens a new one."""
        self._connections.close()

    def __repr__(self) -> str:
        return f"<ServerHandle on {self.url}>"


def remote(url: str | None = None, api_key: str | None = None) -> ServerHandle:
    """Return a handle on a running server: by default the one at `PAYMOCK_URL`, with the key in
    `PAYMOCK_API_KEY`, the first of a list. Without a key, the server must be in open mode.

    Raises ValueError when there is no URL, or not an HTTP URL.
    """
    url = os.environ.get("PAYMOCK_URL", "") if url is None else url
    if api_key is None:
        api_key = os.environ.get("PAYMOCK_API_KEY", "").partition(",")[0].strip() or None
    return ServerHandle(url, api_key)


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
    from paymock.settings import Settings, SettingsError

    if "now" in settings:
        raise TypeError("now no longer exists: use freeze(at=) of a sandbox, or paymock_now in pytest")
    if "api_keys" in settings:
        keys = None if isinstance(settings["api_keys"], str) else (*settings["api_keys"],)
        if keys is None or not all(isinstance(key, str) for key in keys):
            raise TypeError("api_keys must be a list of strings")  # without the keys
        settings["api_keys"] = tuple(dict.fromkeys(keys))
    for name in {"catalog", "scenarios", "api_keys_file"} & settings.keys():
        settings[name] = settings[name] and Path(settings[name])
    options = Settings(**{"port": 0, "access_log": False, **settings}).with_keys_of_file()
    if not options.in_memory or options.ready_file or options.metrics_address:
        raise SettingsError(
            "a server in a thread supports neither another store, nor a ready file, nor a metrics address"
        )
    with (
        serve_in_thread(options, sys.stderr) as url,
        contextlib.closing(ServerHandle(url, next(iter(options.api_keys), None))) as handle,
    ):
        yield handle
