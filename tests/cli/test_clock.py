"""`clock` and `advance`."""

import re

import pytest

from tests.cli.terminal import Terminal, meanwhile
from tests.support.client import Api


def test_advance_moves_the_sandbox(terminal: Terminal, api: Api) -> None:
    before = api.get("/_mock/clock").json()["now"]
    moved = terminal.json("advance", "45")
    assert moved.items() <= api.get("/_mock/clock").json().items()
    assert moved["now"] > before
    assert re.fullmatch(r"20\S+Z  speed 1\n", terminal.text("advance", "0.5"))


@pytest.mark.parametrize(
    ("step", "status"),
    [
        ("--to settlement_pending", "settlement_pending"),
        ("--to next", "payment_detected"),
        ("13", "payment_finalized"),
    ],
)
def test_advance_moves_one_payment(terminal: Terminal, api: Api, step: str, status: str) -> None:
    other, payment = api.created()["id"], api.created()["id"]
    assert terminal.json("advance", payment, *step.split()) == api.payment(payment)
    assert api.payment(payment)["status"] == status
    assert api.payment(other)["status"] == "awaiting_payment"
    assert terminal.text("advance", other, *step.split()).startswith(f"{other}  {status}\n")


def test_clock_shows_the_time_and_sets_it(terminal: Terminal, api: Api) -> None:
    assert terminal.json("clock", "2024-02-29T12:00+01:00")["now"] == "2024-02-29T11:00:00.000Z"
    assert terminal.json("clock") == api.get("/_mock/clock").json()
    assert re.fullmatch(r"20\S+Z  speed 2.5\n", terminal.text("clock", "2.5"))
    frozen = terminal.json("clock", "freeze")
    assert frozen.items() <= api.get("/_mock/clock").json().items()


def test_a_payment_advances_until_the_application_has_read_it(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    arguments = ("advance", payment, "--to", "payment_detected", "--until-observed")
    message = terminal.fails(4, *arguments, "--timeout", "0")
    assert message.endswith("is payment_detected; awaited: that the application reads it\n")
    with meanwhile(lambda: api.payment(payment)):
        seen = terminal.json("advance", payment, "--to", "completed", "--until-observed")
    assert seen["status"] == "completed"
