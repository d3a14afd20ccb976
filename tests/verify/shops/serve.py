"""Serve a shop of the tables over HTTP on 127.0.0.1: python -m tests.verify.shops.serve NAME.

`POST /orders/{order_id}` orders: 201, or 502 when the shop fails. `GET /deliveries/{order_id}` answers how
often the goods went out. `GET /health` answers once the shop is open. The environment has PAYMOCK_URL,
PAYMOCK_API_KEY and PORT. A shop without a pace of its own is polled every 50 ms.
"""

import os
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.verify.shops.base import Shop
from tests.verify.shops.table import SHOPS

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


def main() -> None:
    shop = SHOPS[sys.argv[1]].shop
    with shop(os.environ["PAYMOCK_URL"], os.environ["PAYMOCK_API_KEY"]) as opened:
        Server(opened, int(os.environ["PORT"])).serve_forever()


if __name__ == "__main__":
    main()
