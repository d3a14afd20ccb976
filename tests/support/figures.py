"""The figures that a server tells, as Prometheus would read them."""

from collections import Counter

import httpx
from prometheus_client.parser import text_string_to_metric_families

Figures = dict[tuple[str, ...], float]
"""Values by the name of the sample and the values of its labels, in the order of their names."""


def figures(url: str) -> Figures:
    """All figures at `url`."""
    response = httpx.get(url, timeout=20)
    assert response.status_code == 200, response.text
    samples = [
        sample for family in text_string_to_metric_families(response.text) for sample in family.samples
    ]
    found = {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for sample in samples
    }
    assert len(found) == len(samples)
    return found


def grown(after: Figures, before: Figures) -> Figures:
    """What has been added in between."""
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


def requests(found: Figures) -> Counter[tuple[str, ...]]:
    """How many requests there were, by method, route and status."""
    return Counter(
        {key[1:]: int(value) for key, value in found.items() if key[0] == "paymock_requests_total"}
    )
