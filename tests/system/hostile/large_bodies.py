"""Cost of bodies that are too large, and of bodies in many chunks."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.api_client import API_KEY, ORDER
from harness.process_info import cpu_nanoseconds
from harness.server_process import server_process
from tests.system.hostile.regular_clients import Figure, request_head

SENDERS = 50
LARGE = 10 * 2**20
CHUNK = 2**16
MAX_MEGABYTES = 20.0
TIMEOUT_SECONDS = 60.0

SMALL = 3_000
ROUNDS = 9
WHOLE_COUNT, CHUNKED_COUNT = 60, 6
"""The number of bodies in one round, in one packet each and in SMALL packets each."""

MAX_RATIO, MAX_CHUNK_RATIO = 3.0, 20.0
"""Of the cost of chunks to the cost of the same body: in as many packets, and in one. A chunk takes a
microsecond, wherever it comes from.
"""


def send_large_bodies(folder: Path) -> Figure:
    """Send SENDERS bodies of LARGE bytes concurrently: with a length and in chunks, authorized and not."""
    refused, violations = 0, []
    with server_process(folder, "--no-access-log") as server:
        _post(server.port, request_head("POST", "/v1/payments", len(ORDER)), ORDER.encode())
        status, clear = (Path(f"/proc/{server.process.pid}/{name}") for name in ("status", "clear_refs"))
        clear.write_text("5")  # resets the peak
        before = _peak(status)
        for key, expected in ((API_KEY, 413), ("nobody", 401)):
            for length in (LARGE, None):
                statuses = _post_concurrently(server.port, length, key)
                refused += statuses.count(expected)
                if statuses != [expected] * SENDERS:
                    framing = "in chunks" if length is None else "with a length"
                    violations.append(f"{framing}: {sorted(set(statuses))}, not {expected}")
        megabytes = _peak(status) - before
    if megabytes >= MAX_MEGABYTES:
        violations.append(f"the memory grew by {megabytes:.0f} MB")
    text = (
        f"{refused} bodies of {LARGE // 2**20} MB, {SENDERS} at once, refused with 413 or 401; "
        f"memory + {megabytes:.1f} MB"
    )
    return Figure("bodies", text, violations)


def _post_concurrently(port: int, length: int | None, key: str) -> list[int]:
    part = b"x" * CHUNK
    parts = LARGE // CHUNK
    framed = part if length is not None else b"%x\r\n%s\r\n" % (CHUNK, part)
    end = b"" if length is not None else b"0\r\n\r\n"
    with ThreadPoolExecutor(SENDERS) as pool:
        heads = [request_head("POST", "/v1/payments", length, key=key) for _ in range(SENDERS)]
        return list(pool.map(lambda head: _post(port, head, *[framed] * parts, end), heads))


def _post(port: int, *parts: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
        for part in parts:
            connection.sendall(part)
        return _status(connection)


def _status(connection: socket.socket) -> int:
    with connection.makefile("rb") as reply:
        status = int(reply.readline()[9:12])
        headers = [line.lower().split(b":", 1) for line in iter(reply.readline, b"\r\n")]
        [length] = [int(value) for name, value in headers if name == b"content-length"]
        reply.read(length)
    return status


def _peak(status: Path) -> float:
    [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def send_chunks(folder: Path) -> Figure:
    """Measure a creation of SMALL bytes: whole, in chunks of one byte, and with each chunk in a packet of its
    own. The figures are the best of several rounds, which excludes other load.
    """
    body = ORDER.encode() + b" " * (SMALL - len(ORDER))
    single = [body[at : at + 1] for at in range(SMALL)]
    chunks = [b"1\r\n%s\r\n" % byte for byte in single]
    end = b"0\r\n\r\n"
    with (
        server_process(folder, "--no-access-log") as server,
        socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def cost(times: int, length: int | None, *parts: bytes) -> Callable[[], float]:
            def measure() -> float:
                before = cpu_nanoseconds(server.process.pid)
                for _ in range(times):
                    for part in (request_head("POST", "/v1/payments", length), *parts):
                        connection.sendall(part)
                    assert _status(connection) == 201
                return (cpu_nanoseconds(server.process.pid) - before) / times / 1e3

            return measure

        framings = (
            cost(WHOLE_COUNT, SMALL, body),
            cost(WHOLE_COUNT, None, b"".join(chunks) + end),
            cost(CHUNKED_COUNT, SMALL, *single),
            cost(CHUNKED_COUNT, None, *chunks, end),
        )
        rounds = [[framing() for framing in framings] for _ in range(ROUNDS)]
        whole, joined, bytes_one_by_one, chunks_one_by_one = map(min, zip(*rounds, strict=True))
    in_one, apart = joined / whole, chunks_one_by_one / bytes_one_by_one
    text = (
        f"{in_one:.1f} times the cost of one body, "
        f"{apart:.1f} times that of {SMALL:,} bytes in separate packets"
    )
    return Figure("pieces", text, [text] * (in_one > MAX_CHUNK_RATIO or apart > MAX_RATIO))
