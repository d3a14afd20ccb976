"""Serve a shop of the tables over HTTP on 127.0.0.1: python -m tests.verify.shops.serve NAME [--port PORT].

`POST /orders/{order_id}` orders: 201, or 502 when the shop fails. `GET /deliveries/{order_id}` answers how
often the goods went out. `GET /health` answers once the shop is open. The environment has PAYMOCK_URL,
PAYMOCK_API_KEY, PORT unless it is an option, and PAYMOCK_STATE_DIR for the durable shops. A shop without a
pace of its own is polled every 50 ms. SIGTERM closes the shop.
"""

import argparse
import os
import signal
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.verify.shops import durable
from tests.verify.shops.base import Shop

TICK_SECONDS = 0.05


class Handler(BaseHTTPRequestHandler):
    server: "Server"

    def do_GET(self) -> None:
        try:
            status, text = self.server.reply(self.command, *self.path.split("/")[1:])
        except Exception as error:  # noqa: BLE001 - whatever fails, the customer is told
            status, text = 502, type(error).__name__
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_GET  # noqa: N815 - a name of http.server

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A shop on a port. One without a pace of its own is called from one thread at a time."""

    request_queue_size = 128

    def __init__(self, shop: Shop, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.shop = shop
        self.lock: AbstractContextManager[object] = nullcontext() if shop.own_pace else threading.Lock()
        if not shop.own_pace:
            shop.run(self.ticks)

    def ticks(self) -> None:
        while not self.shop.closing.wait(TICK_SECONDS):
            with self.lock:
                self.shop.tick()

    def reply(self, method: str, collection: str, order_id: str = "") -> tuple[int, str]:
        with self.lock:
            match method, collection:
                case "POST", "orders":
                    self.shop.order(order_id)
                    return 201, order_id
                case "GET", "deliveries":
                    return 200, str(self.shop.deliveries(order_id))
                case "GET", "health":
                    return 200, "ok"
        return 404, ""


def shop_of(name: str) -> type[Shop]:
    """Raises KeyError."""
    shop: type[Shop] | None = getattr(durable, name.title().replace("_", ""), None)
    if shop is None:
        from tests.verify.shops.table import SHOPS  # with all clients: a start would take twice as long

        shop = SHOPS[name].shop
    return shop


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--port", type=int, default=os.environ.get("PORT"))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with shop_of(arguments.name)(os.environ["PAYMOCK_URL"], os.environ["PAYMOCK_API_KEY"]) as shop:
        Server(shop, arguments.port).serve_forever()


if __name__ == "__main__":
    main()
