"""Helpers for tests of the Redis store: expected failures."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.base import Store, StoreError
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add
from tests.support.virtual_time import within

OUTAGE_SECONDS = 2.0
"""How long a step may take to fail when the engine is down, and to succeed when it is back."""


async def refused(step: Awaitable[Any]) -> PaymockError:
    """Return the error of a step, which fails within OUTAGE_SECONDS."""
    with pytest.raises(PaymockError) as caught:
        async with within(OUTAGE_SECONDS):
            await step
    assert caught.value.kind.code == "store_unavailable"
    return caught.value


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = OUTAGE_SECONDS) -> None:
    """Wait until `check` holds."""
    async with within(seconds):
        while not await check():
            await asyncio.sleep(0.01)


async def works(store: Store, sandbox: str) -> bool:
    """Return whether a value can be added and read."""
    try:
        await add(store, sandbox, "again", b"value")
    except PaymockError:
        return False
    return await store.get(sandbox, "again") == [b"value"]


async def warning_of(url: str) -> str | None:
    store = RedisStore(url)
    try:
        return await store.initialize()
    finally:
        await store.close()


async def describe_failure(url: str) -> str:
    """Return why a store cannot be used."""
    with pytest.raises(StoreError) as caught:
        await RedisStore(url).initialize()  # it closes what it has opened
    return str(caught.value)


def create_certificate(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Create a certificate for `localhost` and return it, and the options for an engine that has it."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost "
        f"-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {key} -out {certificate}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    return certificate, (*files, "--tls-ca-cert-file", str(certificate), "--tls-auth-clients", "no")
