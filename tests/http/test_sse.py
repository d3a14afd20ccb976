from collections.abc import AsyncGenerator

import pytest

from paymock.http.responses import event_stream, header_block
from paymock.rules.errors import PaymockError
from paymock.schemas.public import Problem
from tests.support.virtual_time import run


def event(field: str) -> bytes:
    return b'data: {"field":"%s","message":"a\\nb"}\n\n' % field.encode()


async def problems(*fields: str) -> AsyncGenerator[Problem, None]:
    for field in fields:
        yield Problem(field=field, message="a\nb")


def test_each_message_is_one_event_and_the_first_comes_with_the_time_to_reconnect() -> None:
    async def check() -> None:
        response = await event_stream(problems("one", "two", "three"))
        assert response.body == b"retry: 1000\n\n" + event("one")
        assert response.stream is not None
        assert [part async for part in response.stream] == [event("two"), event("three")]

    run(check())


def test_a_stream_is_neither_buffered_nor_cached() -> None:
    lines = header_block(run(event_stream(problems())), "req_1").split(b"\r\n")
    assert {b"content-type: text/event-stream", b"x-accel-buffering: no", b"cache-control: no-store"} <= {
        *lines
    }


def test_an_error_of_the_first_message_is_raised_before_there_is_a_reply() -> None:
    async def unknown() -> AsyncGenerator[Problem, None]:
        raise PaymockError("payment_not_found")
        yield

    with pytest.raises(PaymockError):
        run(event_stream(unknown()))


def test_closing_the_stream_closes_its_messages() -> None:
    closed = []

    async def endless() -> AsyncGenerator[Problem, None]:
        try:
            while True:
                yield Problem(field="again", message="")
        finally:
            closed.append(True)

    async def check() -> None:
        response = await event_stream(endless())
        assert response.stream is not None
        await response.stream.aclose()

    run(check())
    assert closed
