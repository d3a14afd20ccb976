"""Parses HTTP/1.1 requests: heads, once they are complete, so that a head means the same however it arrives,
and bodies with a length or in chunks. RFC 9112. Specification: "Limits".

A head is split at its line ends, which takes as long as the callbacks of httptools, and needs no second look
at what that accepts: large heads, repeated lengths, other transfer codings, `Upgrade`.
"""

import re
from collections import Counter
from contextlib import suppress

from paymock.http.requests import Body, Request

MAX_HEAD = 16 * 1024  # bytes
MAX_LINES = 100

CHECKED_HEADERS = frozenset((b"authorization", b"idempotency-key", b"x-mock-scenario", b"x-mock-fault"))
"""Headers of which handlers check every character: a control character in one gets its own error."""

_CHUNKS_PER_STEP = 256  # which takes a fifth of a millisecond
END_OF_HEAD = b"\r\n\r\n"
_MAX_LENGTH, _MAX_LENGTH_DIGITS = 2**64, 20
_MAX_NAMES, _MAX_NAME_LENGTH = 1_000, 64

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_NAME = re.compile(rb"%b+" % _TOKEN)
_METHOD = re.compile(rb"%b{1,64}" % _TOKEN)  # logs show it: it is short
_VERSIONS = {b"HTTP/1.1": True, b"HTTP/1.0": False}
_TARGET = re.compile(
    r"(?:[A-Za-z]+://(?:[^/?#@]*@)?((?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%-]+)(?::[0-9]{1,5})?)(?=/))?"
    r"(/[^?#]*)(?:\?([^#]*))?(?:#.*)?"
)
"""The origin form, and the absolute form that proxies get: RFC 9112, 3.2. A fragment is ignored."""

_LINE_START = re.compile(rb"(?:\r|%b{1,64}(?: (?:[!-~]+(?: [!-~]*\r?)?)?)?)?" % _TOKEN)
"""The beginning of what may become a request line."""

BLANK_LINES = re.compile(rb"\A(?:\r\n)+")
_REQUEST_LINE = re.compile(rb"%b{1,64} ([!-~]+) HTTP/1\.[01]\r\n" % _TOKEN)

_CHUNK = re.compile(
    rb"([0-9A-Fa-f]+)(?:;%b+(?:=(?:%b+|\"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*\"))?)*"
    % (_TOKEN, _TOKEN)
)
"""The size of a chunk, and extensions, which are ignored."""

_HEX_DIGITS = b"0123456789ABCDEFabcdef"
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))
"""Headers that say where a body ends. A trailer must not have them: RFC 9110, 6.5.1."""

_FIELD_CHARACTERS = bytes([*b"\t", *range(0x20, 0x7F), *range(0x80, 0x100)])
_LINE_ENDS = [b"\r\n" * count for count in range(MAX_LINES + 1)]
_NEVER_IN_FIELDS = re.compile(rb"[\0\r\n]")


class MalformedRequest(Exception):
    """What was received is not an acceptable HTTP request. `code` is that of the error."""

    def __init__(self, code: str = "bad_request") -> None:
        super().__init__(code)
        self.code = code


class _Methods(dict[bytes, str]):
    def __missing__(self, method: bytes) -> str:
        if not _METHOD.fullmatch(method) or method == b"CONNECT":
            raise MalformedRequest
        return method.decode("ascii")


class _Names(dict[bytes, bytes]):
    """The names of headers in lower case, cached: clients send few."""

    def __missing__(self, name: bytes) -> bytes:
        if not _NAME.fullmatch(name):
            raise MalformedRequest
        lower = name.lower()
        if len(self) < _MAX_NAMES and len(name) <= _MAX_NAME_LENGTH:
            self[name] = lower
        return lower


class _ChunkSizes(dict[bytes, int]):
    """The sizes of chunks by their lines; those of tiny chunks are cached."""

    def __missing__(self, line: bytes) -> int:
        match = _CHUNK.fullmatch(line)
        size = int(match[1], 16) if match else _MAX_LENGTH
        if size >= _MAX_LENGTH:
            raise MalformedRequest
        if len(line) <= 2:
            self[line] = size
        return size


_methods = _Methods(
    (method.encode(), method) for method in ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS")
)
_names, _chunk_sizes = _Names(), _ChunkSizes()


def parse_head(head: bytes) -> Request:
    """The request with this head, which ends before its empty line. Raises MalformedRequest."""
    lines = head.split(b"\r\n")
    try:
        verb, target, version = lines.pop(0).split(b" ")
        method, is_current, path, query = _methods[verb], _VERSIONS[version], target.decode("ascii"), ""
        host = ""
    except (ValueError, KeyError):
        raise MalformedRequest from None
    if path[:1] != "/" or "?" in path or "#" in path or not path.isprintable():
        path, query, host = _split_target(path)
    if len(lines) > MAX_LINES:
        raise MalformedRequest("headers_too_large")
    if head.translate(None, _FIELD_CHARACTERS) != _LINE_ENDS[len(lines)]:
        _check_values(lines)
    headers = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise MalformedRequest
        headers[_names[name]] = value.strip(b" \t")
    if host and (b"host" in headers or not is_current):
        headers[b"host"] = host.encode()  # RFC 9112, 3.2.2: it takes the place of the header
    request = Request(method, path, headers, query, is_current, is_current)
    if len(headers) != len(lines):
        _find_repeated(request, lines)
    if is_current and b"connection" in headers:
        request.keeps_alive = b"close" not in map(bytes.strip, headers[b"connection"].lower().split(b","))
    return request


def _check_values(lines: list[bytes]) -> None:
    """Refuse control characters but in CHECKED_HEADERS, and there NUL, CR and LF: RFC 9110, 5.5."""
    for name, _, value in (line.partition(b":") for line in lines):
        if value.translate(None, _FIELD_CHARACTERS) and (
            name.lower() not in CHECKED_HEADERS or _NEVER_IN_FIELDS.search(value)
        ):
            raise MalformedRequest


def _find_repeated(request: Request, lines: list[bytes]) -> None:
    fields = [(_names[name], value) for name, _, value in (line.partition(b":") for line in lines)]
    counts = Counter(name for name, _ in fields)
    request.repeated = [name for name, count in counts.items() if count > 1]
    if b"connection" in request.repeated:  # its lines are one list: RFC 9110, 5.3
        request.headers[b"connection"] = b",".join(value for name, value in fields if name == b"connection")


def _split_target(target: str) -> tuple[str, str, str]:
    """The path, the query, and the host that an absolute form names. Raises MalformedRequest."""
    match = _TARGET.fullmatch(target) if target.isprintable() else None
    if match is None and target != "*":
        raise MalformedRequest
    return (target, "", "") if match is None else (match[2], match[3] or "", match[1] or "")


def begin_body(request: Request, data: bytes) -> tuple["BodyReader | None", bytes]:
    """Begin to read the body of a request from `data`, which follows its head. Return the reader of its rest,
    None if it is complete, and what follows it. Raises MalformedRequest.
    """
    headers = request.headers
    announced, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if not _FRAMING.isdisjoint(request.repeated):
        raise MalformedRequest
    length: int | None = 0
    if coding is not None:
        if announced is not None or coding.lower() != b"chunked" or not request.is_current:
            raise MalformedRequest
        length = None
    elif announced is not None:
        digits = announced.lstrip(b"0") or b"0"
        if not announced.isdigit() or len(digits) > _MAX_LENGTH_DIGITS or int(digits) >= _MAX_LENGTH:
            raise MalformedRequest
        length = int(digits)
    if length is not None and length <= len(data):
        if length:
            request.body = Body(data[:length])
        return None, data[length:]
    request.body = Body(length=length or 0)
    reader = BodyReader(request.body, length)
    unread, is_complete = reader.feed(data)
    return None if is_complete else reader, unread


def check_beginning(data: bytes) -> None:
    """Refuse what cannot become a request, before its head is complete. Raises MalformedRequest."""
    line, line_end, _ = data.partition(b"\r\n")
    if line_end:
        parse_head(line)
    elif not _LINE_START.fullmatch(line):
        raise MalformedRequest


def path_of(data: bytes) -> str:
    """The path in the request line that begins `data`, or the empty string."""
    match = _REQUEST_LINE.match(data, 0, MAX_HEAD)
    with suppress(MalformedRequest):
        return _split_target(match[1].decode("ascii"))[0] if match else ""
    return ""


class BodyReader:
    """Reads a body of a length, or in chunks: RFC 9112, 6.3 and 7.1. A trailer is checked and ignored."""

    def __init__(self, body: Body, length: int | None) -> None:
        self._body = body
        self._in_chunks = length is None
        self._left = length or 0  # how many bytes are to come, of the body or of a chunk
        self._rest = b""  # what was received of an unfinished line
        self._ends_chunk = False  # whether the next line end is that of a chunk
        self._trailer: list[bytes] | None = None

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Read a part of the body. Return what has not been read, and whether the body is complete. Raises
        MalformedRequest.
        """
        if self._in_chunks:
            return self._feed_chunks(self._rest + data)
        part = data[: self._left]
        self._left -= len(part)
        self._body.append(part)
        if not self._left:
            self._body.complete()
        return data[len(part) :], not self._left

    def _feed_chunks(self, data: bytes) -> tuple[bytes, bool]:
        start, parts, is_complete = 0, [], False
        self._rest = b""
        for _ in range(_CHUNKS_PER_STEP):
            if self._left:
                part = data[start : start + self._left]
                parts.append(part)
                start += len(part)
                self._left -= len(part)
                if self._left:
                    break
            end = data.find(b"\r\n", start, start + MAX_HEAD)
            if end < 0:
                self._rest, start = data[start:], len(data)
                self._check_rest(self._rest)
                break
            line, start = data[start:end], end + 2
            if self._ends_chunk:
                if line:
                    raise MalformedRequest
                self._ends_chunk = False
            elif self._trailer is None:
                size = _chunk_sizes[line]
                if size and data.startswith(b"\r\n", start + size):  # it is complete
                    parts.append(data[start : start + size])
                    start += size + 2
                    continue
                self._left, self._ends_chunk, self._trailer = size, size > 0, None if size else []
            elif line:
                self._add_trailer(self._trailer, line)
            else:
                is_complete = True
                break
        self._body.append(b"".join(parts))
        if is_complete:
            self._body.complete()
        return data[start:], is_complete

    def _check_rest(self, line: bytes) -> None:
        """Refuse what cannot become the next line."""
        if len(line) >= MAX_HEAD:
            raise MalformedRequest("bad_request" if self._trailer is None else "headers_too_large")
        if self._ends_chunk:
            may_begin = line in (b"", b"\r")
        else:
            may_begin = self._trailer is not None or line[:1] in _HEX_DIGITS
        if not may_begin:
            raise MalformedRequest

    def _add_trailer(self, trailer: list[bytes], line: bytes) -> None:
        trailer.append(line)
        if len(trailer) > MAX_LINES or sum(map(len, trailer)) + 2 * len(trailer) > MAX_HEAD:
            raise MalformedRequest("headers_too_large")
        name, colon, value = line.partition(b":")
        if not colon or _names[name] in _FRAMING or value.translate(None, _FIELD_CHARACTERS):
            raise MalformedRequest
