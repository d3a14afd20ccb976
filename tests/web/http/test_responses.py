"""The header lines of responses."""

from collections.abc import AsyncGenerator

import pytest

from paymock.web.http.responses import REPLAYED, WARNING, Response, header_block, header_lines


async def nothing() -> AsyncGenerator[bytes, None]:
    return
    yield


def test_header_lines_have_one_order() -> None:
    response = Response(201, b"{}", headers=(REPLAYED,))
    assert header_lines(header_block(response, "req_1", b"vary: origin\r\n")) == [
        (b"x-request-id", b"req_1"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-length", b"2"),
        (b"content-type", b"application/json"),
        (b"idempotent-replayed", b"true"),
        (b"cache-control", b"no-store"),
        (b"vary", b"origin"),
    ]


@pytest.mark.parametrize("name", ["Cache-Control", "cache-control"])
def test_a_response_is_not_cached_unless_it_says_how(name: str) -> None:
    lines = header_lines(header_block(Response(200, headers=((name, "no-cache"),)), "req_1"))
    assert [value for name, value in lines if name == b"cache-control"] == [b"no-cache"]


@pytest.mark.parametrize("response", [Response(204, content_type=None), Response(200, stream=nothing())])
def test_a_reply_without_a_body_or_with_a_stream_has_no_length(response: Response) -> None:
    assert b"content-length" not in dict(header_lines(header_block(response, "req_1")))


def test_an_empty_body_has_a_length_and_no_type_if_it_has_none() -> None:
    lines = dict(header_lines(header_block(Response(308, content_type=None), "req_1")))
    assert lines[b"content-length"] == b"0"
    assert b"content-type" not in lines


def test_a_response_may_have_a_warning() -> None:
    assert Response(201, headers=(REPLAYED, (WARNING, "text"))).warning == "text"
    assert Response(201, headers=(REPLAYED,)).warning is None


def test_a_replayed_response_says_so() -> None:
    assert Response(201, headers=(REPLAYED,)).replayed
    assert not Response(201).replayed
