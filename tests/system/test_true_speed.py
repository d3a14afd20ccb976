"""The clock at its real speed. All other tests advance it."""

import time
from pathlib import Path

from harness.server_process import server_process
from tests.support.client import ORDER, Api, fresh_key
from tests.support.contract import Contract
from tests.support.specification import COURSES

POLL_SECONDS = 0.1


def test_a_client_at_true_speed_sees_the_timelines_of_the_specification(tmp_path: Path) -> None:
    """A client polls all eight scenarios concurrently, for 45 seconds. No status comes early. On a busy
    machine the client may miss a short one, but not the last.
    """
    with (
        server_process(tmp_path) as served,
        Api(served.url, Contract.of(served.url), "mk_test_demo") as client,
    ):
        created, ids, seen = time.monotonic(), {}, {}
        for scenario in COURSES:
            headers = {"Idempotency-Key": fresh_key(), "X-Mock-Scenario": scenario}
            payment = client.post("/v1/payments", json={**ORDER}, headers=headers).json()
            ids[scenario] = payment["id"]
            seen[scenario] = {payment["status"]: 0.0}
        while any(COURSES[scenario][-1][1] not in states for scenario, states in seen.items()):
            time.sleep(POLL_SECONDS)
            for scenario, payment_id in ids.items():
                status = client.get(f"/v1/payments/{payment_id}").json()["status"]
                seen[scenario].setdefault(status, time.monotonic() - created)
    for scenario, course in COURSES.items():
        due = {status: second for second, status in course}
        assert [*seen[scenario]] == [status for status in due if status in seen[scenario]]
        assert all(second >= due[status] - 0.05 for status, second in seen[scenario].items())
