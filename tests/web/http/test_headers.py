"""Checks of request headers."""

from collections.abc import Callable
from functools import partial

import pytest

from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import SCENARIOS
from paymock.web.http.headers import check_json_body, idempotency_key, requested_scenario
from paymock.web.http.requests import Body, Request, parse_request
from paymock.web.http.responses import Header

JSON = (b"content-type", b"application/json")


def request(*lines: Header) -> Request:
    return parse_request("POST", b"/v1/payments", lines, Body(b""))


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"Application/JSON",
        b" application/json ; charset=UTF-8",
        b'application/json;charset="utf8"',
        b"application/json; profile=x",
    ],
)
def test_json_in_utf_8_is_accepted(content_type: bytes) -> None:
    check_json_body(request((b"content-type", content_type), (b"content-encoding", b"Identity")))


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([], "unsupported_media_type"),
        ([(b"content-type", b"text/plain")], "unsupported_media_type"),
        ([(b"content-type", b"application/json; charset=latin-1")], "unsupported_media_type"),
        ([JSON, JSON], "unsupported_media_type"),
        ([JSON, (b"content-encoding", b"gzip")], "unsupported_content_encoding"),
        ([JSON, (b"content-encoding", b"identity")] * 2, "unsupported_content_encoding"),
    ],
)
def test_any_other_body_is_refused(lines: list[Header], code: str) -> None:
    with pytest.raises(PaymockError) as refused:
        check_json_body(request(*lines))
    assert refused.value.kind.code == code


@pytest.mark.parametrize("key", ["12345678", "!" * 128, " order-1001\t"])
def test_an_idempotency_key_has_8_to_128_visible_characters(key: str) -> None:
    assert idempotency_key(request((b"idempotency-key", key.encode()))) == key.strip()


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([], "idempotency_key_missing"),
        ([b" "], "idempotency_key_missing"),
        ([b"1234567"], "idempotency_key_invalid"),
        ([b"!" * 129], "idempotency_key_invalid"),
        ([b"order 1001"], "idempotency_key_invalid"),
        ([b"order-1001\xe9"], "idempotency_key_invalid"),
    ],
)
def test_any_other_idempotency_key_is_refused(values: list[bytes], code: str) -> None:
    with pytest.raises(PaymockError) as refused:
        idempotency_key(request(*[(b"idempotency-key", value) for value in values]))
    assert refused.value.kind.code == code


@pytest.mark.parametrize(
    ("read", "name", "value"),
    [
        (idempotency_key, b"idempotency-key", b"order-1001"),
        (partial(requested_scenario, scenarios=SCENARIOS), b"x-mock-scenario", b"happy_path"),
    ],
)
def test_a_repeated_header_is_refused_even_with_equal_values(
    read: Callable[[Request], object], name: bytes, value: bytes
) -> None:
    with pytest.raises(PaymockError, match="was sent twice"):
        read(request((name, value), (name, value)))


def test_a_request_without_a_scenario_has_none() -> None:
    assert requested_scenario(request(), SCENARIOS) is None
    assert requested_scenario(request((b"x-mock-scenario", b"late_payment")), SCENARIOS) == "late_payment"


@pytest.mark.parametrize(("value", "nearest"), [(b"Happy_Path", "happy_path"), (b"late", "late_payment")])
def test_the_refusal_of_a_scenario_names_the_nearest(value: bytes, nearest: str) -> None:
    with pytest.raises(PaymockError, match=f"The nearest is {nearest}"):
        requested_scenario(request((b"x-mock-scenario", value)), SCENARIOS)
