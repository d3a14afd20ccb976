"""The pytest fixtures of paymock. See docs/testing.md.

pytest imports this module in every run where paymock is installed, so it imports nothing that pytest has
not imported itself. All the rest is imported by the fixtures, when a test asks for them.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from paymock.testing import Sandbox, ServerHandle


@pytest.fixture(scope="session")
def paymock_server(request: pytest.FixtureRequest) -> "Iterator[ServerHandle]":
    """A paymock server, for the whole run: in a thread, on a free port; or the one at PAYMOCK_URL."""
    from paymock import testing

    if os.environ.get("PAYMOCK_URL"):
        yield testing.remote(api_keys=_share_of_the_keys(request.config))
    else:
        with testing.serve() as server:
            yield server


@pytest.fixture
def paymock(paymock_server: "ServerHandle") -> "Iterator[Sandbox]":
    """A sandbox of paymock for this test alone: empty, with a clock that stands still until it is moved."""
    with paymock_server.sandbox() as sandbox:
        yield sandbox


def _share_of_the_keys(config: pytest.Config) -> list[str]:
    """The configured API keys that are for this worker of pytest-xdist: no key is for two of them."""
    from paymock.testing import named_api_keys

    keys = named_api_keys()
    worker = getattr(config, "workerinput", None)
    if not keys or worker is None:
        return keys
    name, count = worker["workerid"], worker["workercount"]
    numbers = {f"gw{number}": number for number in range(count)}
    if name not in numbers:
        pytest.fail(
            f"the API keys in PAYMOCK_API_KEY are for the workers {', '.join(numbers)}; this worker, {name}, "
            "replaces one that crashed, whose keys are in use, or was given a name",
            pytrace=False,
        )
    share = keys[numbers[name] :: count]
    if not share:
        pytest.fail(
            f"{count} workers need as many API keys, and PAYMOCK_API_KEY has {len(keys)}: give more, "
            "separated by commas, or start fewer workers",
            pytrace=False,
        )
    return share
