import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from harness import process_info
from harness.polling import wait_until
from harness.server_process import PAYMOCK, environment, server_process
from paymock.settings import Settings
from tests.support.client import AUTHORIZED, ORDER
from tests.support.courses import TWO_HALVES
from tests.support.in_process import run
from tests.support.raw import next_reply
from tests.support.servers import NEEDS_LINUX, ask, create, one_connection_each, servers_on_sqlite


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """The settings with which `serve` would run."""
    found: list[Settings] = []
    monkeypatch.setattr("paymock.server.run.serve", lambda settings, *_: found.append(settings))

    def settings(*arguments: str, **variables: str) -> Settings:
        outcome = run("serve", *arguments, **variables)
        assert (outcome.returncode, outcome.stderr) == (0, "")
        return found.pop()

    return settings


def test_options_take_precedence_over_environment_variables(settings_of: Callable[..., Settings]) -> None:
    variables = {
        "PAYMOCK_API_KEYS": "first-key, second-key",
        "PAYMOCK_API_KEY": "key-of-a-client",
        "PAYMOCK_FEE_BPS": "0",
        "PAYMOCK_NO_ACCESS_LOG": "1",
        "PAYMOCK_NO_CONTROL": "1",
    }
    assert settings_of(**variables) == Settings(
        api_keys=("first-key", "second-key"), fee_bps=0, access_log=False, control=False
    )
    options = ("--api-key", "flag-key", "--fee-bps", "7", "--access-log", "--control")
    assert settings_of(*options, **variables) == Settings(api_keys=("flag-key",), fee_bps=7)
    retained = settings_of("--store", "redis://localhost", "--retention", "2d")
    assert retained == Settings(store="redis://localhost", retention=172_800)


ONE, TWO = "https://one.example", "https://two.example:8443"


def test_frame_ancestors_have_two_names(settings_of: Callable[..., Settings]) -> None:
    for settings in (
        settings_of("--frame-ancestor", ONE, "--frame-ancestors", TWO),
        settings_of(PAYMOCK_FRAME_ANCESTOR=f"{ONE},{TWO}"),
        settings_of(PAYMOCK_FRAME_ANCESTORS=f"{ONE},{TWO}"),
    ):
        assert settings.frame_ancestors == (ONE, TWO)


REFUSED_STARTS = {
    "--host 0.0.0.0": (1, "would let anybody in"),
    "--host 203.0.113.1 --open": (1, "cannot listen on 203.0.113.1 port"),
    "--host no.invalid --open": (1, "cannot listen on no.invalid"),
    "--host a..b --open": (1, "a..b is not a host name"),
    "--port 70000": (2, "70000"),
    "--port 0 --ready-file /": (1, "must not be empty"),
    "--port 0 --ready-file /etc/passwd/x": (1, "cannot write the ready file"),
    "--allowed-host a.example:80": (1, "allowed host"),
    "--frame-ancestor shop.example": (1, "must be an origin such as https://shop.example"),
    "--store floppy://a": (1, "unknown store 'floppy'"),
    "--catalog /no.toml": (1, "cannot read the catalog /no.toml"),
    "--log xml": (2, "'xml' is not one of"),
    "--fee-bps 10001": (2, "10001"),
    "--api-key first-key,,second-key": (1, "an API key must consist of"),
    "--host 0.0.0.0 --api-keys-file /none": (1, "cannot read the file of API keys /none: No such file"),
    "--workers 2": (2, "--workers' no longer exists: start several servers with --reuse-port"),
    "--now 2024-02-29T12:00Z": (2, "no longer exists: set the time of a sandbox: `paymock clock TIME`"),
    "--reset-time": (2, "--reset-time' no longer exists"),
    "--no-reset-time": (2, "--reset-time' no longer exists"),
    "--retention 2d": (1, "--retention does not apply to memory://"),
    "--reuse-port": (1, "servers with --reuse-port cannot share memory://: add --store"),
    "--retention 23h": (2, "not a duration of at least 86,400 seconds"),
    "--metrics-address 0.0.0.0:0": (1, "without --api-key would let anybody read the metrics"),
    "--metrics-address metrics.example:9402": (1, "would let anybody read the metrics"),
    "--metrics-address ::1:9402": (1, "a metrics address must be HOST:PORT"),
    "--metrics-address :9402": (1, "a metrics address must be HOST:PORT"),
    "--metrics-address 127.0.0.1:99999": (1, "a metrics address must be HOST:PORT"),
}


@pytest.mark.parametrize(("options", "refusal"), REFUSED_STARTS.items())
def test_an_invalid_option_is_refused_with_its_reason(options: str, refusal: tuple[int, str]) -> None:
    status, message = refusal
    outcome = run("serve", *options.split())
    assert (outcome.returncode, outcome.stdout) == (status, "")
    assert message in outcome.stderr


def test_the_key_of_a_client_neither_opens_nor_closes_a_server(settings_of: Callable[..., Settings]) -> None:
    for key in ("team-secret", "mk_test_a,mk_test_b"):
        outcome = run("serve", "--open", PAYMOCK_API_KEY=key)
        assert outcome.returncode == 1
        assert "Set PAYMOCK_API_KEYS" in outcome.stderr
        assert key not in outcome.stderr
    assert settings_of(PAYMOCK_API_KEY="mk_test_mine").open_mode


def test_an_invalid_variable_is_named() -> None:
    outcome = run("serve", PAYMOCK_PORT="eighty")
    assert outcome.returncode == 2
    # click 8.1 names the option alone
    assert re.search(r"'--port'( \(env var: 'PAYMOCK_PORT'\))?: 'eighty' is not", outcome.stderr)
    assert "a value before or after a comma is empty" in run("serve", PAYMOCK_API_KEYS="first-key,").stderr


@pytest.mark.parametrize("command", ["serve", "exec true"])
@pytest.mark.parametrize("variable", ["PAYMOCK_WORKERS", "PAYMOCK_RESET_TIME", "PAYMOCK_NOW"])
def test_the_variable_of_an_option_that_is_gone_is_refused(command: str, variable: str) -> None:
    outcome = run(*command.split(), **{variable: "1"})
    assert outcome.returncode == 2
    assert f"(env var: '{variable}') no longer exists" in outcome.stderr


def test_a_port_in_use_is_named_with_the_option_for_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run("serve", "--port", str(port))
        metrics = run("serve", "--port", "0", "--metrics-address", f"127.0.0.1:{port}")
    reason = f"Error: port {port} is in use: stop what listens there, or use"
    assert (outcome.returncode, outcome.stderr) == (1, f"{reason} --port 0 for a free one\n")
    assert (metrics.returncode, metrics.stderr) == (1, f"{reason} --metrics-address HOST:0 for a free one\n")


@pytest.mark.process
def test_a_server_shows_where_it_is_and_logs_requests(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    with server_process(tmp_path) as served:
        url, pid = f"http://127.0.0.1:{served.port}", served.process.pid
        assert served.ready == {"url": url, "port": served.port, "pid": pid}
        assert run("serve", "--port", str(served.port), "--ready-file", str(ready_file)).returncode == 1
        assert json.loads(ready_file.read_text()) == served.ready
        assert [*tmp_path.iterdir()] == [ready_file]
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{served.port}/v1/chains", headers=AUTHORIZED).status_code == 200
        if Path("/proc/self/statm").exists():
            assert process_info.resident_bytes(pid) < 60e6
        _, output = served.stop(signal.SIGTERM)
    for part in ("MOCK: no real funds", f"  Dashboard {served.url}/\n", "mk_test_demo", "/v1/chains"):
        assert part in output


@pytest.mark.process
def test_settings_reach_the_server(tmp_path: Path) -> None:
    options = ("--log", "json", "--no-access-log", "--fee-bps", "0", "--seed", "one", "--speed", "0")
    payments = []
    for _ in range(2):
        with server_process(tmp_path, *options, PAYMOCK_API_KEYS="first-key") as served:
            headers = {"Authorization": "Bearer first-key", "Idempotency-Key": "order-1001-payment"}
            payments.append(httpx.post(f"{served.url}/v1/payments", json={**ORDER}, headers=headers).json())
            assert httpx.get(f"{served.url}/v1/chains", headers=AUTHORIZED).status_code == 401
            clock = httpx.get(f"{served.url}/_mock/clock", headers=headers).json()
            _, output = served.stop(signal.SIGTERM)
        (tmp_path / "ready.json").unlink()
        assert clock["speed"] == 0
        started, stopped = map(json.loads, output.splitlines())
        assert (started["event"], stopped["event"], stopped["reason"]) == ("started", "stopped", "SIGTERM")
    assert payments[0]["id"] == payments[1]["id"]
    assert payments[0]["attempts"][0]["instructions"]["amounts"]["fee"] == "1"


@pytest.mark.process
def test_without_the_control_api_the_faults_in_a_store_are_not_injected(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'store.db'}")
    with server_process(tmp_path, *store) as served, httpx.Client(base_url=served.url) as client:
        rule = {"fault": "status=503", "times": None}
        assert client.post("/_mock/faults", json=rule, headers=AUTHORIZED).is_success
    (tmp_path / "ready.json").unlink()
    with (
        server_process(tmp_path, *store, "--no-control") as served,
        httpx.Client(base_url=served.url, headers=AUTHORIZED) as client,
    ):
        created = create(client)
        paths = ("/v1/chains", "/v1/webhooks", created.headers["location"])
        assert created.status_code == 201
        assert [client.get(path).status_code for path in paths] == [200, 200, 200]


@NEEDS_LINUX
@pytest.mark.process
def test_servers_share_a_file_of_scenarios_and_a_later_server_needs_none(tmp_path: Path) -> None:
    scenarios = tmp_path / "scenarios.toml"
    scenarios.write_text(TWO_HALVES)
    with (
        servers_on_sqlite(tmp_path, "--scenarios", str(scenarios)) as [served, _],
        one_connection_each(served) as clients,
    ):
        for client in clients:
            client.headers.update({**AUTHORIZED, "X-Mock-Scenario": "two_halves"})
            client.put("/_mock/clock", json={"speed": 0})
        payments = [create(client).json()["id"] for client in clients]
        pending = clients[0].post("/_mock/next", json={"scenario": "two_halves"})
        assert pending.status_code == 200
        shown = [clients[0].get(f"/_mock/payments/{payment}").json() for payment in payments]
        assert [one["timeline"][-1]["status"] for one in shown] == ["overpaid_review"] * 2
    with (
        server_process(tmp_path, "--store", f"sqlite://{tmp_path}/store.db") as served,
        httpx.Client(base_url=served.url, headers=AUTHORIZED) as client,
    ):
        assert [client.get(f"/_mock/payments/{payment}").json() for payment in payments] == shown
        next_payment = create(client).json()["id"]
        listed = client.get("/_mock/payments", params={"scenario": "two_halves"}).json()["data"]
        assert [one["id"] for one in listed] == [next_payment, *reversed(payments)]
        unknown = client.post("/v1/payments", json={}, headers={"X-Mock-Scenario": "two_halves"})
        assert unknown.json()["error"]["code"] == "invalid_scenario"


@NEEDS_LINUX
@pytest.mark.process
@pytest.mark.parametrize("connect", [os.pipe, os.openpty])
def test_the_end_of_standard_input_stops_the_server(
    tmp_path: Path, connect: Callable[[], tuple[int, int]]
) -> None:
    ends = connect()
    ours, theirs = ends if connect is os.openpty else reversed(ends)
    command = [*PAYMOCK, "serve", "--port", "0", "--ready-file", str(tmp_path / "ready.json")]
    with subprocess.Popen(
        [*command, "--exit-on-stdin-close"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    ) as process:
        os.close(theirs)
        os.write(ours, b"a line\n")
        wait_until((tmp_path / "ready.json").exists)
        assert process.poll() is None
        os.close(ours)
        assert process.communicate()[0].endswith("\nstopped (standard input closed)\n")
        assert process.returncode == 0


@NEEDS_LINUX
@pytest.mark.process
def test_a_server_reads_its_keys_again_on_sighup_and_ends_no_other_request(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("old-key\nkept-key\n")
    keys = ("old-key", "old-key.name", "kept-key", "new-key", "new-key.name")
    with (
        server_process(tmp_path, "--api-keys-file", str(file)) as served,
        httpx.Client(base_url=served.url, headers={"Authorization": "Bearer kept-key"}) as client,
    ):

        def accepted() -> list[str]:
            headers = [{"Authorization": f"Bearer {key}"} for key in keys]
            statuses = [client.get("/v1/chains", headers=authorized).status_code for authorized in headers]
            return [key for key, status in zip(keys, statuses, strict=True) if status == 200]

        assert accepted() == ["old-key", "old-key.name", "kept-key"]
        rule = client.post("/_mock/faults", json={"fault": "hold", "operation": "listAssets"}).json()
        held = ask(served, "/v1/chains/bsc/assets", {"Authorization": "Bearer kept-key"})
        wait_until(lambda: client.get("/_mock/faults").json()["data"][0]["waiting"] == 1)
        file.write_text("kept-key\nnew-key\n")
        served.process.send_signal(signal.SIGHUP)
        wait_until(lambda: accepted() == ["kept-key", "new-key", "new-key.name"])
        client.delete(f"/_mock/faults/{rule['id']}")
        assert next_reply(held).status == 200
        held.close()
        file.write_text("new! key\n")
        served.process.send_signal(signal.SIGHUP)
        lines = iter(served.process.stdout or ())
        log = [next(lines)]
        while "API keys stay" not in log[-1]:
            log.append(next(lines))
        assert accepted() == ["kept-key", "new-key", "new-key.name"]
        authorized = {"Authorization": "Bearer new-key"}
        assert client.get("/v1/new-key.name", headers=authorized).status_code == 404
        log += served.stop(signal.SIGTERM)[1].splitlines()
    assert not [line for line in log if "new-key" in line or "name" in line]
