"""Sample requests to the API, and a minimal client for setup."""

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]

API_KEY = "mk_test_benchmark"

ORDER = json.dumps(
    json.loads((ROOT / "examples" / "order.json").read_text(encoding="utf-8")), separators=(",", ":")
)
"""The body of a creation, without white space, as most clients send it."""


def request_headers(extra: Mapping[str, str] = {}, api_key: str = API_KEY) -> dict[str, str]:
    """Authorization and content type, updated with `extra`."""
    return {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json", **extra}


def call(
    url: str,
    api_key: str,
    method: str,
    path: str,
    body: object = None,
    idempotency_key: str = "unused-key",
) -> dict[str, object]:
    """The JSON of the reply, or an empty dictionary. Raises urllib.error.HTTPError for a refusal."""
    headers = request_headers({"Idempotency-Key": idempotency_key}, api_key)
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers, method=method)) as reply:
        text = reply.read()
    return json.loads(text) if text else {}
