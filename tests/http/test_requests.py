from collections.abc import Mapping
from typing import Any

import pytest

from paymock.http.requests import MAX_BODY, Body, Receive, Request, parse_request
from paymock.rules.errors import PaymockError
from tests.support.virtual_time import run


def part(body: bytes, *, more: bool = False) -> Mapping[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def receiving(*messages: Mapping[str, Any]) -> Receive:
    """Return the `receive` of an ASGI server that has these messages."""
    remaining = iter(messages)

    async def receive() -> Mapping[str, Any]:
        return next(remaining)

    return receive


def with_query(query: bytes) -> Request:
    return parse_request("GET", b"/", [], Body(b""), query)


def test_a_header_is_read_without_surrounding_white_space() -> None:
    request = parse_request("GET", b"/", [(b"a", b"\t x y "), (b"b", b"1"), (b"b", b"1")], Body(b""))
    assert request.header(b"a") == "x y"
    assert request.header(b"absent") is None
    with pytest.raises(ValueError, match="b was sent twice"):
        request.header(b"b")


def test_the_text_of_a_request_does_not_show_its_headers() -> None:
    request = parse_request("GET", b"/", [(b"authorization", b"Bearer mk_test_demo")], Body(b""))
    assert "mk_test" not in repr(request)


def test_a_query_is_read_by_its_names() -> None:
    assert with_query(b"").query(()) == {}
    assert with_query(b"limit=5&status=a%20b&empty=").query(("limit", "status", "empty")) == {
        "limit": "5",
        "status": "a b",
        "empty": "",
    }


@pytest.mark.parametrize("query", [b"secret", b"limit=1&limit=1", b"secret=1", b"limit=1&&", b"&"])
def test_a_query_that_is_malformed_unknown_or_repeated_is_refused_without_its_text(query: bytes) -> None:
    with pytest.raises(ValueError, match=r"query|parameter") as refused:
        with_query(query).query(("limit",))
    assert "secret" not in str(refused.value)


def test_a_body_is_put_together_once_from_its_parts() -> None:
    body = Body(receive=receiving(part(b'{"a"', more=True), part(b"", more=True), part(b": 1}")))
    assert run(body.read(b"8")) == run(body.read(b"8")) == b'{"a": 1}'
    request = Request("POST", "/", {b"content-length": b"8"}, body)
    assert run(request.json()) is run(request.json()) == {"a": 1}


@pytest.mark.parametrize(
    ("announced", "messages"),
    [
        (b"%d" % (MAX_BODY + 1), []),
        (b"9" * 10_000, []),
        (b"0", [part(b" " * (MAX_BODY + 1))]),
        (b"0", [part(b" " * MAX_BODY, more=True), part(b" ", more=True)]),
    ],
    ids=["announced", "announced with many digits", "in one part", "in two parts of more"],
)
def test_a_body_over_the_limit_is_refused_at_once(
    announced: bytes, messages: list[Mapping[str, Any]]
) -> None:
    with pytest.raises(PaymockError) as refused:
        run(Body(receive=receiving(*messages)).read(announced))
    assert refused.value.kind.code == "payload_too_large"


def test_a_client_that_leaves_before_its_request_is_read_is_noticed() -> None:
    """Then no message tells of it any more. Otherwise a stream would go on until a write fails."""
    run(Body(receive=receiving(part(b"")), ended=lambda: True).disconnected())
