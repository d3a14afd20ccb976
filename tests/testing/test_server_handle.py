"""Servers in a thread, and handles on local and remote servers."""

import signal
import socket
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paymock.resources.catalog import CatalogError
from paymock.resources.scenarios import ScenarioFileError
from paymock.server.errors import StartError
from paymock.server.uvicorn_server import Server
from paymock.settings import SettingsError
from paymock.testing import Refused, Sandbox, ServerHandle, Unreachable, remote, serve
from tests.support.forks import forks, in_child


class TestServe:
    def test_it_runs_during_the_block_only(self) -> None:
        with serve() as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            assert sandbox.payments() == []
        with pytest.raises(Unreachable):
            sandbox.payments()

    def test_it_starts_from_any_thread_and_installs_no_signal_handlers(self) -> None:
        results: list[object] = []
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.getsignal(number) for number in numbers]
        other_threads = set(threading.enumerate())

        def use_server() -> None:
            with serve() as server, server.sandbox() as sandbox:
                results.append(sandbox.payments())

        thread = threading.Thread(target=use_server)
        thread.start()
        with serve() as server, server.sandbox():
            assert [signal.getsignal(number) for number in numbers] == before
        thread.join()
        assert results == [[]]
        assert [signal.getsignal(number) for number in numbers] == before
        assert set(threading.enumerate()) == other_threads

    def test_it_accepts_settings(self) -> None:
        with serve(fee_bps=0, speed=60) as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            amounts = sandbox.create(amount="7")["attempts"][0]["instructions"]["amounts"]
            assert amounts == {"due": "8", "settlement": "7", "fee": "1"}
            assert sandbox.wait(sandbox.create()["id"], "payment_detected", timeout=5)

    def test_a_seed_makes_ids_reproducible(self) -> None:
        ids = []
        for _ in range(2):
            with serve(seed="demo") as server, Sandbox(server.url, "mk_test_demo") as sandbox:
                ids.append(sandbox.create(idempotency_key="order-1001-payment")["id"])
        assert ids[0] == ids[1]

    def test_each_server_has_the_scenarios_of_its_own_file(self, tmp_path: Path) -> None:
        files = [tmp_path / name for name in ("one.toml", "two.toml")]
        for file in files:
            file.write_text(f'[[scenario]]\nname = "{file.stem}"\nsending = [{{ at = 1 }}]\n')
        with serve(scenarios=str(files[0])) as one, serve(scenarios=files[1]) as two:
            with one.sandbox() as sandbox:
                payment = sandbox.create("one")
                assert sandbox.advance_payment(payment["id"], to="end")["status"] == "completed"
                with pytest.raises(Refused, match="The nearest is one"):
                    sandbox.create("two")
            with two.sandbox() as sandbox:
                assert sandbox.create("two")["status"] == "awaiting_payment"

    def test_invalid_settings_are_refused(self) -> None:
        with pytest.raises(SettingsError, match="would let anybody in"), serve(host="0.0.0.0"):
            pass
        with pytest.raises(TypeError, match="speeed"), serve(speeed=1):
            pass
        with (
            pytest.raises(SettingsError, match="supports neither another store, nor a ready file"),
            serve(ready_file=Path("ready.json")),
        ):
            pass
        with pytest.raises(CatalogError, match=r"/nope\.toml"), serve(catalog="/nope.toml"):
            pass
        with pytest.raises(ScenarioFileError, match=r"/nope\.toml"), serve(scenarios="/nope.toml"):
            pass
        with (
            serve() as server,
            pytest.raises(StartError, match="is in use"),
            serve(port=int(server.url.rpartition(":")[2])),
        ):
            pass

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_failing_start_is_an_error_and_does_not_hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def fail(*_: object) -> None:
            raise OSError("no more")

        monkeypatch.setattr(Server, "startup", fail)
        with pytest.raises(StartError, match="did not start"), serve():
            pass

    def test_it_logs_requests_on_demand_only(self, capsys: pytest.CaptureFixture[str]) -> None:
        with serve() as server, server.sandbox() as sandbox:
            sandbox.create()
        assert capsys.readouterr() == ("", "")
        with serve(access_log=True) as server, server.sandbox() as sandbox:
            sandbox.create()
        assert "POST  /v1/payments" in capsys.readouterr().err

    def test_a_server_without_control_api_is_explained(self) -> None:
        with (
            serve(control=False) as server,
            pytest.raises(Refused, match=r"404 not_found: .*with --no-control has no control API"),
            server.sandbox(),
        ):
            pass


class TestServerHandle:
    def test_sandboxes_are_isolated(self) -> None:
        with serve() as server, server.sandbox() as one, server.sandbox() as other:
            one.create()
            one.advance(100)
            assert one.api_key != other.api_key
            assert (len(one.payments()), other.payments()) == (1, [])
            assert one.now() - other.now() > timedelta(seconds=99)

    def test_sandboxes_share_connections(self) -> None:
        def use(handle: ServerHandle) -> socket.socket:
            with handle.sandbox() as sandbox:
                sandbox.create()
                [connection] = sandbox._client.connections.idle
            assert connection.sock is not None
            return connection.sock

        with serve() as server:
            opened = {use(server) for _ in range(3)}
            assert len(opened) == 1
            server.close()
            assert use(server) not in opened
            closed_with_its_handle = use(remote(server.url))
            assert closed_with_its_handle.fileno() == -1
            [connection] = server._connections.idle
        assert connection.sock is None

    def test_a_sandbox_is_reset_at_the_end(self) -> None:
        with serve() as server:
            with server.sandbox() as sandbox:
                sandbox.create()
            with Sandbox(server.url, sandbox.api_key) as again:
                assert again.payments() == []

    def test_a_configured_key_is_reset_and_serves_one_sandbox_at_a_time(self) -> None:
        with serve(api_keys=("first-key", "second-key")) as server:
            with Sandbox(server.url, "second-key") as sandbox:
                sandbox.create()
                sandbox.next("manual_review")
                sandbox.advance(10_000)
            with server.sandbox() as one, server.sandbox() as other:
                assert {one.api_key, other.api_key} == {"first-key", "second-key"}
                assert one.payments() == other.payments() == []
                assert abs(datetime.now(UTC) - one.now()) < timedelta(minutes=1)
                with (
                    pytest.raises(RuntimeError, match="a key serves one sandbox at a time"),
                    server.sandbox(),
                ):
                    pass
            with ExitStack() as stack:
                for _ in range(2):
                    stack.enter_context(server.sandbox())

    def test_a_key_is_free_again_after_a_failure(self) -> None:
        with serve(api_keys=("first-key",)) as server:
            handle = ServerHandle(server.url, ["first-key"])
            for _ in range(2):
                with pytest.raises(ZeroDivisionError), handle.sandbox():
                    raise ZeroDivisionError

    @forks
    def test_a_child_process_does_not_reset_the_sandbox_of_its_parent(self) -> None:
        with serve() as server:
            block = server.sandbox()
            sandbox = block.__enter__()
            payment = sandbox.create()
            in_child(lambda: block.__exit__(None, None, None))
            assert sandbox.payment(payment["id"]) == payment
            block.__exit__(None, None, None)

    @forks
    def test_a_child_process_has_sandboxes_of_its_own(self) -> None:
        def use_key() -> str:
            with server.sandbox() as sandbox:
                sandbox.create()
                return sandbox.api_key

        with serve(api_keys=("first-key", "second-key")) as server:
            with server.sandbox() as sandbox:
                payment = sandbox.create()
                assert {sandbox.api_key, in_child(use_key), in_child(use_key)} == {"first-key", "second-key"}
                assert sandbox.payments()[0]["id"] == payment["id"]
            with server.sandbox() as one, server.sandbox() as other:
                assert one.payments() == other.payments() == []

    def test_a_missing_api_key_is_explained(self) -> None:
        with (
            serve(api_keys=("first-key",)) as server,
            pytest.raises(Refused) as caught,
            remote(server.url).sandbox(),
        ):
            pass
        assert caught.value.status == 401
        assert "PAYMOCK_API_KEY" in caught.value.__notes__[0]

    def test_the_environment_selects_a_remote_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve(api_keys=("first-key", "second-key")) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url + "/")
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key, second-key,,first-key")
            handle = remote()
            assert handle.url == server.url
            with handle.sandbox() as one, handle.sandbox() as other:
                assert {one.api_key, other.api_key} == {"first-key", "second-key"}
                with (
                    pytest.raises(RuntimeError, match="a key serves one sandbox at a time"),
                    handle.sandbox(),
                ):
                    pass
