"""The URL of a Redis store, and errors and warnings when it is initialized."""

import gzip
import socket
from pathlib import Path

import pytest

from harness.redis_engine import RedisEngine, redis_server
from paymock.stores.base import StoreError
from paymock.stores.redis.store import RedisStore, find_defect
from tests.stores.contract import add
from tests.support.redis_store import (
    OUTAGE_SECONDS,
    create_certificate,
    describe_failure,
    eventually,
    warning_of,
    works,
)
from tests.support.use_cases import check_noted_store
from tests.support.virtual_time import within


class TestInitialize:
    async def test_an_engine_without_persistence_is_warned_about(self, own_engine: RedisEngine) -> None:
        assert await warning_of(own_engine.url) is None
        own_engine.execute("CONFIG SET", "appendonly", "no")
        warning = await warning_of(own_engine.url)
        assert warning == (
            "the store writes nothing to disk, so payments are lost when it ends; set `appendonly yes` there"
        )
        own_engine.execute("CONFIG SET", "save", "3600 1")
        assert "writes only occasional snapshots to disk" in (await warning_of(own_engine.url) or "")

    async def test_an_engine_that_evicts_keys_is_warned_about(self, own_engine: RedisEngine) -> None:
        own_engine.execute("CONFIG SET", "maxmemory", "1gb")
        assert await warning_of(own_engine.url) is None
        own_engine.execute("CONFIG SET", "maxmemory-policy", "allkeys-lru")
        assert "set `maxmemory-policy noeviction`" in (await warning_of(own_engine.url) or "")

    async def test_unreadable_settings_cause_no_warning(self, engine: RedisEngine) -> None:
        engine.execute("ACL SETUSER", "plain", "on", "nopass", "+@all", "-config", "~*", "&*")
        assert await warning_of(engine.url.replace("//", "//plain:any@")) is None

    async def test_an_address_that_refuses_connections_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        reason = await describe_failure(f"redis://127.0.0.1:{port}")
        assert reason == f"cannot use the store: 127.0.0.1:{port} cannot be reached: Connection refused"

    async def test_a_wrong_password_is_reported_and_not_repeated(self) -> None:
        with redis_server("--requirepass", "correct") as engine:
            for user in ("", ":wrong@", "nobody:wrong@"):
                reason = await describe_failure(f"redis://{user}{engine.address}")
                refusal = "it rejects the user and password of the URL, or requires them"
                assert reason == f"cannot use the store: {refusal}"

    async def test_user_password_and_database_are_taken_from_the_url(self) -> None:
        with redis_server("--requirepass", "cor rect@,/") as engine:
            url = f"redis://:cor%20rect%40%2C%2F@{engine.address}/3?socket_timeout=1&protocol=3&decode_responses=1"
            store = RedisStore(url)

            await add(store, "sandbox", "key", b"\xff")
            assert await store.get("sandbox", "key") == [b"\xff"]
            await store.close()
            keys = engine.execute("KEYS", "*", password="cor rect@,/", db=3)
            assert "paymock:{sandbox}:values" in keys

    async def test_a_cluster_is_refused(self) -> None:
        with redis_server("--cluster-enabled", "yes") as node:
            reason = await describe_failure(node.url)
        assert "a node of a Redis Cluster: Redis Cluster is not supported: use one engine, redis+s" in reason

    async def test_an_engine_that_does_not_answer_is_refused(self, own_engine: RedisEngine) -> None:
        own_engine.pause()
        async with within(OUTAGE_SECONDS):
            assert "it does not answer" in await describe_failure(own_engine.url)

    async def test_a_replica_is_refused(self, engine: RedisEngine) -> None:
        with redis_server("--replicaof", "127.0.0.1", str(engine.port)) as replica:
            assert "it does not accept writes: its role is slave" in await describe_failure(replica.url)

    @pytest.mark.parametrize("version", ["6.0.16", "5.0.14", "6"])
    def test_an_old_engine_is_refused(self, version: str) -> None:
        info = {"redis_version": version, "role": "master"}
        assert find_defect(info) == f"it is Redis {version}, and 6.2 or later is required"

    @pytest.mark.parametrize("version", ["6.2.0", "7.0.15", "7.2.4", "8.2.1", "255.255.255"])
    def test_a_newer_engine_is_accepted(self, version: str) -> None:
        assert find_defect({"redis_version": version, "role": "master"}) is None


async def test_an_engine_of_a_former_server_is_opened(engine: RedisEngine) -> None:
    commands = gzip.decompress((Path(__file__).parent / "noted.resp.gz").read_bytes())
    with socket.create_connection(("127.0.0.1", engine.port)) as connection:
        connection.sendall(commands + b"QUIT\r\n")
        while connection.recv(4096):
            pass
    store = RedisStore(engine.url)
    await check_noted_store(store)
    await store.close()


async def test_connections_can_be_encrypted(tmp_path: Path) -> None:
    certificate, files = create_certificate(tmp_path)
    with redis_server(*files, ssl=True, ssl_ca_certs=str(certificate)) as engine:
        port = engine.port
        store = RedisStore(f"rediss://localhost:{port}?ssl_ca_certs={certificate}")

        await eventually(lambda: works(store, "sandbox"))
        await anext(store.changes())
        await store.close()
        assert "certificate verify failed" in await describe_failure(f"rediss://localhost:{port}")


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@localhost:port",
        "redis://:secret@localhost:99999",
        "redis://:secret@localhost,otherhost:1,",
        "redis://:secret@localhost?socket_timeout=secret",
        "redis://:secret@localhost?unknown=secret",
        "redis+sentinel://:secret@localhost:1,localhost:port/paymock",
        "redis+sentinel://:secret@[::1/paymock",
        "redis+sentinel://:secret@localhost",
        "redis+sentinel://localhost/paymock?sentinel_password=secret&unknown=secret",
    ],
)
def test_an_invalid_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        RedisStore(url)
    assert "secret" not in str(caught.value)
