"""All scenarios at the speed of real time: a backend polls them concurrently for their 45 seconds."""

import time
from pathlib import Path

from tests.support.client import ORDER, Api, fresh_key
from tests.support.contract import Contract
from tests.support.process import serving
from tests.support.specification import COURSES


def test_a_client_sees_the_courses_of_the_specification_in_real_time(tmp_path: Path) -> None:
    with serving(tmp_path) as served, Api(served.url, Contract.of(served.url), "mk_test_demo") as client:
        created, ids, seen = time.monotonic(), {}, {}
        for scenario in COURSES:
            headers = {"Idempotency-Key": fresh_key(), "X-Mock-Scenario": scenario}
            payment = client.post("/v1/payments", json={**ORDER}, headers=headers).json()
            ids[scenario] = payment["id"]
            seen[scenario] = [(0.0, payment["status"])]
        while time.monotonic() - created < 46:
            time.sleep(0.1)
            for scenario, payment_id in ids.items():
                status = client.get(f"/v1/payments/{payment_id}").json()["status"]
                if status != seen[scenario][-1][1]:
                    seen[scenario].append((time.monotonic() - created, status))
    for scenario, course in COURSES.items():
        assert [status for _, status in seen[scenario]] == [status for _, status in course]
        for (at, _), (second, _) in zip(seen[scenario], course, strict=True):
            assert second - 0.05 <= at < second + 3  # never early; late on a busy machine
