"""What commands that call the API answer to errors: exit codes and messages."""

import re
import shlex
import uuid
from itertools import product

import pytest

from paymock.settings import Settings
from tests.cli.terminal import COMMANDS, Terminal
from tests.client.canned_server import canned_server, one_reply_server, reply
from tests.support.server import RunningServer, running_server

ARGUMENTS = {
    "advance": ["1"],
    "deposit": ["1"],
    "fault": ["list"],
    "verify": ["--order", "true", "--deliveries", "echo 0"],
}
"""What commands need."""


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_missing_server_is_3(unconnected: Terminal, command: str) -> None:
    message = unconnected.fails(3, command, *ARGUMENTS.get(command, ()))
    assert message.startswith(f"Error: cannot reach {unconnected.url}: Connection refused")


REFUSED = {
    "payment pay_x": "payment_not_found: This API key has no payment",
    "payment": "payment_not_found: This sandbox has no payments",
    "create --chain moon": "  --chain: ",
    "create --amount 0 --address 0x1": "  --address: must be an EVM",
    "create --order \udcff": "invalid_json: ",
    "create hapy_path": "The nearest is happy_path.",
    "payment \udcff/../x": "payment_not_found: ",
    "payments --key wrong": "unauthenticated: ",
    "wait --order ''": "invalid_query: --order must not be empty",
    "fault add drop --payment newest": "payment_not_found: This sandbox has no payments",
    "advance pay_x --to expired": "payment_not_found: ",
}


USAGE_ERRORS = {
    "payments --key 'a b'": "'--key': must be visible ASCII characters",
    "payment ''": "The payment ID is empty",
    "create --metadata {]": "is not a JSON object",
    "create --idempotency-key 'not visible'": "must be visible ASCII characters, without spaces",
    "create --print-curl --json": "Give --print-curl or --json, not both",
    "advance": "Give either DURATION (seconds, or like 1m30s) or --to",
    "advance pay_x 1 --to end": "Give either DURATION",
    "advance '' 1": "The payment ID is empty",
    "advance 0": "'0' is not a duration from 0.001",
    "advance 5 --until-observed": "--until-observed needs a payment or --to",
    "advance --to end --timeout 5": "--timeout needs --until-observed",
    "advance --to end --until-observed --timeout 61": "'61' is not a duration from 0 to 60",
    "deposit pay_x 1 2": "Got unexpected extra argument (2)",
    "deposit newest": "Give exactly one of AMOUNT (in raw units), --exact and --half",
    "deposit --exact --idempotency-key deposit-1": "--exact cannot be retried",
    "wait pay_x --timeout -1": "'-1' is not a duration from 0 to 86,400 seconds",
    "wait pay_x --order order-7": "Give a payment or --order, not both",
    "--url http://127.0.0.1:8402 serve": "--url is not an option of `serve`",
    "--url localhost payments": "'--url': must be like http://127.0.0.1:8402",
    "coverage --fail-under 101": "'101' is not a number from 0 to 100",
    "next late_payment --course a.toml": "Give SCENARIO or --course, not both",
    "next --times 2": "need SCENARIO or --course",
    "next late_payment --fault drop": "'--fault' no longer exists: paymock fault add FAULT",
    "next late_payment --times 1 --always": "Give --times or --always, not both",
    "next late_payment --clear": "--clear can be combined only with --order, --order-prefix and --metadata",
    "requests --order order-7": "need --wait",
    "requests --clear --wait 1 --follow": "Give --follow or --wait, not both",
    "fault add drop --times 1 --always": "Give --times or --always, not both",
    "fault add drop --payment ''": "The payment ID is empty",
    "fault delete ''": "A rule ID is empty",
    "verify --order true": "Missing option '--deliveries'",
    "exec --seed one": "Missing argument 'COMMAND...'",
    "exec --port x true": "'x' is not a whole number",
    "--url http://127.0.0.1:1 exec true": "--url is not an option of `exec`",
    "verify --order true --deliveries true --fault explode": "must be status=CODE (400 to 599; ",
    "verify --order true --deliveries true --only happy_path/x": "must be like getPayment@5=drop",
}


@pytest.mark.parametrize("command", [*REFUSED, *USAGE_ERRORS])
def test_a_refusal_is_1_and_a_usage_error_2(terminal: Terminal, command: str) -> None:
    status = 1 if command in REFUSED else 2
    assert {**REFUSED, **USAGE_ERRORS}[command] in terminal.fails(status, *shlex.split(command))


SUGGESTIONS = {
    "serv": "serve",
    "Wait": "wait",
    "create Hapy_path": "happy_path",
    "payments --status complete": "completed",
    "fault ad drop": "add",
    "create --chian bsc": "--chain",
    "--jsn create": "--json",
    "serve --log jason": "json",
}


@pytest.mark.parametrize(("command", "suggestion"), SUGGESTIONS.items())
def test_a_mistyped_word_is_recognized(terminal: Terminal, command: str, suggestion: str) -> None:
    message = terminal.fails(2, *command.split()).splitlines()[-1]
    assert re.search(f"Did you mean '?{suggestion}'?\\?$", message)


@pytest.mark.parametrize("command", ["xyzzy", "create XYZZY"])
def test_a_word_that_is_like_no_other_gets_no_suggestion(terminal: Terminal, command: str) -> None:
    assert "Did you mean" not in terminal.fails(2, *command.split())


def test_a_server_that_is_not_ready_is_1() -> None:
    error = '{"error": {"code": "store_unavailable", "message": "It is."}}'
    with canned_server(reply("503 Oops", error)) as url:
        assert "It is." in Terminal(url, "mk_test_demo").fails(1, "ready")


# Replies of servers that are not paymock.
OTHER_BODIES = [
    "", "null", "[]", "{}", '"x"', "5", "<html></html>", '{"data": [1, 2]}', '{"data": 5}',
    '{"data": null}', "[" * 9_999, '{"now": 5, "speed": "x"}',
    '{"data": [{"name": 5, "id": null}], "next_cursor": 7}', '{"reached": 1, "payment": "x"}',
    '{"data": [{}], "reached": false, "possible": true}',
    '{"reached": true, "possible": true, "payment": {}}', '{"reached": true, "data": [{}]}',
    '{"payment": [], "timeline": 5}', '{"observed": false, "payment": {"id": 1}}',
]  # fmt: skip
USES = {
    "advance": "1", "create": "", "deposit": "pay_x 1", "fault": "add drop", "wait": "pay_x",
    "verify": "--order true --deliveries 'echo 0'",
}  # fmt: skip


SENDING = [
    *(f"{name} {USES.get(name, '')}" for name in sorted(COMMANDS)),
    "advance pay_x --to end --until-observed", "wait --order order-1", "requests --wait 1", "fault list",
    "fault clear", "next late_payment", "next --clear", "clock freeze", "payment pay_x",
    "deposit pay_x --half",
]  # fmt: skip


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
def test_a_server_that_is_not_paymock_is_3_whatever_it_replies(status: str) -> None:
    with one_reply_server() as (url, replies):
        for command, body in product(SENDING, OTHER_BODIES):
            replies[0] = reply(f"{status}\r\nConnection: close", body)
            message = Terminal(url, "mk_test_demo").fails(3, *shlex.split(command))
            assert re.match("Error: the server at .* is not paymock", message), body


def test_a_server_without_the_control_api_is_explained() -> None:
    with running_server(Settings(port=0, control=False)) as server:
        terminal = Terminal(server.url, "mk_test_demo")
        assert "--no-control" in terminal.fails(1, "payments")
        assert terminal.text("create").startswith("pay_")
        assert "--no-control" in terminal.text()


def test_the_first_of_several_keys_is_used(server: RunningServer) -> None:
    key = f"mk_test_{uuid.uuid4().hex}"
    created = Terminal(server.url, f"{key}, mk_test_other").json("create")
    assert [item["id"] for item in Terminal(server.url, key).json("payments")["data"]] == [created["id"]]


def test_an_error_names_the_variable_if_the_value_came_from_it(terminal: Terminal) -> None:
    for flag, variable in (("--key", "PAYMOCK_API_KEY"), ("--url", "PAYMOCK_URL")):
        assert f"'{flag}': must be " in terminal.fails(2, "payments", flag, "")
        message = terminal.fails(2, "payments", **{variable: "a b"})
        assert f"'{flag}' (env var: '{variable}'): must be " in message
