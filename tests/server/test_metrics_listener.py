import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness import server_process as processes
from paymock.settings import Settings
from tests.support.server import running_server


@pytest.mark.parametrize("allowed", [{"open": True}, {"api_keys": ("secret-one",)}])
def test_an_address_beyond_loopback_is_allowed_with_a_key_or_in_open_mode(allowed: dict[str, Any]) -> None:
    with running_server(Settings(port=0, metrics_address="0.0.0.0:0", **allowed)) as server:
        assert server.metrics is not None
        assert httpx.get(server.metrics, headers={"Host": "scraped.example"}).status_code == 200


@pytest.mark.process
def test_without_the_extra_a_server_without_metrics_runs(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not installed')")
    with processes.server_process(tmp_path, PYTHONPATH=str(tmp_path)) as served:
        assert "metrics" not in served.ready
        assert httpx.get(f"{served.url}/livez").status_code == 200
    refused = processes.run("serve", "--metrics-address", "127.0.0.1:0", PYTHONPATH=str(tmp_path))
    assert refused.returncode == 1
    assert "pip install 'paymock[metrics]'" in refused.stderr


@pytest.mark.process
def test_the_metrics_have_an_address_and_do_not_delay_a_stop(tmp_path: Path) -> None:
    with processes.server_process(tmp_path, "--metrics-address", "[::1]:0") as served:
        metrics_url = str(served.ready["metrics"])
        assert metrics_url.startswith("http://[::1]:")
        address = ("::1", httpx.URL(metrics_url).port or 0)
        with (
            httpx.Client() as idle,
            socket.create_connection(address, 60) as slow,
            socket.create_connection(address, 5),
        ):
            assert idle.get(metrics_url).status_code == 200
            slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
            status, output = served.stop(signal.SIGTERM)  # which must not take long
    assert status == 0
    assert f"\n  Metrics   {metrics_url}\n" in output
