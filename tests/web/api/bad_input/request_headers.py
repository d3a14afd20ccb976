"""API keys, idempotency keys and scenarios, in headers that are right and wrong."""

from paymock.rules.scenarios import SCENARIOS
from tests.web.api.bad_input.building import (
    AUTHORIZATION,
    IDEMPOTENCY,
    INVALID_TOKEN,
    JSON_TYPE,
    KEYED_JSON,
    KIB,
    ORDER_BYTES,
    PAYMENTS,
    REALM,
    WEBHOOKS,
    Case,
    case_per,
    chunked,
    head,
    order,
    post,
    read,
    send,
    stream,
)


def _unauthenticated(name: str, *lines: str, challenge: str = "", secret: str = "") -> Case:
    headers = {"www-authenticate": challenge} if challenge else {}
    data = send("GET", "/v1/chains", *lines)
    return Case(name, data, 401, "unauthenticated", headers=headers, private=(secret,) if secret else ())


def _unknown_key(name: str, key: str) -> Case:
    line = f"Authorization: Bearer {key}"
    return _unauthenticated(name, line, challenge=INVALID_TOKEN, secret=key if key != "mk_test_" else "")


AUTH = [
    _unauthenticated("no header", challenge=REALM),
    _unauthenticated("empty header", "Authorization:", challenge=REALM),
    _unauthenticated("blank header", "Authorization:   ", challenge=REALM),
    _unauthenticated("scheme only", "Authorization: Bearer", challenge=REALM),
    _unauthenticated("scheme and a space", "Authorization: Bearer ", challenge=REALM),
    _unauthenticated("key without a scheme", "Authorization: {api_key}"),
    _unauthenticated("Basic", "Authorization: Basic dXNlcjpwYXNz", secret="dXNlcjpwYXNz"),
    _unauthenticated("Digest", 'Authorization: Digest username="{api_key}"'),
    _unauthenticated("scheme Token", "Authorization: Token {api_key}"),
    _unauthenticated("scheme BearerX", "Authorization: BearerX {api_key}"),
    _unauthenticated("colon after the scheme", "Authorization: Bearer: {api_key}"),
    _unauthenticated("tab after the scheme", "Authorization: Bearer\t{api_key}"),
    _unauthenticated("no space after the scheme", "Authorization: Bearer{api_key}"),
    _unauthenticated("comma after the key", "Authorization: Bearer {api_key},"),
    _unauthenticated("quoted key", 'Authorization: Bearer "{api_key}"'),
    _unauthenticated("bracketed key", "Authorization: Bearer <{api_key}>"),
    _unauthenticated("another word after the key", "Authorization: Bearer {api_key} x"),
    _unauthenticated("two keys in a list", "Authorization: Bearer {api_key}, Bearer {api_key}"),
    _unauthenticated("same header twice", AUTHORIZATION, AUTHORIZATION),
    _unauthenticated("two headers", AUTHORIZATION, "Authorization: Bearer mk_test_another"),
    _unauthenticated("key in a cookie", "Cookie: api_key={api_key}; session={api_key}", challenge=REALM),
    _unauthenticated("X-Api-Key", "X-Api-Key: {api_key}", challenge=REALM),
    _unauthenticated("Proxy-Authorization", "Proxy-Authorization: Bearer {api_key}", challenge=REALM),
    _unauthenticated("underscore in the name", "X_Authorization: Bearer {api_key}", challenge=REALM),
    _unknown_key("unknown key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
    _unknown_key("unknown kind of key", "mk_live_doesnotexist00000000"),
    _unknown_key("key with an empty name", "mk_test_"),
    _unknown_key("key with a name of 65", "mk_test_" + "a" * 65),
    _unknown_key("key with a dot", "mk_test_a.b"),
    _unknown_key("key with a percent sign", "mk_test_a%20b"),
    _unknown_key("key in upper case", "MK_TEST_SOMEBODY"),
    _unknown_key("null", "null"),
    _unknown_key("undefined", "undefined"),
    _unknown_key("key of 8 KiB", "a" * 8 * KIB),
    _unauthenticated("letter beyond ASCII", "Authorization: Bearer mk_test_schlüssel"),
    Case("key in the query", send("GET", "/v1/chains?api_key={api_key}&access_token={api_key}"), 401,
         "unauthenticated"),
    *case_per(
        {
            f"no key: {method} {path}": send(method, path, JSON_TYPE, IDEMPOTENCY, body=body)
            for method, path, body in (
                ("GET", "/v1/chains/bsc/assets", None),
                ("GET", "/v1/payments/{payment}", None),
                ("GET", "/v1/payments/{payment}/attempts", None),
                ("GET", WEBHOOKS, None),
                ("POST", PAYMENTS, ORDER_BYTES),
                ("POST", WEBHOOKS, b'{"url": "https://merchant.example/hooks"}'),
            )
        },
        401,
        "unauthenticated",
        {"www-authenticate": REALM},
    ),
    *case_per(
        {
            "before malformed JSON": post(b"{", JSON_TYPE, IDEMPOTENCY),
            "before unacceptable values": post(b"{}", JSON_TYPE, IDEMPOTENCY),
            "before a missing idempotency key": post(ORDER_BYTES, JSON_TYPE),
            "before a wrong media type": post(ORDER_BYTES, "Content-Type: text/plain", IDEMPOTENCY),
            "before an unknown scenario": order(JSON_TYPE, IDEMPOTENCY, "X-Mock-Scenario: x"),
            "before a body of 10 GiB": send("POST", PAYMENTS, JSON_TYPE, "Content-Length: 10737418240"),
            "before 128 KiB": post(b" " * 128 * KIB, JSON_TYPE, IDEMPOTENCY),
            "before 128 KiB in chunks": stream(b" " * 128 * KIB, JSON_TYPE, IDEMPOTENCY),
        },
        401,
        "unauthenticated",
    ),
    _unauthenticated("DEL in the key", AUTHORIZATION + "\x7f"),
    Case("NUL in the key", read("/v1/chains", AUTHORIZATION + "\0"), 400, "bad_request"),
    *case_per(
        {
            "scheme in lower case": read("/v1/chains", "Authorization: bearer {api_key}"),
            "scheme in upper case": read("/v1/chains", "Authorization: BEARER {api_key}"),
            "two spaces after the scheme": read("/v1/chains", "Authorization: Bearer  {api_key}"),
            "spaces around": read("/v1/chains", "Authorization:   Bearer {api_key}  "),
            "tab after the key": read("/v1/chains", AUTHORIZATION + "\t"),
            "no space before the scheme": read("/v1/chains", "Authorization:Bearer {api_key}"),
            "header name in lower case": read("/v1/chains", "authorization: Bearer {api_key}"),
            "key with a name of 1": read("/v1/chains", "Authorization: Bearer mk_test_a"),
            "key with a name of 64": read("/v1/chains", "Authorization: Bearer mk_test_" + "Z" * 64),
            "key with every kind of character": read("/v1/chains", "Authorization: Bearer mk_test_aZ0_-"),
        },
        200,
    ),
    *case_per(
        {
            "another key's payment": read("/v1/payments/{others_payment}"),
            "attempts of another key's payment": read("/v1/payments/{others_payment}/attempts"),
        },
        404,
        "payment_not_found",
    ),
]  # fmt: skip


def _with_key(*values: str) -> bytes:
    return order(AUTHORIZATION, JSON_TYPE, *(f"Idempotency-Key:{value}" for value in values))


IDEMPOTENCY_KEY = [
    *case_per(
        {
            "no header": _with_key(),
            "empty": _with_key(""),
            "blank": _with_key("  \t "),
            "no header, webhooks": post(b"{}", AUTHORIZATION, JSON_TYPE, path=WEBHOOKS),
            "another name": order(AUTHORIZATION, JSON_TYPE, "X-Idempotency-Key: abcdefgh"),
            "underscore in the name": order(AUTHORIZATION, JSON_TYPE, "Idempotency_Key: abcdefgh"),
            "in the query": post(ORDER_BYTES, AUTHORIZATION, JSON_TYPE,
                                 path=f"{PAYMENTS}?Idempotency-Key=abcdefgh"),
            "in the trailer": send("POST", PAYMENTS, AUTHORIZATION, JSON_TYPE, "Transfer-Encoding: chunked",
                                   "Trailer: Idempotency-Key")
            + chunked(ORDER_BYTES).removesuffix(b"\r\n") + head("Idempotency-Key: abcdefgh"),
        },
        400,
        "idempotency_key_missing",
    ),
    *case_per(
        {
            "1 character": _with_key(" a"),
            "7 characters": _with_key(" abcdefg"),
            "7 characters and spaces": _with_key("   abcdefg   "),
            "129 characters": _with_key(" " + "k" * 129),
            "4 KiB": _with_key(" " + "k" * 4 * KIB),
            "space inside": _with_key(" abcd efgh"),
            "tab inside": _with_key(" abcd\tefgh"),
            "accented letter": _with_key(" café-12345"),
            "emoji": _with_key(" pay-💸-12345"),
            "no-break space at the end": _with_key(" abcdefgh\u00a0"),
            "zero-width space": _with_key(" abcd\u200befgh"),
            "twice, different": _with_key(" abcdefgh", " ijklmnop"),
            "twice, the same": _with_key(" abcdefgh", " abcdefgh"),
            "twice, one empty": _with_key(" abcdefgh", ""),
            "too short, webhooks": post(b"{}", AUTHORIZATION, JSON_TYPE, "Idempotency-Key: x", path=WEBHOOKS),
        },
        400,
        "idempotency_key_invalid",
    ),
    *case_per(
        {
            "DEL": _with_key(" abcdefgh\x7f"),
            "escape": _with_key(" abcd\x1befgh"),
            "vertical tab": _with_key(" abcd\vefgh"),
            "form feed": _with_key(" abcd\fefgh"),
            "Latin-1 letter": _with_key(" caf?-12345").replace(b"caf?", b"caf\xe9"),
            "no-break space of Latin-1": _with_key(" abcdefgh?").replace(b"?", b"\xa0"),
        },
        400,
        "idempotency_key_invalid",
    ),
    *case_per(
        {
            "NUL": _with_key(" abcd\0efgh"),
            "line feed": _with_key(" abcd\nefgh"),
            "carriage return": _with_key(" abcd\refgh"),
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "8 characters": _with_key(" abcdefgh"),
            "128 characters": _with_key(" " + "k" * 128),
            "every visible character": _with_key(" " + "".join(map(chr, range(0x21, 0x7F)))),
            "spaces around": _with_key("  \t abcdefgh \t "),
            "no space before": _with_key("abcdefgh"),
            "quoted": _with_key(' "abcdefgh"'),
            "comma inside": _with_key(" abcdefgh,ijklmnop"),
            "header name in mixed case": order(AUTHORIZATION, JSON_TYPE, "iDEMPOTENCY-kEY: abcdefgh"),
        },
        201,
    ),
    Case("not looked at on GET", read("/v1/chains", AUTHORIZATION, "Idempotency-Key: x"), 200),
]  # fmt: skip


def _with_scenario(*values: str, name: str = "X-Mock-Scenario") -> bytes:
    return order(*KEYED_JSON, *(f"{name}:{value}" for value in values))


SCENARIO = [
    *case_per(
        {
            "empty": _with_scenario(""),
            "unknown": _with_scenario(" refund_everything"),
            "upper case": _with_scenario(" HAPPY_PATH"),
            "capital": _with_scenario(" Happy_path"),
            "hyphen": _with_scenario(" happy-path"),
            "space inside": _with_scenario(" happy path"),
            "missing letter": _with_scenario(" happy_pat"),
            "one letter more": _with_scenario(" happy_paths"),
            "quoted": _with_scenario(' "happy_path"'),
            "list": _with_scenario(" happy_path,manual_review"),
            "parameter": _with_scenario(" happy_path;speed=2"),
            "status that is no scenario": _with_scenario(" completed"),
            "twice, different": _with_scenario(" happy_path", " manual_review"),
            "twice, the same": _with_scenario(" happy_path", " happy_path"),
            "twice, one empty": _with_scenario(" happy_path", ""),
            "None": _with_scenario(" None"),
            "attribute of an object": _with_scenario(" __class__"),
            "path": _with_scenario(" ../happy_path"),
            "full-width letters": _with_scenario(" ｈａｐｐｙ_ｐａｔｈ"),
            "no-break space at the end": _with_scenario(" happy_path\u00a0"),
            "percent-encoded": _with_scenario(" happy%5Fpath"),
            "DEL": _with_scenario(" happy_path\x7f"),
            "escape": _with_scenario(" \x1bhappy_path"),
            "2 KiB": _with_scenario(" " + "x" * 2 * KIB),
        },
        400,
        "invalid_scenario",
    ),
    Case("NUL", _with_scenario(" happy_path\0"), 400, "bad_request"),
    *case_per({name: _with_scenario(f" {name}") for name in SCENARIOS}, 201),
    *case_per(
        {
            "no header": _with_scenario(),
            "spaces around": _with_scenario("  \t happy_path \t "),
            "header name in lower case": _with_scenario(" happy_path", name="x-mock-scenario"),
            "not looked at for webhooks": post(b'{"url": "https://merchant.example/"}', *KEYED_JSON,
                                               "X-Mock-Scenario: x", path=WEBHOOKS),
        },
        201,
    ),
    Case("not looked at on GET", read("/v1/chains", AUTHORIZATION, "X-Mock-Scenario: x"), 200),
]  # fmt: skip
