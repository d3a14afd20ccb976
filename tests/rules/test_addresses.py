import platform
import sys
from runpy import run_path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules import addresses
from paymock.rules.addresses import address_problem, checksummed

# The examples of EIP-55.
EIP_55 = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]
ADDRESS = EIP_55[4]


def test_the_digest_is_keccak_and_not_sha3() -> None:
    assert (
        addresses.keccak_256(b"").hexdigest()
        == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    )


@pytest.mark.parametrize("address", EIP_55)
def test_the_checksum_is_that_of_eip_55(address: str) -> None:
    assert checksummed(address.lower()) == address
    assert address_problem(address) is None


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (ADDRESS.swapcase().replace("0X", "0x"), "wrong EIP-55 checksum"),
        ("0x" + "0" * 40, "zero address"),
        (ADDRESS.replace("0x", "0X"), "40 hex digits"),
        ("", "40 hex digits"),
    ],
)
def test_an_invalid_address_is_refused_and_not_repeated(address: str, problem: str) -> None:
    message = address_problem(address)
    assert message is not None
    assert problem in message
    assert not address or address not in message


@given(st.binary(min_size=20, max_size=20).filter(any))
def test_a_checksummed_address_is_accepted(raw: bytes) -> None:
    assert address_problem(checksummed("0x" + raw.hex())) is None


def test_without_sha3_the_digest_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sha3", None)
    monkeypatch.setattr(platform, "architecture", lambda: ("64bit", "ELF"))  # it starts the program `file`
    module = run_path(addresses.__file__)
    assert module["keccak_256"](b"abc").digest() == addresses.keccak_256(b"abc").digest()
    assert "Crypto" in type(module["keccak_256"](b"")).__module__
