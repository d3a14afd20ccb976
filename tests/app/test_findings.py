"""The findings of the judge in a sandbox."""

import pytest

from paymock.app.findings import MAX_BYTES, MAX_FINDINGS
from paymock.stores.base import Store
from paymock.stores.memory import MemoryStore
from tests.support.findings import finding
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, refusal


async def test_findings_are_listed_newest_first_found_and_cleared() -> None:
    findings = UseCases(MemoryStore()).control.findings
    added = [await findings.add(SANDBOX, **finding(rule=rule)) for rule in ("lost_sale", "gives_up")]
    assert (await findings.list(SANDBOX)).data == added[::-1]
    assert await findings.find(SANDBOX, added[0].id) == added[0]
    assert (await refusal(findings.find("another sandbox", added[0].id))).status == 404
    await findings.clear(SANDBOX)
    assert (await findings.list(SANDBOX)).data == []


async def test_only_the_last_findings_are_kept_and_a_reset_deletes_them() -> None:
    control = UseCases(MemoryStore()).control
    for number in range(3 * MAX_FINDINGS):
        await control.findings.add(SANDBOX, **finding(token=f"happy_path/{number}"))
    listed = (await control.findings.list(SANDBOX)).data
    assert [one.token for one in listed[:2]] == ["happy_path/299", "happy_path/298"]
    assert len(listed) == MAX_FINDINGS
    await control.reset(SANDBOX)
    assert (await control.findings.list(SANDBOX)).data == []


@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
async def test_large_findings_displace_the_oldest(store: type[Store]) -> None:
    app = UseCases(store())
    large = ["x" * 2000] * 20
    for number in range(30):
        await app.control.findings.add(SANDBOX, **finding(token=f"{number}", story=large))
    kept = (await app.control.findings.list(SANDBOX)).data
    assert [one.token for one in kept] == ["29", "28", "27", "26", "25", "24"]
    assert sum(map(len, await app.sandboxes.tail(SANDBOX, "findings", MAX_FINDINGS))) <= MAX_BYTES
