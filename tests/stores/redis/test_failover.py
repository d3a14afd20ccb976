"""A Sentinel that promotes a replica."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from redis.exceptions import RedisError

from harness.redis_engine import DURABLE, RedisEngine, redis_sentinel
from paymock.stores.base import Change
from paymock.stores.redis import client
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add
from tests.support.redis_store import create_certificate, describe_failure, eventually, refused, works

FAILOVER_SECONDS = 60
"""How long a failover may take on a busy machine."""


async def has_value(engine: RedisEngine) -> bool:
    return bool(engine.execute("HEXISTS", "paymock:{sandbox}:values", "key"))


@pytest.mark.parametrize("killed", [True, pytest.param(False, marks=pytest.mark.nightly)])
@pytest.mark.usefixtures("each_loop")
async def test_a_failover_keeps_what_the_replica_has_received(*, killed: bool) -> None:
    """Also while the former engine still answers, and refuses writes, after a failover that was ordered."""
    with redis_sentinel(*DURABLE) as sentinel:
        store = RedisStore(sentinel.url)
        assert await store.initialize() is None
        await add(store, "sandbox", "key", b"value")
        former, promoted = sentinel.nodes

        async def is_replaced() -> bool:
            with suppress(RedisError):  # the Sentinel ends all connections
                return bool(former.execute("ROLE")[0] == "slave")
            return False

        await eventually(partial(has_value, promoted), FAILOVER_SECONDS)
        changes = cast(AsyncGenerator[Change, None], store.changes())
        async with aclosing(changes):
            assert await anext(changes) == Change(None)
            if killed:
                former.kill()
                await refused(add(store, "sandbox", "other", b"value"))
            else:
                sentinel.execute("SENTINEL", "FAILOVER", "paymock")
                await eventually(is_replaced, FAILOVER_SECONDS)
            await eventually(lambda: works(store, "sandbox"), FAILOVER_SECONDS)
            assert await anext(changes) == Change(None)
        assert await add(store, "sandbox", "key", b"again") == b"value"
        assert promoted.execute("HLEN", "paymock:{sandbox}:values") == 3  # and their revision
        await store.close()


@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_master_that_does_not_know_its_successor_is_left(
    monkeypatch: pytest.MonkeyPatch, *, is_busy: bool
) -> None:
    """It still accepts writes, on the wrong side of a partition. After a pause, it gets not even one more."""
    monkeypatch.setattr(client, "_LOOK_SECONDS", 0.05 if is_busy else 0.0)
    monkeypatch.setattr(client, "_LOOK_WAIT_SECONDS", 0.2 if is_busy else 5)
    with redis_sentinel(*DURABLE) as sentinel:
        store = RedisStore(sentinel.url)
        assert await store.initialize() is None
        await add(store, "sandbox", "key", b"value")
        isolated, successor = sentinel.nodes

        async def has_left() -> bool:
            await store.increment("other", "steps")
            return bool(successor.execute("EXISTS", "paymock:{other}:counters"))

        await eventually(partial(has_value, successor), FAILOVER_SECONDS)
        successor.execute("REPLICAOF", "NO", "ONE")
        sentinel.execute("SENTINEL", "REMOVE", "paymock")
        sentinel.execute("SENTINEL", "MONITOR", "paymock", "127.0.0.1", successor.port, 1)
        await eventually(has_left, FAILOVER_SECONDS)
        assert is_busy or not isolated.execute("EXISTS", "paymock:{other}:counters")
        assert isolated.execute("ROLE")[0] == "master"
        await store.close()


@pytest.mark.nightly
async def test_passwords_and_tls_of_engines_and_sentinels(tmp_path: Path) -> None:
    certificate, files = create_certificate(tmp_path)
    tls = {"ssl": True, "ssl_ca_certs": str(certificate)}
    options = ("--tls-replication", "yes", *files)
    passwords = ("--requirepass", "p,w", "--masterauth", "p,w")
    with redis_sentinel(
        *options,
        *passwords,
        login={**tls, "password": "p,w"},
        sentinel_options=(*options, "--requirepass", "s@w"),
        sentinel_login={**tls, "password": "s@w"},
    ) as sentinel:
        place = f"{sentinel.url.partition('//')[2]}/3?ssl_ca_certs={certificate}"
        right = "&sentinel_password=s%40w"
        store = RedisStore(f"rediss+sentinel://:p%2Cw@{place}{right}")
        await eventually(lambda: works(store, "sandbox"), FAILOVER_SECONDS)
        await store.close()
        refusals = {
            "": "rejects the user and password of the URL",
            "&sentinel_password=wrong": "No master found for 'paymock'",
        }
        for option, refusal in refusals.items():
            reason = await describe_failure(f"rediss+sentinel://:wrong@{place}{option or right}")
            assert refusal in reason
            assert "wrong" not in reason
