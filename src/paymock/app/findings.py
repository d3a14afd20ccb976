"""The findings of the judge in a sandbox: what broke a rule, with its evidence. See docs/verify.md."""

import secrets
from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import Any

import msgspec

from paymock.payments import records
from paymock.payments.records import index_of
from paymock.rules.errors import PaymockError
from paymock.sandbox.sandboxes import Sandboxes
from paymock.schemas import control as schemas

MAX_FINDINGS = 100
"""How many findings a sandbox keeps, or all sandboxes `K.NAME` of a key K together."""

MAX_BYTES = 262_144
"""How many bytes they have together, as stored. The oldest go first."""

_LOG = "findings"
_PREFIX = "fnd_"

_encode = msgspec.msgpack.Encoder().encode


class Findings:
    """The findings of sandboxes. Those of all `K.NAME` share a log in the index of their owner K, where each
    entry begins with the name of its sandbox, and that name alone hides the earlier ones.
    """

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def list(self, sandbox: str, owner: str | None = None) -> schemas.FindingList:
        home, prefix = _log_of(sandbox, owner)
        present = takewhile(lambda entry: entry != prefix, await self._stored(home))
        own = [entry.removeprefix(prefix) for entry in present if entry.startswith(prefix)]
        return schemas.FindingList(data=[records.decode_as(schemas.Finding, entry) for entry in own])

    async def find(self, sandbox: str, finding_id: str, owner: str | None = None) -> schemas.Finding:
        """Return a finding. Raises PaymockError `not_found`."""
        for finding in (await self.list(sandbox, owner)).data:
            if finding.id == finding_id:
                return finding
        raise PaymockError("not_found", "This sandbox has no finding with that id.")

    async def add(self, sandbox: str, owner: str | None = None, **finding_fields: Any) -> schemas.Finding:
        """Add a finding, with the fields of an AddFinding, and forget the oldest ones."""
        finding = schemas.Finding(id=_PREFIX + secrets.token_hex(16), **finding_fields)
        home, prefix = _log_of(sandbox, owner)
        entry = prefix + _encode(finding)
        keep = len(_newest([entry, *await self._stored(home)]))
        self._sandboxes.append(home, _LOG, lambda: entry, keep=keep)
        return finding

    async def _stored(self, home: str) -> Sequence[bytes]:
        return _newest(await self._sandboxes.tail(home, _LOG, MAX_FINDINGS))

    async def clear(self, sandbox: str, owner: str | None = None) -> None:
        home, prefix = _log_of(sandbox, owner)
        if not prefix:
            await self._sandboxes.clear_log(home, _LOG)
        elif (await self.list(sandbox, owner)).data:
            self._sandboxes.append(home, _LOG, lambda: prefix, keep=MAX_FINDINGS)
            await self._stored(home)  # written now


def _log_of(sandbox: str, owner: str | None) -> tuple[str, bytes]:
    """Return the sandbox whose log has the findings of `sandbox`, and what they begin with there."""
    return (sandbox, b"") if owner in (None, sandbox) else (index_of(str(owner)), sandbox.encode())


def _newest(entries: Sequence[bytes]) -> Sequence[bytes]:
    """Return those of the newest entries, which come first, that have room."""
    sizes = accumulate(map(len, entries[:MAX_FINDINGS]))
    return [entry for entry, size in zip(entries, sizes, strict=False) if size <= MAX_BYTES]
