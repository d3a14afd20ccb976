"""The OpenAPI documents are an authority: they change when somebody means it, and clients can be generated
from them.
"""

import difflib
import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from paymock.testing import Sandbox
from tests.support import markdown
from tests.support.generated import DOCUMENTS
from tests.support.server import RunningServer

SERVICE, CONTROL = DOCUMENTS


def git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=markdown.ROOT, capture_output=True, text=True, check=True).stdout


# Changes


@pytest.mark.parametrize("copy", DOCUMENTS)
def test_a_server_serves_the_document_that_is_agreed_upon(shared_server: RunningServer, copy: str) -> None:
    path, _ = DOCUMENTS[copy]
    served = httpx.get(shared_server.url + path, headers={"Host": "127.0.0.1:8402"}).text.splitlines()
    agreed = markdown.read(copy).splitlines()
    changes = list(difflib.unified_diff(agreed, served, copy, path, lineterm=""))
    assert not changes, "if this is meant: scripts/update-docs, and CHANGELOG.md\n" + "\n".join(changes)


def test_whoever_changes_a_document_tells_so_in_the_changelog() -> None:
    documents = set(DOCUMENTS)
    changed = set(git("diff", "--name-only", "HEAD").splitlines())
    if not changed & documents:  # nothing is about to change: what did the last change come with?
        last = ("log", "-1", "-m", "--format=", "--name-only", "--full-diff", "--", *documents)
        changed = set(git(*last).splitlines())
        assert changed & documents
    assert "CHANGELOG.md" in changed


# Clients


def test_the_types_of_the_typescript_example_are_made_from_the_document_as_it_is() -> None:
    """Its tests hold its code against them; what makes them cannot be had everywhere."""
    document = hashlib.sha256((markdown.ROOT / SERVICE).read_bytes()).hexdigest()
    first, _ = markdown.read("examples/typescript/openapi.d.ts").split("\n", 1)
    assert f"{SERVICE}, SHA-256 {document}" in first, "run scripts/update-types, which needs npm"


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Packages of generated Python clients, by the document that each is made from."""
    tools = Path(sys.executable).parent
    path = os.pathsep.join([str(tools), os.environ["PATH"]])  # it formats its code with ruff
    packages = {SERVICE: "paymock_client", CONTROL: "paymock_control_api_client"}
    for document, package in packages.items():
        generate = [str(tools / "openapi-python-client"), "generate", "--fail-on-warning", "--meta", "none"]
        options = ["--path", str(markdown.ROOT / document), "--output-path", str(tmp_path / package)]
        outcome = subprocess.run(
            [*generate, *options],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    monkeypatch.syspath_prepend(tmp_path)
    return packages


@pytest.mark.slow
def test_clients_are_generated_without_a_warning_and_go_the_happy_path(
    clients: dict[str, str], paymock: Sandbox
) -> None:
    def part(document: str, name: str) -> Any:
        return importlib.import_module(f"{clients[document]}.{name}")

    models = part(SERVICE, "models")
    client = part(SERVICE, "client").AuthenticatedClient(paymock.url, paymock.api_key)
    control = part(CONTROL, "client").AuthenticatedClient(paymock.url, paymock.api_key)
    with client, control:
        [bnb, usdt, *_] = part(SERVICE, "api.chains_and_assets.list_assets").sync("bsc", client=client).data
        assert (bnb.native, usdt.decimals) == (True, 18)

        order = models.CreatePayment(
            order_id="order-1001",
            receive=models.ReceiveRequest(
                chain="bsc",
                asset=usdt.id,
                amount="1000000000000000000",
                address="0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            ),
            settlement=models.SettlementRequest(models.SettlementRequestMode.SAME_CHAIN_MERCHANT_PAYOUT),
            pay_with=[models.PayWithRequest(chain="bsc", asset=usdt.id)],
        )
        create = part(SERVICE, "api.payments.create_payment").sync
        created = create(client=client, body=order, idempotency_key="order-1001-payment")
        assert created.status is models.PaymentStatus.AWAITING_PAYMENT
        assert created.attempts[0].instructions.amounts.due == "1010000000000000000"

        step = part(CONTROL, "models").Advance(seconds=45)
        part(CONTROL, "api.time.advance_clock").sync(client=control, body=step)
        completed = part(SERVICE, "api.payments.get_payment").sync(created.id, client=client)
        assert completed.status is models.PaymentStatus.COMPLETED
        assert completed.attempts[0].deposits[0].status is models.DepositStatus.FINALIZED

        order.order_id = "order-1002"
        refused = create(client=client, body=order, idempotency_key="order-1001-payment")
        assert refused.error.code is models.ErrorCode.IDEMPOTENCY_KEY_REUSED_WITH_DIFFERENT_PAYLOAD
