"""Generates an OpenAPI document: operations and schemas from the tables and types of the API, errors from the
error table, scenarios and times from the rules, examples from the code that serves requests.

Specification: "Versioning", 2: the document is the authority for endpoints, schemas, headers and
enumerated values.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from inspect import getdoc
from typing import Any

import msgspec
import yaml

from paymock import __version__
from paymock.rules.errors import ERRORS
from paymock.rules.scenarios import SCENARIOS, DepositStatus, PaymentStatus
from paymock.schemas import public as schemas
from paymock.schemas.fields import ScenarioName
from paymock.web.documents import DEFAULT_SERVER
from paymock.web.operations.operations import Operation
from scripts import tables
from scripts.openapi import examples
from scripts.openapi.documents import (
    ANY_ERRORS,
    BODY_ERRORS,
    HEADERS,
    KEY_ERRORS,
    KEYED_ERRORS,
    OTHER_ERRORS,
    PARAMETERS,
    PAYMENT_LINKS,
    PUBLIC_API,
    SECURITY_SCHEMES,
    Api,
    Json,
)
from scripts.openapi.replies import open_replies

_OF_EVERY_REPLY = ("X-Request-Id", "X-Mock-Warning")


def document(api: Api) -> Json:
    """Return the OpenAPI 3.1 document of an API, with the examples of one server."""
    operations = api.operations
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    named_examples = {name: example._asdict() for name, example in examples.all_examples().items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": api.title,
            "version": __version__,
            "x-api-version": "v1",
            "summary": api.summary,
            "description": api.introduction,
            "contact": {"name": "The developers of paymock"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": DEFAULT_SERVER, "description": "This server"}],
        "tags": [{"name": name, "description": text} for name, text in api.tags.items()],
        "security": [{"apiKey": []}],
        "paths": paths,
        "components": {
            "securitySchemes": SECURITY_SCHEMES,
            "parameters": _used("parameters", PARAMETERS, paths),
            "headers": _used("headers", HEADERS, (paths, _OTHER_RESPONSES)),
            "examples": _used("examples", named_examples, (paths, _OTHER_RESPONSES)),
            "responses": _OTHER_RESPONSES,
            "schemas": _schemas(operations),
        },
    }


def to_yaml(value: Json) -> str:
    """Return `value` as YAML: in its own order, long texts as blocks, no anchors, which are hard to read."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: Dumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, represent)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)


def _used(section: str, components: Json, document: object) -> Json:
    text = str(document)
    return {name: value for name, value in components.items() if f"'#/components/{section}/{name}'" in text}


def _operation(operation: Operation) -> Json:
    entry: Json = {
        "operationId": operation.operation_id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description.replace("{scenarios}", tables.scenario_table())
        .replace("{timing}", tables.timing_table())
        .replace("{faults}", tables.fault_table()),
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
            **({"example": examples.CHAIN} if name == "chain" else {}),
        }
        for name, description in operation.parameters.items()
    ]
    parameters += _query_parameters(operation.query) if operation.query else []
    if operation.idempotency:
        name = "IdempotencyKey" if operation.idempotency == "required" else "OptionalIdempotencyKey"
        parameters.append(_reference("parameters", name))
    if operation.takes_scenario:
        parameters.append(_reference("parameters", "MockScenario"))
    if parameters:
        entry["parameters"] = parameters
    if operation.request:
        entry["requestBody"] = {
            "required": True,
            "content": _content(
                _body_name(operation.request, operation),
                examples.requests_of(operation.operation_id),
            ),
        }
    entry["responses"] = {
        str(operation.status): _success(operation),
        **_refusals(operation),
        "default": _reference("responses", _OTHER_ERROR),
    }
    return entry


def _query_parameters(query: type[schemas.Query]) -> Iterator[Json]:
    _, components = msgspec.json.schema_components([query], ref_template="#/components/schemas/{name}")
    component = components[query.__name__]
    for name, schema in component["properties"].items():
        match schema:
            case {"anyOf": [inner, {"type": "null"}], "description": description}:
                inner = _tidy(inner, {})
            case _:
                description, inner = schema["description"], schema
        yield {
            "name": name,
            "in": "query",
            "required": name in component["required"],
            "description": description,
            "schema": {key: value for key, value in inner.items() if key != "description"},
        }


def _success(operation: Operation) -> Json:
    if operation.reply is None:
        return {"description": "Done.", "headers": _references("headers", [*_OF_EVERY_REPLY])}
    replies = examples.replies_of(operation.operation_id)
    if operation.reply is str:
        return {
            "description": "The text.",
            "headers": _references("headers", [*_OF_EVERY_REPLY]),
            "content": {"text/plain": {"schema": {"type": "string"}, **_examples_of(replies)}},
        }
    usual = operation.reply[0] if isinstance(operation.reply, tuple) else operation.reply
    reply: Json = {
        "description": _plain(getdoc(usual) or ""),
        "headers": _references("headers", [*_OF_EVERY_REPLY, *operation.reply_headers]),
        "content": _content(_body_name(operation.reply, operation, "Reply"), replies),
    }
    if operation.operation_id == schemas.CREATE_PAYMENT:
        reply["links"] = PAYMENT_LINKS
    return reply


def _codes(operation: Operation) -> set[str]:
    """Return the error codes of an operation: those of its row, and those that follow from its form."""
    return {
        *ANY_ERRORS,
        *operation.errors,
        *(KEYED_ERRORS if operation.needs_key else ()),
        *(BODY_ERRORS if operation.request else ()),
        *(["invalid_fault"] if operation in PUBLIC_API.operations else ()),
        *(KEY_ERRORS if operation.idempotency else ()),
        *(["invalid_query"] if operation.query else ()),
        *(["capacity_exceeded"] if operation.waits else ()),
        *(["payment_not_found"] if "payment_id" in operation.parameters else ()),
    }


def _refusals(operation: Operation) -> Json:
    codes = _codes(operation)
    by_status: dict[int, list[str]] = {}
    for code, kind in ERRORS.items():
        if code in codes:
            by_status.setdefault(kind.status, []).append(code)
    headers = {401: ["WWW-Authenticate"], 503: ["Retry-After"]}
    return {
        str(status): _refusal(grouped, headers=headers.get(status, ()))
        for status, grouped in sorted(by_status.items())
    }


def _refusal(codes: Sequence[str], *introduction: str, headers: Iterable[str] = ()) -> Json:
    meanings = [f"`{code}`: {ERRORS[code].meaning} {ERRORS[code].remedy}" for code in codes]
    return {
        "description": "\n\n".join([*introduction, *meanings]),
        "headers": _references("headers", [*_OF_EVERY_REPLY, *headers]),
        "content": _content(schemas.ErrorEnvelope.__name__, codes),
    }


def _body_name(types: type | tuple[type, ...], operation: Operation, suffix: str = "") -> str:
    """Return the name of the schema of a body. A choice gets that of the operation, with a suffix: code
    generators would make up a name.
    """
    if isinstance(types, type):
        return types.__name__
    return operation.operation_id[0].upper() + operation.operation_id[1:] + suffix


def _content(schema: str, example_names: Sequence[str]) -> Json:
    return {"application/json": {"schema": _reference("schemas", schema), **_examples_of(example_names)}}


def _examples_of(names: Sequence[str]) -> Json:
    return {"examples": _references("examples", names)} if names else {}


def _references(section: str, names: Iterable[str]) -> Json:
    return {name: _reference(section, name) for name in names}


def _reference(section: str, name: str) -> Json:
    return {"$ref": f"#/components/{section}/{name}"}


def _schemas(operations: Sequence[Operation]) -> Json:
    types: set[Any] = {schemas.ErrorEnvelope}
    types |= {ScenarioName for operation in operations if operation.takes_scenario}
    bodies: Json = {}
    for operation in operations:
        for variants, noun in ((operation.request, ""), (operation.reply, "Reply")):
            if isinstance(variants, tuple):
                types.update(variants)
                bodies[_body_name(variants, operation, noun)] = {
                    "description": f"The {noun.lower() or 'body'} of `{operation.method} {operation.path}`.",
                    "oneOf": [_reference("schemas", variant.__name__) for variant in variants],
                }
            elif variants not in (None, str):
                types.add(variants)
    inline, components = msgspec.json.schema_components(
        sorted(types, key=str), ref_template="#/components/schemas/{name}"
    )
    for statuses in (PaymentStatus, DepositStatus):
        # In the order of a payment's lifecycle; msgspec sorts them by name.
        components[statuses.__name__]["enum"] = list(statuses)
    named: Json = {}
    _tidy([*inline], named)
    tidy = {name: _tidy(_without_title(schema), named) for name, schema in components.items()}
    used = set(OTHER_ERRORS).union(*map(_codes, operations))
    named["ErrorCode"]["examples"] = [code for code in ERRORS if code in used]
    named["Scenario"]["enum"] = list(SCENARIOS)
    components = dict(sorted((tidy | named | bodies).items()))
    for operation in operations:
        if isinstance(operation.request, type) and "required" not in components[operation.request.__name__]:
            components[operation.request.__name__]["minProperties"] = 1  # of which words say more
    if operations is PUBLIC_API.operations:
        open_replies(components, operations)
    _distinguish_constants(components)
    return components


def _distinguish_constants(components: Json) -> None:
    """Name the values of enumerations that share one with another, as in Go each value is a constant of the
    package, and those of which one has no letter to make a name of. Those of `PaymentStatus` keep the names
    that generators give them.
    """
    taken = {_constant(value) for value in PaymentStatus}
    for name, schema in components.items():
        if "enum" not in schema or name == PaymentStatus.__name__:
            continue
        constants = [_constant(value) for value in schema["enum"]]
        if "*" in schema["enum"]:
            schema["x-enum-varnames"] = constants
        if not taken.isdisjoint(constants):
            prefix = _constant(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
            constants = [f"{prefix}_{constant}" for constant in constants]
            schema["x-enum-varnames"] = constants
        taken.update(constants)


def _constant(value: str) -> str:
    return "ALL" if value == "*" else re.sub(r"\W", "_", value).upper()


def _tidy(schema: Any, named: Json) -> Any:
    """Return a schema without defaults, which generated clients would send or require. Each schema in it that
    has a title becomes one of `named`, and a reference.

    Raises ValueError if two schemas that differ have the same title.
    """
    if isinstance(schema, list):
        return [_tidy(item, named) for item in schema]
    if not isinstance(schema, dict):
        return _plain(schema) if isinstance(schema, str) else schema
    if isinstance(name := schema.get("title"), str):
        component = _tidy(_without_title(schema), named)
        if named.setdefault(name, component) != component:
            raise ValueError(f"{name} is described in two ways")
        return _reference("schemas", name)
    tidy = {
        key: _tidy(value, named)
        for key, value in schema.items()
        if key != "default" and (key, value) != ("required", [])
    }
    match tidy:
        case {"anyOf": [{"type": str(kind), **inner}, {"type": "null"}], **outer}:
            return {**inner, **outer, "type": [kind, "null"]}
        case {"enum": [*_]}:
            return {"type": "string", **tidy}
    return tidy


def _without_title(schema: Json) -> Json:
    """Return the schema of a component, without the title that repeats its name."""
    return {key: value for key, value in schema.items() if key != "title"}


def _plain(text: str) -> str:
    """Return a docstring without line breaks and indentation."""
    return " ".join(text.split())


_OTHER_ERROR = "OtherError"
_OTHER_RESPONSES: Json = {_OTHER_ERROR: _refusal(OTHER_ERRORS, "Any other error.", headers=["Allow"])}
"""The replies that belong to no operation."""

_OTHER_RESPONSES[_OTHER_ERROR]["headers"]["Retry-After"] = {
    **HEADERS["Retry-After"],
    "description": "Seconds to wait before a retry; with 429 and 503.",
    "required": False,
}
