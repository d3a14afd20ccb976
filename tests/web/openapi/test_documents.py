"""The OpenAPI documents are valid and agree with the server, in both directions. That they change only when
somebody means it is a test of tests/project/test_docs.py.
"""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema_rs import Draft202012Validator

from paymock.rules.errors import ERRORS
from paymock.settings import Settings
from paymock.web.documents import DEFAULT_SERVER
from scripts.openapi import examples
from scripts.openapi.documents import CONTROL_API, PUBLIC_API
from scripts.openapi.generator import document
from tests.support import markdown
from tests.support.client import Api
from tests.support.contract import Contract, Json
from tests.support.courses import OTHER_CATALOG
from tests.support.server import RunningServer, running_server
from tests.support.specification import COURSES, DEPOSITS

PUBLIC, CONTROL = Contract(document(PUBLIC_API)), Contract(document(CONTROL_API))
each_document = pytest.mark.parametrize("promises", [PUBLIC, CONTROL], ids=["service", "control API"])

SPECIFIED = {
    ("GET", "/v1/chains"),
    ("GET", "/v1/chains/{chain}/assets"),
    ("POST", "/v1/payments"),
    ("GET", "/v1/payments/{payment_id}"),
    ("GET", "/v1/payments/{payment_id}/attempts"),
    ("POST", "/v1/webhooks"),
    ("GET", "/v1/webhooks"),
}


@pytest.mark.ci
@each_document
def test_a_document_is_valid(promises: Contract) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator  # a quick run is without it

    OpenAPIV31SpecValidator(promises.document).validate()


@pytest.mark.parametrize(
    ("promises", "operation"),
    [
        pytest.param(promises, operation, id=operation["operationId"])
        for promises in (PUBLIC, CONTROL)
        for _, _, operation in promises.operations()
    ],
)
def test_every_example_fits_its_schema(promises: Contract, operation: Json) -> None:
    for body in (operation.get("requestBody", {}), *operation["responses"].values()):
        content = promises.resolve(body).get("content", {}).get("application/json", {})
        validator = Draft202012Validator({**content.get("schema", {}), "components": promises.components})
        for example in content.get("examples", {}).values():
            validator.validate(promises.resolve(example)["value"])


@each_document
def test_every_example_of_a_property_fits_its_schema(promises: Contract) -> None:
    for schema in promises.components["schemas"].values():
        for property_schema in schema.get("properties", {}).values():
            validator = Draft202012Validator({**property_schema, "components": promises.components})
            for example in property_schema.get("examples", ()):
                validator.validate(example)


def test_the_service_has_the_operations_of_the_specification_and_no_others() -> None:
    assert {(method, path) for method, path, _ in PUBLIC.operations()} == SPECIFIED


def test_requests_refuse_unknown_fields_and_replies_do_not_promise_to() -> None:
    schemas = PUBLIC.document["components"]["schemas"]
    closed = {name for name, schema in schemas.items() if schema.get("additionalProperties") is False}
    assert closed == {
        *("CreatePayment", "CreateWebhookEndpoint"),
        *("ReceiveRequest", "SettlementRequest", "PayWithRequest", "RefundToRequest"),
    }


def test_every_error_code_of_the_service_is_described() -> None:
    codes = set(PUBLIC.document["components"]["schemas"]["ErrorDetail"]["properties"]["code"]["examples"])
    own = {"invalid_query", "sandbox_not_empty", "status_unreachable"}
    assert set(ERRORS) - codes == own, "codes of the control API"
    refusals = [
        PUBLIC.resolve(reply)["content"]["application/json"]["examples"]
        for _, _, operation in PUBLIC.operations()
        for status, reply in operation["responses"].items()
        if not status.startswith("2")
    ]
    assert set().union(*refusals) == codes


def test_the_timing_table_has_every_change_of_the_happy_path_and_the_end_of_the_window() -> None:
    description = PUBLIC.document["paths"]["/v1/payments/{payment_id}"]["get"]["description"]
    *steps, window = re.findall(r"^\| (.+) \| (\d+) s \|$", description, re.MULTILINE)
    assert window == ("Expiry scenarios expire", "30")
    changes = {second for second, *_ in (*COURSES["happy_path"], *DEPOSITS["happy_path"])}
    assert [int(second) for _, second in steps] == sorted(changes)
    for second, status in COURSES["happy_path"]:
        assert any(f"`{status}`" in step for step, at in steps if int(at) == second)


@pytest.mark.parametrize(
    ("path", "file"), [("/openapi.yaml", "openapi.yaml"), ("/_mock/openapi.yaml", "openapi-control.yaml")]
)
@pytest.mark.parametrize(
    ("headers", "base_url"),
    [
        ({"Host": "localhost:8402"}, "http://localhost:8402"),
        ({"Host": "[::1]:80"}, "http://[::1]:80"),
        ({"Host": "localhost:"}, "http://localhost"),
        ({"Host": "127.0.0.1", "X-Forwarded-Proto": "https"}, "https://127.0.0.1"),
        ({"Host": "127.0.0.1", "X-Forwarded-Proto": "ftp"}, "http://127.0.0.1"),
    ],
)
def test_the_server_of_a_document_is_the_one_that_was_asked(
    shared_server: RunningServer, path: str, file: str, headers: dict[str, str], base_url: str
) -> None:
    text = markdown.read(f"src/paymock/web/{file}")
    assert text.count(f"- url: {DEFAULT_SERVER}\n") == 1
    plain = httpx.get(shared_server.url + path, headers={**headers, "Accept-Encoding": "identity"})
    assert plain.text == text.replace(DEFAULT_SERVER, base_url, 1)
    compressed = httpx.get(shared_server.url + path, headers=headers)
    assert compressed.headers["content-encoding"] == "gzip"
    assert (compressed.text, compressed.headers["etag"]) == (plain.text, plain.headers["etag"])
    for known in (plain.headers["etag"], "*"):
        headers = {**headers, "If-None-Match": known}
        assert httpx.get(shared_server.url + path, headers=headers).status_code == 304


# The examples are what a server replies that has the examples' seed and stands at the examples' noon


def example(name: str, of: Contract = PUBLIC) -> Any:
    return of.document["components"]["examples"][name]["value"]


def test_examples_of_creations_and_lists() -> None:
    with (
        running_server(Settings(port=0, seed=examples.SEED)) as server,
        Api(server.url, PUBLIC, "mk_test_demo") as api,
    ):
        created = api.create(example("create_payment"), key=examples.IDEMPOTENCY_KEY)
        assert created.json() == example("payment_created")
        assert api.create(example("create_payment_minimal")).status_code == 201
        endpoint = api.create(
            example("create_webhook_endpoint"), key=examples.ENDPOINT_IDEMPOTENCY_KEY, path="/v1/webhooks"
        )
        assert endpoint.json() == example("webhook_endpoint_created")
        assert api.get("/v1/webhooks").json() == example("webhook_endpoints")
        assert api.get("/v1/chains").json() == example("chains")
        assert api.get("/v1/chains/bsc/assets").json() == example("assets")
        assert api.get(f"/checkout/{created.json()['id']}.json").json() == example("checkout", CONTROL)
        server.clock.advance(13)
        assert api.payment(created.json()["id"]) == example("payment_finalized")
        attempts = api.get(f"/v1/payments/{created.json()['id']}/attempts")
        assert attempts.json() == example("attempts")


@pytest.mark.ci  # of a server each: the ids depend on what came before
@pytest.mark.parametrize("name", examples.payment_examples())
def test_examples_of_payments(name: str) -> None:
    scenario, at = examples.payment_examples()[name]
    with (
        running_server(Settings(port=0, seed=examples.SEED)) as server,
        Api(server.url, PUBLIC, "mk_test_demo") as api,
    ):
        created = api.create(example("create_payment"), key=examples.IDEMPOTENCY_KEY, scenario=scenario)
        server.clock.advance(at / 1000)
        assert api.payment(created.json()["id"]) == example(name)


def test_examples_of_refusals(api: Api) -> None:
    api.create(examples.PAYMENT, key="order-1001-payment")
    json_body = {"Content-Type": "application/json", "Idempotency-Key": "order-1001-payment"}

    def post(content: bytes = b"{}", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return api.post("/v1/payments", content=content, headers={**json_body, **named})

    refusals = [
        post(b'{"order_id": "order-1001",}'),
        api.post("/v1/payments", content=b"{}", headers={"Content-Type": "application/json"}),
        post(Idempotency_Key="short"),
        post(X_Mock_Scenario="happy"),
        post(Authorization="Bearer unknown"),
        post(Content_Type="text/plain"),
        post(Content_Encoding="gzip"),
        post(b" " * 70_000),
        post(json.dumps(examples.OTHER_PAYMENT).encode()),
        post(Host="attacker.example"),
        post(json.dumps(examples.INVALID_PAYMENT).encode(), Idempotency_Key="another-key"),
        api.get("/v1/payments/pay_unknown"),
        api.get("/v1/chains/narnia/assets"),
        api.get("/nowhere"),
    ]
    errors = [refusal.json()["error"] | {"request_id": examples.REQUEST_ID} for refusal in refusals]
    for error in errors:  # of the store in memory
        error["message"] = error["message"].partition(" This server keeps payments")[0]
    codes = [error["code"] for error in errors]
    assert errors == [example(code)["error"] for code in codes]
    assert len(set(codes)) == len(refusals)


def test_the_examples_have_the_chains_and_assets_of_the_server(tmp_path: Path) -> None:
    catalog = tmp_path / "chains.toml"
    catalog.write_text(OTHER_CATALOG.replace('"bsc"', '"on"'))  # which is a boolean in YAML, unless quoted
    with running_server(Settings(port=0, catalog=catalog, seed=examples.SEED)) as server:
        own = Contract.of(server.url)
        with Api(server.url, own, "mk_test_demo") as api:
            created = api.create(example("create_payment", own), key=examples.IDEMPOTENCY_KEY)
            assert instructions_of(example("payment_created", own)) == instructions_of(created.json())
            assert api.get("/v1/chains").json() == example("chains", own)
            assert api.get("/v1/chains/on/assets").json() == example("assets", own)
            of_checkout = example("checkout", Contract.of(server.url, "/_mock/openapi.yaml"))
            shown = api.get(f"/checkout/{created.json()['id']}.json").json()
            assert [of_checkout[name] for name in ("chain", "asset")] == [shown["chain"], shown["asset"]]
            assert of_checkout["payment_uri"].split("?")[0] == shown["payment_uri"].split("?")[0]
    chain = own.document["paths"]["/v1/chains/{chain}/assets"]["get"]["parameters"][0]
    assert chain["example"] == "on"
    assert example("asset_mismatch_ends", own)["attempts"][0]["deposits"][0]["asset"] == "ONE"


def instructions_of(payment: Json) -> tuple[str, str]:
    instructions = payment["attempts"][0]["instructions"]
    return instructions["chain"], instructions["asset"]
