from paymock.cache import BoundedCache


def test_an_entry_that_is_replaced_makes_no_other_go() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache["first"], cache["second"] = 1, 2
    cache["first"] = 3
    assert cache == {"first": 3, "second": 2}


def test_neither_a_read_nor_a_replacement_makes_an_entry_younger() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache["first"], cache["second"] = 1, 2
    assert cache["first"] == 1
    cache["first"] = 3
    cache["third"] = 4
    assert list(cache) == ["second", "third"]
