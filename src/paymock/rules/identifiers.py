"""Identifiers: all derived, none random.

A resource's *token* is a keyed hash of (secret of the store, sandbox, idempotency key). So the same
idempotency key always leads to the same resource, and one add-if-absent is both the insert and the
idempotency check. Nobody without the secret can guess a token. All other random-looking values of a payment
are hashes of its token.

A token also contains the encrypted name of its sandbox. So the checkout finds a payment by its id alone, and
no index of all payments is needed.
"""

import hashlib
import re
from functools import lru_cache

from paymock.rules.addresses import address_of

PAYMENT_PREFIX, ATTEMPT_PREFIX, DEPOSIT_PREFIX, ENDPOINT_PREFIX = "pay_", "att_", "dep_", "we_"
_TOKEN_PATTERN, _DERIVED_PATTERN = "[a-z2-7]{40}", "[0-9a-f]{32}"
ID_PATTERNS = {
    PAYMENT_PREFIX: f"^{PAYMENT_PREFIX}{_TOKEN_PATTERN}$",
    ATTEMPT_PREFIX: f"^{ATTEMPT_PREFIX}{_DERIVED_PATTERN}$",
    DEPOSIT_PREFIX: f"^{DEPOSIT_PREFIX}{_DERIVED_PATTERN}$",
    ENDPOINT_PREFIX: f"^{ENDPOINT_PREFIX}{_TOKEN_PATTERN}$",
}
_TOKEN = re.compile(_TOKEN_PATTERN)
_LETTERS = b"abcdefghijklmnopqrstuvwxyz234567" * 8
"""Translation table from a byte to the base-32 letter of its last five bits."""

_BITS = bytes.maketrans(_LETTERS[:32], bytes(range(32)))
"""Translation table from a base-32 letter to its five bits."""

KEY_LIFETIME = 24 * 3600 * 1000
"""How long the real service keeps an idempotency key, in milliseconds."""

_KEYED_LETTERS, _NAME_LETTERS = 26, 14
"""How many letters of a token are a keyed hash, and how many are the encrypted name of its sandbox."""

_UNKEYED = hashlib.blake2b(digest_size=32)


@lru_cache(maxsize=1024)  # few keys are used, each with every request
def sandbox_of(api_key: str) -> str:
    """The name of the sandbox of `api_key`: a hash, so that no store or log contains the key itself."""
    return hashlib.blake2b(api_key.encode(), digest_size=_NAME_LETTERS).digest().translate(_LETTERS).decode()


def derive_token(secret: bytes, sandbox: str, idempotency_key: str, generation: int = 0) -> str:
    """The token of the resource that `idempotency_key` creates in `sandbox` after `generation` resets: 40
    letters and digits, with 130 bits that cannot be guessed. `secret` is at most 64 bytes.
    """
    scope = f"{sandbox}.{generation}" if generation else sandbox
    hasher = _hashers(secret)[0].copy()  # faster than a new hasher
    hasher.update(f"{scope} {idempotency_key}".encode())
    keyed = hasher.digest().translate(_LETTERS)
    return (keyed + _encrypt(secret, keyed, sandbox.encode())).decode()


def sandbox_of_token(secret: bytes, token: str) -> str:
    """The name of the sandbox of `token`; for a token of another secret, that of one that no key opens."""
    letters = token.encode()
    return _encrypt(secret, letters[:_KEYED_LETTERS], letters[_KEYED_LETTERS:]).decode()


def secret_from_seed(seed: str) -> bytes:
    """The secret of a store whose server was started with `--seed`: 32 bytes."""
    return hashlib.blake2b(seed.encode(), digest_size=32).digest()


def parse_token(identifier: str, prefix: str) -> str | None:
    """The token in `identifier`, or None when that is not a valid id with `prefix`."""
    valid = identifier.startswith(prefix) and _TOKEN.fullmatch(identifier, len(prefix))
    return identifier[len(prefix) :] if valid else None


def attempt_id(token: str) -> str:
    return ATTEMPT_PREFIX + _derived("attempt", token)[:32]


def deposit_id(token: str, number: int) -> str:
    """The id of a payment's deposit `number`, counted from 0."""
    return DEPOSIT_PREFIX + _derived(f"deposit {number}", token)[:32]


def transaction_hash(token: str, number: int) -> str:
    """The hash of the simulated transaction of a payment's deposit `number`, counted from 0."""
    return "0x" + _derived(f"transaction {number}", token)


def webhook_secret(token: str) -> str:
    """The secret of a webhook endpoint. The mock never signs anything with it."""
    return "whsec_" + _derived("webhook secret", token)


def invoice_address(token: str) -> str:
    """The address that the customer has to pay to. It is a hash, so nobody holds its key."""
    return address_of(f"invoice {PAYMENT_PREFIX}{token}".encode())


def sender_address(token: str) -> str:
    return address_of(f"sender {PAYMENT_PREFIX}{token}".encode())


@lru_cache(maxsize=8)  # a server has one secret
def _hashers(secret: bytes) -> tuple[hashlib.blake2b, hashlib.blake2b]:
    """The keyed hash functions of the letters of tokens, and of the masks of sandbox names."""
    return (
        hashlib.blake2b(key=secret, digest_size=_KEYED_LETTERS),
        hashlib.blake2b(key=secret, digest_size=_NAME_LETTERS),
    )


def _encrypt(secret: bytes, keyed: bytes, name: bytes) -> bytes:
    """Encrypt or decrypt the name of a sandbox: XOR with a mask that depends on the keyed letters."""
    hasher = _hashers(secret)[1].copy()
    hasher.update(keyed)
    mask, bits = hasher.digest(), name.translate(_BITS)
    return (int.from_bytes(bits) ^ int.from_bytes(mask)).to_bytes(_NAME_LETTERS).translate(_LETTERS)


def _derived(purpose: str, token: str) -> str:
    hasher = _UNKEYED.copy()
    hasher.update(f"{purpose} {token}".encode())
    return hasher.hexdigest()
