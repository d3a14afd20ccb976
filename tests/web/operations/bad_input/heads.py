"""API keys, further headers, sizes, methods and paths."""

from tests.web.operations.bad_input.building import (
    AUTHORIZATION,
    CHUNKED,
    IDEMPOTENCY,
    JSON_TYPE,
    KEYED_JSON,
    KIB,
    ORDER_BYTES,
    PAYMENTS,
    WEBHOOKS,
    Case,
    cases,
    chunked,
    head,
    post,
    read,
    send,
)

REALM = 'Bearer realm="paymock"'
MAX_BODY = 64 * KIB


def _authorized(value: str) -> bytes:
    return read("/v1/chains", f"Authorization:{value}")


AUTH = [
    *cases(
        401, "unauthenticated",
        read("/v1/chains?access_token={api_key}", "X_Authorization: Bearer {api_key}", "X-Key: {api_key}"),
        post(b" " * 128 * KIB, JSON_TYPE, IDEMPOTENCY),
        send("POST", PAYMENTS, JSON_TYPE, CHUNKED) + chunked(*[b" " * 16 * KIB] * 8),
        *map(_authorized, ("", " Bearer", " Basic dXNlcjpwYXNz", " Bearer: {api_key}", " Bearer\t{api_key}")),
        read("/v1/chains", AUTHORIZATION, AUTHORIZATION),
        header=("www-authenticate", REALM),
    ),
    *cases(
        401, "unauthenticated",
        *map(_authorized, (" Bearer mk_live_4eC39HqL", f" Bearer mk_test_{'a' * 65}", " Bearer mk_test_a.b")),
        header=("www-authenticate", f'{REALM}, error="invalid_token"'),
    ),
    *cases(400, "bad_request", _authorized(" Bearer {api_key}\0")),
    *cases(200, "", *map(_authorized, ("  BEARER  {api_key} \t", f"Bearer mk_test_{'Z' * 64}"))),
]  # fmt: skip


def _orders(status: int, code: str, name: str, *lists: list[str]) -> list[Case]:
    """Orders whose headers of this name have these values."""
    others = [line for line in KEYED_JSON if not line.startswith(name)]
    return [
        Case(post(ORDER_BYTES, *others, *(f"{name}:{value}" for value in values)), status, code)
        for values in lists
    ]


HEADERS = [
    *_orders(400, "idempotency_key_missing", "Idempotency-Key", [], ["  \t "]),
    *_orders(400, "idempotency_key_invalid", "Idempotency-Key", [" abcdefg"], ["k" * 129], [" abcd efgh"],
             [" caf\u00e9-12345"], [" abcd\x1befgh"], [" abcdefgh", " abcdefgh"]),
    *_orders(400, "bad_request", "Idempotency-Key", [" abcd\0efgh"], [" abcd\nefgh"], [" abcd\refgh"]),
    *_orders(201, "", "Idempotency-Key", ["abcd,fgh"], ["  \t " + "k" * 128 + " \t "]),
    *_orders(400, "invalid_scenario", "X-Mock-Scenario", [""], [" HAPPY_PATH"], [" happy_path,late_payment"],
             [" happy_path\u00a0"], [" happy_path", " happy_path"]),
    *_orders(201, "", "X-Mock-Scenario", ["  \t manual_review \t "]),
    *_orders(415, "unsupported_media_type", "Content-Type", [], [" text/plain"], [" application/json x"],
             [" application/json; profile=x; charset=utf-16"], [" application/json", " application/json"]),
    *_orders(201, "", "Content-Type", ["application/json;"], [' APPLICATION/JSON ;CHARSET="UTF-8"'],
             [' application/json; profile="x; charset=utf-16"']),
    *_orders(415, "unsupported_content_encoding", "Content-Encoding", [" gzip"], [" gzip", " identity"]),
    *_orders(201, "", "Content-Encoding", [" Identity"]),
    *_orders(201, "", "Expect", [" 100-continue"]),
    *cases(400, "idempotency_key_missing",
           send("POST", PAYMENTS, AUTHORIZATION, JSON_TYPE, CHUNKED)
           + chunked(ORDER_BYTES).removesuffix(b"\r\n") + head("Idempotency-Key: abcdefgh")),
    *cases(200, "", read("/v1/chains", AUTHORIZATION, "Idempotency-Key: x", "X-Mock-Scenario: x",
                         "Content-Type: text/plain")),
    *cases(413, "payload_too_large",
           post(ORDER_BYTES.ljust(MAX_BODY + 1)),
           send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {2**63 - 1}"),
           send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {10**9:025}"),
           send("POST", PAYMENTS, *KEYED_JSON, CHUNKED) + b"40000000\r\n" + b" " * (MAX_BODY + 1)),
    *cases(201, "", post(ORDER_BYTES.ljust(MAX_BODY)),
           send("POST", PAYMENTS, *KEYED_JSON, CHUNKED) + chunked(ORDER_BYTES.ljust(MAX_BODY))),
]  # fmt: skip

_READABLE = (
    "/v1/chains", "/v1/chains/bsc/assets", "/v1/payments/{payment}", "/v1/payments/{payment}/attempts",
    "/openapi.yaml", "/swagger/", "/livez", "/readyz",
)  # fmt: skip
_ALLOWED = {
    **dict.fromkeys(_READABLE, "GET, HEAD, OPTIONS"),
    PAYMENTS: "POST, OPTIONS",
    WEBHOOKS: "GET, HEAD, POST, OPTIONS",
}

METHODS = [
    *(Case(send(method, path, *KEYED_JSON), 405, "method_not_allowed", header=("allow", allowed))
      for path, allowed in _ALLOWED.items()
      for method in ("GET", "POST", "DELETE", "FOO", "get", "!#$%&'*+.^_`|~", "A" * 64)
      if method not in allowed.split(", ")),
    *(Case(send("OPTIONS", path), 204, header=("allow", allowed)) for path, allowed in _ALLOWED.items()),
    *cases(
        400, "bad_request",
        *(send(method, "/v1/chains", AUTHORIZATION) for method in ("", "A" * 65, "G(T)", "CONNECT")),
        send("CONNECT", "merchant.example:443", *KEYED_JSON),
    ),
    *cases(
        200, "",
        read("/v1/payments/{payment}?_method=DELETE", AUTHORIZATION, "X-HTTP-Method-Override: DELETE"),
        send("GET", "/v1/chains", AUTHORIZATION, JSON_TYPE, body=b"{"),
    ),
]  # fmt: skip

_NOWHERE = (
    "/v1", "//v1/chains", "/V1/chains", "/v1/chains%2F", "/v1/x/../chains", "/v1\\chains", "/v1/payments/",
    "/swagger/..%2f..%2fetc%2fpasswd", "/swagger/%2e%2e/%2e%2e/etc/passwd", "/swagger/swagger-ui.css%00.js",
    "/v1/chains/", "/v1//chains", "/v1/%63hains", "/v1/chains;x=1", "/openapi.yaml/", "/.env",
    "/swagger/index.html", "/%zz", "//", "*", "/checkout/{payment}.json/",
    "/Checkout/{payment}.json", "/" + "a/" * 2000,
)  # fmt: skip
_NO_PAYMENT = ("{payment}a", "{payment}%0A", "{payment}%2Fattempts", "%c0%af", "pay_", "a" * 5000)

PATHS = [
    *cases(404, "not_found", *map(read, _NOWHERE), send("FOO", "/v1/nothing", AUTHORIZATION)),
    *cases(
        404, "payment_not_found",
        *(read(f"{start}{value}{end}")
          for start, end in (("/v1/payments/", ""), ("/v1/payments/", "/attempts"), ("/checkout/", ".json"),
                             ("/checkout/", "/events"))
          for value in _NO_PAYMENT),
    ),
    *cases(
        404, "chain_not_found",
        *(read(f"/v1/chains/{value}/assets")
          for value in ("solana", "BSC", "bsc%0a", "%2562sc", "bsc%2F", "%ff")),
    ),
    *cases(
        200, "",
        *map(read, ("/v1/chains?x[]=%zz&?/../x", "/v1/chains?x=" + "a" * 10 * KIB, "/v1/chains#x",
                    "http://127.0.0.1/v1/chains", "/v1/chains/%62sc/assets")),
    ),
]  # fmt: skip
