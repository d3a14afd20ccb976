"""Errors of the commands: exit codes and messages."""

import contextlib
import re
import socket
import threading
import uuid
from collections.abc import Iterator

import pytest

from paymock.settings import Settings
from tests.cli.terminal import COMMANDS, Terminal
from tests.support import raw
from tests.support.server import RunningServer, running_server

ARGUMENTS = {
    "create": ["create"],
    "watch": ["watch", "pay_x"],
    "payment": ["payment"],
    "payments": ["payments"],
    "advance": ["advance", "1"],
    "clock": ["clock"],
    "next": ["next"],
    "fault": ["fault", "list"],
    "wait": ["wait", "pay_x", "--status", "completed"],
    "deposit": ["deposit", "pay_x", "1"],
    "requests": ["requests"],
    "reset": ["reset"],
    "ready": ["ready"],
    "coverage": ["coverage"],
    "verify": ["verify", "--order", "true", "--deliveries", "echo 0"],
}


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"demo"}))
def test_a_missing_server_is_3(unconnected: Terminal, command: str) -> None:
    message = unconnected.fails(3, *ARGUMENTS[command])
    assert message.startswith(
        f"Error: cannot reach {unconnected.variables['PAYMOCK_URL']}: Connection refused"
    )


REFUSED = {
    "an unknown payment": (["payment", "pay_x"], "payment_not_found: This API key has no payment"),
    "an empty sandbox": (["watch"], "payment_not_found: This sandbox has no payments"),
    "an unknown chain": (["create", "--chain", "moon"], "  receive.chain: "),
    "an amount in tokens": (["create", "--amount", "1.5"], "  receive.amount: must be a positive integer"),
    "every detail": (["create", "--amount", "0", "--address", "0x1"], "  receive.address: must be an EVM"),
    "a short key": (["create", "--idempotency-key", "short"], "idempotency_key_invalid: "),
    "invalid text": (["create", "--order-id", "\udcff"], "invalid_json: "),
    "an invalid id": (["payment", "\udcff/../x"], "payment_not_found: "),
    "a wrong key": (["payments", "--key", "wrong"], "unauthenticated: "),
    "an unknown asset": (["deposit", "newest", "1", "--asset", "GOLD"], "payment_not_found: "),
    "a fault that does not exist": (["fault", "add", "explode"], "  fault: must be status=CODE"),
    "a rule for the newest of no payments": (
        ["fault", "add", "drop", "--payment", "newest"],
        "payment_not_found: This sandbox has no payments",
    ),
    "an order of an operation without one": (
        ["fault", "add", "drop", "--operation", "listChains", "--order", "order-1001"],
        "  operation: must be about a payment for this rule",
    ),
    "an unknown rule": (
        ["fault", "clear", "flt_x"],
        "not_found: This sandbox has no fault rule with that id.\n",
    ),
    "a status of an unknown payment": (
        ["advance", "--payment", "pay_x", "--to", "expired"],
        "payment_not_found: ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_1(terminal: Terminal, case: str) -> None:
    arguments, message = REFUSED[case]
    assert message in terminal.fails(1, *arguments)


USAGE_ERRORS = {
    "an unknown command": ["pay"],
    "an unknown status": ["payments", "--status", "done"],
    "what is not a name": ["create", "--scenario", "Happy!"],
    "a scenario and a course": ["next", "--scenario", "late_payment", "--course", "scenarios.toml"],
    "a limit of zero": ["payments", "--limit", "0"],
    "metadata without a value": ["create", "--metadata", "cart"],
    "metadata that is not an object": ["create", "--metadata", "{]"],
    "a key with a space": ["create", "--idempotency-key", "not visible"],
    "advance without a value": ["advance"],
    "advance with two values": ["advance", "1", "--seconds", "1"],
    "an id without a value": ["advance", "newest"],
    "two ids": ["advance", "pay_x", "1", "--payment", "pay_y"],
    "three arguments": ["deposit", "pay_x", "1", "2"],
    "zero seconds": ["advance", "0"],
    "seconds that are not a number": ["advance", "nan"],
    "a deposit without an amount": ["deposit", "newest"],
    "two amounts": ["deposit", "newest", "1", "--half"],
    "an exact amount that cannot be retried": ["deposit", "--exact", "--idempotency-key", "deposit-1"],
    "a curl command as JSON": ["create", "--print-curl", "--json"],
    "a server for a server": ["--url", "http://127.0.0.1:8402", "serve"],
    "an invalid URL before the command": ["--url", "localhost", "payments"],
    "a negative timeout": ["wait", "pay_x", "--timeout", "-1"],
    "an invalid URL": ["ready", "--url", "127.0.0.1:8402"],
    "an invalid port": ["ready", "--url", "http://127.0.0.1:99999"],
    "a URL with a query": ["ready", "--url", "http://127.0.0.1/?a=b"],
    "an invalid API key": ["payments", "--key", "a b"],
    "a frozen demo": ["demo", "--speed", "0"],
    "a demo speed that is not a number": ["demo", "--speed", "nan"],
    "a speed that is not a number": ["clock", "--speed", "nan"],
    "two speeds": ["clock", "--speed", "1", "--freeze"],
    "an empty id": ["payment", ""],
    "an empty id in an option": ["advance", "--payment", "", "1"],
    "times without an override": ["next", "--times", "2"],
    "times and always": ["next", "--scenario", "late_payment", "--times", "1", "--always"],
    "clear and a fault": ["next", "--clear", "--fault", "drop"],
    "a rule without a fault": ["fault", "add"],
    "a rule of some times and always": ["fault", "add", "drop", "--times", "1", "--always"],
    "a rule for no requests": ["fault", "add", "drop", "--times", "0"],
    "a rule for an empty payment": ["fault", "add", "drop", "--payment", ""],
    "an unknown operation": ["fault", "add", "drop", "--operation", "payments"],
    "an empty rule": ["fault", "clear", ""],
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_a_usage_error_is_2(terminal: Terminal, case: str) -> None:
    assert "Error: " in terminal.fails(2, *USAGE_ERRORS[case])


SUGGESTIONS = {
    "serv": "serve",
    "scenario": "scenarios",
    "Watch": "watch",
    "paymets": "payments",
    "create --scenario Hapy_path": "happy_path",
    "next --scenario HAPPY_PATH": "happy_path",
    "payments --status complete": "completed",
    "wait newest --status overpaid": "overpaid_review",
    "fault ad drop": "add",
    "fault add drop --operation getPaymnt": "getPayment",
    "advance --to nxt": "next",
    "create --chian bsc": "--chain",
    "--jsn create": "--json",
    "serve --prt 1": "--port",
    "serve --log jason": "json",
}


@pytest.mark.parametrize("words", SUGGESTIONS)
def test_a_mistyped_word_is_recognized(terminal: Terminal, words: str) -> None:
    suggestion = SUGGESTIONS[words]
    message = terminal.fails(2, *words.split()).splitlines()[-1]
    assert re.search(f"Did you mean '?{suggestion}'?\\?$", message)


def test_nothing_is_suggested_for_what_resembles_nothing(terminal: Terminal) -> None:
    for words in (["xyzzy"], ["create", "--scenario", "XYZZY"]):
        assert "Did you mean" not in terminal.fails(2, *words)


@contextlib.contextmanager
def canned_server(reply: bytes) -> Iterator[Terminal]:
    """A terminal for a server that sends `reply` to each connection and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(reply)
                    raw.end(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield Terminal(f"http://127.0.0.1:{listener.getsockname()[1]}", "mk_test_demo")
        listener.shutdown(socket.SHUT_RDWR)


def http_reply(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


UNEXPECTED_REPLIES = {
    "another site": (http_reply("200 OK", b"<html>"), "is not paymock"),
    "another API": (http_reply("200 OK", b'{"data": 1}'), "is not paymock"),
    "another error": (http_reply("404 Not Found", b"oops"), "is not paymock"),
    "an error without JSON": (http_reply("500 Oops", b"oops"), "failed with 500"),
    "an error of another form": (http_reply("400 Bad Request", b'{"error": "oops"}'), "is not paymock"),
    "a redirect": (http_reply("302 Found", b""), "is not paymock"),
    "invalid UTF-8": (http_reply("200 OK", b'{"data": "\xff"}'), "is not paymock"),
    "deep nesting": (http_reply("200 OK", b"[" * 50_000), "is not paymock"),
    "not HTTP": (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
    "half a reply": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "in the middle of its reply"),
    "an empty reply": (b"", "closed the connection without a reply"),
}


@pytest.mark.parametrize("case", UNEXPECTED_REPLIES)
def test_an_unexpected_reply_is_3(case: str) -> None:
    reply, message = UNEXPECTED_REPLIES[case]
    with canned_server(reply) as terminal:
        assert message in terminal.fails(3, "payments")


def test_an_unexpected_payment_is_3() -> None:
    content = b'{"reached": true, "possible": true, "payment": {}}'
    with canned_server(http_reply("200 OK", content)) as terminal:
        assert "is not paymock" in terminal.fails(3, "wait", "pay_x")


def test_a_silent_server_is_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        terminal = Terminal(f"http://127.0.0.1:{silent.getsockname()[1]}", "mk_test_demo")
        assert terminal.fails(3, "ready") == f"Error: {terminal.variables['PAYMOCK_URL']} does not answer\n"


def test_a_malformed_host_is_3(terminal: Terminal) -> None:
    assert "cannot reach http://a..b" in terminal.fails(3, "payments", "--url", "http://a..b")


def test_a_server_that_is_not_ready_is_1() -> None:
    body = b'{"error": {"code": "store_unavailable", "message": "The store cannot be reached."}}'
    with canned_server(http_reply("503 Service Unavailable", body)) as terminal:
        assert "store_unavailable: The store cannot be reached." in terminal.fails(1, "ready")


def test_a_server_without_the_control_api_is_explained() -> None:
    with running_server(Settings(port=0, control=False)) as server:
        terminal = Terminal(server.url, "mk_test_demo")
        assert "--no-control" in terminal.fails(1, "payments")
        assert terminal.text("create").startswith("pay_")


def test_the_first_of_several_keys_is_used(server: RunningServer) -> None:
    key = f"mk_test_{uuid.uuid4().hex}"
    created = Terminal(server.url, f"{key}, mk_test_other").json("create")
    assert [item["id"] for item in Terminal(server.url, key).json("payments")["data"]] == [created["id"]]


def test_an_error_names_the_variable_if_the_value_came_from_it(terminal: Terminal) -> None:
    for flag, variable in (("--key", "PAYMOCK_API_KEY"), ("--url", "PAYMOCK_URL")):
        assert f"'{flag}': must be " in terminal.fails(2, "payments", flag, "")
        message = terminal.fails(2, "payments", **{variable: "a b"})
        assert f"'{flag}' (env var: '{variable}'): must be " in message


def test_an_option_takes_precedence_over_the_environment(
    unconnected: Terminal, server: RunningServer
) -> None:
    assert unconnected.text("ready", "--url", f"{server.url}/") == f"ready  {server.url}\n"
