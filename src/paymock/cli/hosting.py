"""The command `sandboxes`, for whoever runs a server: it reads the store itself."""

import asyncio
from asyncio import gather
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import click

from paymock.app.journal import LOG, StoredEntry
from paymock.cli.options import as_json
from paymock.cli.output import Column, show, table_lines
from paymock.payments.records import NameRecord, PaymentRecord, decode_as, index_of
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import fingerprint, sandbox_of
from paymock.sandbox.metadata import check_stored
from paymock.settings import MEMORY_STORE
from paymock.stores.base import METADATA, STATE, Store, StoreError
from paymock.stores.opening import open_store

_READS = 1000
"""How many reads of the store are in progress at a time."""

_Figures = dict[str, Any]
"""Of a sandbox or key, as in the JSON."""


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

    For whoever runs the server, which may go on: the store is only read. Each with its payments, last use and
    bytes. Keys are shown by a fingerprint, the
    largest first, and their sandboxes KEY.NAME by NAME. The last use is that of the newest request to /v1.
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
    rows = [(one["key"], *row) for one in data for row in _rows(one)]
    titles = ("KEY", "SANDBOX", "PAYMENTS", "LAST USE", "BYTES")
    columns = [
        Column(title, cells) for title, cells in zip(titles, zip(*rows, strict=True), strict=bool(rows))
    ]
    show({"data": data}, table_lines(columns, None) if rows else [], as_json=as_json, empty="no sandboxes")


def _rows(key: _Figures) -> Iterator[tuple[str, ...]]:
    """Yield the cells for a key, and for each of its sandboxes if it has several."""
    parts = key["sandboxes"]
    several = len(parts) > 1
    names = [
        f"all {len(parts)}" if several else parts[0]["name"] or "",
        *(part["name"] or "-" for part in parts),
    ]
    for name, part in zip(names, [key, *parts] if several else [key], strict=several):
        yield name, str(part["payments"]), part["last_used"] or "-", str(part["bytes"])


async def _read(store: Store, owner: str | None) -> list[_Figures]:
    """Return the figures of each key, or of `owner` only, largest first. Raises StoreError, PaymockError."""
    try:
        [metadata] = await store.get(METADATA, STATE)
        if metadata is not None:
            check_stored(metadata)
        sizes = {name: size async for name, size in store.sandboxes()}
        names: dict[str, tuple[str, str]] = {}
        for index in [name for name in sizes if name.endswith(index_of(""))]:
            before = None
            while page := await store.page(index, NameRecord.KIND, limit=_READS, before=before):
                before = page[-1][0]
                records = [decode_as(NameRecord, stored) for _, stored in page]
                names |= {record.sandbox: (record.owner, record.name) for record in records}
        chosen = [name for name in sizes if "." not in name and name != METADATA]
        keys: dict[str, list[_Figures]] = defaultdict(list)
        for start in range(0, len(chosen), _READS):
            part = chosen[start : start + _READS]
            for sandbox, used in zip(part, await gather(*(_use(store, one) for one in part)), strict=True):
                key, name = names.get(sandbox, (sandbox, None))
                keys[key].append({"name": name, **used, "bytes": sizes[sandbox]})
    finally:
        await store.close()
    data = []
    for key, parts in keys.items():
        if owner in (None, key):
            parts.sort(key=_size, reverse=True)
            total = {name: sum(part[name] for part in parts) for name in ("payments", "bytes")}
            last = max(part["last_used"] or "" for part in parts) or None
            data.append({"key": fingerprint(key), "last_used": last, **total, "sandboxes": parts})
    return sorted(data, key=_size, reverse=True)


_size = itemgetter("bytes")


async def _use(store: Store, sandbox: str) -> _Figures:
    payments, newest = await gather(store.count(sandbox, PaymentRecord.KIND), store.tail(sandbox, LOG, 1))
    return {"payments": payments, "last_used": decode_as(StoredEntry, newest[0]).at if newest else None}
