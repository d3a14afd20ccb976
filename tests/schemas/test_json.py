import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from paymock.rules.errors import PaymockError
from paymock.schemas.json import decode, decode_fast, decode_strict, fingerprint
from tests.support.client import ORDER

REFUSED = {
    "nothing": b"",
    "white space": b" \n",
    "two documents": b"{}{}",
    "garbage at the end": b"{}x",
    "a trailing comma": b'{"a":1,}',
    "single quotes": b"{'a':1}",
    "a comment": b"/* */{}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "Latin-1": '{"a":"é"}'.encode("latin-1"),
    "an overlong sequence": b'{"a":"\xc0\x80"}',
    "CESU-8": b'{"a":"\xed\xa0\xbd\xed\xb2\xb8"}',
    "half of a surrogate pair in a value": b'{"a":"\\ud83d"}',
    "half of a surrogate pair in a name": b'{"\\udcb8":1}',
    "a raw control character": b'{"a":"\n"}',
    "two members of one name": b'{"a":1,"a":2}',
    "two members of one name, one escaped": b'{"a":1,"\\u0061":2}',
    "two members of one name further in": b'{"a":[{"b":1,"b":1}]}',
    "two members of one name below 33 levels": b"[" * 33 + b'{"a":1,"a":2}' + b"]" * 33,
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}',
    "a float beyond the doubles": b'{"a":1e400}',
    "an integer of 310 digits": b'{"a":' + b"1" * 310 + b"}",
    "an integer beyond the doubles": b'{"a":' + b"9" * 309 + b"}",
    "an integer of 5,000 digits": b'{"a":' + b"9" * 5000 + b"}",
    "a leading zero": b'{"a":01}',
    "33 levels": b"[" * 33 + b"]" * 33,
    "20,000 levels": b"[" * 20_000 + b"]" * 20_000,
    "levels without an end": b"[" * 50_000,
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_decoders_interpret_differently_is_refused(case: str) -> None:
    with pytest.raises(PaymockError) as caught:
        decode(REFUSED[case])
    assert caught.value.kind.code == "invalid_json"


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b" null ", None),
        (b"[" * 32 + b"]" * 32, json.loads("[" * 32 + "]" * 32)),
        (b"[" + b"[]," * 40 + b"[]]", [[]] * 41),
        (b'{"a":"\\ud83d\\udcb8"}', {"a": "💸"}),
        (b'{"a":-0,"b":1.50,"c":1e2}', {"a": 0, "b": 1.5, "c": 100.0}),
        (b'{"a":' + b"1" * 309 + b"}", {"a": int("1" * 309)}),
        (b"-" + b"1" * 308, -int("1" * 308)),
    ],
)
def test_one_document_is_decoded(body: bytes, value: Any) -> None:
    assert decode(body) == value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_what_an_encoder_writes_is_decoded(value: Any) -> None:
    assert decode(json.dumps(value).encode()) == value


def test_a_fingerprint_ignores_the_order_of_members_and_white_space() -> None:
    first, second = decode(b'{"a":1,"b":[1,2]}'), decode(b'{ "b" : [1, 2], "a" : 1 }')
    assert fingerprint("POST", "/x", first) == fingerprint("POST", "/x", second)


TEXTS = st.recursive(
    st.sampled_from(
        ["null", "1", "-0", "1.50", "1e2", "12345678901234567890123", '"a"', '"\\u00e9"', '"é"', '"/"']
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '"\\u0061"']), inner), max_size=3).map(
            lambda members: "{" + ",".join(f"{name} :{value}" for name, value in members) + "}"
        )
    ),
    max_leaves=9,
)


@given(
    st.one_of(
        TEXTS.map(str.encode),
        json_values.map(lambda value: json.dumps(value, separators=(",", ":")).encode()),
        json_values.map(msgspec.json.encode),
        st.sampled_from([*REFUSED.values()]),
    )
)
def test_the_fast_and_the_strict_decoder_agree(body: bytes) -> None:
    """The fast decoder returns the value of the strict one, or leaves the body to it."""
    value = decode_fast(body)
    assert value is UNSET or repr(value) == repr(decode_strict(body))


def test_a_compact_or_indented_body_takes_the_fast_path() -> None:
    for body in (json.dumps(ORDER), json.dumps(ORDER, indent=2), json.dumps(ORDER, separators=(",", ":"))):
        assert decode_fast(body.encode()) == ORDER
