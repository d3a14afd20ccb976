"""Decoding of replies by a client: a body that does not fit its schema is not one of paymock."""

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def decode_reply(content: bytes, reply_type: type[T]) -> T:
    """The body of a reply as a `reply_type`. Raises ValueError when it does not fit."""
    try:
        return msgspec.json.decode(content, type=reply_type)
    except msgspec.MsgspecError as error:
        raise ValueError(error) from None


def decode_json_reply(content: bytes, reply_type: type[Any]) -> Any:
    """The body of a reply as JSON. Raises ValueError when it does not fit `reply_type`."""
    decode_reply(content, reply_type)
    return json.loads(content)
