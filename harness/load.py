"""Load on a server: requests of which no two are alike, sent by wrk."""

import json
import os
import random
import re
import secrets
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from harness.api_client import ORDER, request_headers

SCRIPT = Path(__file__).with_name("requests.lua")
CONNECTIONS = 32
CORES = sorted(os.sched_getaffinity(0))

HEADER_ORDERS = 1_000
"""Templates of a varied load, each with its headers in a random order."""

HEX_16, HEX_32 = "<hex>" * 4, "<hex>" * 8
NEW_ORDER_ID, NEW_AMOUNT = f"order-{HEX_16}", "1" + "<digits>" * 4

CLIENT_HEADERS = {"User-Agent": "merchant-backend/2.4", "Accept": "*/*"}
"""What every HTTP client sends."""

STORED_KEY = "mk_test_benchmark_stored"
"""The API key of the sandbox whose payments are read and created again."""


def order(order_id: str, amount: str) -> str:
    """The body of a creation."""
    return ORDER.replace("order-1001", order_id).replace('"1000000000000000000"', f'"{amount}"')


def fill(text: str, values: Mapping[str, str] = {}) -> str:
    """`text` with its fields filled in, as requests.lua does it: `values` has those of the columns."""
    numerals = {"hex": lambda: secrets.token_hex(2), "digits": lambda: f"{secrets.randbelow(10_000):04}"}
    return re.sub(r"<(\w+)>", lambda field: values.get(field[1]) or numerals[field[1]](), text)


class Load(NamedTuple):
    """Requests of one kind. Path, headers and body can have the fields of requests.lua; all values of a
    column that occurs in the body have the same length. A varied load has a `traceparent` of its own in each
    request, and the headers in random order.
    """

    method: str
    path: str
    body: str = ""
    headers: Mapping[str, str] = CLIENT_HEADERS
    varied: bool = True
    columns: Mapping[str, Sequence[str]] = {}

    def templates(self, host: str) -> list[str]:
        """The requests before their fields are filled in."""
        headers = {"Host": host, **self.headers}
        if self.body:
            row = {name: values[0] for name, values in self.columns.items()}
            headers["Content-Length"] = str(len(fill(self.body, row)))
        if self.varied:
            headers["traceparent"] = f"00-{HEX_32}-{HEX_16}-01"
        lines = [f"{name}: {value}" for name, value in headers.items()]
        orders = [random.sample(lines, len(lines)) for _ in range(HEADER_ORDERS)] if self.varied else [lines]
        return [
            "\r\n".join([f"{self.method} {self.path} HTTP/1.1", *order, "", self.body]) for order in orders
        ]


class Payment(NamedTuple):
    """A stored payment: its id, and what differs in the requests that created it and others."""

    id: str
    idempotency_key: str
    order_id: str
    amount: str


def create_load(*, varied: bool = True) -> Load:
    """Creations, each with a new idempotency key."""
    headers = {**CLIENT_HEADERS, **request_headers(), "Idempotency-Key": HEX_32}
    return Load("POST", "/v1/payments", order(NEW_ORDER_ID, NEW_AMOUNT) if varied else ORDER, headers, varied)


def replay_load(payments: Sequence[Payment], *, varied: bool = True) -> Load:
    """Repeated creations of `payments`."""
    key = {"Idempotency-Key": "<idempotency_key>"}
    headers = {**CLIENT_HEADERS, **request_headers(key, STORED_KEY)}
    columns = dict(zip(Payment._fields, zip(*payments, strict=True), strict=True))
    return Load("POST", "/v1/payments", order("<order_id>", "<amount>"), headers, varied, columns)


def read_load(payments: Sequence[Payment], path: str = "/v1/payments/<id>", *, varied: bool = True) -> Load:
    """Reads of `payments`."""
    headers = {**CLIENT_HEADERS, "Authorization": f"Bearer {STORED_KEY}"}
    columns = {"id": [payment.id for payment in payments]}
    return Load("GET", path, headers=headers, varied=varied, columns=columns)


class WrkReport(NamedTuple):
    """What wrk counted and measured; the percentiles of the latency are in milliseconds."""

    requests: int
    seconds: float
    refused: int
    """Replies with a status of 400 or above."""
    broken: int
    """Connections that failed, and requests without a reply."""
    p50: float
    p99: float
    p999: float


def run_wrk(url: str, seconds: int, load: Load) -> WrkReport:
    """Run wrk on the last core."""
    with tempfile.TemporaryDirectory() as folder:
        templates, columns = Path(folder, "templates"), Path(folder, "columns")
        templates.write_text(
            "".join(text + "\0" for text in load.templates(urlsplit(url).netloc)), newline=""
        )
        columns.write_text("".join("\t".join([name, *row]) + "\n" for name, row in load.columns.items()))
        command = ["taskset", "-c", str(CORES[-1]), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
        command += ["--timeout", "30s", "-s", str(SCRIPT), url, "--", str(templates), str(columns)]
        run = subprocess.run(
            [*command, str(secrets.randbits(31))], stdout=subprocess.PIPE, text=True, check=True
        )
    return WrkReport(**json.loads(run.stdout.splitlines()[-1]))
