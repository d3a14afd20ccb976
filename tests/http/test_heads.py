"""Mutated requests: whatever comes over the wire, the server answers in HTTP, and serves on."""

from pathlib import Path

import pytest

from tests.support.heads import Outcome, judge, proof
from tests.support.mutations import GOOD, request_of

SEED = 8402
"""`python -m tests.system.fuzz_heads` sends more requests, and others."""

MOST_SILENT = 0.01
"""The share of requests that may want a body that never comes."""

OFTEN = 2_000
"""One in so many requests must have taken each way through the server, or they are too tame, or too wild."""

REPLY = (
    b"HTTP/1.1 404 Not PaymentSnapshot\r\nX-Request-Id: req_1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s"
)
REFUSAL = b'{"error":{"code":"not_found","message":"There is nothing."}}'


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(2_000, marks=pytest.mark.process),
        pytest.param(30_000, marks=pytest.mark.nightly),
    ],
)
def test_mutated_requests_find_no_defect(tmp_path: Path, count: int) -> None:
    outcome = proof(tmp_path, count, SEED)
    assert not outcome.violations, outcome.violations[:20]
    assert outcome.requests == count
    assert outcome.silent < count * MOST_SILENT
    for status in ("200", "201", "204", "400", "401", "404", "405", "415", "421", "431"):
        assert outcome.replies[status] > count // OFTEN, outcome.replies


def test_the_same_seed_makes_the_same_requests() -> None:
    assert [request_of(1, number) for number in range(100)] == [
        request_of(1, number) for number in range(100)
    ]
    assert request_of(1, 7) != request_of(2, 7)


def judged(received: bytes | None, good: int | None = None) -> str:
    """What is said of a server that answers a request so."""
    outcome = Outcome()
    judge("it", GOOD[0], received, outcome, good)
    return " ".join(outcome.violations)


def test_a_refusal_in_the_envelope_is_in_order() -> None:
    assert not judged(REPLY % (len(REFUSAL), REFUSAL))


@pytest.mark.parametrize(
    ("received", "said"),
    [
        (None, "does not let go"),
        (b"Invalid HTTP request received.", "no head of a reply"),
        (REPLY % (len(REFUSAL) + 1, REFUSAL), "half a body"),
        (REPLY % (4, b"oops") + b"oops", "no head of a reply"),
        (REPLY.replace(b"404", b"409") % (len(REFUSAL), REFUSAL), "status 409 with"),
        (REPLY.replace(b"404", b"500") % (len(REFUSAL), REFUSAL), "status 500"),
        (REPLY.replace(b"application/json", b"text/plain") % (len(REFUSAL), REFUSAL), "as text/plain"),
        (REPLY.replace(b"X-Request-Id", b"X-Other") % (len(REFUSAL), REFUSAL), "without X-Request-Id"),
        (REPLY.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") % (len(REFUSAL), REFUSAL)
         + REPLY % (len(REFUSAL), REFUSAL), "after the one that was to be the last"),
        (REPLY % (len(REFUSAL), b""), "without the body"),
        (REPLY.replace(b"Content-Length", b"Content-Type") % (len(REFUSAL), REFUSAL), "a header line twice"),
    ],
)  # fmt: skip
def test_a_reply_that_is_not_in_order_is_noticed(received: bytes | None, said: str) -> None:
    assert said in judged(received)


def test_a_good_request_that_is_refused_or_lost_is_noticed() -> None:
    refusal = REPLY % (len(REFUSAL), REFUSAL)
    success = REPLY.replace(b"404", b"200") % (2, b"{}")
    assert not judged(success * 2 + refusal, 2)
    assert "2 good requests got [200, 404]" in judged(success + refusal, 2)
    assert "1 good requests got [404, 404]" in judged(refusal * 2, 1)
