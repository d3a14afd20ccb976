"""The command for whoever runs a server, `sandboxes`, which reads the store itself."""

import asyncio
from asyncio import gather
from operator import itemgetter
from typing import Any

import click

from paymock.app.journal import LOG, StoredEntry
from paymock.cli.options import as_json
from paymock.cli.output import Column, show, table_lines
from paymock.payments.records import NamedSandbox, PaymentRecord, decode_as, index_of
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import fingerprint, sandbox_of
from paymock.sandbox.metadata import check_stored
from paymock.settings import MEMORY_STORE
from paymock.stores.base import METADATA, STATE, Store, StoreError
from paymock.stores.opening import open_store

_READS = 1000
"""How many reads of the store are in progress at a time."""


@click.command
@click.option(
    "--store",
    required=True,
    metavar="URL",
    envvar="PAYMOCK_STORE",
    show_envvar=True,
    help="Store of the server: sqlite:file.db, sqlite:///absolute/path/file.db, redis://, ...",
)
@click.option("--key", metavar="KEY", help="Only this key, to find its fingerprint.")
@as_json
def sandboxes(store: str, key: str | None, *, as_json: bool) -> None:
    """List the API keys in a store.

    For whoever runs the server. The store is only read, also while servers use it. Each key is shown by its
    fingerprint, the largest first; its last use is that of the newest request to /v1.
    """
    if store == MEMORY_STORE:
        raise click.UsageError(
            f"{MEMORY_STORE} is in the memory of its server: no other process can read it."
        )
    try:
        data = asyncio.run(_read(open_store(store, read_only=True), key and sandbox_of(key)))
    except (StoreError, PaymockError) as error:
        message = error.message.partition(". ")[0] if isinstance(error, PaymockError) else str(error)
        raise click.ClickException(f"cannot read the store: {message}") from None
    names = ("key", "sandboxes", "payments", "last_used", "bytes")
    columns = [
        Column(name.replace("_", " ").upper(), [str(one[name] or "-") for one in data]) for name in names
    ]
    show({"data": data}, table_lines(columns, None) if data else [], as_json=as_json, empty="no sandboxes")


async def _read(store: Store, owner: str | None) -> list[dict[str, Any]]:
    """Return the figures of each key, or of `owner` only, largest first. Raises StoreError, PaymockError."""
    try:
        [metadata] = await store.get(METADATA, STATE)
        if metadata is not None:
            check_stored(metadata)
        sizes = {name: size async for name, size in store.sandboxes()}
        owners: dict[str, str] = {}
        for index in [name for name in sizes if name.endswith(index_of(""))]:
            before = None
            while page := await store.page(index, NamedSandbox.KIND, limit=_READS, before=before):
                before = page[-1][0]
                records = [decode_as(NamedSandbox, stored) for _, stored in page]
                owners |= {record.sandbox: record.owner for record in records}
        chosen = [
            name
            for name in sizes
            if "." not in name and name != METADATA and owner in (None, owners.get(name, name))
        ]
        keys: dict[str, dict[str, Any]] = {}

        async def add(name: str) -> None:
            count = store.count(name, PaymentRecord.KIND)
            payments, newest = await gather(count, store.tail(name, LOG, 1))
            last_used = decode_as(StoredEntry, newest[0]).at if newest else ""
            key = fingerprint(owners.get(name, name))
            empty = {"key": key, "sandboxes": 0, "payments": 0, "last_used": None, "bytes": 0}
            figures = keys.setdefault(key, empty)
            figures["sandboxes"] += 1
            figures["payments"] += payments
            figures["last_used"] = max(figures["last_used"] or "", last_used) or None
            figures["bytes"] += sizes[name]

        for start in range(0, len(chosen), _READS):
            await gather(*map(add, chosen[start : start + _READS]))
    finally:
        await store.close()
    return sorted(keys.values(), key=itemgetter("bytes"), reverse=True)
