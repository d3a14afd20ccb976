"""Bodies that are too large, and bodies in too many pieces: what they cost the server."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load import ORDER, Running
from harness.server_process import server_process
from tests.system.hostile.healthy import head

SENDERS = 50
LARGE = 10 * 2**20
CHUNK = 2**16
MOST_MEGABYTES = 20.0
PATIENCE_SECONDS = 30.0

SMALL = 3_000
ROUNDS = 9
AT_ONCE, ONE_BY_ONE = 60, 6
"""How often a body is sent in one round, in one piece and in SMALL pieces."""

MOST_TIMES = 3.0
"""How many times as much as the same body in as many pieces it may cost when it comes in chunks."""


@dataclass
class Large:
    """Replies by kind of body, and how far the memory of the server grew."""

    replies: dict[str, list[int]] = field(default_factory=dict)
    megabytes: float = 0.0
    violations: list[str] = field(default_factory=list)


@dataclass
class Pieces:
    """The microseconds of CPU time that a body takes, by the way in which it comes."""

    whole: float
    chunks: float
    bytes_one_by_one: float
    chunks_one_by_one: float
    violations: list[str] = field(default_factory=list)


def large(folder: Path) -> Large:
    """SENDERS bodies of LARGE bytes at once: with a length and in chunks, with a key and without."""
    outcome = Large()
    with server_process(folder, "--no-access-log") as served:
        _post(served.port, head("POST", "/v1/payments", len(ORDER)), ORDER.encode())
        status, clear = (Path(f"/proc/{served.process.pid}/{name}") for name in ("status", "clear_refs"))
        clear.write_text("5")  # the peak is counted from here
        before = _peak(status)
        for key, expected in (("mk_test_benchmark", 413), ("nobody", 401)):
            for length in (LARGE, None):
                name = f"{'in chunks' if length is None else 'with a length'}: {expected}"
                found = outcome.replies[name] = _posted(served.port, length, key)
                if found != [expected] * SENDERS:
                    outcome.violations.append(f"{name}: {sorted(set(found))}")
        outcome.megabytes = _peak(status) - before
    if outcome.megabytes >= MOST_MEGABYTES:
        outcome.violations.append(f"the memory grew by {outcome.megabytes:.0f} MB")
    return outcome


def _posted(port: int, length: int | None, key: str) -> list[int]:
    part = b"x" * CHUNK
    parts = LARGE // CHUNK
    framed = part if length is not None else b"%x\r\n%s\r\n" % (CHUNK, part)
    end = b"" if length is not None else b"0\r\n\r\n"
    with ThreadPoolExecutor(SENDERS) as pool:
        sent = [head("POST", "/v1/payments", length, key=key) for _ in range(SENDERS)]
        return list(pool.map(lambda first: _post(port, first, *[framed] * parts, end), sent))


def _post(port: int, *parts: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
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


def pieces(folder: Path) -> Pieces:
    """What a creation of SMALL bytes costs: whole, in chunks of one byte, and with each in a packet of its
    own. The least of several rounds, since others use the processor, too.
    """
    body = ORDER.encode() + b" " * (SMALL - len(ORDER))
    single = [body[at : at + 1] for at in range(SMALL)]
    chunks = [b"1\r\n%s\r\n" % byte for byte in single]
    end = b"0\r\n\r\n"
    with (
        server_process(folder, "--no-access-log") as served,
        socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = Running(served.url, served.process.pid)

        def cost(times: int, length: int | None, *parts: bytes) -> Callable[[], float]:
            def measured() -> float:
                before = server.cpu_nanoseconds
                for _ in range(times):
                    for part in (head("POST", "/v1/payments", length), *parts):
                        connection.sendall(part)
                    assert _status(connection) == 201
                return (server.cpu_nanoseconds - before) / times / 1e3

            return measured

        ways = (
            cost(AT_ONCE, SMALL, body),
            cost(AT_ONCE, None, b"".join(chunks) + end),
            cost(ONE_BY_ONE, SMALL, *single),
            cost(ONE_BY_ONE, None, *chunks, end),
        )
        rounds = [[way() for way in ways] for _ in range(ROUNDS)]
        outcome = Pieces(*map(min, zip(*rounds, strict=True)))
    if outcome.chunks > MOST_TIMES * outcome.whole:
        outcome.violations.append(f"{SMALL} chunks cost {outcome.chunks / outcome.whole:.1f} times the body")
    if outcome.chunks_one_by_one > MOST_TIMES * outcome.bytes_one_by_one:
        times = outcome.chunks_one_by_one / outcome.bytes_one_by_one
        outcome.violations.append(f"{SMALL} chunks in packets of their own cost {times:.1f} times the body")
    return outcome
