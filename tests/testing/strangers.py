"""Servers that say what a test wants, and a list that another thread empties."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support import raw


@contextmanager
def canned(*replies: bytes, abruptly: bool = False) -> Iterator[str]:
    """The URL of a server that gives each connection one reply and closes it, or breaks it off."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for reply in replies:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(reply)
                    if abruptly:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    else:
                        raw.end(connection)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def reply(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


CLOCK = reply("200 OK", '{"now": "2030-01-31T12:00:00.000Z", "speed": 0.0}')


def outcome(status: str, *, reached: bool) -> bytes:
    """The reply to a wait for something that can come."""
    payment = {"id": "pay_x", "status": status}
    body = json.dumps({"reached": reached, "possible": True, "payment": payment})
    return reply("200 OK\r\nConnection: close", body)


class Contested(list[Any]):
    """A list whose last item another thread always takes in the moment between a look and a pop."""

    def __bool__(self) -> bool:
        return True
