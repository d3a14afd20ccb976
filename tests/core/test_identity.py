import re

from paymock.core import identity
from paymock.core.addresses import address_problem

TOKEN = "00112233445566778899aabbccddeeff"


def test_a_token_depends_on_secret_sandbox_and_idempotency_key() -> None:
    base = (b"s" * 32, "sandbox", "key-1234")
    others = [(b"t" * 32, *base[1:]), (base[0], "other", base[2]), (*base[:2], "key-1235")]
    assert identity.token_of(*base) == identity.token_of(*base)
    assert re.fullmatch("[0-9a-f]{32}", identity.token_of(*base))
    assert len({identity.token_of(*parts) for parts in [base, *others]}) == 4


def test_everything_that_follows_from_a_token_differs() -> None:
    derived = [
        identity.attempt_id(TOKEN),
        identity.deposit_id(TOKEN, 0),
        identity.deposit_id(TOKEN, 1),
        identity.transaction_hash(TOKEN, 0),
        identity.transaction_hash(TOKEN, 1),
        identity.webhook_secret(TOKEN),
        identity.invoice_address(TOKEN),
        identity.sender_address(TOKEN),
    ]
    assert len(set(derived)) == len(derived)
    assert not any(TOKEN in value for value in derived)


def test_addresses_are_valid() -> None:
    assert address_problem(identity.invoice_address(TOKEN)) is None
    assert address_problem(identity.sender_address(TOKEN)) is None


def test_a_token_is_found_only_behind_its_prefix() -> None:
    assert identity.token_in("pay_" + TOKEN, identity.PAYMENT) == TOKEN
    assert identity.token_in("we_" + TOKEN, identity.PAYMENT) is None


def test_the_name_of_a_sandbox_does_not_show_its_key() -> None:
    assert "demo" not in identity.sandbox_of("mk_test_demo")
