"""Generates an OpenAPI document: operations and schemas from the tables and types of the API, errors from the
error table, scenarios and times from the rules, examples from the code that serves requests.

Specification: "Versioning", 2: the document is the authority for endpoints, schemas, headers and
enumerated values.
"""

from collections.abc import Iterable, Mapping, Sequence
from inspect import getdoc
from typing import Any, NamedTuple

import msgspec

from paymock import __version__
from paymock.rules.errors import ERRORS
from paymock.rules.scenarios import DepositStatus, PaymentStatus
from paymock.schemas import public as schemas
from paymock.web.api.operations import Operation
from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.openapi import examples
from paymock.web.openapi.components import (
    ANY_ERRORS,
    HEADERS,
    KEYED_ERRORS,
    PARAMETERS,
    PAYMENT_LINKS,
    SECURITY_SCHEMES,
    Json,
)


class Api(NamedTuple):
    """The operations of a document, and the texts that introduce them."""

    title: str
    summary: str
    introduction: str
    tags: Mapping[str, str]
    operations: Sequence[Operation]


class OpenApiPage:
    """The handler that answers with the document, which is generated at the first request."""

    def __init__(self, api: Api, context: examples.ExampleContext) -> None:
        self._api = api
        self._context = context
        self._yaml = b""

    async def __call__(self, request: Request) -> Response:
        """Answer with the document as YAML."""
        if not self._yaml:
            from paymock.web.openapi.yaml import to_yaml  # not needed to start the server

            self._yaml = to_yaml(document(self._api, self._context)).encode()
        return Response(200, self._yaml, "application/yaml; charset=utf-8", (("Cache-Control", "no-cache"),))


def document(api: Api, context: examples.ExampleContext) -> Json:
    """Return the OpenAPI 3.1 document of an API, with the examples of one server."""
    operations = api.operations
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, context)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": api.title,
            "version": __version__,
            "summary": api.summary,
            "description": api.introduction,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This server"}],
        "tags": [{"name": name, "description": text} for name, text in api.tags.items()],
        "security": [{"apiKey": []}],
        "paths": paths,
        "components": {
            "securitySchemes": SECURITY_SCHEMES,
            "parameters": _used("parameters", PARAMETERS, paths),
            "headers": _used("headers", HEADERS, (paths, _UNDOCUMENTED)),
            "examples": _used("examples", _examples(context), (paths, _UNDOCUMENTED)),
            "responses": _UNDOCUMENTED,
            "schemas": _schemas(operations),
        },
    }


def _examples(context: examples.ExampleContext) -> Json:
    return {name: example._asdict() for name, example in examples.all_examples(context).items()}


def _used(section: str, components: Json, document: object) -> Json:
    """Return the components of a section that a part of the document refers to."""
    text = str(document)
    return {name: value for name, value in components.items() if f"'#/components/{section}/{name}'" in text}


def _operation(operation: Operation, context: examples.ExampleContext) -> Json:
    entry: Json = {
        "operationId": operation.operation_id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if not operation.needs_key:
        entry["security"] = []
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": description,
            "schema": {"type": "string", "minLength": 1},
            **({"example": context.chain} if name == "chain" else {}),
        }
        for name, description in operation.parameters.items()
    ]
    parameters += [
        {
            "name": query.name,
            "in": "query",
            "required": False,
            "description": query.description,
            "schema": dict(query.schema),
        }
        for query in operation.query
    ]
    if operation.idempotency:
        required = operation.idempotency == "required"
        parameters.append(
            _reference("parameters", "IdempotencyKey" if required else "OptionalIdempotencyKey")
        )
    if operation.takes_scenario:
        parameters.append(_reference("parameters", "Scenario"))
    if parameters:
        entry["parameters"] = parameters
    if operation.request:
        entry["requestBody"] = {
            "required": True,
            "content": {
                "application/json": _content(operation.request, examples.requests_of(operation.operation_id))
            },
        }
    entry["responses"] = {str(operation.status): _success(operation), **_refusals(operation)}
    return entry


def _success(operation: Operation) -> Json:
    if operation.reply is None:
        return {"description": "Done.", "headers": _header_references(["X-Request-Id"])}
    reply: Json = {
        "description": _plain(getdoc(operation.reply) or ""),
        "headers": _header_references(["X-Request-Id", *operation.reply_headers]),
        "content": {
            "application/json": _content(operation.reply, examples.replies_of(operation.operation_id))
        },
    }
    if operation.reply is schemas.Payment and operation.request is schemas.CreatePayment:
        reply["links"] = PAYMENT_LINKS
    return reply


def _refusals(operation: Operation) -> Json:
    codes = {*ANY_ERRORS, *(KEYED_ERRORS if operation.needs_key else ()), *operation.errors}
    by_status: dict[int, list[str]] = {}
    for code, kind in ERRORS.items():
        if code in codes:
            by_status.setdefault(kind.status, []).append(code)
    return {str(status): _refusal(status, grouped) for status, grouped in sorted(by_status.items())}


def _refusal(status: int, codes: Sequence[str]) -> Json:
    headers = ["X-Request-Id"]
    headers += ["WWW-Authenticate"] if status == 401 else []
    headers += ["Retry-After"] if status == 503 else []
    headers += ["Allow"] if status == 405 else []
    lines = [f"`{code}`: {ERRORS[code].meaning} {ERRORS[code].remedy}" for code in codes]
    return {
        "description": "\n\n".join(lines),
        "headers": _header_references(headers),
        "content": {"application/json": _content(schemas.ErrorEnvelope, codes)},
    }


def _content(body: type, names: Iterable[str]) -> Json:
    content: Json = {"schema": _reference("schemas", body.__name__)}
    references = {name: _reference("examples", name) for name in names}
    return {**content, "examples": references} if references else content


def _header_references(names: Iterable[str]) -> Json:
    return {name: _reference("headers", name) for name in names}


def _reference(section: str, name: str) -> Json:
    return {"$ref": f"#/components/{section}/{name}"}


def _schemas(operations: Sequence[Operation]) -> Json:
    types = {operation.reply for operation in operations if operation.reply} | {schemas.ErrorEnvelope}
    types |= {operation.request for operation in operations if operation.request}
    ordered = sorted(types, key=lambda schema: schema.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    for statuses in (PaymentStatus, DepositStatus):
        # In the order of a payment's lifecycle; msgspec sorts them by name.
        components[statuses.__name__]["enum"] = list(statuses)
    return {name: _tidy(schema) for name, schema in sorted(components.items())}


def _tidy(schema: Any) -> Any:
    """Return a schema without titles, which repeat names, without defaults of null, which `required` and the
    descriptions imply, and with a type for enumerated values.
    """
    if isinstance(schema, dict):
        tidy = {
            key: _tidy(value)
            for key, value in schema.items()
            if not ((key == "title" and isinstance(value, str)) or (key == "default" and value is None))
        }
        return {"type": "string", **tidy} if isinstance(tidy.get("enum"), list) else tidy
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    return _plain(schema) if isinstance(schema, str) else schema


def _plain(text: str) -> str:
    """Return a docstring without line breaks and indentation."""
    return " ".join(text.split())


_UNDOCUMENTED: Json = {
    "NotFound": _refusal(404, ["not_found"]),
    "MethodNotAllowed": _refusal(405, ["method_not_allowed"]),
}
"""The replies to paths and methods that are not in the document."""
