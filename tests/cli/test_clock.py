"""`advance` and `clock`."""

import re

import pytest

from tests.cli.terminal import Terminal, freeze
from tests.support.client import Api


def test_advance_moves_the_sandbox(terminal: Terminal, api: Api) -> None:
    before = api.get("/_mock/clock").json()["now"]
    moved = terminal.json("advance", "45")
    assert moved == api.get("/_mock/clock").json()
    assert moved["now"] > before
    assert re.fullmatch(r"20\S+Z  speed 1\n", terminal.text("advance", "--seconds", "0.5"))
    freeze(api)
    assert terminal.text("advance", "1").endswith("  frozen\n")


@pytest.mark.parametrize(
    ("step", "status"),
    [
        (["--to", "settlement_pending"], "settlement_pending"),
        (["--to", "next"], "payment_detected"),
        (["--to", "end"], "completed"),
        (["--seconds", "13"], "payment_finalized"),
        (["13"], "payment_finalized"),
    ],
)
def test_advance_moves_one_payment(terminal: Terminal, api: Api, step: list[str], status: str) -> None:
    other, payment = api.created()["id"], api.created()["id"]
    assert terminal.json("advance", "--payment", payment, *step) == api.payment(payment)
    assert api.payment(payment)["status"] == status
    assert api.payment(other)["status"] == "awaiting_payment"
    shown = terminal.text("advance", other, *step)
    assert shown.startswith(f"{other}  {status}\n")


def test_advance_moves_the_newest_payment(terminal: Terminal, api: Api) -> None:
    newest = [api.created()["id"] for _ in range(2)][1]
    assert terminal.json("advance", "--to", "next") == api.payment(newest)
    assert terminal.json("advance", "newest", "8") == api.payment(newest)
    assert api.payment(newest)["status"] == "payment_finalized"


def test_clock_shows_the_time_and_sets_the_speed(terminal: Terminal, api: Api) -> None:
    assert terminal.json("clock") == api.get("/_mock/clock").json()
    assert re.fullmatch(r"20\S+Z  speed 1\n", terminal.text("clock"))
    assert terminal.text("clock", "--speed", "2.5").endswith("  speed 2.5\n")
    assert terminal.json("clock", "--freeze") == api.get("/_mock/clock").json()
    assert api.get("/_mock/clock").json()["speed"] == 0
    assert terminal.text("clock").endswith("  frozen\n")
    terminal.text("clock", "--speed", "10")
    assert terminal.text("clock", "--speed", "0").endswith("  frozen\n")


def test_a_payment_advances_until_the_application_has_read_it(terminal: Terminal, api: Api) -> None:
    payment = api.created()
    arguments = ("advance", payment["id"], "--to", "payment_detected", "--until-observed")
    message = terminal.fails(4, *arguments, "--timeout", "0")
    assert message.endswith("is payment_detected, and the application has not read that after 0 s\n")
    on = ("advance", payment["id"], "--to", "completed", "--until-observed", "--json")
    with terminal.start(*on) as process:
        while process.poll() is None:
            api.payment(payment["id"])
        assert process.stdout
        assert '"status":"completed"' in process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("5", "--until-observed"), "--until-observed needs ID or --to"),
        (("--to", "end", "--timeout", "5"), "--timeout needs --until-observed"),
        (("--to", "end", "--until-observed", "--timeout", "61"), "61"),
    ],
)
def test_an_observation_that_makes_no_sense_is_refused(
    terminal: Terminal, arguments: tuple[str, ...], message: str
) -> None:
    assert message in terminal.fails(2, "advance", *arguments)
