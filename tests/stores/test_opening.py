import os
from pathlib import Path

import pytest

from paymock.stores.base import StoreError
from paymock.stores.opening import open_store, sqlite_path
from paymock.stores.sqlite.store import SqliteStore


@pytest.mark.parametrize(("option", "synchronous"), [("", "full"), ("?synchronous=NORMAL", "normal")])
def test_a_url_option_sets_the_synchronous_mode(tmp_path: Path, option: str, synchronous: str) -> None:
    store = open_store(f"sqlite://{tmp_path}/store.db{option}")
    assert isinstance(store, SqliteStore)
    assert store.synchronous == synchronous


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///abs/store.db", "/abs/store.db"),
        ("sqlite:////abs/store.db?synchronous=normal", "/abs/store.db"),
        ("sqlite:/abs/with%20space.db", "/abs/with space.db"),
        ("sqlite:store.db", "/srv/store.db"),
        ("sqlite:./folder/store.db?synchronous=normal", "/srv/folder/store.db"),
        ("sqlite://store.db", "/srv/store.db"),
    ],
)
def test_a_path_after_three_slashes_is_absolute_and_one_after_the_scheme_is_relative(
    monkeypatch: pytest.MonkeyPatch, url: str, path: str
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/srv")
    assert sqlite_path(url) == Path(path)
    assert isinstance(open_store(url), SqliteStore)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite:?synchronous=full",
        "sqlite:x.db?mode=ro",
        "sqlite://",
        "sqlite:///x.db?synchronous=off",
        "sqlite:///x.db?mode=ro",
        "x://",
    ],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(StoreError):
        open_store(url)


def test_a_message_repeats_only_the_scheme_of_the_url() -> None:
    for url in ("redis:/user:secret@host/0", "user:secret@host", "secret", "se-cret://host"):
        with pytest.raises(StoreError) as caught:
            open_store(url)
        assert "secret" not in str(caught.value).replace("se-cret", "secret")


@pytest.mark.parametrize("scheme", ["redis+cluster", "rediss+cluster"])
def test_a_cluster_is_refused_with_what_to_use(scheme: str) -> None:
    with pytest.raises(StoreError, match=r"redis\+sentinel://.*a proxy that spreads the keys"):
        open_store(f"{scheme}://user:secret@10.0.0.21:6379,10.0.0.22:6379")
