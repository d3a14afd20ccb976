"""The URL of a Redis store, and errors and warnings when it is initialized."""

import socket
import subprocess
from pathlib import Path

import pytest

from harness.redis_engine import RedisCluster, RedisEngine, cluster_node, free_port, redis_server
from paymock.stores.base import StoreError
from paymock.stores.redis import checks
from paymock.stores.redis.access import Access, Address
from paymock.stores.redis.checks import NodeReport
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add
from tests.support.redis_store import describe_failure, refused, slot_of, warning_of, works


class TestInitialize:
    async def test_an_engine_without_persistence_is_warned_about(self, own_engine: RedisEngine) -> None:
        assert await warning_of(own_engine.url) is None
        own_engine.execute("CONFIG SET", "appendonly", "no")
        warning = await warning_of(own_engine.url)
        assert warning == (
            f"the store at {own_engine.address} writes nothing to disk, so payments are lost when it ends; "
            "set `appendonly yes` there"
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

    async def test_a_cluster_that_fails_with_one_node_is_warned_about(self, cluster: RedisCluster) -> None:
        warning = await warning_of(cluster.url) or ""
        assert "and 2 more writes nothing to disk" in warning
        assert "full-coverage" not in warning
        cluster.nodes[1].execute("CONFIG SET", "cluster-require-full-coverage", "yes")
        try:
            warning = await warning_of(cluster.url) or ""
        finally:
            cluster.nodes[1].execute("CONFIG SET", "cluster-require-full-coverage", "no")
        assert "set `cluster-require-full-coverage no`" in warning

    async def test_an_address_that_refuses_connections_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        assert await describe_failure(f"redis://127.0.0.1:{port}") == (
            f"cannot use the store at 127.0.0.1:{port}: Connection refused"
        )
        assert "Connection refused" in await describe_failure(f"redis+cluster://127.0.0.1:{port}")

    @pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
    async def test_a_wrong_password_is_reported_and_not_repeated(self, scheme: str) -> None:
        with redis_server("--requirepass", "correct") as engine:
            for user in ("", ":wrong@", "nobody:wrong@"):
                reason = await describe_failure(f"{scheme}://{user}{engine.address}")
                refusal = "it does not accept the user and password of the URL, or the lack of them"
                assert reason == f"cannot use the store at {engine.address}: {refusal}"

    async def test_user_password_and_database_are_taken_from_the_url(self) -> None:
        with redis_server("--requirepass", "cor rect@,/") as engine:
            url = f"redis://:cor%20rect%40%2C%2F@{engine.address}/3?socket_timeout=1&protocol=3&decode_responses=1"
            store = RedisStore(url)

            await add(store, "sandbox", "key", b"\xff")
            assert await store.get("sandbox", "key") == [b"\xff"]
            await store.close()
            keys = engine.execute("KEYS", "*", password="cor rect@,/", db=3)
            assert "paymock:{sandbox}:values" in keys

    async def test_a_cluster_requires_the_cluster_scheme(
        self, cluster: RedisCluster, engine: RedisEngine
    ) -> None:
        single = cluster.nodes[0]
        assert "it is a cluster: use redis+cluster://" in await describe_failure(single.url)
        assert "cluster support disabled" in await describe_failure(
            engine.url.replace("redis:", "redis+cluster:")
        )
        store = RedisStore(single.url)
        elsewhere = next(name for name in ("one", "two", "ten") if cluster.owner(slot_of(name)) is not single)
        assert "The store is a cluster" in (await refused(store.get(elsewhere, "key"))).message
        await store.close()

    async def test_a_cluster_without_slots_is_refused(self) -> None:
        with cluster_node() as node:
            reason = await describe_failure(node.url.replace("redis:", "redis+cluster:"))
            assert reason == f"cannot use the store at {node.address}: No node of the store can serve"

    async def test_a_replica_is_refused(self, engine: RedisEngine) -> None:
        with redis_server("--replicaof", "127.0.0.1", str(engine.port)) as replica:
            assert "it does not accept writes: its role is slave" in await describe_failure(replica.url)

    @pytest.mark.parametrize("version", ["6.0.16", "5.0.14", "6"])
    def test_an_old_engine_is_refused(self, version: str) -> None:
        info = {"redis_version": version, "role": "master"}
        assert (
            checks.find_defect(info, cluster=False) == f"it is Redis {version}, and 6.2 or later is required"
        )

    @pytest.mark.parametrize("version", ["6.2.0", "7.0.15", "7.2.4", "8.2.1", "255.255.255"])
    def test_a_newer_engine_is_accepted(self, version: str) -> None:
        assert checks.find_defect({"redis_version": version, "role": "master"}, cluster=True) is None

    def test_suitable_settings_cause_no_warning(self) -> None:
        settings = {
            "appendonly": "yes",
            "cluster-require-full-coverage": "yes",
            "maxmemory-policy": "allkeys-lru",
            "save": "",
        }
        assert checks.find_warnings({"here": NodeReport({"maxmemory": "0"}, settings)}) is None


async def test_connections_can_be_encrypted(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost "
        f"-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {key} -out {certificate}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    port = free_port()
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-auth-clients", "no")
    with redis_server("--tls-port", str(port), *files):
        store = RedisStore(f"rediss://localhost:{port}?ssl_ca_certs={certificate}")

        assert await works(store, "sandbox")
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
        "redis+cluster://:secret@localhost:1,localhost:port",
        "redis+cluster://:secret@[::1",
    ],
)
def test_an_invalid_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        Access(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "seeds"),
    [
        ("redis://", ["localhost:6379"]),
        ("redis://user:p,w@host.example/0", ["host.example:6379"]),
        ("redis://[::1]", ["[::1]:6379"]),
        ("rediss://host.example:7000", ["host.example:7000"]),
        ("redis+cluster://u:p@one:1,two,[::1]:3/?client_name=a", ["one:1", "two:6379", "[::1]:3"]),
    ],
)
def test_all_hosts_are_parsed(url: str, seeds: list[str]) -> None:
    assert [str(seed) for seed in Access(url).seeds] == seeds


@pytest.mark.parametrize(("reported", "host"), [("", "seed"), ("?", "seed"), ("other", "other")])
def test_a_node_that_does_not_know_its_own_host_is_where_it_was_asked(reported: str, host: str) -> None:
    assert Address("seed", 1).resolve(reported, 2) == Address(host, 2)
