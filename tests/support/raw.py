"""Bytes over a socket, for requests that no client library would send."""

import contextlib
import json
import re
import socket
from typing import Any, NamedTuple


class RawReply(NamedTuple):
    """A reply as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        code: Any = json.loads(self.body)["error"]["code"]
        assert isinstance(code, str)
        return code


def exchange(port: int, data: bytes, *, replies: int = 1, timeout: float = 60) -> list[RawReply]:
    """Sends `data` and reads as many replies, or fewer when the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        return exchange_on(connection, data, replies=replies)


def exchange_on(connection: socket.socket, data: bytes, *, replies: int = 1) -> list[RawReply]:
    found: list[RawReply] = []
    with contextlib.suppress(OSError):  # the server may refuse and close before it has read everything
        connection.sendall(data)
    buffer = b""
    while len(found) < replies:
        received = connection.recv(65536)
        buffer += received
        while (parsed := _parse(buffer)) is not None and len(found) < replies:
            reply, buffer = parsed
            found.append(reply)
        if not received:
            break
    return found


class Received(NamedTuple):
    """What came over a connection until it ended, and whether a TCP reset ended it."""

    data: bytes
    reset: bool = False

    @property
    def head(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[0]

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def status(self) -> int | None:
        """The status of the reply; None without one."""
        return int(self.data.split()[1]) if self.data else None

    @property
    def content_length(self) -> int:
        found = re.search(rb"\r\ncontent-length: (\d+)", self.head.lower())
        assert found
        return int(found[1])


def until_end(port: int, data: bytes, timeout: float = 30) -> Received:
    """Sends `data`, and reads until the server ends the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(data)
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            return Received(received, reset=True)
    return Received(received)


def next_reply(connection: socket.socket) -> RawReply:
    """The reply to what was sent before, which may come in any number of parts."""
    [reply] = exchange_on(connection, b"")
    return reply


def end(connection: socket.socket) -> None:
    """Ends our side and reads until the other has ended, too: to close a connection with something unread
    would reset it, and take from the other side what it has not read yet.
    """
    with contextlib.suppress(OSError):  # it may be closed already
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


def request(
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    host: str = "127.0.0.1",
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def _parse(buffer: bytes) -> tuple[RawReply, bytes] | None:
    while buffer.startswith(b"HTTP/1.1 100") and b"\r\n\r\n" in buffer:
        buffer = buffer.split(b"\r\n\r\n", 1)[1]
    if b"\r\n\r\n" not in buffer:
        return None
    head, rest = buffer.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    headers = dict(re.split(r":\s*", line, maxsplit=1) for line in lines[1:])
    headers = {name.lower(): value for name, value in headers.items()}
    length = int(headers.get("content-length", "0"))
    if len(rest) < length:
        return None
    return RawReply(int(lines[0].split()[1]), headers, rest[:length]), rest[length:]
