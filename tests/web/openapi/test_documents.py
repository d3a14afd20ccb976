"""The OpenAPI document: valid, complete, readable, and in agreement with the server in both directions."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from paymock.app.catalog_file import load_catalog
from paymock.rules.errors import ERRORS
from paymock.rules.scenarios import SCENARIOS, DepositStatus, PaymentStatus
from paymock.rules.tables import scenario_rows, timing_rows
from paymock.settings import Settings
from paymock.web.http.auth import Keyring
from paymock.web.openapi import examples
from tests.support.client import Api
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server

SPECIFIED = {
    ("GET", "/v1/chains"),
    ("GET", "/v1/chains/{chain}/assets"),
    ("POST", "/v1/payments"),
    ("GET", "/v1/payments/{payment_id}"),
    ("GET", "/v1/payments/{payment_id}/attempts"),
    ("POST", "/v1/webhooks"),
    ("GET", "/v1/webhooks"),
}


@pytest.fixture(scope="module")
def text(shared_server: RunningServer) -> str:
    return httpx.get(f"{shared_server.url}/openapi.yaml").text


@pytest.fixture(scope="module")
def contract(shared_server: RunningServer) -> Contract:
    """What the document of the service promises, without that of the control API."""
    return Contract.of(shared_server.url)


@pytest.fixture
def document(contract: Contract) -> Json:
    return contract.document


def test_it_is_a_valid_openapi_3_1_document(document: Json) -> None:
    assert document["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(document).validate()


def test_it_is_served_as_yaml(shared_server: RunningServer) -> None:
    response = httpx.get(f"{shared_server.url}/openapi.yaml")
    assert response.headers["content-type"] == "application/yaml; charset=utf-8"
    assert httpx.get(f"{shared_server.url}/openapi.yaml").content == response.content


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
def test_its_server_is_the_one_that_was_asked(
    shared_server: RunningServer, headers: dict[str, str], base_url: str
) -> None:
    for path in ("/openapi.yaml", "/_mock/openapi.yaml"):
        document = yaml.safe_load(httpx.get(shared_server.url + path, headers=headers).text)
        assert [server["url"] for server in document["servers"]] == [base_url]


def test_a_person_can_read_it(text: str) -> None:
    assert not re.search(r"^\s*[^'\"|]*: [&*]\w", text, re.MULTILINE), "it uses anchors"
    assert "\\n" not in text.replace("\\n\\r", ""), "texts of several lines are written as blocks"
    assert text.index("openapi:") < text.index("info:") < text.index("paths:") < text.index("components:")


def test_it_describes_the_operations_of_the_specification_and_no_others(contract: Contract) -> None:
    described = {(method, path) for method, path, _ in contract.operations()}
    assert described == SPECIFIED


def test_what_it_describes_exists_and_what_it_does_not_describe_does_not(
    api: Api, contract: Contract
) -> None:
    for path, item in contract.document["paths"].items():
        concrete = path.replace("{chain}", "bsc").replace("{payment_id}", api.created()["id"])
        for method in ("get", "post", "put", "patch", "delete"):
            status = api.request(method, concrete).status_code
            assert (status == 405) == (method not in item), f"{method} {concrete}: {status}"


def test_every_operation_says_what_it_is_for(contract: Contract) -> None:
    for method, path, operation in contract.operations():
        assert operation["summary"], (method, path)
        assert len(operation["description"]) > 20, (method, path)
        assert operation["tags"][0] in {tag["name"] for tag in contract.document["tags"]}
    ids = {operation["operationId"] for _, _, operation in contract.operations()}
    assert len(ids) == len(SPECIFIED)


def test_every_property_and_parameter_is_described_or_named_by_its_type(document: Json) -> None:
    for parameter in document["components"]["parameters"].values():
        assert parameter["description"]
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name


def test_requests_refuse_unknown_fields_and_replies_do_not_promise_to(document: Json) -> None:
    schemas = document["components"]["schemas"]
    closed = {name for name, schema in schemas.items() if schema.get("additionalProperties") is False}
    requests = {"CreatePayment", "CreateWebhookEndpoint"}
    nested = {"ReceiveRequest", "SettlementRequest", "PayWithRequest", "RefundToRequest"}
    assert closed == requests | nested


def test_what_may_be_left_out_of_a_request_has_no_default_of_null(document: Json) -> None:
    """Generators of clients would make it a required field that can be null."""
    create = document["components"]["schemas"]["CreatePayment"]
    left_out = set(create["properties"]) - set(create["required"])
    assert left_out == {"refund_to", "expires_at", "metadata"}
    for name in left_out:
        assert "default" not in create["properties"][name]
        assert create["properties"][name]["description"].startswith("Default: ")


def test_every_enumerated_value_is_there(document: Json) -> None:
    schemas = document["components"]["schemas"]
    assert document["components"]["parameters"]["MockScenario"]["schema"] == {
        "$ref": "#/components/schemas/Scenario"
    }
    assert schemas["Scenario"]["enum"] == list(SCENARIOS)
    assert schemas["PaymentStatus"]["enum"] == [status.value for status in PaymentStatus]
    assert schemas["DepositStatus"]["enum"] == [status.value for status in DepositStatus]
    assert schemas["SettlementMode"]["enum"] == ["same_chain_merchant_payout"]
    assert schemas["EvmInvoiceInstructions"]["properties"]["type"]["const"] == "evm_invoice_address"


def test_the_error_codes_are_those_that_the_service_answers(document: Json) -> None:
    codes = document["components"]["schemas"]["ErrorCode"]["enum"]
    assert set(ERRORS) - set(codes) == {"invalid_query", "status_unreachable"}, "codes of the control API"


def test_every_error_code_is_described_at_an_operation_or_at_the_default_response(contract: Contract) -> None:
    described = {
        code
        for _, _, operation in contract.operations()
        for status, reply in operation["responses"].items()
        if not status.startswith("2")
        for code in contract.resolve(reply)["content"]["application/json"]["examples"]
    }
    assert described == set(contract.document["components"]["schemas"]["ErrorCode"]["enum"])


def test_every_status_of_an_error_is_that_of_the_table(contract: Contract) -> None:
    for _, _, operation in contract.operations():
        for status, reply in operation["responses"].items():
            refused = "400" <= status <= "599"
            for code in reply["content"]["application/json"]["examples"] if refused else ():
                assert str(ERRORS[code].status) == status
                assert f"`{code}`: {ERRORS[code].meaning}" in reply["description"]


def test_the_tables_are_those_of_the_rules(document: Json) -> None:
    create = document["paths"]["/v1/payments"]["post"]["description"]
    for row in scenario_rows():
        assert f"| `{row.name}` | `{row.final_status}` | {row.after} | {row.description} |" in create
    read = document["paths"]["/v1/payments/{payment_id}"]["get"]["description"]
    for step, after in timing_rows():
        assert f"| {step} | {after} |" in read


def test_every_operation_needs_authorization(contract: Contract) -> None:
    assert contract.document["security"] == [{"apiKey": []}]
    for _, _, operation in contract.operations():
        assert "security" not in operation
        assert "401" in operation["responses"]


def test_every_example_fits_its_schema(contract: Contract) -> None:
    from jsonschema import Draft202012Validator

    def check(content: Json) -> None:
        validator = Draft202012Validator({**content["schema"], "components": contract.components})
        for example in content.get("examples", {}).values():
            validator.validate(contract.resolve(example)["value"])

    for _, _, operation in contract.operations():
        for reply in operation["responses"].values():
            check(contract.resolve(reply)["content"]["application/json"])
        if "requestBody" in operation:
            check(operation["requestBody"]["content"]["application/json"])


def checkout_example(server: RunningServer) -> Any:
    document = yaml.safe_load(httpx.get(f"{server.url}/_mock/openapi.yaml").text)
    return document["components"]["examples"]["checkout"]["value"]


class TestExamples:
    """The examples are what a server replies that has the examples' seed and stands at the examples' noon."""

    def example(self, contract: Contract, name: str) -> Any:
        return contract.document["components"]["examples"][name]["value"]

    def test_creations_and_lists(self, contract: Contract) -> None:
        with (
            running_server(Settings(port=0, seed=examples.SEED)) as server,
            self.client(server, contract) as api,
        ):
            body = self.example(contract, "create_payment")
            created = api.create(body, key=examples.IDEMPOTENCY_KEY)
            assert created.json() == self.example(contract, "payment_created")
            assert api.create(self.example(contract, "create_payment_minimal")).status_code == 201
            endpoint = api.create(
                self.example(contract, "create_webhook_endpoint"),
                key=examples.ENDPOINT_IDEMPOTENCY_KEY,
                path="/v1/webhooks",
            )
            assert endpoint.json() == self.example(contract, "webhook_endpoint_created")
            assert api.get("/v1/webhooks").json() == self.example(contract, "webhook_endpoints")
            assert api.get("/v1/chains").json() == self.example(contract, "chains")
            assert api.get("/v1/chains/bsc/assets").json() == self.example(contract, "assets")
            assert api.get(f"/checkout/{created.json()['id']}.json").json() == checkout_example(server)
            server.clock.advance(13)
            attempts = api.get(f"/v1/payments/{created.json()['id']}/attempts")
            assert attempts.json() == self.example(contract, "attempts")

    @pytest.mark.parametrize("name", examples.payment_examples())
    def test_payments(self, contract: Contract, name: str) -> None:
        scenario, at = examples.payment_examples()[name]
        with (
            running_server(Settings(port=0, seed=examples.SEED)) as server,
            self.client(server, contract) as api,
        ):
            body = self.example(contract, "create_payment")
            payment = api.create(body, key=examples.IDEMPOTENCY_KEY, scenario=scenario).json()
            server.clock.advance(at / 1000)
            assert api.payment(payment["id"]) == self.example(contract, name)

    def test_refusals(self, api: Api, contract: Contract) -> None:
        api.create(key="order-1001-payment")
        json_body = {"Content-Type": "application/json", "Idempotency-Key": "order-1001-payment"}

        def post(content: bytes = b"{}", **headers: str) -> httpx.Response:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return api.post("/v1/payments", content=content, headers={**json_body, **named})

        refused = examples.ExampleContext(load_catalog(None), 100, Keyring(())).invalid_payment
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
            post(json.dumps(refused).encode(), Idempotency_Key="another-key"),
            api.get("/v1/payments/pay_unknown"),
            api.get("/v1/chains/narnia/assets"),
            api.get("/nowhere"),
        ]
        for refusal in refusals:
            code = refusal.json()["error"]["code"]
            assert refusal.json() == self.example(contract, code)
        assert len({refusal.json()["error"]["code"] for refusal in refusals}) == len(refusals)

    @staticmethod
    def client(server: RunningServer, contract: Contract) -> Api:
        return Api(server.url, contract, "mk_test_demo")


def test_yaml_and_parsed_document_are_the_same(text: str, document: Json) -> None:
    assert yaml.safe_load(text) == document


def test_the_examples_are_those_of_the_server_with_its_own_catalog_fee_and_keys(tmp_path: Path) -> None:
    catalog = tmp_path / "chains.toml"
    catalog.write_text(
        '[[chains]]\nid = "mine"\nname = "Mine"\nchain_id = 7\ntestnet = true\n'
        '[[chains.assets]]\nsymbol = "ONE"\nname = "One"\ndecimals = 18\n'
        '[[chains.assets]]\nsymbol = "TWO"\nname = "Two"\ndecimals = 2\n'
        'contract_address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"\n'
    )
    with running_server(Settings(port=0, catalog=catalog, fee_bps=0, api_keys=("own-key",))) as server:
        contract = Contract.of(server.url)
        shown = contract.document["components"]["examples"]
        with Api(server.url, contract, "own-key") as api:
            created = api.create(shown["create_payment"]["value"])
            assert created.status_code == 201
            amounts = created.json()["attempts"][0]["instructions"]["amounts"]
            assert shown["payment_created"]["value"]["attempts"][0]["instructions"]["amounts"] == amounts
            assert api.get("/v1/chains").json() == shown["chains"]["value"]
            refused = api.get("/v1/chains", headers={"Authorization": "Bearer unknown"})
            assert refused.json() == shown["unauthenticated"]["value"]
