"""Record the transcript: each request, and every byte of its reply.

    python -m tests.web.transcript.record

Writes transcript.txt anew, for a change of the service that is meant: read its difference. The server has a
fixed seed, and its clock moves between the requests only.
"""

import hashlib
import re
import socket
from pathlib import Path

from paymock.settings import Settings
from tests.support.clock import NOON
from tests.support.server import running_server
from tests.web.transcript.exchanges import EXCHANGES

TRANSCRIPT = Path(__file__).with_name("transcript.txt")

_MAX_BODY = 4_096
"""The longest body that is written in full, in bytes. Of a longer one, the digest is."""

_SINCE = re.compile(rb"since [0-9]{4}-[0-9TZ:-]+")
_VARIABLE = re.compile(rb"(?im)^(date:|x-request-id:|HTTP/1\.1 (?:413|422)) [^\r]+")
"""What differs between two runs, and the reason phrases that differ between versions of Python."""

_REQUEST_ID = re.compile(rb"(?i)\r\nx-request-id: (\w+)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)\r\n")
_LOCATION = re.compile(rb"(?i)\r\nlocation: /v1/payments/(\w+)\r\n")


def transcript() -> str:
    parts, payment_id = [], b""
    with running_server(Settings(port=0, seed="transcript")) as server:
        for title, template, second in EXCHANGES:
            server.clock.now = NOON + 1000 * second
            request = template.replace(b"{id}", payment_id)
            reply = exchange(server.port, request)
            if created := _LOCATION.search(reply):
                payment_id = created[1]
            parts.append(f"# {title}\n\n{as_text('>', request)}\n{as_text('<', reply or b'(none)')}\n")
    return "\n".join(parts)


def exchange(port: int, request: bytes) -> bytes:
    """Return all that the server sends on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection, connection.makefile("rb") as stream:
        connection.sendall(request)
        reply = b""
        for line in stream:
            reply += line
            if line == b"\r\n":
                break
        length = None if request.startswith(b"HEAD ") else _LENGTH.search(reply)
        reply += stream.read(int(length[1]) if length else 0)
        connection.shutdown(socket.SHUT_WR)
        return reply + stream.read()


def as_text(mark: str, message: bytes) -> str:
    """Return a request or a reply with a mark before each line, without what is variable."""
    head, _, body = message.partition(b"\r\n\r\n")
    if request_id := _REQUEST_ID.search(head):  # an error repeats it
        body = body.replace(b'"request_id":"%b"' % request_id[1], b'"request_id":"*"')
    body = _SINCE.sub(b"since *", body)
    head = _VARIABLE.sub(rb"\1 *", head).replace(b"\r\n", b"\n")
    if len(body) > _MAX_BODY:
        body = f"({len(body):,} bytes, SHA-256 {hashlib.sha256(body).hexdigest()})".encode()
    lines = (head + b"\n" + (b"\n" + body if body else b"")).decode(errors="backslashreplace").split("\n")
    return "\n".join(f"{mark} {line}" if line else mark for line in lines)


if __name__ == "__main__":
    TRANSCRIPT.write_bytes(transcript().encode())
