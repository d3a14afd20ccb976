"""Holds replies against the OpenAPI document: the test client does so for every reply of every test."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import httpx
import yaml
from jsonschema_rs import Draft202012Validator

from scripts.openapi.replies import REQUIRED
from tests.support.raw import RawReply

Json = dict[str, Any]
FAULTS = ("injected_fault", "invalid_fault")
CONDITIONAL = {"funding", "deposits", "overpaid_amount", "details"}
ENVELOPE = {"$ref": "#/components/schemas/ErrorEnvelope"}


class Contract:
    """The promises of an OpenAPI document."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self._validators: dict[int, Draft202012Validator] = {}
        self._paths = [
            (re.compile(re.sub(r"\{[^}]+\}", "[^/]+", template)), item)
            for template, item in document["paths"].items()
        ]

    @classmethod
    def of(cls, url: str, *paths: str) -> "Contract":
        """What the documents at `paths` promise together; by default, that of the service."""
        texts = [httpx.get(url + path, timeout=60).text for path in paths or ["/openapi.yaml"]]
        documents = [yaml.load(text, yaml.CSafeLoader) for text in texts]
        whole = documents[0]
        for document in documents[1:]:
            whole["paths"] |= document["paths"]
            for section, parts in document["components"].items():
                whole["components"].setdefault(section, {}).update(parts)
        return cls(whole)

    @cached_property
    def components(self) -> Json:
        schemas = {name: _closed(one) for name, one in self.document["components"]["schemas"].items()}
        for name in REQUIRED.keys() & schemas.keys():  # the mock sends all that the document lets be absent
            schemas[name]["required"] = [*(schemas[name]["properties"].keys() - CONDITIONAL)]
        return {"schemas": schemas}

    def operation(self, method: str, path: str) -> Json | None:
        """What the document says of a request, or None where it says nothing."""
        for pattern, item in self._paths:
            if pattern.fullmatch(path):
                found: Json | None = item.get("get" if method == "HEAD" else method.lower())
                return found
        return None

    def check(self, response: httpx.Response) -> None:
        method, path = response.request.method, response.url.raw_path.decode().split("?")[0]
        assert "x-request-id" in response.headers
        operation = self.operation(method, path)
        if response.status_code >= 400 and method != "HEAD" and response.json()["error"]["code"] in FAULTS:
            operation = None  # whoever asks for a fault gets any status
        if operation is None:
            if response.status_code >= 400 and method != "HEAD":
                self._check_schema(response.json(), ENVELOPE, path)
                assert not self._undeclared(
                    response, self.document["components"]["responses"]["OtherError"]["headers"]
                )
            return
        promised = operation["responses"].get(str(response.status_code))
        assert promised is not None, f"{method} {path}: status {response.status_code} is not documented"
        for name, header in promised["headers"].items():
            resolved = self.resolve(header)
            value = response.headers.get(name)
            assert value is not None or not resolved.get("required"), f"{method} {path}: no {name}"
            if value is not None:
                self._check_schema(value, resolved["schema"], name)
        assert not self._undeclared(response, promised["headers"]), f"{method} {path}"
        if "content" not in promised:
            assert response.content == b""
            return
        media_type = response.headers["content-type"].removesuffix("; charset=utf-8")
        content = promised["content"][media_type]
        if method == "HEAD":
            assert response.content == b""
            return
        body: Any = response.json() if media_type == "application/json" else response.text
        self._check_schema(body, content["schema"], f"{method} {path}")
        if response.status_code >= 400:
            assert body["error"]["code"] in content["examples"], f"{method} {path}: {body} is not documented"

    def _undeclared(self, response: httpx.Response, declared: Json) -> set[str]:
        return {
            name
            for name in {*self.document["components"]["headers"]} - {*declared}
            if name in response.headers
        }

    def check_raw(self, method: str, path: str, reply: RawReply) -> None:
        request = httpx.Request(method, f"http://127.0.0.1{path}")
        self.check(httpx.Response(reply.status, headers=reply.headers, content=reply.body, request=request))

    def resolve(self, node: Json) -> Json:
        """What a `$ref` leads to."""
        if "$ref" not in node:
            return node
        found: Any = self.document
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        resolved: Json = found
        return resolved

    def operations(self) -> Iterator[tuple[str, str, Json]]:
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                yield method.upper(), path, operation

    def _check_schema(self, value: Any, schema: Json, where: str) -> None:
        if id(schema) not in self._validators:  # a part of the document, which stays
            whole = {**schema, "components": self.components}
            self._validators[id(schema)] = Draft202012Validator(whole, validate_formats=False)
        errors = list(self._validators[id(schema)].iter_errors(value))
        assert not errors, [f"{where} {error.instance_path}: {error.message}" for error in errors]


def _closed(schema: Any) -> Any:
    """The schema with every object closed: to us, a field that is not documented is a defect."""
    if isinstance(schema, dict):
        closed = {name: _closed(value) for name, value in schema.items()}
        return closed | ({"additionalProperties": False} if "properties" in schema else {})
    return [_closed(item) for item in schema] if isinstance(schema, list) else schema
