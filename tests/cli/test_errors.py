"""How commands end that cannot do what they are told, or are not let finish: exit statuses and messages."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from paymock.settings import Settings
from tests.cli.terminals import COMMANDS, LONG, Terminal, freeze, interrupted, lines_of
from tests.support import raw
from tests.support.client import Api
from tests.support.process import PAYMOCK, environment
from tests.support.server import RunningServer, running_server

WHERE_A_SERVER_IS_NEEDED = {
    "create": ["create"],
    "watch": ["watch", "pay_x"],
    "payment": ["payment"],
    "payments": ["payments"],
    "advance": ["advance", "1"],
    "clock": ["clock"],
    "next": ["next"],
    "wait": ["wait", "pay_x", "--status", "completed"],
    "deposit": ["deposit", "pay_x", "1"],
    "requests": ["requests"],
    "reset": ["reset"],
    "ready": ["ready"],
}


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"demo"}))
def test_a_server_that_is_not_there_is_3(closed: Terminal, command: str) -> None:
    said = closed.fails(3, *WHERE_A_SERVER_IS_NEEDED[command])
    assert said.startswith(f"Error: cannot reach {closed.variables['PAYMOCK_URL']}: Connection refused")


REFUSED = {
    "an unknown payment": (["payment", "pay_x"], "payment_not_found: This API key has no payment"),
    "an empty sandbox": (["watch"], "payment_not_found: This sandbox has no payments"),
    "an unknown chain": (["create", "--chain", "moon"], "  receive.chain: "),
    "an amount in tokens": (["create", "--amount", "1.5"], "  receive.amount: must be a positive integer"),
    "every detail": (["create", "--amount", "0", "--address", "0x1"], "  receive.address: must be an EVM"),
    "a short key": (["create", "--idempotency-key", "short"], "idempotency_key_invalid: "),
    "a text that is none": (["create", "--order-id", "\udcff"], "invalid_json: "),
    "an id that is none": (["payment", "\udcff/../x"], "payment_not_found: "),
    "a wrong key": (["payments", "--key", "wrong"], "unauthenticated: "),
    "an asset of no chain": (["deposit", "newest", "1", "--asset", "GOLD"], "payment_not_found: "),
    "a status of the past": (["advance", "--payment", "pay_x", "--to", "expired"], "payment_not_found: "),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_server_refuses_is_1(terminal: Terminal, what: str) -> None:
    arguments, message = REFUSED[what]
    assert message in terminal.fails(1, *arguments)


MISUSED = {
    "no command of ours": ["pay"],
    "no status": ["payments", "--status", "done"],
    "no scenario": ["create", "--scenario", "happy"],
    "no limit": ["payments", "--limit", "0"],
    "metadata without a value": ["create", "--metadata", "cart"],
    "metadata that is no object": ["create", "--metadata", "{]"],
    "no header": ["create", "--idempotency-key", "not visible"],
    "no step": ["advance"],
    "two steps": ["advance", "1", "--seconds", "1"],
    "a status of the whole sandbox": ["advance", "--to", "completed"],
    "a step of nothing": ["advance", "0"],
    "a step that is no number": ["advance", "nan"],
    "no id": ["wait"],
    "no timeout": ["wait", "pay_x", "--timeout", "-1"],
    "no URL": ["ready", "--url", "127.0.0.1:8402"],
    "no port": ["ready", "--url", "http://127.0.0.1:99999"],
    "a URL that says more": ["ready", "--url", "http://127.0.0.1/?a=b"],
    "no key": ["payments", "--key", "a b"],
    "a demo that stands still": ["demo", "--speed", "0"],
    "a demo at no speed": ["demo", "--speed", "nan"],
    "no speed": ["clock", "--speed", "nan"],
    "two speeds": ["clock", "--speed", "1", "--freeze"],
    "an empty id": ["payment", ""],
    "an empty id of an option": ["advance", "--payment", "", "1"],
    "times of nothing": ["next", "--times", "2"],
    "once and always": ["next", "--scenario", "late_payment", "--times", "1", "--always"],
    "something and nothing": ["next", "--clear", "--fault", "drop"],
}


@pytest.mark.parametrize("what", MISUSED)
def test_misuse_is_2(terminal: Terminal, what: str) -> None:
    assert "Error: " in terminal.fails(2, *MISUSED[what])


@contextlib.contextmanager
def answering(reply: bytes) -> Iterator[Terminal]:
    """A terminal at something that answers every request with these bytes, then closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(reply)
                    raw.end(connection)

        threading.Thread(target=answer, daemon=True).start()
        yield Terminal(f"http://127.0.0.1:{listening.getsockname()[1]}", "mk_test_demo")
        listening.shutdown(socket.SHUT_RDWR)


def page(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


STRANGE = {
    "another site": (page("200 OK", b"<html>"), "is not paymock"),
    "another API": (page("200 OK", b'{"data": 1}'), "is not paymock"),
    "another error": (page("404 Not PaymentSnapshot", b"oops"), "is not paymock"),
    "an error that says nothing": (page("500 Oops", b"oops"), "broke off with 500"),
    "an error of another kind": (page("400 Bad Request", b'{"error": "oops"}'), "is not paymock"),
    "a redirect": (page("302 PaymentSnapshot", b""), "is not paymock"),
    "no text": (page("200 OK", b'{"data": "\xff"}'), "is not paymock"),
    "endless nesting": (page("200 OK", b"[" * 50_000), "is not paymock"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
    "half a reply": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "in the middle of its reply"),
    "nothing": (b"", "closed the connection without a reply"),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_not_paymock_is_3(what: str) -> None:
    reply, message = STRANGE[what]
    with answering(reply) as terminal:
        assert message in terminal.fails(3, "payments")


def test_a_wait_for_what_is_not_paymock_is_3() -> None:
    strange = b'{"reached": true, "possible": true, "payment": {}}'
    with answering(page("200 OK", strange)) as terminal:
        assert "is not paymock" in terminal.fails(3, "wait", "pay_x")


def test_a_server_that_says_nothing_is_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        terminal = Terminal(f"http://127.0.0.1:{silent.getsockname()[1]}", "mk_test_demo")
        assert terminal.fails(3, "ready") == f"Error: {terminal.variables['PAYMOCK_URL']} does not answer\n"


def test_a_host_that_is_no_name_is_3(terminal: Terminal) -> None:
    assert "cannot reach http://a..b" in terminal.fails(3, "payments", "--url", "http://a..b")


def test_a_server_that_is_not_ready_is_1() -> None:
    body = b'{"error": {"code": "store_unavailable", "message": "The store cannot be reached."}}'
    with answering(page("503 Service Unavailable", body)) as terminal:
        assert "store_unavailable: The store cannot be reached." in terminal.fails(1, "ready")


def test_a_server_without_the_control_api_is_explained() -> None:
    with running_server(Settings(port=0, control=False)) as server:
        terminal = Terminal(server.url, "mk_test_demo")
        assert "--no-control" in terminal.fails(1, "payments")
        assert terminal.text("create").startswith("pay_")


def test_the_first_of_several_keys_counts(server: RunningServer) -> None:
    key = f"mk_test_{uuid.uuid4().hex}"
    created = Terminal(server.url, f"{key}, mk_test_other").json("create")
    assert [one["id"] for one in Terminal(server.url, key).json("payments")["data"]] == [created["id"]]


def test_an_error_names_the_variable_only_where_it_is_wrong(terminal: Terminal) -> None:
    for flag, variable in (("--key", "PAYMOCK_API_KEY"), ("--url", "PAYMOCK_URL")):
        assert f"'{flag}': must be " in terminal.fails(2, "payments", flag, "")
        said = terminal.fails(2, "payments", **{variable: "a b"})
        assert f"'{flag}' (env var: '{variable}'): must be " in said


def test_a_flag_wins_over_the_environment(closed: Terminal, server: RunningServer) -> None:
    assert closed.text("ready", "--url", f"{server.url}/") == f"ready  {server.url}\n"


@pytest.mark.parametrize("command", ["watch", "requests --follow", "demo --speed 1"])
def test_an_interrupt_is_130(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    with terminal.start(*command.split()) as process:
        lines_of(process, 1)
        assert interrupted(process) == (130, "")


def test_an_interrupted_wait_is_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Terminal(url, "mk_test_demo").start("wait", "pay_x") as process, listening.accept()[0] as asked:
            assert asked.recv(65536)
            assert interrupted(process) == (130, "")


PRINTING = [
    "payments", "payment", "create", "advance 1", "clock", "wait newest --timeout 0 --json", "watch",
    "requests", "next --scenario late_payment", "ready", "demo --speed 50", "scenarios", "--help",
    "create --help", "--version",
]  # fmt: skip


@pytest.mark.parametrize("command", PRINTING)
def test_a_reader_that_has_had_enough_is_141(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    reads, writes = os.pipe()
    os.close(reads)
    outcome = subprocess.run(
        [*PAYMOCK, *command.split()],
        env=environment(**terminal.variables),
        stdout=writes,
        stderr=subprocess.PIPE,
        check=False,
        timeout=20,
    )
    os.close(writes)
    assert (outcome.returncode, outcome.stderr) == (141, b"")


@pytest.mark.parametrize("command", ["requests --follow", "watch"])
def test_it_is_noticed_while_nothing_happens(terminal: Terminal, api: Api, command: str) -> None:
    freeze(api)
    api.created()
    with terminal.start(*command.split()) as process:
        lines_of(process, 1)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=LONG) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("command", ["payments", "payments --json", "watch", "--help"])
def test_a_closed_output_gets_nothing(terminal: Terminal, api: Api, command: str) -> None:
    api.post(f"/_mock/payments/{api.created()['id']}/advance", json={"to": "end"})
    outcome = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m paymock {command} >&-"],
        env=environment(**terminal.variables),
        stderr=subprocess.PIPE,
        check=False,
        timeout=20,
    )
    assert (outcome.returncode, outcome.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_line(terminal: Terminal, api: Api) -> None:
    api.created()
    with Path("/dev/full").open("w") as full:
        outcome = subprocess.run(
            [*PAYMOCK, "payments"],
            env=environment(**terminal.variables),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (1, b"Error: No space left on device\n")
