"""The shops of `paymock verify --example`: an unsafe one, and a careful one with bugs that must be caught."""

import json
import secrets
from collections import Counter
from contextlib import closing, suppress
from functools import partial
from typing import Any

from paymock.client.http import Client, Refused, Unreachable
from paymock.client.sandbox import Sandbox, payment_request
from paymock.rules.scenarios import TERMINAL_STATUSES, PaymentStatus
from paymock.verify.commands import DaemonThreads
from paymock.verify.verifier import verify


class Shop:
    """A careful shop: it repeats a creation with the same key, and delivers once, what is `completed`."""

    paid, closed = frozenset({"completed"}), TERMINAL_STATUSES | {"expired"}
    has_new_keys, hidden_errors = False, tuple[type[Exception], ...]()

    def __init__(self, url: str, api_key: str) -> None:
        client = Client(url, api_key)
        self.close, self._send = client.close, partial(client.send, decode=json.loads, timeout=0.3)
        self._open: dict[str, str] = {}
        self.delivered: Counter[str] = Counter()

    def order(self, order_id: str) -> None:
        key = secrets.token_hex(16) if self.has_new_keys else f"key-of-{order_id}"
        body = payment_request(order_id, "bsc", "USDT", "25000000000000000000")
        with suppress(*self.hidden_errors):
            reply = self._send("POST", "/v1/payments", body=body, headers={"Idempotency-Key": key})
            self._open[order_id] = reply.result()["id"]

    def poll(self) -> None:
        for order_id, payment_id in [*self._open.items()]:
            status = ""  # unless the read succeeds
            with suppress(Refused, Unreachable):
                status = self._send("GET", f"/v1/payments/{payment_id}").result()["status"]
            self.delivered[order_id] += status in self.paid
            if status in self.closed:
                del self._open[order_id]


class UnsafeShop(Shop):
    """It looks right, and loses money: a new key with each try, and no wait for the settlement."""

    paid, closed, has_new_keys = frozenset({"payment_finalized"}), Shop.closed | {"payment_finalized"}, True


BUGS: dict[str, tuple[str, dict[str, Any]]] = {
    "a new key with each try": ("double_payment", {"has_new_keys": True}),
    "goods at `payment_detected`": ("free_goods", {"paid": {"payment_detected"}}),
    "goods after any 2xx": ("free_goods", {"paid": {*PaymentStatus}}),
    "goods at each read": ("double_delivery", {"closed": frozenset()}),
    "no more reads after a failed one": ("lost_sale", {"closed": Shop.closed | {""}}),
    "a failed creation is given up": ("lost_sale", {"hidden_errors": (Refused, Unreachable)}),
}
"""Bugs to build into the careful shop, each with the rule that it breaks."""


def self_test(url: str) -> list[str]:
    """Verify the careful shop with and without each bug, on a server in open mode; return what was missed."""

    def rules_broken(changes: dict[str, Any]) -> list[str]:
        key = f"mk_test_{secrets.token_hex(8)}"
        with closing(type("Changed", (Shop,), changes)(url, key)) as shop:
            report = verify(
                Sandbox(url, key), order=shop.order, deliveries=shop.delivered.__getitem__, tick=shop.poll,
                scenarios=["happy_path"], faults=["drop"], settle=0.1, fail_fast=True,
            )  # fmt: skip
        return [*report.undetermined, *(finding.rule for finding in report.findings)]

    threads = DaemonThreads(len(BUGS) + 1)  # which an interrupt does not wait for
    calls = [threads.submit(rules_broken, changes) for changes in ({}, *(one for _, one in BUGS.values()))]
    careful, *found = (call.result() for call in calls)
    missed = [bug for (bug, (rule, _)), rules in zip(BUGS.items(), found, strict=True) if rule not in rules]
    return missed + ["there is no bug in the careful shop"] * bool(careful)
