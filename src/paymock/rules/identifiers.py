"""Identifiers, all derived: nothing here is random, nothing is stored twice.

A resource's *token* is a keyed hash of (secret of the store, sandbox, idempotency key). So the same
idempotency key always leads to the same resource, and one add-if-absent is both the insert and the
idempotency check. Nobody without the secret can guess a token. Everything else about a payment that looks
random follows from its token.

A token also hides the name of its sandbox, so that whoever has only the id of a payment, as a customer at the
checkout has, can be shown that payment, and no index of all payments is needed.
"""

import hashlib
import re
from functools import lru_cache

from paymock.rules.addresses import address_of

PAYMENT, ATTEMPT, DEPOSIT, ENDPOINT = "pay_", "att_", "dep_", "we_"
_TOKEN_PATTERN, _DERIVED_PATTERN = "[a-z2-7]{40}", "[0-9a-f]{32}"
ID_PATTERNS = {
    PAYMENT: f"^{PAYMENT}{_TOKEN_PATTERN}$",
    ATTEMPT: f"^{ATTEMPT}{_DERIVED_PATTERN}$",
    DEPOSIT: f"^{DEPOSIT}{_DERIVED_PATTERN}$",
    ENDPOINT: f"^{ENDPOINT}{_TOKEN_PATTERN}$",
}
_TOKEN = re.compile(_TOKEN_PATTERN)
_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8
"""Of each byte, what its last five bits are written as."""

_BITS = bytes.maketrans(_LETTERS[:32], bytes(range(32)))
_DRAWN, _NAME = 26, 14
"""How many letters of a token cannot be guessed, and how many hide the name of its sandbox."""

_UNKEYED = hashlib.blake2b(digest_size=32)


@lru_cache(maxsize=1024)  # a server knows few keys, and each comes with every request
def sandbox_of(api_key: str) -> str:
    """The name of the sandbox that `api_key` opens: a hash, so that no store or log holds the key itself."""
    return hashlib.blake2b(api_key.encode(), digest_size=_NAME).digest().translate(_LETTERS).decode()


def token_of(secret: bytes, sandbox: str, idempotency_key: str, generation: int = 0) -> str:
    """The token (40 letters and digits, of which 130 bits cannot be guessed) of whatever `idempotency_key`
    creates in `sandbox`, which has been reset `generation` times. `secret` is at most 64 bytes.
    """
    scope = f"{sandbox}.{generation}" if generation else sandbox
    drawing, _ = _begun(secret)
    drawn = _digest(drawing, f"{scope} {idempotency_key}".encode()).translate(_LETTERS)
    return (drawn + _masked(secret, drawn, sandbox.encode())).decode()


def sandbox_in(secret: bytes, token: str) -> str:
    """The name of the sandbox that `token` was made in; of a token that was made with another secret, that
    of a sandbox without resources.
    """
    made = token.encode()
    return _masked(secret, made[:_DRAWN], made[_DRAWN:]).decode()


def secret_of(seed: str) -> bytes:
    """The store secret that `--seed` stands for: 32 bytes."""
    return hashlib.blake2b(seed.encode(), digest_size=32).digest()


def token_in(identifier: str, prefix: str) -> str | None:
    """The token inside `identifier`, or None when it is not one of the ids that start with `prefix`."""
    token = identifier.removeprefix(prefix)
    return token if identifier.startswith(prefix) and _TOKEN.fullmatch(token) else None


def attempt_id(token: str) -> str:
    """The id of the only attempt of a payment."""
    return ATTEMPT + _derived("attempt", token)[:32]


def deposit_id(token: str, number: int) -> str:
    """The id of a payment's deposit, counted from 0."""
    return DEPOSIT + _derived(f"deposit {number}", token)[:32]


def transaction_hash(token: str, number: int) -> str:
    """The hash of the simulated transaction behind a payment's deposit, counted from 0."""
    return "0x" + _derived(f"transaction {number}", token)


def webhook_secret(token: str) -> str:
    """The secret of a webhook endpoint. The mock never signs anything with it."""
    return "whsec_" + _derived("webhook secret", token)


def invoice_address(token: str) -> str:
    """The address that the customer is told to pay. It is a hash, so nobody holds its key."""
    return address_of(f"invoice {PAYMENT}{token}".encode())


def sender_address(token: str) -> str:
    """The address that the simulated customer pays from."""
    return address_of(f"sender {PAYMENT}{token}".encode())


@lru_cache(maxsize=8)  # a server has one secret
def _begun(secret: bytes) -> tuple[hashlib.blake2b, hashlib.blake2b]:
    """What digests begin with that draw the letters of tokens, and that mask the names of sandboxes."""
    return hashlib.blake2b(key=secret, digest_size=_DRAWN), hashlib.blake2b(key=secret, digest_size=_NAME)


def _digest(begun: hashlib.blake2b, data: bytes) -> bytes:
    digest = begun.copy()  # to begin one takes longer than to end it
    digest.update(data)
    return digest.digest()


def _masked(secret: bytes, drawn: bytes, name: bytes) -> bytes:
    """The name of a sandbox, hidden; or of what was hidden, the name."""
    _, masking = _begun(secret)
    mask, bits = _digest(masking, drawn), name.translate(_BITS)
    return (int.from_bytes(bits) ^ int.from_bytes(mask)).to_bytes(_NAME).translate(_LETTERS)


def _derived(purpose: str, token: str) -> str:
    return _digest(_UNKEYED, f"{purpose} {token}".encode()).hex()
