"""Opens the replies of the public document: they say what the specification says, and nothing more, so that a
generated client reads what the real service sends, now and later. Specification: "Versioning", 3.
"""

import re
from collections.abc import Sequence

from paymock.rules.amounts import RAW_PATTERN
from paymock.web.operations.operations import Operation
from scripts.openapi.documents import Json

SUM_PATTERN = "^(0|[1-9][0-9]*)$"
OPEN_TEXTS = ("AttemptStatus", "ChainType", "ErrorCode", "EventName", "WebhookEndpointStatus")
"""Sets of strings that the specification leaves open. Without a name: of one, pydantic makes an object."""

REQUIRED = {
    "Asset": ["id", "decimals"],
    "Chain": ["id"],
    "CreatedWebhookEndpoint": ["id", "url"],
    "Deposit": ["status", "confirmations", "confirmations_required"],
    "ErrorDetail": ["code", "message"],
    "Instructions": ["type", "chain", "asset", "amounts"],
    "Payment": ["id", "status", "attempts"],
    "WebhookEndpoint": ["id", "url"],
}
"""The fields that the specification shows, and those without which a list says nothing."""

_CLOSED = {"minLength", "maxLength", "minItems", "maxItems", "maximum", "pattern"}


def open_replies(components: Json, operations: Sequence[Operation]) -> None:
    """Take from the schemas that only replies have what the specification does not say."""
    requests: set[str] = set()
    for operation in operations:
        if isinstance(operation.request, type):
            _reach(components, operation.request.__name__, requests)
    texts = {name: components[name] for name in OPEN_TEXTS}
    for name in components.keys() - requests - texts.keys():
        schema = components[name]
        for field, value in schema.get("properties", {}).items():
            schema["properties"][field] = _opened(value, texts)
        if name in REQUIRED:
            schema["required"] = REQUIRED[name]
    components["Instructions"]["additionalProperties"] = True
    components["Payment"]["properties"]["metadata"] = {
        "description": "As sent.",
        "type": "object",
        "additionalProperties": True,
        "examples": components["Metadata"]["examples"],
    }
    for name in OPEN_TEXTS:
        if name not in requests:
            del components[name]


def _opened(value: Json, texts: Json) -> Json:
    if (name := value.get("$ref", "").rpartition("/")[2]) in texts:
        text = texts[name]
        values = text.get("enum", text.get("examples"))
        return {"description": text["description"], "type": "string", "examples": values}
    opened = {key: inner for key, inner in value.items() if key not in _CLOSED}
    if value.get("pattern") in (RAW_PATTERN, SUM_PATTERN):
        opened["pattern"] = SUM_PATTERN
    if "items" in opened:
        opened["items"] = _opened(opened["items"], texts)
    return opened


def _reach(components: Json, name: str, found: set[str]) -> None:
    if name not in found:
        found.add(name)
        for inner in re.findall(r"#/components/schemas/(\w+)", str(components[name])):
            _reach(components, inner, found)
