"""The pytest fixtures of paymock. See docs/testing.md.

pytest imports this module in every run where paymock is installed. Therefore it imports only what pytest has
already imported; the fixtures import the rest when a test uses them.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from paymock.testing import Sandbox, ServerHandle


@pytest.fixture(scope="session")
def paymock_server(request: pytest.FixtureRequest) -> "Iterator[ServerHandle]":
    """A paymock server for the whole run: in a thread, on a free port; or the one at PAYMOCK_URL."""
    from paymock import testing

    if os.environ.get("PAYMOCK_URL"):
        yield testing.remote(api_keys=_api_keys_of_worker(request.config))
    else:
        with testing.serve() as server:
            yield server


@pytest.fixture
def paymock(paymock_server: "ServerHandle") -> "Iterator[Sandbox]":
    """A sandbox of paymock for this test only: empty, with a frozen clock."""
    with paymock_server.sandbox() as sandbox:
        yield sandbox


def _api_keys_of_worker(config: pytest.Config) -> list[str]:
    """The configured API keys for this worker of pytest-xdist: no two workers share a key."""
    from paymock.testing import api_keys_from_environment

    keys = api_keys_from_environment()
    worker = getattr(config, "workerinput", None)
    if not keys or worker is None:
        return keys
    name, count = worker["workerid"], worker["workercount"]
    numbers = {f"gw{number}": number for number in range(count)}
    if name not in numbers:
        pytest.fail(
            f"the API keys in PAYMOCK_API_KEY are assigned to the workers {', '.join(numbers)}; this worker, "
            f"{name}, has none: it replaces one that crashed, or has a name of its own",
            pytrace=False,
        )
    assigned = keys[numbers[name] :: count]
    if not assigned:
        pytest.fail(
            f"{count} workers need {count} API keys, and PAYMOCK_API_KEY has {len(keys)}: "
            "add some, separated by commas, or start fewer workers",
            pytrace=False,
        )
    return assigned
