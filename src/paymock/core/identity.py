"""Identifiers, all derived: nothing here is random, nothing is stored twice.

A resource's *token* is a keyed hash of (secret of the store, sandbox, idempotency key). So the same
idempotency key always leads to the same resource, and one add-if-absent is both the insert and the
idempotency check. Nobody without the secret can guess a token. Everything else about a payment that looks
random follows from its token.
"""

import hashlib
import re

from paymock.core.addresses import checksummed, keccak256

PAYMENT, ATTEMPT, DEPOSIT, ENDPOINT = "pay_", "att_", "dep_", "we_"
ID_PATTERN = "^{prefix}[0-9a-f]{{32}}$"
_TOKEN = re.compile("[0-9a-f]{32}")


def sandbox_of(api_key: str) -> str:
    """The name of the sandbox that `api_key` opens: a hash, so that no store or log holds the key itself."""
    return hashlib.blake2b(api_key.encode(), digest_size=16).hexdigest()


def token_of(secret: bytes, sandbox: str, idempotency_key: str, generation: int = 0) -> str:
    """The token (128 bits, 32 hex digits) of whatever `idempotency_key` creates in `sandbox`, which has been
    reset `generation` times. `secret` is at most 64 bytes.
    """
    scope = f"{sandbox}.{generation}" if generation else sandbox
    return hashlib.blake2b(f"{scope} {idempotency_key}".encode(), key=secret, digest_size=16).hexdigest()


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
    return _address(f"invoice {PAYMENT}{token}")


def sender_address(token: str) -> str:
    """The address that the simulated customer pays from."""
    return _address(f"sender {PAYMENT}{token}")


def _derived(purpose: str, token: str) -> str:
    return hashlib.blake2b(f"{purpose} {token}".encode(), digest_size=32).hexdigest()


def _address(purpose: str) -> str:
    return checksummed("0x" + keccak256(purpose.encode())[-20:].hex())
