"""Stored payments for benchmarks, created over HTTP."""

import json
import math
import secrets
import socket
from collections.abc import Mapping
from contextlib import ExitStack, closing
from itertools import cycle
from typing import Any
from urllib.parse import urlsplit

from benchmarks.load import show_progress
from harness.api_client import request_headers
from harness.load import CONNECTIONS, NEW_AMOUNT, NEW_ORDER_ID, STORED_KEY, Payment, fill, order
from paymock.rules.scenarios import SCENARIOS

COUNT = 20_000

SECONDS = 60
"""Virtual time over which the payments are created."""

PIPELINED = 50
"""Requests on a connection before their replies are read: so few that they fit into its buffers."""


class Pipeline:
    """A connection that sends requests before it reads the replies to earlier ones."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._host = address.netloc
        with socket.create_connection((address.hostname, address.port), 60) as connection:
            self._stream = connection.makefile("rwb")

    def write(self, method: str, path: str, body: str, headers: Mapping[str, str] = {}) -> None:
        """Add a request in the sandbox of STORED_KEY to the buffer."""
        length = {"Host": self._host, "Content-Length": str(len(body))}
        fields = (length | request_headers(headers, STORED_KEY)).items()
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", body]
        self._stream.write("\r\n".join(lines).encode())

    def flush(self) -> None:
        """Send the buffer."""
        self._stream.flush()

    def request(self, method: str, path: str, body: object) -> Any:
        """The JSON of the reply to this request."""
        self.write(method, path, json.dumps(body))
        self.flush()
        return self.read()

    def read(self) -> Any:
        """The JSON of the next reply."""
        status, length = int(self._stream.readline().split()[1]), 0
        for line in iter(self._stream.readline, b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = self._stream.read(length)
        assert status < 300, (status, body)
        return json.loads(body)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


def create_payments(url: str, count: int = COUNT) -> list[Payment]:
    """Create payments in turns of all scenarios, over a minute of virtual time that then stands still: their
    states differ, and stay as they are.
    """
    scenarios = cycle(SCENARIOS)
    size = min(CONNECTIONS * PIPELINED, math.ceil(count / SECONDS))
    payments: list[Payment] = []
    with ExitStack() as stack:
        pipelines = [stack.enter_context(closing(Pipeline(url))) for _ in range(CONNECTIONS)]
        pipelines[0].request("PUT", "/_mock/clock", {"speed": 0})
        while len(payments) < count:
            new = [new_payment() for _ in range(min(size, count - len(payments)))]
            for payment, pipeline, scenario in zip(new, cycle(pipelines), scenarios, strict=False):
                headers = {"Idempotency-Key": payment.idempotency_key, "X-Mock-Scenario": scenario}
                pipeline.write("POST", "/v1/payments", order(payment.order_id, payment.amount), headers)
            for pipeline in pipelines:
                pipeline.flush()
            for payment, pipeline in zip(new, cycle(pipelines), strict=False):
                payments.append(payment._replace(id=pipeline.read()["id"]))
            seconds = SECONDS * len(new) / count
            pipelines[0].request("POST", "/_mock/clock/advance", {"seconds": seconds})
            show_progress(f"{len(payments):,} of {count:,} payments")
    return payments


def new_payment() -> Payment:
    """A payment that has not been created."""
    return Payment("", secrets.token_hex(16), fill(NEW_ORDER_ID), fill(NEW_AMOUNT))
