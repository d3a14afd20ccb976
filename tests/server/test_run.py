"""`paymock serve`: start, stop, addresses, the ready file, the banner, options and errors."""

import json
import signal
import socket
from pathlib import Path

import httpx
import pytest

from harness import process_info
from harness.server_process import run, server_process
from tests.support.client import AUTHORIZED, ORDER
from tests.support.courses import TWO_HALVES
from tests.support.workers import NEEDS_PROCESSES, create, one_connection_each, server_with_workers


def test_the_ready_file_holds_the_address_of_the_server(tmp_path: Path) -> None:
    with server_process(tmp_path) as served:
        assert served.ready == {
            "url": f"http://127.0.0.1:{served.port}",
            "port": served.port,
            "pid": served.process.pid,
        }
        assert httpx.get(f"{served.url}/livez").status_code == 200
        assert [path.name for path in tmp_path.iterdir()] == ["ready.json"]


def test_a_failed_start_leaves_the_ready_file_of_a_running_server(tmp_path: Path) -> None:
    with server_process(tmp_path) as served:
        ready_file = tmp_path / "ready.json"
        assert run("serve", "--port", str(served.port), "--ready-file", str(ready_file)).returncode == 1
        assert json.loads(ready_file.read_text())["pid"] == served.process.pid


def test_the_announced_address_of_a_wildcard_can_be_opened(tmp_path: Path) -> None:
    with server_process(tmp_path, "--host", "::", "--open") as served:
        assert served.url == f"http://[::1]:{served.port}"
        assert httpx.get(f"{served.url}/livez").status_code == 200


def test_by_default_both_loopback_addresses_are_served(tmp_path: Path) -> None:
    with server_process(tmp_path) as served:
        assert httpx.get(f"http://[::1]:{served.port}/livez").status_code == 200


def test_a_configured_host_is_the_only_one(tmp_path: Path) -> None:
    with server_process(tmp_path, "--host", "127.0.0.1") as served, pytest.raises(httpx.ConnectError):
        httpx.get(f"http://[::1]:{served.port}/livez")


def test_the_banner_shows_addresses_and_keys(tmp_path: Path) -> None:
    with server_process(tmp_path) as served:
        _, output = served.stop(signal.SIGTERM)
    for part in (
        "MOCK: no real funds",
        f"  Dashboard {served.url}/\n",
        f"{served.url}/v1",
        f"{served.url}/swagger/",
        "mk_test_demo",
        "open mode",
    ):
        assert part in output


def test_the_banner_shows_no_dashboard_without_the_control_api(tmp_path: Path) -> None:
    with server_process(tmp_path, "--no-control") as served:
        assert httpx.get(f"{served.url}/").status_code == 404
        _, output = served.stop(signal.SIGTERM)
    assert "Dashboard" not in output


@pytest.mark.parametrize("options", [(), ("--no-fast-path",)])
def test_without_the_control_api_the_faults_in_a_store_are_not_injected(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'store.db'}")
    with server_process(tmp_path, *store) as served, httpx.Client(base_url=served.url) as client:
        for path in ("/_mock/faults", "/_mock/next"):
            added = client.post(path, json={"fault": "status=503", "times": None}, headers=AUTHORIZED)
            assert added.is_success
    (tmp_path / "ready.json").unlink(missing_ok=True)
    with (
        server_process(tmp_path, *store, "--no-control", *options) as served,
        httpx.Client(base_url=served.url, headers=AUTHORIZED) as client,
    ):
        created = create(client)
        paths = ("/v1/chains", "/v1/webhooks", created.headers["location"])
        assert [created.status_code, *(client.get(path).status_code for path in paths)] == [
            201,
            200,
            200,
            200,
        ]


ONE, TWO = "https://one.example", "https://two.example:8443"


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--frame-ancestor", ONE, "--frame-ancestor", TWO), {}),
        (("--frame-ancestors", ONE, "--frame-ancestor", TWO), {}),
        ((), {"PAYMOCK_FRAME_ANCESTOR": f"{ONE},{TWO}"}),
        ((), {"PAYMOCK_FRAME_ANCESTORS": f"{ONE},{TWO}"}),
    ],
)
def test_frame_ancestors_are_set_by_options_or_the_environment(
    tmp_path: Path, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    with server_process(tmp_path, *options, **variables) as served:
        policy = httpx.get(f"{served.url}/checkout/pay_unknown").headers["content-security-policy"]
    assert policy.endswith(f"; frame-ancestors {ONE} {TWO}")


def test_an_invalid_frame_ancestor_is_refused() -> None:
    outcome = run("serve", "--port", "0", "--frame-ancestor", "shop.example")
    assert outcome.returncode == 1
    assert "a frame ancestor must be an origin such as https://shop.example" in outcome.stderr


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run("serve", "--port", str(port))
    assert outcome.returncode == 1
    assert (
        outcome.stderr
        == f"Error: port {port} is in use: stop what listens there, or use --port 0 for a free one\n"
    )


REFUSED_STARTS = {
    "open mode beyond loopback": (["--host", "0.0.0.0"], 1, "would let anybody in"),
    "a foreign address": (["--host", "203.0.113.1", "--open"], 1, "cannot listen on 203.0.113.1 port"),
    "a host that does not exist": (["--host", "no.invalid", "--open"], 1, "cannot listen on no.invalid"),
    "an invalid port": (["--port", "70000"], 2, "70000"),
    "a key with a space": (["--api-key", "a b"], 1, "an API key must consist of"),
    "a host with a port": (["--allowed-host", "a.example:80"], 1, "allowed host"),
    "a host that is no name": (["--host", "a..b", "--open"], 1, "a..b is not a host name"),
    "an empty host": (["--host", "", "--open"], 1, "must not be empty"),
    "a folder for a ready file": (["--port", "0", "--ready-file", "/"], 1, "must not be empty"),
    "a file for a folder": (["--port", "0", "--ready-file", "/etc/passwd/x"], 1, "cannot write the ready"),
    "an unknown store": (["--store", "floppy://a"], 1, "unknown store 'floppy'"),
    "a missing catalog": (["--catalog", "/no.toml"], 1, "cannot read the catalog /no.toml"),
    "an unknown log format": (["--log", "xml"], 2, "'xml' is not one of"),
    "a fee above 100 %": (["--fee-bps", "10001"], 2, "10001"),
    "a missing folder": (["--port", "0", "--ready-file", "/no/ready"], 1, "cannot write the ready file"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_STARTS)
def test_an_invalid_option_is_refused_with_its_reason(case: str) -> None:
    arguments, status, message = REFUSED_STARTS[case]
    outcome = run("serve", *arguments)
    assert outcome.returncode == status, outcome.stderr
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert outcome.stdout == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("chains = 1", "Expected `array`"),
        ("not toml", "cannot be used"),
        ("[[chains]]\nid = 'x'", "missing required"),
    ],
)
def test_an_invalid_catalog_is_named(tmp_path: Path, content: str, message: str) -> None:
    catalog = tmp_path / "chains.toml"
    catalog.write_text(content)
    outcome = run("serve", "--catalog", str(catalog))
    assert outcome.returncode == 1
    assert str(catalog) in outcome.stderr
    assert message in outcome.stderr


def test_a_catalog_replaces_the_built_in_one(tmp_path: Path) -> None:
    catalog = tmp_path / "chains.toml"
    catalog.write_text(
        '[[chains]]\nid = "mine"\nname = "Mine"\nchain_id = 7\ntestnet = true\n'
        '[[chains.assets]]\nsymbol = "ONE"\nname = "One"\ndecimals = 18\n'
        '[[chains.assets]]\nsymbol = "TWO"\nname = "Two"\ndecimals = 2\n'
        f'contract_address = "{ORDER["receive"]["address"]}"\n'
    )
    with server_process(tmp_path, "--catalog", str(catalog)) as served:
        chains = httpx.get(f"{served.url}/v1/chains", headers=AUTHORIZED).json()["data"]
    assert [(chain["id"], chain["caip2"], chain["native_asset"]) for chain in chains] == [
        ("mine", "eip155:7", "ONE")
    ]


def test_open_mode_beyond_loopback_is_allowed_explicitly(tmp_path: Path) -> None:
    with server_process(tmp_path, "--host", "0.0.0.0", "--open") as served:
        assert served.url == f"http://127.0.0.1:{served.port}"
        assert httpx.get(f"{served.url}/v1/chains", headers=AUTHORIZED).status_code == 200


def test_the_same_seed_and_keys_give_the_same_payment(tmp_path: Path) -> None:
    payments = []
    for seed in ("one", "one", "two"):
        with server_process(tmp_path, "--seed", seed) as served:
            headers = {**AUTHORIZED, "Idempotency-Key": "order-1001-payment"}
            payment = httpx.post(f"{served.url}/v1/payments", json={**ORDER}, headers=headers).json()
            payments.append((payment["id"], payment["attempts"][0]["instructions"]["invoice_address"]))
        (tmp_path / "ready.json").unlink()
    assert payments[0] == payments[1]
    assert payments[0] != payments[2]


def test_options_take_precedence_over_environment_variables(tmp_path: Path) -> None:
    keys = {"PAYMOCK_API_KEY": "first-key, second-key"}
    with server_process(
        tmp_path, PAYMOCK_FEE_BPS="0", PAYMOCK_LOG="json", PAYMOCK_NO_ACCESS_LOG="1", **keys
    ) as served:
        statuses = [
            httpx.get(f"{served.url}/v1/chains", headers={"Authorization": f"Bearer {key}"}).status_code
            for key in ("first-key", "second-key", "mk_test_demo")
        ]
        headers = {"Authorization": "Bearer first-key", "Idempotency-Key": "order-1001-payment"}
        payment = httpx.post(f"{served.url}/v1/payments", json={**ORDER}, headers=headers).json()
        _, output = served.stop(signal.SIGTERM)
    assert statuses == [200, 200, 401]
    assert payment["attempts"][0]["instructions"]["amounts"]["fee"] == "1"
    assert [json.loads(line)["event"] for line in output.splitlines()] == ["started"]
    (tmp_path / "ready.json").unlink()
    with server_process(tmp_path, "--api-key", "flag-key", PAYMOCK_API_KEY="first-key") as served:
        statuses = [
            httpx.get(f"{served.url}/v1/chains", headers={"Authorization": f"Bearer {key}"}).status_code
            for key in ("first-key", "flag-key")
        ]
    assert statuses == [401, 200]


def test_an_option_can_disable_what_a_variable_enables(tmp_path: Path) -> None:
    with server_process(
        tmp_path, "--access-log", "--control", PAYMOCK_NO_ACCESS_LOG="1", PAYMOCK_NO_CONTROL="1"
    ) as served:
        assert httpx.get(f"{served.url}/_mock/clock", headers=AUTHORIZED).status_code == 200
        _, output = served.stop(signal.SIGTERM)
    assert "/_mock/clock" in output
    outcome = run("serve", "--host", "0.0.0.0", "--no-open", PAYMOCK_OPEN="1")
    assert "would let anybody in" in outcome.stderr


@pytest.mark.parametrize("keys", [",", "first-key,,second-key", "first-key,"])
def test_an_empty_key_in_a_list_is_refused(keys: str) -> None:
    outcome = run("serve", PAYMOCK_API_KEY=keys)
    assert outcome.returncode == 2
    assert "a value before or after a comma is empty" in outcome.stderr


def test_an_invalid_variable_is_named() -> None:
    outcome = run("serve", PAYMOCK_PORT="eighty")
    assert outcome.returncode == 2
    assert "eighty" in outcome.stderr
    assert "--port" in outcome.stderr


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to see the memory")
def test_an_idle_server_takes_less_than_60_mb(tmp_path: Path) -> None:
    with server_process(tmp_path) as served:
        assert process_info.resident_bytes(served.process.pid) < 60e6


@NEEDS_PROCESSES
def test_workers_share_a_file_of_scenarios_and_a_later_server_needs_none(tmp_path: Path) -> None:
    scenarios = tmp_path / "scenarios.toml"
    scenarios.write_text(TWO_HALVES)
    with (
        server_with_workers(tmp_path, "--scenarios", str(scenarios)) as served,
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
        served.stop(signal.SIGTERM)
    (tmp_path / "ready.json").unlink(missing_ok=True)
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
