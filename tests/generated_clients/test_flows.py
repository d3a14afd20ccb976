"""Clients generated from both documents compile, and go through the life of a payment with a server.

The programs are in `flows/`. Each prints what it saw. A compiler checks their types, for Python mypy.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from harness.redis_engine import free_port
from tests.generated_clients.conftest import PACKAGES, Workspace
from tests.support import markdown
from tests.support.client import Api
from tests.support.server import RunningServer

HERE = Path(__file__).parent
COLLECTION = markdown.ROOT / "docs" / "paymock.postman_collection.json"


class Client(NamedTuple):
    """The shell commands that make a client and run its program."""

    generate: str
    """Generates the package `$package` from the document `$package.yaml`."""
    build: str
    run: str


def openapi_generator(name: str, properties: str, output: str = "$package") -> str:
    return (
        f"openapi-generator-cli generate -g {name} -i $package.yaml -o {output} "
        f"--additional-properties={properties}"
    )


MYPY = f'{sys.executable} -m mypy --strict --follow-imports=silent --python-executable "$PYTHON" flow.py'

CLIENTS = {
    "go": Client(
        openapi_generator("go", "packageName=$package,withGoMod=false"),
        # Debian has this dependency without the file that makes it a module.
        "cp -r /usr/share/gocode/src/gopkg.in/validator.v2 . && cd validator.v2 && "
        "go mod init gopkg.in/validator.v2 && cd .. && go build -o flow .",
        "./flow",
    ),
    "java": Client(
        openapi_generator(
            "java --library native",
            "invokerPackage=$package,apiPackage=$package.api,modelPackage=$package.model,openApiNullable=false",
        ),
        "javac -nowarn -proc:none -d build $(find . -name '*.java' -not -path '*/src/test/*')",
        "java Flow",
    ),
    "openapi_fetch": Client("openapi-typescript $package.yaml -o $package.d.ts", "tsc", "node build/flow.js"),
    "php": Client(
        openapi_generator("php", "invokerPackage=$package"),
        "find . -path './*/lib/*' -name '*.php' -exec php --syntax-check {} +",
        "php -d zend.assertions=1 flow.php",
    ),
    "python": Client(
        openapi_generator("python", "packageName=$package,generateSourceCodeOnly=true", output="."),
        MYPY,
        "python flow.py",
    ),
}
"""The commands by the folder of the program."""

NEEDS = {"go": pytest.mark.go, "java": pytest.mark.java, "php": pytest.mark.php}

SEEN = {
    "chains": ["bsc", "bsc_testnet", "ethereum", "polygon", "base"],
    "assets": ["BNB", "USDT", "USDC"],
    "created": ["awaiting_payment", "1010000000000000000", {"a": 1, "b": {"c": [1, "two", None]}}],
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


@pytest.mark.nightly
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, ())) for name in CLIENTS])
def test_a_generated_client_goes_through_the_life_of_a_payment(
    name: str, workspace: Workspace, shared_server: RunningServer, api: Api
) -> None:
    client = CLIENTS[name]
    shutil.copytree(HERE / "flows" / name, workspace.folder, dirs_exist_ok=True)
    for file in ("package.json", "tsconfig.json"):
        shutil.copy(HERE / file, workspace.folder)
    for package in PACKAGES:
        workspace.run(client.generate, package=package)
    workspace.run(client.build)
    seen = json.loads(workspace.run(client.run, PAYMOCK_URL=shared_server.url, PAYMOCK_API_KEY=api.api_key))

    if name != "openapi_fetch":  # which has no base URL of its own
        assert seen.pop("defaults") == [shared_server.url] * len(PACKAGES)
    assert seen == SEEN
    assert not invented_names(workspace.folder)


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
    named = {f"response.body.{place}status" for place in ("", "attempts.0.", "data.0.")}
    assert set(re.findall(r"AssertionError +(\S+)", said)) == (named if status == "changed" else set()), said
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
