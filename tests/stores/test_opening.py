from pathlib import Path

import pytest

from paymock.stores.base import StoreError
from paymock.stores.opening import open_store
from paymock.stores.sqlite.store import SqliteStore


@pytest.mark.parametrize(("option", "synchronous"), [("", "full"), ("?synchronous=NORMAL", "normal")])
def test_a_url_option_sets_the_synchronous_mode(tmp_path: Path, option: str, synchronous: str) -> None:
    store = open_store(f"sqlite://{tmp_path}/store.db{option}")
    assert isinstance(store, SqliteStore)
    assert store.synchronous == synchronous


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///x.db?synchronous=off", "sqlite:///x.db?mode=ro", "x://"]
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(StoreError):
        open_store(url)


def test_a_message_repeats_only_the_scheme_of_the_url() -> None:
    for url in ("redis:/user:secret@host/0", "user:secret@host", "secret", "se-cret://host"):
        with pytest.raises(StoreError) as caught:
            open_store(url)
        assert "secret" not in str(caught.value).replace("se-cret", "secret")
