"""`--metrics-address`: who may read the metrics, and which addresses are refused."""

import re
import signal
import socket
from pathlib import Path

import httpx
import pytest

from harness.server_process import run, server_process

LOOPBACK = ("--metrics-address", "127.0.0.1:0")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "metrics.example:9402"])
def test_an_address_beyond_loopback_is_refused_without_a_key_or_open_mode(address: str) -> None:
    outcome = run("serve", "--port", "0", "--metrics-address", address)
    assert outcome.returncode == 1
    assert f"binding {address} without --api-key would let anybody read the metrics" in outcome.stderr


@pytest.mark.parametrize("allowed", [("--open",), ("--api-key", "secret-one")])
def test_an_address_beyond_loopback_is_allowed_with_a_key_or_in_open_mode(
    tmp_path: Path, allowed: tuple[str, ...]
) -> None:
    with server_process(tmp_path, "--metrics-address", "0.0.0.0:0", *allowed) as served:
        metrics_url = str(served.ready["metrics"])
        assert httpx.get(metrics_url, headers={"Host": "scraped.example"}).status_code == 200


@pytest.mark.parametrize(
    "address", ["9402", "127.0.0.1", "::1:9402", ":9402", "127.0.0.1:99999", "http://127.0.0.1:1"]
)
def test_an_invalid_address_is_refused(address: str) -> None:
    outcome = run("serve", "--port", "0", PAYMOCK_METRICS_ADDRESS=address)
    assert outcome.returncode == 1
    assert "Error: " in outcome.stderr


def test_a_port_in_use_is_named_with_the_option_for_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run("serve", "--port", "0", "--metrics-address", f"127.0.0.1:{port}")
    assert outcome.returncode == 1
    assert f"port {port} is in use" in outcome.stderr
    assert "--metrics-address HOST:0" in outcome.stderr


def test_without_the_extra_the_error_names_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not installed')")
    outcome = run("serve", "--port", "0", *LOOPBACK, PYTHONPATH=str(tmp_path))
    assert outcome.returncode == 1
    assert "pip install 'paymock[metrics]'" in outcome.stderr


def test_a_server_without_metrics_does_not_import_prometheus_client(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not installed')")
    with server_process(tmp_path, PYTHONPATH=str(tmp_path)) as served:
        assert "metrics" not in served.ready
        assert httpx.get(f"{served.url}/livez").status_code == 200
        _, output = served.stop(signal.SIGTERM)
    assert "Metrics" not in output


def test_the_banner_shows_the_address_of_the_metrics(tmp_path: Path) -> None:
    with server_process(tmp_path, "--metrics-address", "[::1]:0") as served:
        metrics_url = str(served.ready["metrics"])
        assert re.fullmatch(r"http://\[::1\]:\d+/metrics", metrics_url)
        assert httpx.get(metrics_url).status_code == 200
        _, output = served.stop(signal.SIGTERM)
    assert f"\n  Metrics   {metrics_url}\n" in output


def test_connections_to_the_metrics_do_not_delay_a_stop(tmp_path: Path) -> None:
    with server_process(tmp_path, *LOOPBACK) as served:
        metrics_url = httpx.URL(str(served.ready["metrics"]))
        address = ("127.0.0.1", metrics_url.port or 0)
        with (
            httpx.Client() as idle,
            socket.create_connection(address, 5) as slow,
            socket.create_connection(address, 5),
        ):
            assert idle.get(metrics_url).status_code == 200
            slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
            status, _ = served.stop(signal.SIGTERM)  # which must not take long
    assert status == 0
