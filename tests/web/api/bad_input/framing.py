"""Nearly HTTP: hosts, lengths, chunks, and heads that are too large."""

import gzip

from tests.web.api.bad_input.building import (
    API_KEY_LENGTH,
    AUTHORIZATION,
    HOST,
    KEYED_JSON,
    KIB,
    ORDER_BYTES,
    PAYMENTS,
    case_per,
    chunked,
    head,
    send,
)


def _raw(*lines: str, start: str = "GET /v1/chains HTTP/1.1", host: str = HOST) -> bytes:
    return head(start, host, AUTHORIZATION, *lines)


def _hosts(*hosts: str) -> bytes:
    return head("GET /v1/chains HTTP/1.1", *(f"Host:{host}" for host in hosts), AUTHORIZATION)


def _posted(*lines: str, body: bytes = ORDER_BYTES) -> bytes:
    """An order whose framing is in `lines`."""
    return head(f"POST {PAYMENTS} HTTP/1.1", HOST, *KEYED_JSON, *lines) + body


def _chunks(body: bytes) -> bytes:
    return _posted("Transfer-Encoding: chunked", body=body)


def _head_of(size: int) -> bytes:
    """A request that is nothing but a head of so many bytes."""
    rest = len(_raw("X-Fill: ")) - len("{api_key}") + API_KEY_LENGTH
    return _raw("X-Fill: " + "x" * (size - rest))


def _many_lines(count: int) -> bytes:
    return _raw(*(f"X-{number}: x" for number in range(count - 2)))


_LENGTH = len(ORDER_BYTES)
_CHUNK = b"%x\r\n%s\r\n" % (_LENGTH, ORDER_BYTES)

FRAMING = [
    *case_per(
        {
            "no Host": head("GET /v1/chains HTTP/1.1", AUTHORIZATION),
            "no Host, HTTP/1.0": head("GET /v1/chains HTTP/1.0", AUTHORIZATION),
            "empty Host": _hosts(""),
            "blank Host": _hosts("  "),
            "the same Host twice": _hosts(" 127.0.0.1", " 127.0.0.1"),
            "two Hosts": _hosts(" 127.0.0.1", " evil.example"),
            "list of Hosts": _hosts(" 127.0.0.1, evil.example"),
            "Host with a space": _hosts(" 127.0.0.1 evil.example"),
            "Host with a path": _hosts(" 127.0.0.1/x"),
            "Host with a scheme": _hosts(" http://127.0.0.1"),
            "Host with a user": _hosts(" user@127.0.0.1"),
            "Host with a port of letters": _hosts(" 127.0.0.1:http"),
            "Host with an empty IPv6 address": _hosts(" []"),
            "Host with an IPv6 address not closed": _hosts(" [::1"),
            "Host with a backslash": _hosts(" 127.0.0.1\\x"),
            "Host with a percent sign": _hosts(" 127.0.0.%31"),
            "Host with a letter beyond ASCII": _hosts(" löcalhost"),
            "Host with NUL": _hosts(" 127.0.0.1\0"),
            "no Host, POST": head(f"POST {PAYMENTS} HTTP/1.1", *KEYED_JSON, f"Content-Length: {_LENGTH}")
            + ORDER_BYTES,
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "another Host": _hosts(" evil.example"),
            "another Host with a port": _hosts(" attacker.example:8080"),
            "Host that starts like ours": _hosts(" localhost.evil.example"),
            "Host that ends like ours": _hosts(" evillocalhost"),
            "Host that resolves to ours": _hosts(" 127.0.0.1.nip.io"),
            "unspecified address": _hosts(" 0.0.0.0"),
            "another loopback address": _hosts(" 127.0.0.2"),
            "another IPv6 address": _hosts(" [::]"),
            "private address": _hosts(" 192.168.1.1"),
            "another Host, no key": head("GET /v1/chains HTTP/1.1", "Host: evil.example"),
            "another Host, Swagger UI": head("GET /swagger/ HTTP/1.1", "Host: evil.example"),
            "another Host, preflight": head(f"OPTIONS {PAYMENTS} HTTP/1.1", "Host: evil.example"),
            "another Host, POST": head(f"POST {PAYMENTS} HTTP/1.1", "Host: evil.example", *KEYED_JSON,
                                       f"Content-Length: {_LENGTH}") + ORDER_BYTES,
            "another Host beside X-Forwarded-Host": head("GET /v1/chains HTTP/1.1", "Host: evil.example",
                                                         "X-Forwarded-Host: 127.0.0.1", AUTHORIZATION),
        },
        421,
        "misdirected_request",
    ),
    *case_per(
        {
            "Host localhost": _hosts(" localhost"),
            "Host in capitals": _hosts(" LOCALHOST:8402"),
            "Host with a port": _hosts(" 127.0.0.1:8402"),
            "Host with the IPv6 address": _hosts(" [::1]:8402"),
            "spaces around Host": _hosts("  \t 127.0.0.1 \t "),
            "X-Forwarded-Host": _raw("X-Forwarded-Host: evil.example"),
            "HTTP/1.0": _raw("Connection: close", start="GET /v1/chains HTTP/1.0"),
            "empty lines before": b"\r\n\r\n" + _raw(),
            "empty header value": _raw("X-Empty:"),
            "same header many times": _raw(*["X-Same: x"] * 50),
            "100 header lines": _many_lines(100),
            "head of 15 KiB": _head_of(15 * KIB),
            "head of 16 KiB": _head_of(16 * KIB),
            "upgrade to a web socket": _raw("Connection: Upgrade", "Upgrade: websocket",
                                            "Sec-WebSocket-Version: 13",
                                            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
            "upgrade to HTTP/2": _raw("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
                                      "HTTP2-Settings: AAMAAABkAAQAAP__"),
            "body that looks like a request": send("GET", "/v1/chains", AUTHORIZATION,
                                                   body=head("DELETE / HTTP/1.1")),
        },
        200,
    ),
    *case_per(
        {
            "HTTP/0.9": b"GET /v1/chains\r\n\r\n",
            "HTTP/0.9 by name": _raw(start="GET /v1/chains HTTP/0.9"),
            "HTTP/1.2": _raw(start="GET /v1/chains HTTP/1.2"),
            "HTTP/1.10": _raw(start="GET /v1/chains HTTP/1.10"),
            "HTTP/1": _raw(start="GET /v1/chains HTTP/1"),
            "HTTP/2": _raw(start="GET /v1/chains HTTP/2"),
            "HTTP/2.0": _raw(start="GET /v1/chains HTTP/2.0"),
            "HTTP/3.0": _raw(start="GET /v1/chains HTTP/3.0"),
            "HTTP/9.9": _raw(start="GET /v1/chains HTTP/9.9"),
            "http/1.1 in small letters": _raw(start="GET /v1/chains http/1.1"),
            "version misspelled": _raw(start="GET /v1/chains HTTX/1.1"),
            "version with a letter": _raw(start="GET /v1/chains HTTP/1.x"),
            "no version number": _raw(start="GET /v1/chains HTTP/"),
            "word after the version": _raw(start="GET /v1/chains HTTP/1.1 x"),
            "version of RTSP": _raw(start="GET /v1/chains RTSP/1.0"),
            "version and method of RTSP": _raw(start="DESCRIBE /v1/chains RTSP/1.0"),
            "version and method of Icecast": _raw(start="SOURCE /v1/chains ICE/1.0"),
            "two spaces after the method": _raw(start="GET  /v1/chains HTTP/1.1"),
            "two spaces before the version": _raw(start="GET /v1/chains  HTTP/1.1"),
            "space after the version": _raw(start="GET /v1/chains HTTP/1.1 "),
            "tab after the method": _raw(start="GET\t/v1/chains HTTP/1.1"),
            "tab before the version": _raw(start="GET /v1/chains\tHTTP/1.1"),
            "tab before the method": b"\t" + _raw(),
            "vertical tab after the method": _raw(start="GET\v/v1/chains HTTP/1.1"),
            "no version": _raw(start="GET /v1/chains"),
            "space in place of the version": _raw(start="GET /v1/chains "),
            "no path": _raw(start="GET HTTP/1.1"),
            "path without a slash": _raw(start="GET v1/chains HTTP/1.1"),
            "space in the path": _raw(start="GET /v1/chains x HTTP/1.1"),
            "tab in the path": _raw(start="GET /v1/\tchains HTTP/1.1"),
            "NUL in the path": _raw(start="GET /v1/\0chains HTTP/1.1"),
            "letter beyond ASCII in the path": _raw(start="GET /v1/payments/é HTTP/1.1"),
            "letter beyond ASCII in the query": _raw(start="GET /v1/chains?x=é HTTP/1.1"),
            "space before the method": b" " + _raw(),
            "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(160),
            "SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
            "SOCKS": b"\x05\x01\x00",
            "PROXY protocol": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + _raw(),
            "a reply": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "zeros": bytes(100),
            "JSON": ORDER_BYTES,
            "line of header without a colon": _raw("X-Header"),
            "header without a name": _raw(": x"),
            "header name with a space": _raw("X Header: x"),
            "space before the colon": _raw("X-Header : x"),
            "tab before the colon": _raw("X-Header\t: x"),
            "space before the first header name": head("GET /v1/chains HTTP/1.1", " " + HOST, AUTHORIZATION),
            "folded header": _raw("X-Header: x", " y"),
            "header folded by a tab": _raw("X-Header: x", "\ty"),
            "folded Authorization": head("GET /v1/chains HTTP/1.1", HOST, "Authorization: Bearer",
                                         " {api_key}"),
            "header name beyond ASCII": _raw("X-Hëader: x"),
            "header name with a bracket": _raw("X-(Header): x"),
            "NUL in a header name": _raw("X-\0: x"),
            "NUL in a header value": _raw("X-Header: a\0b"),
            "DEL in a header value": _raw("X-Header: a\x7fb"),
            "escape in a header value": _raw("X-Header: a\x1bb"),
            "carriage return in a header value": _raw("X-Header: a\rb"),
            "bare line feeds": _raw().replace(b"\r\n", b"\n"),
            "bare line feed after the request line": _raw().replace(b"\r\n", b"\n", 1),
            "bare line feed after a header": _raw("X-Header: x\nX-Another: y"),
            "bare carriage returns": _raw().replace(b"\r\n", b"\r") + b"\r\n\r\n",
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "two lengths": _posted(f"Content-Length: {_LENGTH}", "Content-Length: 5"),
            "the same length twice": _posted(f"Content-Length: {_LENGTH}", f"Content-Length: {_LENGTH}"),
            "list of lengths": _posted(f"Content-Length: {_LENGTH}, {_LENGTH}"),
            "length with a plus sign": _posted(f"Content-Length: +{_LENGTH}"),
            "negative length": _posted("Content-Length: -1"),
            "length with a point": _posted(f"Content-Length: {_LENGTH}.0"),
            "hexadecimal length": _posted(f"Content-Length: {_LENGTH:#x}"),
            "length with an underscore": _posted("Content-Length: 4_0"),
            "length with a space": _posted("Content-Length: 4 0"),
            "length of letters": _posted("Content-Length: abc"),
            "length of full-width digits": _posted("Content-Length: ４０"),
            "empty length": _posted("Content-Length:"),
            "length of 30 digits": _posted("Content-Length: " + "9" * 30),
            "length 2^64": _posted(f"Content-Length: {2**64}"),
            "length and chunks": _posted(f"Content-Length: {_LENGTH}", "Transfer-Encoding: chunked",
                                         body=chunked(ORDER_BYTES)),
            "chunks and length": _posted("Transfer-Encoding: chunked", f"Content-Length: {_LENGTH}",
                                         body=chunked(ORDER_BYTES)),
            "length 0 and chunks": _posted("Content-Length: 0", "Transfer-Encoding: chunked",
                                           body=chunked(ORDER_BYTES)),
            "transfer coding gzip": _posted("Transfer-Encoding: gzip", body=gzip.compress(ORDER_BYTES)),
            "transfer coding identity": _posted("Transfer-Encoding: identity"),
            "transfer coding identity and a length": _posted("Transfer-Encoding: identity",
                                                             f"Content-Length: {_LENGTH}"),
            "unknown transfer coding": _posted("Transfer-Encoding: xchunked", body=chunked(ORDER_BYTES)),
            "chunked before gzip": _posted("Transfer-Encoding: chunked, gzip", body=chunked(ORDER_BYTES)),
            "gzip before chunked": _posted("Transfer-Encoding: gzip, chunked",
                                           body=chunked(gzip.compress(ORDER_BYTES))),
            "gzip before chunked, though there is none": _posted("Transfer-Encoding: gzip, chunked",
                                                                 body=chunked(ORDER_BYTES)),
            "gzip before chunked, on lines of their own": _posted("Transfer-Encoding: gzip",
                                                                  "Transfer-Encoding: chunked",
                                                                  body=chunked(ORDER_BYTES)),
            "chunked twice": _posted("Transfer-Encoding: chunked, chunked", body=chunked(ORDER_BYTES)),
            "transfer coding with a control character": _posted("Transfer-Encoding: \x0bchunked",
                                                                body=chunked(ORDER_BYTES)),
            "space before the colon of the transfer coding": _posted("Transfer-Encoding : chunked",
                                                                     body=chunked(ORDER_BYTES)),
            "no chunk size": _chunks(b"\r\n" + ORDER_BYTES + b"\r\n0\r\n\r\n"),
            "chunk size of letters": _chunks(b"zz\r\nabc\r\n0\r\n\r\n"),
            "negative chunk size": _chunks(b"-1\r\nabc\r\n0\r\n\r\n"),
            "chunk size with a plus sign": _chunks(b"+" + _CHUNK + b"0\r\n\r\n"),
            "chunk size with a prefix": _chunks(b"0x" + _CHUNK + b"0\r\n\r\n"),
            "chunk size with an underscore": _chunks(b"1_0\r\n" + b" " * 16 + b"\r\n0\r\n\r\n"),
            "chunk size beyond 64 bits": _chunks(b"F" * 17 + b"\r\nabc"),
            "space before the chunk size": _chunks(b" " + _CHUNK + b"0\r\n\r\n"),
            "chunk longer than its size": _chunks(b"3\r\n" + ORDER_BYTES + b"\r\n0\r\n\r\n"),
            "chunk without an end": _chunks(_CHUNK[:-2] + b"0\r\n\r\n"),
            "bare line feed after the chunk size": _chunks(_CHUNK.replace(b"\r\n", b"\n", 1) + b"0\r\n\r\n"),
            "bare line feed after the chunk": _chunks(_CHUNK[:-2] + b"\n0\r\n\r\n"),
            "bare line feed in a chunk extension": _chunks(_CHUNK.replace(b"\r\n", b";x\n\r\n", 1)
                                                           + b"0\r\n\r\n"),
            "malformed last chunk": _chunks(_CHUNK + b"0\r\nX\r\n\r\n"),
            "space in a trailer name": _chunks(_CHUNK + b"0\r\nX Y: z\r\n\r\n"),
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "chunk size in capitals": _chunks(b"%X\r\n%s\r\n0\r\n\r\n" % (_LENGTH, ORDER_BYTES)),
            "zeros before the chunk size": _chunks(b"0000" + _CHUNK + b"0\r\n\r\n"),
            "zeros as last chunk": _chunks(_CHUNK + b"000\r\n\r\n"),
            "chunk extension": _chunks(_CHUNK.replace(b"\r\n", b';name="value"\r\n', 1) + b"0\r\n\r\n"),
            "trailer": _chunks(_CHUNK + b"0\r\nX-Checksum: x\r\n\r\n"),
            "chunked in capitals": _posted("Transfer-Encoding: CHUNKED", body=chunked(ORDER_BYTES)),
            "zeros before the length": _posted(f"Content-Length: 000{_LENGTH}"),
        },
        201,
    ),
    *case_per(
        {
            "101 header lines": _many_lines(101),
            "10,000 header lines": _many_lines(10_000),
            "101 lines with the trailer": _posted("Transfer-Encoding: chunked", body=_CHUNK + b"0\r\n")
            + head(*(f"X-{number}: x" for number in range(101))),
            "head of 16 KiB and a byte": _head_of(16 * KIB + 1),
            "head of 17 KiB": _head_of(17 * KIB),
            "header of 64 KiB": _head_of(64 * KIB),
            "header of 1 MiB": _head_of(1024 * KIB),
            "header name of 20 KiB": _raw("X" * 20 * KIB + ": x"),
            "20 KiB of spaces after a value": _raw("X-Header: x" + " " * 20 * KIB),
            "head without an end": _raw("X-Header: " + "x" * 20 * KIB)[:-4],
            "path of 20 KiB": _raw(start=f"GET /v1/{'x' * 20 * KIB} HTTP/1.1"),
            "query of 20 KiB": _raw(start=f"GET /v1/chains?{'x' * 20 * KIB} HTTP/1.1"),
            "cookies of 20 KiB": _raw("Cookie: " + "a=b; " * 4 * KIB),
            "key of 20 KiB": head("GET /v1/chains HTTP/1.1", HOST, "Authorization: Bearer " + "a" * 20 * KIB),
        },
        431,
        "headers_too_large",
    ),
]  # fmt: skip
