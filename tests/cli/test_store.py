"""`sandboxes`, which reads a store itself."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from paymock.app.journal import encode_entry
from paymock.payments.records import NamedSandbox, encode, index_of
from paymock.rules.identifiers import sandbox_of
from paymock.sandbox.sandboxes import load_metadata
from paymock.stores.sqlite.store import SqliteStore
from tests.support.clock import NOON
from tests.support.in_process import run
from tests.support.use_cases import line

LAST_USE = "2030-01-31T12:00:00.000Z"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one payment of team-a, three of team-a.ci, and two of team-b, which has no journal."""

    async def fill() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.initialize()
        await load_metadata(store, NOON, 1, None)
        for key, number in (("team-a", 1), ("team-a.ci", 3), ("team-b", 2)):
            sandbox = sandbox_of(key)
            for n in range(number):
                await store.add(sandbox, f"{n}", bytes(1000), kind="payment", expected_state=None)
            if key != "team-b":
                await store.append(sandbox, "requests", encode_entry(line()), keep=9)
        owner = sandbox_of("team-a")
        name = encode(NamedSandbox(sandbox_of("team-a.ci"), owner, "ci"))
        await store.add(index_of(owner), "sandbox ci", name, kind="sandbox", expected_state=None)
        await store.close()

    asyncio.run(fill())
    return f"sqlite://{tmp_path}/store.db"


def listed(url: str, *options: str) -> list[dict[str, Any]]:
    outcome = run("sandboxes", "--json", *options, PAYMOCK_STORE=url)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    data: list[dict[str, Any]] = json.loads(outcome.stdout)["data"]
    return data


def test_each_key_is_listed_with_all_its_sandboxes_the_largest_first(url: str) -> None:
    first, second = listed(url)
    assert (first["sandboxes"], first["payments"], first["last_used"]) == (2, 4, LAST_USE)
    assert first["bytes"] > 4000 > second["bytes"] > 2000
    assert (second["sandboxes"], second["payments"], second["last_used"]) == (1, 2, None)
    assert listed(url, "--key", "team-b") == [second]
    assert listed(url, "--key", "unknown") == []
    lines = run("sandboxes", "--store", url).stdout.splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["KEY", "SANDBOXES", "PAYMENTS", "LAST"],
        [first["key"], "2", "4", LAST_USE],
        [second["key"], "1", "2", "-"],
    ]
    assert "team-" not in "".join(lines)


@pytest.mark.parametrize(
    ("store", "status", "message"),
    [
        ("memory://", 2, "no other process can read it"),
        ("sqlite:{folder}/missing.db", 1, "No such file or directory"),
        ("x://", 1, "unknown store"),
        (None, 2, "Missing option '--store'"),
    ],
)
def test_a_store_that_cannot_be_read_is_an_error(
    tmp_path: Path, store: str | None, status: int, message: str
) -> None:
    options = ("--store", store.format(folder=tmp_path)) if store else ()
    outcome = run("sandboxes", *options)
    assert (outcome.returncode, outcome.stdout) == (status, "")
    assert message in outcome.stderr
    assert [*tmp_path.iterdir()] == []
