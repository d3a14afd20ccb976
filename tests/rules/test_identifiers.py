import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules import identifiers
from paymock.rules.addresses import address_problem
from paymock.schemas.fields import identifier

TOKEN = "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt"
SECRET, ANOTHER = b"s" * 32, b"t" * 32
SANDBOX = identifiers.sandbox_of("mk_test_demo")
TOKENS = re.compile("[a-z2-7]{40}")

secrets = st.binary(min_size=1, max_size=64)
sandboxes = st.builds(identifiers.sandbox_of, st.text())
keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=128)
generations = st.integers(0, 1000)


def test_a_token_depends_on_secret_sandbox_idempotency_key_and_resets() -> None:
    tokens = [
        identifiers.derive_token(SECRET, SANDBOX, "key-1234"),
        identifiers.derive_token(ANOTHER, SANDBOX, "key-1234"),
        identifiers.derive_token(SECRET, identifiers.sandbox_of("mk_test_other"), "key-1234"),
        identifiers.derive_token(SECRET, SANDBOX, "key-1235"),
        identifiers.derive_token(SECRET, SANDBOX, "key-1234", 1),
    ]
    assert tokens[0] == identifiers.derive_token(SECRET, SANDBOX, "key-1234")
    assert len(set(tokens)) == len(tokens)


@given(secrets, sandboxes, keys, generations)
def test_a_token_contains_its_sandbox(secret: bytes, sandbox: str, key: str, generation: int) -> None:
    token = identifiers.derive_token(secret, sandbox, key, generation)
    assert TOKENS.fullmatch(token)
    assert identifiers.sandbox_of_token(secret, token) == sandbox


@given(secrets, secrets, sandboxes, keys)
def test_another_secret_decrypts_another_name(secret: bytes, another: bytes, sandbox: str, key: str) -> None:
    name = identifiers.sandbox_of_token(another, identifiers.derive_token(secret, sandbox, key))
    assert (name == sandbox) == (secret == another)
    assert re.fullmatch("[a-z2-7]{14}", name)


@given(st.from_regex(TOKENS, fullmatch=True))
def test_an_invented_token_belongs_to_no_sandbox(token: str) -> None:
    assert identifiers.sandbox_of_token(SECRET, token) not in (SANDBOX, "origin")


def test_tokens_of_one_sandbox_share_no_letters() -> None:
    """Two ids do not show whether they belong to the same sandbox."""
    tokens = [identifiers.derive_token(SECRET, SANDBOX, f"key-{number:04d}") for number in range(200)]
    for letters in zip(*tokens, strict=True):
        assert len(set(letters)) > 20


def test_all_values_derived_from_a_token_differ() -> None:
    derived = [
        identifiers.attempt_id(TOKEN),
        identifiers.deposit_id(TOKEN, 0),
        identifiers.deposit_id(TOKEN, 1),
        identifiers.transaction_hash(TOKEN, 0),
        identifiers.transaction_hash(TOKEN, 1),
        identifiers.webhook_secret(TOKEN),
        identifiers.invoice_address(TOKEN),
        identifiers.sender_address(TOKEN),
    ]
    assert len(set(derived)) == len(derived)
    assert not any(TOKEN in value for value in derived)
    assert [address_problem(address) for address in derived[-2:]] == [None, None]


def test_the_token_of_an_id_follows_its_prefix() -> None:
    assert identifiers.parse_token("pay_" + TOKEN, identifiers.PAYMENT_PREFIX) == TOKEN
    for token in ("", TOKEN[1:], TOKEN + "a", TOKEN + "\n", TOKEN.upper(), *(digit * 40 for digit in "018=")):
        assert identifiers.parse_token("pay_" + token, identifiers.PAYMENT_PREFIX) is None, token
    for text in ("we_" + TOKEN, TOKEN, ""):
        assert identifiers.parse_token(text, identifiers.PAYMENT_PREFIX) is None, text


@pytest.mark.parametrize("prefix", identifiers.ID_PATTERNS)
def test_the_example_of_an_id_is_valid(prefix: str) -> None:
    [example] = identifier(prefix, "something").examples or []
    assert re.fullmatch(identifiers.ID_PATTERNS[prefix], example)
