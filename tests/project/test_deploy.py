"""What docs/deploy.md describes, with its own configuration: nginx, two servers of two workers, a cluster."""

import re
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from harness.polling import wait_until
from harness.redis_engine import free_port, redis_cluster
from harness.server_process import ServerProcess, server_process
from tests.support import in_process, markdown
from tests.support.client import ORDER
from tests.support.stream import following


@contextmanager
def balanced(folder: Path, servers: list[ServerProcess], path: str = "") -> Iterator[str]:
    """The URL of nginx before the servers, with the configuration of the documentation."""
    [block] = [
        block for block in markdown.blocks(markdown.read("docs/deploy.md")) if block.language == "nginx"
    ]
    port = free_port()
    text = block.text.replace("listen 80;", f"listen 127.0.0.1:{port};")
    for documented, server in zip(("10.0.0.11:8402", "10.0.0.12:8402"), servers, strict=True):
        assert documented in text
        text = text.replace(documented, f"127.0.0.1:{server.port}")
    text = text.replace("location /", f"location {path}/")
    configuration = folder / "nginx.conf"
    paths = "".join(
        f"{kind}_temp_path {folder / kind};" for kind in ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    )
    text = text.replace("http {", f"http {{ access_log off; {paths}")
    configuration.write_text(
        f"user root; pid {folder / 'nginx.pid'}; daemon off; error_log {folder / 'log'};\n{text}"
    )
    command = ["nginx", "-p", str(folder), "-c", str(configuration), "-e", str(folder / "log")]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}{path}"
            wait_until(lambda: _answers(url))
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


class Deployment(NamedTuple):
    """Servers, and the balancer in front of them."""

    url: str
    servers: list[ServerProcess]

    def sandbox(self) -> httpx.Client:
        """A client with a sandbox of its own, which opens a connection for each request."""
        key = f"mk_test_{uuid.uuid4().hex}"
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with ExitStack() as stack:
        cluster = stack.enter_context(redis_cluster())
        folders = [tmp_path / name for name in ("one", "other", "nginx")]
        for folder in folders:
            folder.mkdir()
        servers = [
            stack.enter_context(server_process(folder, "--store", cluster.url, "--workers", "2"))
            for folder in folders[:2]
        ]
        yield Deployment(stack.enter_context(balanced(folders[2], servers)), servers)


def create(client: httpx.Client, key: str) -> httpx.Response:
    return client.post("/v1/payments", json=dict(ORDER), headers={"Idempotency-Key": key})


def test_many_servers_behave_as_one_and_one_that_is_killed_is_not_missed(deployment: Deployment) -> None:
    with deployment.sandbox() as client:
        assert client.put("/_mock/clock", json={"speed": 0}).status_code == 200
        keys = [f"order-{number:04d}-payment" for number in range(40)]
        created = {key: create(client, key) for key in keys}
        assert {reply.status_code for reply in created.values()} == {201}
        assert client.post("/_mock/clock/advance", json={"seconds": 45}).status_code == 200

        deployment.servers[0].process.kill()
        for key, first in created.items():
            again = create(client, key)
            assert (again.status_code, again.content) == (201, first.content)
            read = client.get(f"/v1/payments/{first.json()['id']}")
            assert (read.status_code, read.json()["status"]) == (200, "completed")
        page = client.get("/_mock/payments?limit=200").json()
        assert len(page["data"]) == len(created)


def test_what_nginx_must_not_change_reaches_the_server(deployment: Deployment) -> None:
    with deployment.sandbox() as client:
        for path, body, status in (
            ("/v1/payments", b" " * 70_000, 413),
            ("/v1//payments", b"{}", 404),
            ("/v1/payments/", b"{}", 404),
        ):
            headers = {"Content-Type": "application/json", "Idempotency-Key": "order-1001-payment"}
            reply = client.post(path, content=body, headers=headers)
            assert (reply.status_code, "x-request-id" in reply.headers) == (status, True)
        long = client.get("/v1/chains", headers={"X-Long": "x" * 12_000})
        assert long.status_code == 200


def test_nginx_passes_each_event_of_a_checkout_on_as_it_comes(deployment: Deployment) -> None:
    with deployment.sandbox() as client:
        client.put("/_mock/clock", json={"speed": 0})
        payment_id = create(client, "order-1001-payment").json()["id"]
        with following(f"{deployment.url}/checkout/{payment_id}/events") as stream:
            assert stream.next()["view"] == "pay"
            client.post("/_mock/clock/advance", json={"seconds": 5})
            assert stream.next()["view"] == "detected"


@pytest.mark.nginx
@pytest.mark.nightly
def test_pages_work_under_a_path(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    from tests.support.browser import chromium
    from tests.web.pages.browser.steps import Tab

    with (
        server_process(tmp_path, "--root-path", "/paymock") as server,
        balanced(tmp_path, [server, server], "/paymock") as url,
        chromium() as browser,
    ):
        tab = Tab(browser.new_page(), url, "mk_test_demo").open()
        tab.page.get_by_role("button", name="New payment…").click()
        tab.page.get_by_role("button", name="Create", exact=True).click()
        expect(tab.page).to_have_url(re.compile(f"{url}/payments/pay_[a-z2-7]+"))
        expect(tab.status).to_have_text("awaiting_payment")
        tab.page.get_by_role("link", name="Open checkout").click()
        expect(tab.page.get_by_role("heading", level=1)).to_contain_text("Waiting for your payment")
        tab.page.goto(f"{url}/swagger/control/")
        expect(tab.page.locator(".opblock").first).to_be_visible()
        assert (tab.foreign(), tab.complaints()) == ([], [])


def test_options_and_variables_that_are_named_are_those_that_there_are() -> None:
    known = in_process.run("serve", "--help").stdout + in_process.run("ready", "--help").stdout
    for page in ("docs/deploy.md", "docs/stores.md"):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", markdown.read(page)))
        assert named <= set(re.findall(r"--[a-z-]+", known)), page
    for name in ("Containerfile", "README.md", "compose.yaml", "github-actions.yaml", "kubernetes.yaml"):
        named = set(re.findall(r"PAYMOCK_[A-Z_]+", markdown.read(f"deploy/{name}")))
        assert named <= set(re.findall(r"PAYMOCK_[A-Z_]+", known)), name


def test_kubernetes_puts_no_variables_of_its_own_among_those_of_the_server() -> None:
    """A service named paymock gives every pod PAYMOCK_PORT=tcp://…, unless it asks for none."""
    assert "enableServiceLinks: false" in markdown.read("deploy/kubernetes.yaml")
    assert in_process.run("serve", PAYMOCK_PORT="tcp://10.0.0.1:80").returncode == 2
