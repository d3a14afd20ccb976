"""Requests for every operation of both OpenAPI documents, made of the tables that the documents are made of:
a new operation is among them at once.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import fields

from paymock.schemas.public import Query
from paymock.web.operations.operations import Operation
from scripts.openapi import examples
from scripts.openapi.documents import CONTROL_API, PUBLIC_API
from tests.support.contract import Json

OPERATIONS = (*PUBLIC_API.operations, *CONTROL_API.operations)
OF_PAYMENTS = tuple(operation for operation in OPERATIONS if "payment_id" in operation.parameters)
OF_RULES = tuple(operation for operation in OPERATIONS if "fault_id" in operation.parameters)
NO_RULE = f"flt_{'0' * 32}"
BRIEFLY = {"timeout": "0"}
"""Parameters without which a request may take long."""


def body_of(operation: Operation) -> Json | None:
    """A body that the operation accepts, or None where it takes none."""
    if operation.request is None:
        return None
    name, *_ = examples.requests_of(operation.operation_id)
    return dict(examples.all_examples()[name].value)


def path_of(operation: Operation, payment_id: str, query: Mapping[str, str] = BRIEFLY) -> str:
    """The operation's path with this payment, and those parameters of the query that it knows."""
    path = operation.path.replace("{payment_id}", payment_id).replace("{chain}", "bsc")
    path = path.replace("{fault_id}", NO_RULE)
    known = {
        field.name: query.get(field.name, "order-1001")
        for field in fields(operation.query or Query)
        if field.name in query or field.required
    }
    return f"{path}?{urlencode(known)}" if known else path


def arguments_of(operation: Operation, idempotency_key: str) -> dict[str, Any]:
    headers = {"Idempotency-Key": idempotency_key} if operation.idempotency else {}
    return {"json": body_of(operation), "headers": headers}
