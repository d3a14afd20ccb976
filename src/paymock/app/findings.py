"""The findings of the judge in a sandbox: what broke a rule, with its evidence. See docs/verify.md."""

import secrets
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec

from paymock.payments import records
from paymock.rules.errors import PaymockError
from paymock.sandbox.sandboxes import Sandboxes
from paymock.schemas import control as schemas

MAX_FINDINGS = 100
"""How many findings a sandbox keeps."""

MAX_BYTES = 262_144
"""How many bytes they have together, as stored. The oldest go first."""

_LOG = "findings"
_PREFIX = "fnd_"

_encode = msgspec.msgpack.Encoder().encode


class Findings:
    """The findings of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def list(self, sandbox: str) -> schemas.FindingList:
        stored = await self._stored(sandbox)
        return schemas.FindingList(data=[records.decode_as(schemas.Finding, entry) for entry in stored])

    async def find(self, sandbox: str, finding_id: str) -> schemas.Finding:
        """Return a finding. Raises PaymockError `not_found`."""
        for finding in (await self.list(sandbox)).data:
            if finding.id == finding_id:
                return finding
        raise PaymockError("not_found", "This sandbox has no finding with that id.")

    async def add(self, sandbox: str, **finding_fields: Any) -> schemas.Finding:
        """Add a finding, with the fields of an AddFinding, and forget the oldest ones."""
        finding = schemas.Finding(id=_PREFIX + secrets.token_hex(16), **finding_fields)
        entry = _encode(finding)
        keep = len(_newest([entry, *await self._stored(sandbox)]))
        self._sandboxes.append(sandbox, _LOG, lambda: entry, keep=keep)
        return finding

    async def _stored(self, sandbox: str) -> Sequence[bytes]:
        return _newest(await self._sandboxes.tail(sandbox, _LOG, MAX_FINDINGS))

    async def clear(self, sandbox: str) -> None:
        await self._sandboxes.clear_log(sandbox, _LOG)


def _newest(entries: Sequence[bytes]) -> Sequence[bytes]:
    """Return those of the newest entries, which come first, that have room."""
    sizes = accumulate(map(len, entries[:MAX_FINDINGS]))
    return [entry for entry, size in zip(entries, sizes, strict=False) if size <= MAX_BYTES]
