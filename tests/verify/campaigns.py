"""Campaigns against shops of tests/verify/shops, in one scenario with one fault."""

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from paymock.testing import Sandbox
from paymock.verify import Report, batches, findings, verifier, verify
from paymock.verify.batches import Batch
from paymock.verify.driver import Backend, InlineExecutor
from paymock.verify.plans import Plan
from paymock.verify.runner import Options
from paymock.verify.verifier import Verifier
from tests.verify.shops import bad
from tests.verify.shops.base import Shop

NARROW: dict[str, Any] = {"scenarios": ["happy_path"], "faults": ["drop"], "settle": 0.05}

LOST_CREATION = "happy_path/createPayment=drop"
LOST_READ = "happy_path/getPayment@0=drop"

BUGS = [
    (bad.paid_at("payment_detected"), "free_goods", "happy_path"),
    (bad.DropsAfterFailedPoll, "lost_sale", LOST_READ),
    (bad.DeliversBeforeConfirmingRead, "double_delivery", "happy_path/getPayment@45#2=drop"),
    (bad.NewKeyPerTry, "double_payment", LOST_CREATION),
    (bad.PaysAgainAfterFailedRead, "double_payment", LOST_READ),
]
"""Shops with the first rule that each breaks, and the token of the smallest plan that it takes."""


def judged(sandbox: Sandbox, shop_type: type[Shop], *, at_once: bool = False, **settings: Any) -> Report:
    """The report on a shop, with one scenario and one fault unless `settings` say otherwise. `at_once`: the
    judge may place an order several times at once, as by command or HTTP.
    """
    if at_once:
        with (
            ThreadPoolExecutor(16) as threads,
            verifier_of(sandbox, shop_type, threads, **settings) as verifier,
        ):
            for _ in verifier.run():
                pass
            return verifier.report()
    with shop_type(sandbox.url, sandbox.api_key) as shop:
        chosen = {**NARROW, "tick": None if shop.own_pace else shop.tick, **settings}
        return verify(sandbox, order=shop.order, deliveries=shop.deliveries, **chosen)


def few_side_by_side(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let so many orders without a fault show what happens by chance."""
    few = Batch("*", "orders", f"{number}x")
    for module in (batches, verifier, findings):
        patch.setattr(module, "SIDE_BY_SIDE", few)
    patch.setattr(findings, "_NO_FAULT", Plan("*", batch=few))


@contextmanager
def verifier_of(
    sandbox: Sandbox, shop_type: type[Shop], threads: Executor | None = None, **settings: Any
) -> Iterator[Verifier]:
    with shop_type(sandbox.url, sandbox.api_key) as shop:
        tick = None if shop.own_pace else shop.tick
        application = Backend(shop.order, shop.deliveries, tick, threads or InlineExecutor(), threads)
        with closing(Verifier(sandbox, application, Options(**{**NARROW, **settings}))) as verifier:
            yield verifier
