import json
import re
import resource
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness import process_info
from harness.api_client import ORDER
from harness.server_process import ServerProcess, server_process
from tests.support.operations import OPERATIONS, path_of
from tests.support.raw import exchange, exchange_on, request

PIPELINED = 50
WARM_UP = 12_000
"""How many requests, or keys, fill the caches and journals that are bounded."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(tmp_path, "--no-access-log") as server:
        yield server


def growth(served: ServerProcess, count: int, *requests: tuple[str, str, int], keys: int) -> float:
    """Resident bytes per repetition of `requests` (method, path, status), which use so many keys by turns."""

    def repeat(numbers: range) -> None:
        for number in numbers:
            for method, path, status in requests:
                headers = {
                    "Authorization": f"Bearer mk_test_{number % keys}",
                    "Idempotency-Key": f"key-of-{number:020}",
                    "Content-Type": "application/json",
                }
                body = ORDER.encode() if path == "/v1/payments" else None
                pending.append((request(method, path, headers, body), status))
            if len(pending) >= PIPELINED:
                send()

    def send() -> None:
        replies = exchange_on(connection, b"".join(data for data, _ in pending), replies=len(pending))
        assert [reply.status for reply in replies] == [status for _, status in pending]
        pending.clear()

    pending: list[tuple[bytes, int]] = []
    with socket.create_connection(("127.0.0.1", served.port), 60) as connection:
        repeat(range(WARM_UP))
        before = process_info.resident_bytes(served.process.pid)
        repeat(range(WARM_UP, WARM_UP + count))
        return (process_info.resident_bytes(served.process.pid) - before) / count


def test_a_payment_takes_less_than_600_bytes(served: ServerProcess) -> None:
    assert growth(served, 20_000, ("POST", "/v1/payments", 201), keys=1) < 600


def test_a_key_with_one_payment_takes_less_than_2000_bytes(served: ServerProcess) -> None:
    assert growth(served, 10_000, ("POST", "/v1/payments", 201), keys=10**6) < 2_000


def test_a_million_keys_without_payments_take_less_than_200_mb(served: ServerProcess) -> None:
    each = growth(
        served, 20_000, ("GET", "/v1/payments/none", 404), ("POST", "/_mock/reset", 204), keys=10**6
    )
    base = process_info.resident_bytes(served.process.pid)
    assert base + 10**6 * each < 200e6


def test_requests_that_store_nothing_take_less_than_50_bytes(served: ServerProcess) -> None:
    each = growth(
        served,
        5_000,
        *(("GET", path, 200) for path in ("/v1/chains", "/_mock/requests?limit=1", "/swagger/", "/livez")),
        *(("GET", "/nowhere", 404), ("DELETE", "/v1/payments", 405), ("POST", "/v1/webhooks", 400)),
        keys=1,
    )
    assert each < 50


@pytest.mark.parametrize(("key", "status"), [("mk_test_large", 413), ("nobody", 401)])
@pytest.mark.parametrize("framing", ["Content-Length: 10485760", "Transfer-Encoding: chunked"])
def test_50_bodies_of_10_mb_at_once_take_less_than_20_mb(
    served: ServerProcess, framing: str, key: str, status: int
) -> None:
    name, value = framing.split(": ")
    json_body = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", name: value}
    head = request("POST", "/v1/payments", {"Idempotency-Key": "order-1001-payment", **json_body})
    part = b"x" * 65_536 if name == "Content-Length" else b"10000\r\n%s\r\n" % (b"x" * 65_536)
    data = head + part * 160 + b"0\r\n\r\n" * (name != "Content-Length")
    Path(f"/proc/{served.process.pid}/clear_refs").write_text("5")  # resets the peak
    before = peak_bytes(served)
    with ThreadPoolExecutor(50) as pool:
        replies = [*pool.map(lambda _: exchange(served.port, data), range(50))]
    assert {reply.status for [reply] in replies} == {status}
    assert peak_bytes(served) - before < 20e6


def peak_bytes(served: ServerProcess) -> int:
    [kilobytes] = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{served.process.pid}/status").read_text())
    return int(kilobytes) * 1024


def test_no_read_by_500_clients_takes_60_mb_or_ends_a_server_of_256_mib(served: ServerProcess) -> None:
    """250 clients never read their reply, and leave; the others do."""
    resource.prlimit(served.process.pid, resource.RLIMIT_DATA, (2**28, 2**28))
    headers = {"Authorization": "Bearer mk_test_large", "Content-Type": "application/json"}
    body = {**json.loads(ORDER), "metadata": {f"name-{number}": "x" * 300 for number in range(45)}}
    for number in range(100):
        own = {**headers, "Idempotency-Key": f"large-{number:06}"}
        [reply] = exchange(served.port, request("POST", "/v1/payments", own, json.dumps(body).encode()))
        assert reply.status == 201
    payment_id = json.loads(reply.body)["id"]
    reads = (operation for operation in OPERATIONS if operation.method == "GET")
    paths = [path_of(operation, payment_id, {"timeout": "0", "limit": "200"}) for operation in reads]
    paths += [f"/fragments/payments{part}" for part in ("?limit=200", f"/{payment_id}")]
    paths += ["/fragments/requests", f"/checkout/{payment_id}", "/", "/llms.txt"]
    before = process_info.resident_bytes(served.process.pid)
    for path in paths:
        asked = request("GET", path, headers)
        with ExitStack() as deaf:
            for _ in range(250):
                one = deaf.enter_context(socket.create_connection(("127.0.0.1", served.port), 60))
                one.sendall(asked)
            exchange(served.port, request("GET", "/v1/chains", headers))  # they have been received
            most = process_info.resident_bytes(served.process.pid)
        with ThreadPoolExecutor(50) as threads:
            replies = threads.map(lambda asked: exchange(served.port, asked), [asked] * 250)
            assert {reply.status for [reply] in replies} <= {200, 404}, path
        most = max(most, process_info.resident_bytes(served.process.pid))
        assert most - before < 60e6, path
