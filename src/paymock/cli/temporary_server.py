"""A server for the length of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from paymock.cli.errors import ServerUnreachable
from paymock.settings import Settings


@contextmanager
def temporary_server() -> Iterator[str]:
    """Run a server in a thread, on a free port, for the length of the block; yield its URL. Raises
    ServerUnreachable.
    """
    # Imported here, since they take long to import.
    from paymock.server.errors import StartError
    from paymock.server.run import serve_in_thread
    from paymock.web.telemetry.access_log import RequestLog

    try:
        with serve_in_thread(Settings(port=0), RequestLog(None, requests=False), grace=0) as url:
            yield url
    except StartError as error:
        raise ServerUnreachable(str(error)) from None
