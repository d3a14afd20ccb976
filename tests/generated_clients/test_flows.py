"""Clients generated from both documents compile, go through the life of a payment, and read later replies.

The programs are in `flows/`. Each prints what it saw. A compiler checks their types, for Python mypy.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from harness.redis_engine import free_port
from paymock.rules.scenarios import SCENARIOS
from tests.generated_clients.conftest import GENERATORS, PACKAGES, Workspace
from tests.support import markdown
from tests.support.client import Api, with_member
from tests.support.contract import Json
from tests.support.server import RunningServer

HERE = Path(__file__).parent
COLLECTION = markdown.ROOT / "docs" / "paymock.postman_collection.json"


class Client(NamedTuple):
    """The shell commands that compile a client and its programs, and run these."""

    build: str
    flow: str = ""
    replies: str = ""


MYPY = f'{sys.executable} -m mypy --strict --follow-imports=silent --python-executable "$PYTHON" flow.py'

CLIENTS = {
    "go": Client(
        # Debian has this dependency without the file that makes it a module.
        "cp -r /usr/share/gocode/src/gopkg.in/validator.v2 . && cd validator.v2 && "
        "go mod init gopkg.in/validator.v2 && cd .. && mkdir bin && go build -o bin . ./replies",
        "bin/flow",
        "bin/replies",
    ),
    "java": Client(
        "javac -nowarn -proc:none -d build $(find . -name '*.java' -not -path '*/src/test/*')",
        "java Flow",
        "java Replies",
    ),
    "openapi_fetch": Client(
        "for package in service control; do openapi-typescript $package.yaml -o $package.d.ts; done; tsc",
        "node build/flow.js",
    ),
    "php": Client(
        "find . -path './*/lib/*' -name '*.php' -exec php --syntax-check {} +",
        "php -d zend.assertions=1 flow.php",
        "php replies.php",
    ),
    "python": Client(MYPY, "python flow.py", "python replies.py"),
    "ruby": Client("find . -name '*.rb' -exec ruby -c {} +", replies="ruby replies.rb"),
}
"""The commands by the folder of the programs."""

NEEDS = {name: getattr(pytest.mark, name) for name in ("go", "java", "php", "ruby")}

SEEN = {
    "chains": ["bsc", "bsc_testnet", "ethereum", "polygon", "base"],
    "assets": ["BNB", "USDT", "USDC"],
    "created": ["awaiting_payment", "1010000000000000000", {"a": 1, "b": {"c": [1, "two", None]}}],
    "pays_to": "0x",
    "expires_at": 4073545800,
    "replay": ["true", True],
    "conflict": [409, "idempotency_key_reused_with_different_payload"],
    "invalid": [422, "validation_failed", "pay_with[0].asset"],
    "statuses": [
        "awaiting_payment",
        "payment_detected",
        "payment_finalized",
        "settlement_pending",
        "settlement_submitted",
        "failed",
    ],
    "took": 45,
    "attempts": [["payment_finalized", ["finalized"]]],
    "endpoint": ["https://merchant.example/hooks", ["payment.completed", "payment.failed"], "whsec_"],
    "endpoints": [True],
    "overridden": "no_payment_expired",
    "injected": [429, "injected_fault"],
}
"""What every program sees. `took` is the time in seconds from creation to the final status, `overridden` the
scenario of a payment that was created without the header, after an override.
"""

INVENTED = re.compile(r"\d$|Type\d|Inner|Inline|AnyOf|OneOf|AllOf")
"""Names that a generator makes up for schemas without names, or for two of the same name."""


LATER: list[Json] = yaml.safe_load((HERE / "later_replies.yaml").read_text(encoding="utf-8"))
CLOSED = {"an unknown payment status", "an unknown deposit status"}  # the specification lists them
UNREADABLE = CLOSED | {"an instruction type without the required fields", "an asset without id"}
"""What a client cannot read. Some check no required fields."""


@pytest.mark.nightly
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, ())) for name in CLIENTS])
def test_a_generated_client_goes_through_the_life_of_a_payment_and_reads_later_replies(
    name: str, workspace: Workspace, shared_server: RunningServer, api: Api, request: pytest.FixtureRequest
) -> None:
    client, folder = CLIENTS[name], workspace.folder
    shutil.copytree(HERE / "flows" / name, folder, dirs_exist_ok=True)
    for file in ("package.json", "tsconfig.json"):
        shutil.copy(HERE / file, folder)
    if name in GENERATORS:
        generated: Path = request.getfixturevalue("generated")
        for package in PACKAGES:
            made = generated / name / package
            shutil.copytree(made / package if name == "python" else made, folder / package)
    workspace.run(client.build)
    if client.flow:
        seen = json.loads(
            workspace.run(client.flow, PAYMOCK_URL=shared_server.url, PAYMOCK_API_KEY=api.api_key)
        )
        if name != "openapi_fetch":  # which has no base URL of its own
            assert seen.pop("defaults") == [shared_server.url] * len(PACKAGES)
        assert seen == SEEN
    if client.replies:
        replies = [*replies_of(api)]
        replies += [(one["name"], one["reply"], later(one, replies)) for one in LATER]
        (folder / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
        failures = json.loads(workspace.run(client.replies))
        assert failures.keys() == (CLOSED if name in ("java", "php") else UNREADABLE), failures
    assert not invented_names(folder)


def replies_of(api: Api) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the schema and the value of replies: of payments in all states, and of the rest."""
    api.post("/_mock/reset")
    api.speed(0)
    ids = {name: api.created(name)["id"] for name in SCENARIOS}
    ids["optional"] = api.created(refund_to=..., expires_at=..., metadata=...)["id"]
    for seconds in (0.001, 6, 3, 8, 15, 15):
        api.advance(seconds)
        for name, payment_id in ids.items():
            yield f"{name}, {seconds} s later", "Payment", api.payment(payment_id)
    yield "attempts", "AttemptList", api.get(f"/v1/payments/{ids['overpaid_review']}/attempts").json()
    endpoint = api.create({"url": "https://merchant.example/hooks"}, path="/v1/webhooks")
    yield "endpoint", "CreatedWebhookEndpoint", endpoint.json()
    for path, schema in (
        ("chains", "Chain"),
        ("chains/bsc/assets", "Asset"),
        ("webhooks", "WebhookEndpoint"),
    ):
        yield path, f"{schema}List", api.get(f"/v1/{path}").json()


def later(change: Json, replies: list[tuple[str, str, Any]]) -> Any:
    """Return a reply of that schema, if there is one with an overpaid deposit, with the change."""
    choices = [value for _, schema, value in replies if schema == change["reply"]]
    reply = deepcopy(next((one for one in choices if "overpaid_amount" in str(one)), choices[-1]))
    for path in change.get("remove", ()):
        with_member(reply, path)
    for path, value in change.get("set", {}).items():
        with_member(reply, path, value)
    return reply


@pytest.mark.nightly
def test_newman_sends_the_postman_collection_with_new_keys(
    tmp_path: Path, server: RunningServer, api: Api
) -> None:
    for file in ("package.json", "package-lock.json"):
        shutil.copy(HERE / file, tmp_path)
    install = "npm ci --omit=dev --ignore-scripts --no-audit --no-fund"
    variables = f"--env-var baseUrl={server.url} --env-var apiKey={api.api_key}"
    newman = f"node_modules/.bin/newman run --reporters json --iteration-count 2 {variables} {COLLECTION}"
    subprocess.run(["/bin/sh", "-c", f"{install} && {newman}"], cwd=tmp_path, check=True)
    [report] = tmp_path.glob("newman/*.json")
    assert json.loads(report.read_text(encoding="utf-8"))["run"]["stats"]["requests"]["total"] == 2 * 7
    assert len(api.get("/_mock/payments").json()["data"]) == 2


@pytest.mark.nightly
@pytest.mark.parametrize("status", ["awaiting_payment", "changed"])
def test_the_drift_workflow_names_a_changed_status(
    status: str, workspace: Workspace, shared_server: RunningServer, api: Api
) -> None:
    document = (workspace.folder / "service.yaml").read_text(encoding="utf-8")
    (workspace.folder / "openapi.yaml").write_text(document.replace("- awaiting_payment\n", f"- {status}\n"))
    shutil.copy(COLLECTION, workspace.folder)
    [*_, step] = yaml.safe_load(markdown.read("deploy/drift.yml"))["jobs"]["drift"]["steps"]
    script = step["run"].replace("4010", str(free_port()))
    packages = json.loads((HERE / "package.json").read_text())
    for name, version in (packages["dependencies"] | packages["devDependencies"]).items():
        script = script.replace(f"npx --yes {name}@{version}", name.rpartition("/")[2].removesuffix("-cli"))
    variables = {"PAYMENTS_URL": shared_server.url, "PAYMENTS_API_KEY": api.api_key}
    said = workspace.run(f"trap 'kill $!' EXIT\n{script.rstrip()} || echo deviations", **variables)
    named = {"response.body.status"} if status == "changed" else set()
    assert set(re.findall(r"AssertionError +(\S+)", said)) == named, said
    assert ("npx" in script, said.endswith("deviations\n")) == (False, status == "changed")


def invented_names(folder: Path) -> set[str]:
    """The names of types in generated code that no schema and no operation has."""
    declared = re.compile(
        r"^(?:export )?(?:public )?(?:class|enum|interface|struct|type) (\w+)", re.MULTILINE
    )
    sources = [path for package in PACKAGES for path in folder.glob(f"{package}*/**/*")]
    return {
        name
        for path in sources
        if "model" in str(path) and path.is_file()
        for name in declared.findall(path.read_text(encoding="utf-8"))
        if INVENTED.search(name)
    }
