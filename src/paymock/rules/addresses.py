"""EVM addresses: their format and their EIP-55 checksum. Keccak-256 is not SHA3-256."""

import re
from functools import lru_cache

try:
    from sha3 import keccak_256
except ImportError:  # four times slower, but with wheels for every platform
    from Crypto.Hash import keccak

    def keccak_256(data: bytes) -> keccak.Keccak_Hash:
        """The Keccak-256 hash object of `data`, as in `sha3`."""
        return keccak.new(digest_bits=256, data=data)


__all__ = ["ADDRESS_PATTERN", "address_of", "address_problem", "checksummed", "keccak_256"]

ADDRESS_PATTERN = "^0x[0-9a-fA-F]{40}$"
"""An EVM address, as a JSON Schema pattern, which cannot express the checksum of a mixed-case address."""

_ADDRESS = re.compile("0x[0-9a-fA-F]{40}")
_INVALID = "must be an EVM address: 0x followed by 40 hex digits"
_HEX = b"0123456789abcdef"
_to_int = int.from_bytes
_LETTERS = bytes.maketrans(_HEX, b"\0" * 10 + b"\x20" * 6)
_EIGHT_OR_MORE = bytes.maketrans(_HEX, b"\0" * 8 + b"\x20" * 8)
"""EIP-55: a letter is upper case where the hex digit of the digest at its position is 8 or more. Lower and
upper case differ in the bit 0x20, so that all forty digits are converted at once.
"""


def address_of(data: bytes) -> str:
    """The address made of the last 20 bytes of the Keccak-256 digest of `data`, with its EIP-55 checksum."""
    return _checksummed(keccak_256(data).hexdigest()[-40:].encode())


def checksummed(address: str) -> str:
    """`address` (0x and 40 hex digits of any case) with its EIP-55 checksum."""
    return _checksummed(address[2:].lower().encode())


def _checksummed(digits: bytes) -> str:
    digest = keccak_256(digits).hexdigest()[:40].encode()
    upper = _to_int(digits.translate(_LETTERS)) & _to_int(digest.translate(_EIGHT_OR_MORE))
    return "0x" + (_to_int(digits) ^ upper).to_bytes(40).decode()


def address_problem(text: str) -> str | None:
    """Why `text` is not an acceptable EVM address, or None when it is one. Never contains `text`."""
    return _cached_problem(text) if len(text) == len("0x") + 40 else _INVALID


@lru_cache(maxsize=1024)  # a merchant has few payout addresses and sends them with every payment
def _cached_problem(text: str) -> str | None:
    if not _ADDRESS.fullmatch(text):
        return _INVALID
    digits = text[2:]
    if not digits.strip("0"):
        return "must not be the zero address"
    if digits not in (digits.lower(), digits.upper()) and text != checksummed(text):
        return "has a wrong EIP-55 checksum: check the address, or write it all in lower case"
    return None
