"""Replies that are written together."""

import asyncio
from typing import Any, cast

import pytest

from paymock.web.transport.write_batch import WriteBatch
from tests.support.virtual_time import run


class Connection:
    """A connection that notes what is written to all of them."""

    def __init__(self, name: str, written: list[tuple[str, bytes]], *, closed: bool = False) -> None:
        self._name, self._written, self._closed = name, written, closed

    def write(self, data: bytes) -> None:
        if self._closed:
            raise RuntimeError("the transport is closed")
        self._written.append((self._name, data))


def transport(*arguments: Any, **options: Any) -> asyncio.WriteTransport:
    return cast("asyncio.WriteTransport", Connection(*arguments, **options))


@pytest.fixture
def written() -> list[tuple[str, bytes]]:
    return []


def test_replies_are_written_in_their_order_when_all_are_there(written: list[tuple[str, bytes]]) -> None:
    async def check() -> None:
        batch, one, two = WriteBatch(), transport("one", written), transport("two", written)
        for connection, reply in ((one, b"1"), (two, b"2"), (one, b"3")):
            batch.add(connection, reply)
        assert written == []
        await asyncio.sleep(0)
        assert written == [("one", b"1"), ("two", b"2"), ("one", b"3")]

    run(check())


def test_a_closed_connection_does_not_keep_the_others_from_their_replies(
    written: list[tuple[str, bytes]],
) -> None:
    async def check() -> None:
        batch = WriteBatch()
        batch.add(transport("gone", written, closed=True), b"1")
        batch.add(transport("here", written), b"2")
        await asyncio.sleep(0)
        assert written == [("here", b"2")]

    run(check())


def test_what_is_flushed_is_written_once_and_the_next_batch_is_written_too(
    written: list[tuple[str, bytes]],
) -> None:
    async def check() -> None:
        batch, connection = WriteBatch(), transport("one", written)
        batch.add(connection, b"1")
        batch.flush()
        assert written == [("one", b"1")]
        batch.add(connection, b"2")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert written == [("one", b"1"), ("one", b"2")]

    run(check())
