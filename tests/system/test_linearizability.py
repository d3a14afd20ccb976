"""Concurrent creations, replays, reads and advances of one idempotency key on two servers of a store are
linearizable: their replies are those of the same requests in some order, in which none comes before another
that had its reply before the first was sent.
"""

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from harness.server_process import server_process
from paymock.rules.identifiers import derive_token, sandbox_of, secret_from_seed
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import example_states, state_at
from paymock.rules.times import parse_rfc3339
from tests.support.client import order
from tests.system.faults.restartable_server import new_store

HISTORIES, REQUESTS, CLIENTS = 150, 10, 5
KEY, SEED = "order-1001-payment", "linearizability"
STATES = example_states(SCENARIOS["happy_path"])

Result = tuple[object, ...]


class Call(NamedTuple):
    """A request, when it was sent and answered, and what the reply says."""

    kind: str
    seconds: int
    began: float
    ended: float
    result: Result


class Sandbox(NamedTuple):
    """The time of a sandbox, and of the creation of its payment, in milliseconds."""

    now: int
    created: int | None = None

    def after(self, call: Call) -> "tuple[Sandbox, Result]":
        """The sandbox after a request, and what its reply says then."""
        if call.kind == "advance":
            after = self._replace(now=self.now + call.seconds * 1000)
            return after, (after.now,)
        if call.kind == "create":
            after = self if self.created is not None else self._replace(created=self.now)
            return after, (self.created is not None, after.created)
        if self.created is None:
            return self, (404,)
        return self, (200, self.created, str(state_at(STATES, self.now - self.created).status))


def is_linearizable(history: Sequence[Call], start: Sandbox) -> bool:
    """Whether some order of the requests, one after the other, leads to their replies."""

    @cache
    def completes(left: frozenset[Call], sandbox: Sandbox) -> bool:
        first_end = min((call.ended for call in left), default=0.0)
        return not left or any(
            result == call.result and completes(left - {call}, after)
            for call in left
            if call.began <= first_end
            for after, result in [sandbox.after(call)]
        )

    return completes(frozenset(history), start)


class Recorder:
    """Sends requests with one API key to two servers."""

    def __init__(self, clients: Sequence[httpx.Client], api_key: str) -> None:
        self.headers = {"Authorization": f"Bearer {api_key}", "Idempotency-Key": KEY}
        self.clients = clients
        token = derive_token(secret_from_seed(SEED), sandbox_of(api_key), KEY)
        self.path = f"/v1/payments/pay_{token}"
        clock = clients[0].put("/_mock/clock", json={"speed": 0}, headers=self.headers).raise_for_status()
        self.start = Sandbox(parse_rfc3339(clock.json()["now"]) or 0)

    def call(self, server: int, kind: str, seconds: int) -> Call:
        send, began = partial(self.clients[server].request, headers=self.headers), time.monotonic()
        if kind == "advance":
            reply = send("POST", "/_mock/clock/advance", json={"seconds": seconds})
        elif kind == "create":
            reply = send("POST", "/v1/payments", json=order())
        else:
            reply = send("GET", self.path)
        ended, body = time.monotonic(), reply.json()
        result: Result = (404,)
        if reply.status_code != 404 and kind == "advance":
            result = (parse_rfc3339(reply.raise_for_status().json()["now"]),)
        elif reply.status_code != 404:
            created = parse_rfc3339(reply.raise_for_status().json()["created_at"])
            is_replayed = "idempotent-replayed" in reply.headers
            result = (is_replayed, created) if kind == "create" else (200, created, body["status"])
        return Call(kind, seconds, began, ended, result)


@pytest.mark.parametrize("store", ["SQLite", "Redis"])
def test_requests_of_one_key_on_two_servers_are_linearizable(store: str, tmp_path: Path) -> None:
    chance = random.Random(56)  # noqa: S311 - not for secrets
    for number in range(2):
        (tmp_path / str(number)).mkdir()
    with (
        new_store(store, tmp_path) as stored,
        server_process(tmp_path / "0", "--store", stored, "--seed", SEED) as first,
        server_process(tmp_path / "1", "--store", stored, "--seed", SEED) as second,
        httpx.Client(base_url=first.url, timeout=60) as one,
        httpx.Client(base_url=second.url, timeout=60) as other,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        for number in range(HISTORIES):
            recorder = Recorder([one, other], f"mk_test_{number}")
            servers = chance.choices((0, 1), k=REQUESTS)
            kinds = chance.choices(("create", "read", "read", "advance"), k=REQUESTS)
            seconds = chance.choices(range(1, 30), k=REQUESTS)
            history = [*threads.map(recorder.call, servers, kinds, seconds)]
            assert is_linearizable(history, recorder.start), "\n".join(map(str, history))


def test_what_no_order_explains_is_not_linearizable() -> None:
    created = Call("create", 0, 0, 1, (False, 7))
    assert is_linearizable([created, Call("read", 0, 0.5, 2, (404,))], Sandbox(7))
    for wrong in (
        Call("read", 0, 1.5, 2, (404,)),  # it was created before
        Call("create", 0, 0, 1, (False, 7)),  # twice
        Call("read", 0, 1.5, 2, (200, 7, "completed")),  # no time has passed
        Call("advance", 5, 0, 1, (7,)),
    ):
        assert not is_linearizable([created, wrong._replace(began=wrong.began + 0.1)], Sandbox(7))
