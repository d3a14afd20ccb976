"""Servers with canned replies."""

import json
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support import raw


@contextmanager
def canned_server(*replies: bytes, reset: bool = False) -> Iterator[str]:
    """Run a server that sends one reply to each connection, then closes or resets it; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for reply in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(reply)
                    if reset:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    else:
                        raw.end(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@contextmanager
def one_reply_server() -> Iterator[tuple[str, list[bytes]]]:
    """Run a server that sends the first of its replies to each connection; yield its URL, and them."""
    replies: list[bytes] = [b""]

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(replies[0])
            raw.end(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", replies
        server.shutdown()


def reply(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


CLOCK = reply("200 OK", '{"now": "2030-01-31T12:00:00.000Z", "speed": 0.0}')


def wait_reply(status: str, *, reached: bool) -> bytes:
    payment = {"id": "pay_x", "status": status}
    body = json.dumps({"reached": reached, "possible": True, "payment": payment})
    return reply("200 OK\r\nConnection: close", body)
