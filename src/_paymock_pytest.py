"""The pytest fixtures of paymock. See docs/testing.md.

pytest imports this module in every run where paymock is installed. Therefore it imports only what pytest has
already imported; the fixtures import the rest when a test uses them.
"""

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pluggy

    from paymock.testing import Sandbox, ServerHandle


_sandboxes = pytest.StashKey[list["Sandbox"]]()


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
def paymock(request: pytest.FixtureRequest, paymock_server: "ServerHandle") -> "Iterator[Sandbox]":
    """A sandbox of paymock for this test only: empty, with a frozen clock."""
    with paymock_server.sandbox() as sandbox:
        request.node.stash.setdefault(_sandboxes, []).append(sandbox)
        yield sandbox


# Not of the new style: old versions of pluggy know only this one.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> "Generator[None, pluggy.Result[pytest.TestReport], None]":
    """Add the payments and requests of its sandboxes to the report of a failed test."""
    outcome = yield
    testing = sys.modules.get("paymock.testing")
    # During the teardown the sandboxes may have been reset.
    if testing is None or call.when == "teardown" or outcome.excinfo or not outcome.get_result().failed:
        return
    values = [*item.stash.get(_sandboxes, []), *(getattr(item, "funcargs", None) or {}).values()]
    sandboxes = {id(value): value for value in values if isinstance(value, testing.Sandbox)}
    for sandbox in sandboxes.values():
        outcome.get_result().sections.append(("paymock: payments and last requests", _description(sandbox)))


def _description(sandbox: "Sandbox") -> str:
    try:
        return sandbox.describe()
    except Exception as error:  # noqa: BLE001 - whatever fails, the report of the test is not lost
        return f"the sandbox cannot be described: {type(error).__name__}"


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
