import asyncio
from typing import Any

import pytest

from paymock.http.requests import MAX_BODY, Body, ClientGone, Request
from paymock.rules.errors import PaymockError
from tests.support.virtual_time import run


def test_a_header_that_was_sent_twice_has_no_value() -> None:
    request = Request("GET", "/", {b"a": b"x", b"b": b"1"}, repeated=[b"b"])
    assert request.header(b"a") == "x"
    assert request.header(b"absent") is None
    with pytest.raises(ValueError, match="b was sent twice"):
        request.header(b"b")


def test_the_text_of_a_request_does_not_show_its_headers() -> None:
    assert "mk_test" not in repr(Request("GET", "/", {b"authorization": b"Bearer mk_test_demo"}))


def test_a_query_is_read_by_its_names() -> None:
    assert Request("GET", "/", {}).query(()) == {}
    request = Request("GET", "/", {}, "limit=5&status=a%20b&empty=")
    assert request.query(("limit", "status", "empty")) == {"limit": "5", "status": "a b", "empty": ""}


@pytest.mark.parametrize("query", ["secret", "limit=1&limit=1", "secret=1", "limit=1&&", "&"])
def test_a_query_that_is_malformed_unknown_or_repeated_is_refused_without_its_text(query: str) -> None:
    with pytest.raises(ValueError, match=r"query|parameter") as refused:
        Request("GET", "/", {}, query).query(("limit",))
    assert "secret" not in str(refused.value)


async def arrive(body: Body, *parts: bytes) -> None:
    for part in parts:
        await asyncio.sleep(0)
        body.append(part)
    body.complete()


def test_a_body_is_put_together_once_from_its_parts() -> None:
    async def read() -> tuple[Any, Any]:
        body = Body(length=8)
        request = Request("POST", "/", {}, body=body)
        first, _ = await asyncio.gather(request.json(), arrive(body, b'{"a"', b"", b": 1}"))
        return first, await request.json()

    first, second = run(read())
    assert first is second == {"a": 1}


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (Body(length=MAX_BODY + 1), []),
        (Body(b" " * (MAX_BODY + 1)), []),
        (Body(), [b" " * (MAX_BODY + 1)]),
        (Body(), [b" " * MAX_BODY, b" ", b"more"]),
    ],
    ids=["announced", "at once", "in one part", "in parts"],
)
def test_a_body_over_the_limit_is_refused(body: Body, parts: list[bytes]) -> None:
    for part in parts:
        body.append(part)
    with pytest.raises(PaymockError) as refused:
        run(body.read())
    assert refused.value.kind.code == "payload_too_large"


def test_the_end_of_a_client_is_the_end_of_its_body() -> None:
    async def read() -> None:
        body = Body(length=8)
        asyncio.get_running_loop().call_soon(body.fail)
        await body.read()

    with pytest.raises(ClientGone):
        run(read())
