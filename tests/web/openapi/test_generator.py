"""The generator of OpenAPI documents."""

from typing import Any

import pytest

from paymock.app.catalog_file import load_catalog
from paymock.rules.scenarios import PaymentStatus
from paymock.web.http.auth import Keyring
from paymock.web.http.requests import Body, Request
from paymock.web.openapi.documents import CONTROL_API, PUBLIC_API
from paymock.web.openapi.examples import ExampleContext
from paymock.web.openapi.generator import Api, OpenApiPage, document
from tests.support.virtual_time import run

CONTEXT = ExampleContext(load_catalog(None), 100, Keyring(()))
DOCUMENTS = {api.title: document(api, CONTEXT) for api in (PUBLIC_API, CONTROL_API)}
OPERATIONS = [(api.title, operation) for api in (PUBLIC_API, CONTROL_API) for operation in api.operations]


def references(node: Any) -> set[str]:
    """Return everything that a part of a document refers to."""
    if isinstance(node, dict):
        own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return own.union(*map(references, node.values()))
    return set().union(*map(references, node)) if isinstance(node, list) else set()


def test_every_operation_has_its_success_and_its_errors() -> None:
    for title, operation in OPERATIONS:
        responses = DOCUMENTS[title]["paths"][operation.path][operation.method.lower()]["responses"]
        statuses = [int(status) for status in responses if status != "default"]
        assert [status for status in statuses if status < 300] == [operation.status], operation.operation_id
        described = " ".join(reply.get("description", "") for reply in responses.values())
        for code in operation.errors:
            assert f"`{code}`: " in described


def test_only_a_503_says_when_to_retry_and_only_a_401_how_to_authenticate() -> None:
    for title, operation in OPERATIONS:
        responses = DOCUMENTS[title]["paths"][operation.path][operation.method.lower()]["responses"]
        for status, reply in responses.items():
            if status == "default":
                continue
            assert ("Retry-After" in reply["headers"]) == (status == "503")
            assert ("WWW-Authenticate" in reply["headers"]) == (status == "401")


@pytest.mark.parametrize("title", DOCUMENTS)
def test_every_reference_leads_to_a_component(title: str) -> None:
    components = DOCUMENTS[title]["components"]
    for reference in references(DOCUMENTS[title]):
        _, _, section, name = reference.split("/")
        assert name in components[section], reference


@pytest.mark.parametrize("title", DOCUMENTS)
def test_components_that_nothing_refers_to_are_left_out(title: str) -> None:
    used = references(DOCUMENTS[title])
    for section in ("parameters", "headers", "examples"):
        for name in DOCUMENTS[title]["components"][section]:
            assert f"#/components/{section}/{name}" in used


def test_statuses_are_in_the_order_of_a_payment() -> None:
    schema = DOCUMENTS[PUBLIC_API.title]["components"]["schemas"]["PaymentStatus"]
    assert (schema["type"], schema["enum"]) == ("string", list(PaymentStatus))


def test_a_document_has_the_operations_that_it_is_given_and_their_schemas() -> None:
    operations = [operation for operation in PUBLIC_API.operations if operation.tag == "Payments"]
    small = document(Api("small", "", "", {"Payments": "Pay."}, operations), CONTEXT)
    assert [*small["paths"]] == [*dict.fromkeys(operation.path for operation in operations)]
    assert {"CreatePayment", "Payment", "ErrorEnvelope"} <= small["components"]["schemas"].keys()
    assert "WebhookEndpoint" not in small["components"]["schemas"]


def test_the_page_answers_the_same_document_every_time() -> None:
    page, request = OpenApiPage(PUBLIC_API, CONTEXT), Request("GET", "/openapi.yaml", {}, Body(b""))
    first, second = run(page(request)), run(page(request))
    assert first.body == second.body
    assert first.body.startswith(b"openapi: 3.1.0\n")
    assert first.content_type == "application/yaml; charset=utf-8"
