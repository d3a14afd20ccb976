"""The OpenAPI documents are valid and agree with the server, in both directions. That they change only when
somebody means it is a test of docs/openapi.yaml: tests/project/test_docs.py.
"""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from jsonschema_rs import Draft202012Validator

from paymock.http.auth import Keyring
from paymock.payments.files import load_catalog
from paymock.rules.errors import ERRORS
from paymock.settings import Settings
from paymock.web.openapi import examples
from paymock.web.openapi.documents import CONTROL_API, PUBLIC_API
from paymock.web.openapi.generator import document
from tests.support.client import Api
from tests.support.contract import Contract, Json
from tests.support.courses import OTHER_CATALOG
from tests.support.server import RunningServer, running_server

CONTEXT = examples.ExampleContext(load_catalog(None), 100, Keyring(()))
PUBLIC, CONTROL = Contract(document(PUBLIC_API, CONTEXT)), Contract(document(CONTROL_API, CONTEXT))
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
    codes = set(PUBLIC.document["components"]["schemas"]["ErrorCode"]["enum"])
    assert set(ERRORS) - codes == {"invalid_query", "status_unreachable"}, "codes of the control API"
    refusals = [
        PUBLIC.resolve(reply)["content"]["application/json"]["examples"]
        for _, _, operation in PUBLIC.operations()
        for status, reply in operation["responses"].items()
        if not status.startswith("2")
    ]
    assert set().union(*refusals) == codes


@pytest.mark.parametrize("path", ["/openapi.yaml", "/_mock/openapi.yaml"])
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
    shared_server: RunningServer, path: str, headers: dict[str, str], base_url: str
) -> None:
    text = httpx.get(shared_server.url + path, headers=headers, timeout=60).text
    section = text[text.index("servers:\n") : text.index("tags:\n")]
    assert yaml.safe_load(section) == {"servers": [{"url": base_url, "description": "This server"}]}


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
    api.create(key="order-1001-payment")
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
        post(),
        post(Host="attacker.example"),
        post(json.dumps(CONTEXT.invalid_payment).encode(), Idempotency_Key="another-key"),
        api.get("/v1/payments/pay_unknown"),
        api.get("/v1/chains/narnia/assets"),
        api.get("/nowhere"),
    ]
    codes = [refusal.json()["error"]["code"] for refusal in refusals]
    assert [refusal.json() for refusal in refusals] == [example(code) for code in codes]
    assert len(set(codes)) == len(refusals)


def test_the_examples_are_those_of_a_server_with_its_own_catalog_fee_and_keys(tmp_path: Path) -> None:
    catalog = tmp_path / "chains.toml"
    catalog.write_text(OTHER_CATALOG)
    with running_server(Settings(port=0, catalog=catalog, fee_bps=0, api_keys=("own-key",))) as server:
        own = Contract.of(server.url)
        with Api(server.url, own, "own-key") as api:
            created = api.create(example("create_payment", own))
            assert created.status_code == 201
            assert amounts_of(example("payment_created", own)) == amounts_of(created.json())
            assert api.get("/v1/chains").json() == example("chains", own)
            refused = api.get("/v1/chains", headers={"Authorization": "Bearer unknown"})
            assert refused.json() == example("unauthenticated", own)


def amounts_of(payment: Json) -> Json:
    amounts: Json = payment["attempts"][0]["instructions"]["amounts"]
    return amounts
