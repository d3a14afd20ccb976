"""A partition that cuts the master off from its replicas and Sentinels, but not from the server: it ends
their connections, and lets them log in no more.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from redis.exceptions import RedisError

from harness.polling import wait_until
from harness.redis_engine import DURABLE, RedisEngine, RedisSentinel
from harness.server_process import server_process
from tests.support.client import AUTHORIZED, order

pytestmark = pytest.mark.redis

MOST_LATE_SECONDS = 5.0
"""How long the old master may get writes after the promotion: without a look at Sentinel, until it heals."""

AFTER_SECONDS = 10.0
SERVER, PEER = {"username": "server", "password": "pw"}, {"username": "peer", "password": "pw"}


@contextmanager
def cluster(folder: Path) -> Iterator[list[RedisSentinel]]:
    """Three Sentinels of three engines."""
    options = [*DURABLE, "--repl-diskless-sync-delay", "0", "--masteruser", "peer", "--masterauth", "pw"]
    options += ["--user", "default", "off"]
    for user in ("server", "peer"):
        options += ["--user", user, "on", ">pw", "~*", "&*", "+@all"]
    engines: list[RedisEngine] = []
    sentinels: list[RedisSentinel] = []
    with ExitStack() as stack:
        for number in range(3):
            (home := folder / f"engine-{number}").mkdir()
            replica = ["--replicaof", f"127.0.0.1 {engines[0].port}"] if number else []
            engines.append(RedisEngine(home, [*options, *replica], **PEER))
            stack.callback(engines[-1].kill)
        for number in range(3):
            (home := folder / f"sentinel-{number}").mkdir()
            sentinels.append(RedisSentinel(home, (), engines, quorum=2))
            stack.callback(sentinels[-1].kill)
        ask = sentinels[0].execute
        for peers in ("REPLICAS", "SENTINELS"):
            wait_until(lambda: len(ask("SENTINEL", peers, "paymock")) == 2)  # noqa: B023 - called at once
        yield sentinels


def set_logins(engine: RedisEngine, state: str) -> None:
    """Let Sentinels and replicas log in (`on`) or not (`off`), and end their connections."""
    engine.execute("ACL", "SETUSER", "peer", state, **SERVER)
    engine.execute("CLIENT", "KILL", "USER", "peer", **SERVER)


def is_replica(engine: RedisEngine) -> bool:
    with suppress(RedisError):  # a Sentinel ends all connections to an engine whose role it changes
        return bool(engine.execute("ROLE", **SERVER)[0] == "slave")
    return False


def test_a_server_follows_sentinel_away_from_a_master_that_is_cut_off(tmp_path: Path) -> None:
    with cluster(tmp_path) as sentinels, ExitStack() as stack:
        places = ",".join(sentinel.address for sentinel in sentinels)
        store = f"redis+sentinel://server:pw@{places}/paymock"
        server = stack.enter_context(server_process(tmp_path, "--store", store))
        client = stack.enter_context(httpx.Client(base_url=server.url, headers=AUTHORIZED, timeout=60))
        acknowledged: list[tuple[float, str]] = []
        refused: list[float] = []

        def create() -> None:
            number = len(acknowledged) + len(refused)
            headers = {"Idempotency-Key": f"partition-{number}"}
            reply = client.post("/v1/payments", json=order(order_id=f"order-{number}"), headers=headers)
            if reply.status_code == 201:
                acknowledged.append((time.monotonic(), reply.json()["id"]))
            else:
                assert reply.status_code == 503
                refused.append(time.monotonic())

        isolated = sentinels[0].master()
        create()
        set_logins(isolated, "off")
        while sentinels[0].master() is isolated:
            create()
        promoted = time.monotonic()
        while time.monotonic() < promoted + AFTER_SECONDS:
            create()
        set_logins(isolated, "on")
        wait_until(lambda: is_replica(isolated))
        wait_until(lambda: client.get("/readyz").status_code == 200)
        late = [payment for at, payment in acknowledged if at > promoted + MOST_LATE_SECONDS]
        assert len(late) > 10
        assert {client.get(f"/v1/payments/{payment}").status_code for payment in late} == {200}
        assert not [at for at in refused if at > promoted + MOST_LATE_SECONDS]
