"""Linters of OpenAPI documents and a strict JSON Schema validator find nothing to say about the documents."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from paymock.web.operations.operations import Operation
from scripts.openapi.documents import CONTROL_API, PUBLIC_API
from tests.generated_clients.conftest import PACKAGES, Workspace
from tests.support.client import Api
from tests.support.contract import Json
from tests.support.operations import arguments_of, path_of

HERE = Path(__file__).parent

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("package", PACKAGES)
def test_redocly_has_nothing_to_say(package: str, workspace: Workspace) -> None:
    said = workspace.run(f"redocly lint --extends recommended-strict --format json {package}.yaml")
    assert json.loads(said)["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}


def test_spectral_has_nothing_to_say(workspace: Workspace) -> None:
    (workspace.folder / "rules.yaml").write_text("extends: [spectral:oas]\n")
    said = workspace.run("spectral lint --ruleset rules.yaml --fail-severity hint service.yaml control.yaml")
    assert said == "No results with a severity of 'hint' or higher found!\n"


@pytest.mark.parametrize(
    ("package", "operations"), [("service", PUBLIC_API.operations), ("control", CONTROL_API.operations)]
)
def test_ajv_accepts_every_schema_example_and_reply(
    package: str, operations: Sequence[Operation], workspace: Workspace, api: Api
) -> None:
    document = yaml.safe_load((workspace.folder / f"{package}.yaml").read_text(encoding="utf-8"))
    values = [*examples(document), *property_examples(document), *replies(api, operations)]
    (workspace.folder / "input.json").write_text(json.dumps({"document": document, "values": values}))
    (workspace.folder / "ajv.mjs").write_text((HERE / "ajv.mjs").read_text())
    assert workspace.run("node ajv.mjs < input.json") == ""
    assert len(values) > 50


def examples(document: Json) -> Iterator[tuple[str, Any]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            bodies = {"requestBody": operation.get("requestBody", {})}
            bodies |= {f"responses/{status}": reply for status, reply in operation["responses"].items()}
            for place, body in bodies.items():
                content = body.get("content", {}).get("application/json", {})
                pointer = f"/paths/{escaped(path)}/{method}/{place}/content/application~1json/schema"
                for reference in content.get("examples", {}).values():
                    name = reference["$ref"].rpartition("/")[2]
                    yield pointer, document["components"]["examples"][name]["value"]


def property_examples(document: Json) -> Iterator[tuple[str, Any]]:
    for name, schema in document["components"]["schemas"].items():
        for property_name, described in schema.get("properties", {}).items():
            for value in described.get("examples", ()):
                yield f"/components/schemas/{name}/properties/{property_name}", value


def replies(api: Api, operations: Sequence[Operation]) -> Iterator[tuple[str, Any]]:
    """What a server answers to a request of each operation, good and bad, with the pointer to the schema."""
    payment = api.created(scenario="overpaid_review")
    api.put("/_mock/clock", json={"speed": 0})
    api.post("/_mock/clock/advance", json={"seconds": 20})
    for number, operation in enumerate(operations):
        path = path_of(operation, payment["id"])
        good = api.request(operation.method, path, **arguments_of(operation, f"unused-key-{number}"))
        bad = httpx.request(operation.method, str(good.url))
        for reply in (good, bad):
            if reply.headers.get("content-type") == "application/json":
                place = f"/paths/{escaped(operation.path)}/{operation.method.lower()}"
                answer = f"responses/{reply.status_code}/content/application~1json"
                yield f"{place}/{answer}/schema", reply.json()


def escaped(path: str) -> str:
    return path.replace("~", "~0").replace("/", "~1")
