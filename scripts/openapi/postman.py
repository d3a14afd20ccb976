"""Generates a Postman collection of the operations of an OpenAPI document.

https://schema.getpostman.com/json/collection/v2.1.0/collection.json
"""

import json
import re

from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.documents import DEFAULT_SERVER
from scripts.openapi.documents import Json

DEVIATIONS = """\
// Prism's proxy adds this header to a reply that differs from the OpenAPI document.
for (const { location, message } of JSON.parse(pm.response.headers.get("sl-violations") ?? "[]"))
  pm.test(location.join("."), () => pm.expect.fail(message));
"""


def collection(document: Json) -> str:
    """Return the collection, as JSON: a request for each operation, with a test of its status.

    Path parameters are variables: the example of the document, or the `id` of the latest creation.
    """
    variables = {"baseUrl": DEFAULT_SERVER, "apiKey": OPEN_KEY_EXAMPLE}
    items = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parameters = [_resolved(document, parameter) for parameter in operation.get("parameters", ())]
            variables |= {one["name"]: one.get("example", "") for one in parameters if one["in"] == "path"}
            status = int(next(iter(operation["responses"])))
            test = [f'pm.test("{status}", () => pm.response.to.have.status({status}));']
            if links := operation["responses"][str(status)].get("links"):
                [name] = {name for link in links.values() for name in link["parameters"]}
                test.append(f'pm.collectionVariables.set("{name}", pm.response.json().id);')
            headers = [one for one in parameters if one["in"] == "header" and one["required"]]
            request: Json = {
                "method": method.upper(),
                "url": "{{baseUrl}}" + re.sub(r"\{(\w+)\}", r"{{\1}}", path),
                "header": [{"key": one["name"], "value": one["example"]} for one in headers],
            }
            if body := operation.get("requestBody"):
                # The last example has only what is required.
                *_, example = body["content"]["application/json"]["examples"].values()
                raw = json.dumps(_resolved(document, example)["value"], indent=2)
                options = {"raw": {"language": "json"}}
                request["body"] = {"mode": "raw", "raw": raw, "options": options}
            items.append({"name": operation["summary"], "request": request, "event": [_event(*test)]})
    generated = {
        "info": {
            "name": document["info"]["title"],
            "description": document["info"]["description"],
            "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
        },
        "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{apiKey}}", "type": "string"}]},
        "variable": [{"key": name, "value": value} for name, value in variables.items()],
        "event": [_event(*DEVIATIONS.splitlines())],
        "item": items,
    }
    return json.dumps(generated, indent=2) + "\n"


def _event(*test: str) -> Json:
    return {"listen": "test", "script": {"type": "text/javascript", "exec": test}}


def _resolved(document: Json, value: Json) -> Json:
    if "$ref" not in value:
        return value
    _, _, section, name = value["$ref"].split("/")
    component: Json = document["components"][section][name]
    return component
