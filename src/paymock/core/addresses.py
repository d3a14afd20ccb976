"""EVM addresses: their form and their EIP-55 checksum. Keccak-256 is not SHA3-256, hence pycryptodome."""

import re
from functools import lru_cache

from Crypto.Hash import keccak

ADDRESS_PATTERN = "^0x[0-9a-fA-F]{40}$"
"""An EVM address, as a JSON Schema pattern. The checksum of a mixed-case address goes beyond any pattern."""

_ADDRESS = re.compile("0x[0-9a-fA-F]{40}")


def keccak256(data: bytes) -> bytes:
    """The 32-byte Keccak-256 digest that Ethereum uses."""
    return keccak.new(digest_bits=256, data=data).digest()


def checksummed(address: str) -> str:
    """`address` (0x and 40 hex digits of any case) with the upper and lower case that EIP-55 prescribes."""
    digits = address[2:].lower()
    digest = keccak256(digits.encode("ascii")).hex()
    upper = digits.upper()
    return "0x" + "".join([upper[at] if digest[at] >= "8" else digits[at] for at in range(len(digits))])


@lru_cache(maxsize=1024)  # a merchant has few payout addresses and sends them with every payment
def address_problem(text: str) -> str | None:
    """Says why `text` is not an acceptable EVM address, or None when it is one. Never repeats the address."""
    if not _ADDRESS.fullmatch(text):
        return "must be an EVM address: 0x followed by 40 hex digits"
    digits = text[2:]
    if not digits.strip("0"):
        return "must not be the zero address"
    if digits not in (digits.lower(), digits.upper()) and text != checksummed(text):
        return "has a wrong EIP-55 checksum: check the address, or write it all in lower case"
    return None
