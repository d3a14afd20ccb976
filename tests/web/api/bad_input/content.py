"""Media types, content codings, and the size of a body."""

import gzip
import zlib

from tests.web.api.bad_input.building import (
    AUTHORIZATION,
    IDEMPOTENCY,
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
    stream,
)


def _typed(*values: str) -> bytes:
    return order(AUTHORIZATION, IDEMPOTENCY, *(f"Content-Type:{value}" for value in values))


def _coded(body: bytes, *values: str) -> bytes:
    return post(body, *KEYED_JSON, *(f"Content-Encoding: {value}" for value in values))


CONTENT_TYPE = [
    *case_per(
        {
            "no header": _typed(),
            "empty": _typed(""),
            "blank": _typed("   "),
            "text": _typed(" text/plain"),
            "text that is JSON": _typed(" text/json"),
            "form": _typed(" application/x-www-form-urlencoded"),
            "multipart": _typed(" multipart/form-data; boundary=x"),
            "bytes": _typed(" application/octet-stream"),
            "XML": _typed(" application/xml"),
            "JavaScript": _typed(" application/javascript"),
            "JSON API": _typed(" application/vnd.api+json"),
            "merge patch": _typed(" application/merge-patch+json"),
            "problem": _typed(" application/problem+json"),
            "lines of JSON": _typed(" application/x-ndjson"),
            "any": _typed(" */*"),
            "any application": _typed(" application/*"),
            "no subtype": _typed(" application"),
            "empty subtype": _typed(" application/"),
            "no type": _typed(" json"),
            "longer subtype": _typed(" application/jsonx"),
            "longer type": _typed(" xapplication/json"),
            "space before the slash": _typed(" application /json"),
            "space after the slash": _typed(" application/ json"),
            "word after the type": _typed(" application/json x"),
            "quoted": _typed(' "application/json"'),
            "list": _typed(" application/json, application/json"),
            "list with another": _typed(" application/json, text/plain"),
            "twice, different": _typed(" application/json", " text/plain"),
            "twice, the same": _typed(" application/json", " application/json"),
            "JSON as a parameter": _typed(" text/plain; application/json"),
            "charset Latin-1": _typed(" application/json; charset=iso-8859-1"),
            "charset Latin-1, quoted": _typed(' application/json; charset="iso-8859-1"'),
            "charset UTF-16": _typed(" application/json; charset=utf-16"),
            "charset UTF-32 in capitals": _typed(" application/json; CHARSET=UTF-32"),
            "charset ASCII": _typed(" application/json;charset=us-ascii"),
            "charset unknown": _typed(" application/json; charset=x"),
            "second parameter is a charset": _typed(" application/json; profile=x; charset=utf-16"),
            "two charsets": _typed(" application/json; charset=utf-8; charset=utf-16"),
            "charset in single quotes": _typed(" application/json; charset='utf-8'"),
            "webhooks": post(b'{"url": "https://merchant.example/"}', AUTHORIZATION, IDEMPOTENCY,
                             "Content-Type: text/plain", path=WEBHOOKS),
        },
        415,
        "unsupported_media_type",
    ),
    *case_per(
        {
            "gzip": _coded(gzip.compress(ORDER_BYTES, mtime=0), "gzip"),
            "gzip of many bytes": _coded(gzip.compress(b" " * 10_000 * KIB, mtime=0), "gzip"),
            "gzip that is not": _coded(ORDER_BYTES, "gzip"),
            "gzip in capitals": _coded(ORDER_BYTES, "GZIP"),
            "x-gzip": _coded(ORDER_BYTES, "x-gzip"),
            "deflate": _coded(zlib.compress(ORDER_BYTES), "deflate"),
            "br": _coded(ORDER_BYTES, "br"),
            "zstd": _coded(ORDER_BYTES, "zstd"),
            "compress": _coded(ORDER_BYTES, "compress"),
            "unknown coding": _coded(ORDER_BYTES, "x-foo"),
            "aws-chunked": _coded(ORDER_BYTES, "aws-chunked"),
            "list of codings": _coded(ORDER_BYTES, "identity, gzip"),
            "two codings": _coded(ORDER_BYTES, "gzip", "br"),
            "coding and identity": _coded(ORDER_BYTES, "gzip", "identity"),
        },
        415,
        "unsupported_content_encoding",
    ),
    *case_per(
        {
            "JSON": _typed(" application/json"),
            "spaces around": _typed("  \t application/json \t "),
            "no space before": _typed("application/json"),
            "capitals and odd spaces": _typed(' APPLICATION/JSON ;CHARSET="UTF-8"'),
            "charset UTF-8": _typed(" application/json; charset=utf-8"),
            "charset UTF-8 in capitals": _typed(" application/json;charset=UTF-8"),
            "charset UTF-8, quoted": _typed(' application/json; charset="utf-8"'),
            "unknown parameter": _typed(" application/json; profile=x"),
            "unknown parameter, quoted": _typed(' application/json; profile="https://schema.example/a b"'),
            "unknown parameter and charset": _typed(" application/json; profile=x; charset=utf-8"),
            "charset inside another parameter": _typed(' application/json; profile="x; charset=utf-16"'),
            "semicolon at the end": _typed(" application/json;"),
            "no coding": _coded(ORDER_BYTES, "identity"),
            "no coding in capitals": _coded(ORDER_BYTES, "Identity"),
        },
        201,
    ),
    Case("not looked at on GET", read("/v1/chains", AUTHORIZATION, "Content-Type: text/plain"), 200),
]  # fmt: skip

MAX_BODY = 64 * KIB


def _sized(size: int) -> bytes:
    """An acceptable order of so many bytes."""
    return ORDER_BYTES + b" " * (size - len(ORDER_BYTES))


SIZE = [
    *case_per(
        {
            "64 KiB and a byte": post(_sized(MAX_BODY + 1)),
            "64 KiB and a byte, in chunks": stream(_sized(MAX_BODY + 1)),
            "64 KiB and a byte, webhooks": post(_sized(MAX_BODY + 1), path=WEBHOOKS),
            "64 KiB and a byte of no JSON": post(b"x" * (MAX_BODY + 1)),
            "1 MiB": post(_sized(1024 * KIB)),
            "1 MiB in chunks": stream(_sized(1024 * KIB)),
            "1 MiB of zeros": post(bytes(1024 * KIB)),
            "10 GiB announced": send("POST", PAYMENTS, *KEYED_JSON, "Content-Length: 10737418240"),
            "2^63-1 bytes announced": send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {2**63 - 1}"),
            "zeros before the length": send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {10**9:025}"),
            "announced, and not yet sent": send("POST", PAYMENTS, *KEYED_JSON, "Content-Length: 65537",
                                                "Expect: 100-continue"),
            "one chunk of 1 GiB announced": send("POST", PAYMENTS, *KEYED_JSON, "Transfer-Encoding: chunked")
            + b"40000000\r\n" + b" " * (MAX_BODY + 1),
        },
        413,
        "payload_too_large",
    ),
    *case_per(
        {
            "64 KiB": post(_sized(MAX_BODY)),
            "64 KiB in chunks": stream(_sized(MAX_BODY)),
            "a byte less than 64 KiB": post(_sized(MAX_BODY - 1)),
            "chunks of a byte": send("POST", PAYMENTS, *KEYED_JSON, "Transfer-Encoding: chunked")
            + chunked(*(bytes([byte]) for byte in ORDER_BYTES)),
            "with a wish for a go-ahead": post(ORDER_BYTES, *KEYED_JSON, "Expect: 100-continue"),
        },
        201,
    ),
    *case_per({"64 KiB of no JSON": post(b"x" * MAX_BODY), "64 KiB of white space": post(b" " * MAX_BODY)},
              400, "invalid_json"),
]  # fmt: skip
