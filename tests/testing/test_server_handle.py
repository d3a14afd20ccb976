import re
import signal
import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from paymock import __version__
from paymock.payments.files import FileError
from paymock.server.process import StartError
from paymock.server.server import Server
from paymock.settings import SettingsError
from paymock.testing import Refused, Sandbox, ServerHandle, Unreachable, remote, serve
from tests.support.client import order
from tests.support.forks import forks, in_child


class TestServe:
    def test_it_runs_during_the_block_only(self, capsys: pytest.CaptureFixture[str]) -> None:
        signals = (signal.SIGINT, signal.SIGTERM)
        handlers, threads = [signal.getsignal(number) for number in signals], set(threading.enumerate())
        with serve() as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            assert sandbox.payments() == []
            assert [signal.getsignal(number) for number in signals] == handlers
        with pytest.raises(Unreachable):
            sandbox.payments()
        assert [signal.getsignal(number) for number in signals] == handlers
        assert set(threading.enumerate()) == threads
        assert capsys.readouterr() == ("", "")

    def test_it_starts_from_any_thread_and_logs(self, capsys: pytest.CaptureFixture[str]) -> None:
        def use_server() -> None:
            with serve(access_log=True) as server, server.sandbox() as sandbox:
                sandbox.create()

        thread = threading.Thread(target=use_server)
        thread.start()
        thread.join()
        assert "POST  /v1/payments" in capsys.readouterr().err

    def test_it_accepts_settings(self) -> None:
        with serve(fee_bps=0, speed=60) as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            payment = sandbox.create(amount="7")
            amounts = payment["attempts"][0]["instructions"]["amounts"]
            assert amounts == {"due": "8", "settlement": "7", "fee": "1"}
            assert sandbox.wait(payment["id"], "payment_detected", timeout=50)

    @pytest.mark.ci
    def test_all_scenarios_play_under_a_frozen_clock_which_a_server_does_not_follow(
        self, paymock_server: ServerHandle
    ) -> None:
        time_machine = pytest.importorskip("time_machine")
        for moment in ("2024-02-29T12:00:00Z", "2031-02-28T12:00:00Z"):
            with time_machine.travel(moment, tick=False), paymock_server.sandbox() as paymock:
                now = datetime.now(UTC)
                paymock.freeze(at=now)
                for scenario in paymock.scenarios():
                    payment = paymock.create(scenario["name"], expires_at=now + timedelta(minutes=30))
                    assert datetime.fromisoformat(payment["created_at"]) == now
                    ended = paymock.advance_payment(payment["id"], "end")
                    assert ended["status"] == scenario["final_status"]
        with paymock_server.sandbox() as paymock:
            assert abs(paymock.now() - datetime.now(UTC)) < timedelta(days=1)

    def test_a_server_has_the_scenarios_of_its_own_file(self, paymock: Sandbox, tmp_path: Path) -> None:
        file = tmp_path / "scenarios.toml"
        file.write_text('[[scenario]]\nname = "one"\nsending = [{ at = 1 }]\n')
        with serve(scenarios=file) as server, server.sandbox() as sandbox:
            assert sandbox.create("one")["status"] == "awaiting_payment"
        with pytest.raises(Refused, match="scenario"):
            paymock.create("one")

    @pytest.mark.parametrize(
        ("setting", "error", "message"),
        [
            ({"host": "0.0.0.0"}, SettingsError, "would let anybody in"),
            ({"speeed": 1}, TypeError, "speeed"),
            ({"now": "2024-02-29T12:00:00Z"}, TypeError, r"use freeze\(at=\) .* or paymock_now in pytest"),
            ({"ready_file": Path("ready.json")}, SettingsError, "neither another store, nor a ready file"),
            ({"catalog": "/nope.toml"}, FileError, r"/nope\.toml"),
            ({"scenarios": "/nope.toml"}, FileError, r"/nope\.toml"),
        ],
    )
    def test_invalid_settings_are_refused(
        self, setting: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message), serve(**setting):
            pass

    def test_a_port_that_is_in_use_is_an_error(self) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as other,
            pytest.raises(StartError, match="is in use"),
            serve(port=other.getsockname()[1]),
        ):
            pass

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_failing_start_is_an_error_and_does_not_hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def fail(*_: object) -> None:
            raise OSError("no more")

        monkeypatch.setattr(Server, "_serve", fail)
        with pytest.raises(StartError, match="did not start"), serve():
            pass

    @pytest.mark.ci
    def test_with_a_seed_and_a_frozen_clock_two_runs_get_the_same_bytes(self) -> None:
        def run() -> str:
            headers = {"Authorization": "Bearer mk_test_demo", "Idempotency-Key": "order-1001-payment"}
            with serve(seed="runs") as server, httpx.Client(base_url=server.url, headers=headers) as client:
                replies = [
                    client.put("/_mock/clock", json={"now": "2024-02-29T12:00:00Z", "speed": 0}),
                    client.post("/_mock/faults", json={"fault": "status=503; after", "skip": 1}),
                    *(client.post("/v1/payments", json=order()) for _ in range(3)),
                    client.post("/v1/webhooks", json={}),
                    client.post("/_mock/clock/advance", json={"seconds": 60}),
                    *map(client.get, ("/_mock/payments", "/_mock/faults", "/_mock/story", "/_mock/clock")),
                ]
            assert replies[-1].json()["now"] == "2024-02-29T12:01:00.000Z"
            text = "".join(f"{reply} {reply.headers.raw} {reply.text}" for reply in replies)
            return re.sub(r"req_\w+|\w+, \d+ \w+ \d+ [\d:]+ GMT", "", text)

        assert run() == run()

    def test_a_server_without_control_api_is_explained(self) -> None:
        with (
            serve(control=False) as server,
            pytest.raises(Refused, match=r"404 not_found: .*with --no-control has no control API"),
            server.sandbox(),
        ):
            pass


class TestServerHandle:
    def test_sandboxes_are_isolated_and_reset_at_the_end(self, paymock_server: ServerHandle) -> None:
        with paymock_server.sandbox() as one, paymock_server.sandbox() as other:
            one.create()
            one.advance(100)
            assert one.api_key != other.api_key
            assert (len(one.payments()), other.payments()) == (1, [])
            assert one.now() - other.now() > timedelta(seconds=99)
        with Sandbox(paymock_server.url, one.api_key) as again:
            assert again.payments() == []

    def test_sandboxes_share_connections_until_closed(self, paymock_server: ServerHandle) -> None:
        server, sockets = remote(paymock_server.url), list[socket.socket]()
        for _ in range(2):
            with server.sandbox() as sandbox:
                sandbox.create()
                sockets += [idle.sock for idle in sandbox._client.connections.idle]
        [opened] = set(sockets)
        server.close()
        assert opened.fileno() == -1

    def test_a_server_of_another_version_is_told(
        self, paymock_server: ServerHandle, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.testing.__version__", "9.1.0")
        with (
            pytest.warns(UserWarning, match=rf"is version {__version__}, this helper is 9\.1\.0: install"),
            remote(paymock_server.url).sandbox(),
        ):
            pass

    def test_a_configured_key_has_many_sandboxes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve(api_keys=("first-key", "second-key")) as server, Sandbox(server.url, "first-key") as own:
            own.create()
            monkeypatch.setenv("PAYMOCK_URL", server.url + "/")
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key, second-key")
            for handle in (server, remote()):
                assert handle.url == server.url
                with pytest.raises(ZeroDivisionError), handle.sandbox():
                    raise ZeroDivisionError
                with handle.sandbox() as one, handle.sandbox() as other:
                    assert one.api_key != other.api_key
                    for sandbox in (one, other):
                        assert re.fullmatch(r"first-key\.test-[0-9a-f]{16}", sandbox.api_key)
                        assert sandbox.payments() == []
                        assert abs(datetime.now(UTC) - sandbox.now()) < timedelta(minutes=10)
                    one.create(order_id=f"first-key or {one.api_key}")
                    assert "  order *** or ***" in one.describe()
            assert len(own.payments()) == 1  # a reset leaves it alone

    def test_a_sandbox_can_be_chosen(
        self, monkeypatch: pytest.MonkeyPatch, paymock_server: ServerHandle
    ) -> None:
        cases = [
            ("first-key", "", "branch-7", "first-key.branch-7", "/#sandbox=branch-7"),
            ("first-key", "ci", None, "first-key.ci", "/#sandbox=ci"),
            ("first-key", "ci", "branch-7", "first-key.branch-7", "/#sandbox=branch-7"),
            ("mk_test_mine", "ci", "branch-7", "mk_test_mine", "/#key=mk_test_mine"),
            (None, "", "branch-7", "mk_test_branch-7", "/#key=mk_test_branch-7"),
            (None, "ci", None, "mk_test_ci", "/#key=mk_test_ci"),
        ]
        with serve(api_keys=["first-key", "mk_test_mine"]) as server:
            for api_key, variable, name, used, page in cases:
                url = server.url if api_key else paymock_server.url
                monkeypatch.setenv("PAYMOCK_SANDBOX", variable)
                with Sandbox(url, used) as earlier:
                    earlier.create()
                    with remote(url, api_key).sandbox(name) as sandbox:
                        assert (sandbox.api_key, sandbox.dashboard_url) == (used, url + page)
                        assert sandbox.payments() == []
                        sandbox.create()
                        with pytest.raises(RuntimeError, match="in use"), remote(url, api_key).sandbox(name):
                            pass
                    assert earlier.payments() == []

    @pytest.mark.parametrize("name", ["", "a.b", "a b", "é", "n" * 65])
    def test_a_wrong_name_is_refused_before_any_request(self, name: str) -> None:
        nowhere = "http://127.0.0.1:9"
        for block in (remote(nowhere), remote(nowhere, "first-key"), remote(nowhere, "mk_test_mine")):
            with pytest.raises(ValueError, match="1 to 64 letters, digits"), block.sandbox(name):
                pass

    @pytest.mark.process
    @forks
    def test_a_child_process_has_sandboxes_of_its_own(self) -> None:
        def use_key() -> str:
            with server.sandbox() as sandbox:
                sandbox.create()
                return sandbox.api_key

        with serve(api_keys=("first-key",)) as server:
            block = server.sandbox()
            sandbox = block.__enter__()
            payment = sandbox.create()
            in_child(lambda: block.__exit__(None, None, None))
            assert len({sandbox.api_key, in_child(use_key), in_child(use_key)}) == 3
            assert sandbox.payments()[0]["id"] == payment["id"]
            block.__exit__(None, None, None)
            with server.sandbox() as one, server.sandbox() as other:
                assert one.payments() == other.payments() == []
