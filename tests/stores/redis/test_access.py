import pytest

from paymock.stores.base import StoreError
from paymock.stores.redis.access import Access, Address


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
