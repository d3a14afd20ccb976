"""The files in deploy/, as far as they can be tried without a container engine. scripts/lint lints them, and
scripts/try-image tries the image with an engine.
"""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from harness.polling import wait_until
from harness.redis_engine import free_port, redis_server
from harness.server_process import run
from paymock.settings import DEFAULT_PORT
from tests.support import markdown
from tests.support.client import ORDER
from tests.support.containerfile import Containerfile

IMAGE = Containerfile("deploy/Containerfile")
COMPOSITION: dict[str, Any] = yaml.safe_load(markdown.read("deploy/compose.yaml"))["services"]
MANIFEST: list[Any] = list(yaml.safe_load_all(markdown.read("deploy/kubernetes.yaml")))
DEPLOYMENT = MANIFEST[0]["spec"]["template"]["spec"]
SERVER = DEPLOYMENT["containers"][0]
FILES = ("Containerfile", "README.md", "compose.yaml", "github-actions.yaml", "kubernetes.yaml")


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `/opt` of the image, built from the Containerfile."""
    return IMAGE.build(tmp_path_factory.mktemp("image"))


class Container:
    """A process that is started as a container of the image would be."""

    def __init__(self, environment: dict[str, str], url: str, process: subprocess.Popen[str]) -> None:
        self.environment = environment
        self.url = url
        self.process = process

    def execute(self, *command: str) -> int:
        """The exit status of a command within the container."""
        return subprocess.run(command, env=self.environment, cwd="/", timeout=30, check=False).returncode

    def status(self, path: str, api_key: str | None = None) -> int:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        return httpx.get(self.url + path, headers=headers).status_code

    @property
    def well(self) -> bool:
        return self.execute(*IMAGE.health_check) == 0


@contextmanager
def container(opt: Path, **variables: str) -> Iterator[Container]:
    """A container of the image with these variables. It cannot write into any file."""
    port = free_port()
    path = f"{opt}/paymock/bin:/usr/bin:/bin"
    environment = {
        **IMAGE.environment,
        **variables,
        "PATH": path,
        "HOME": "/nowhere",
        "PAYMOCK_PORT": str(port),
    }
    command = ["/bin/sh", "-euc", 'ulimit -f 0; exec "$@"', "sh", *IMAGE.command]
    with subprocess.Popen(
        command, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            made = Container(environment, f"http://127.0.0.1:{port}", process)
            wait_until(lambda: process.poll() is not None or _listens(made.url), 30)
            yield made
        finally:
            process.kill()


def _listens(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.nightly
def test_a_container_without_arguments_is_well_and_lets_in_whoever_reaches_it_and_stops(opt: Path) -> None:
    with container(opt) as made:
        assert made.well
        assert made.status("/v1/chains", "mk_test_demo") == 200
        made.process.send_signal(signal.SIGTERM)
        assert made.process.wait(10) == 0
        assert not made.well


@pytest.mark.nightly
def test_keys_close_a_container(opt: Path) -> None:
    with container(opt, PAYMOCK_API_KEY="key-of-team-a,key-of-team-b") as made:
        assert made.well
        assert made.status("/v1/chains", "mk_test_demo") == 401
        assert made.status("/v1/chains", "key-of-team-b") == 200


@pytest.mark.nightly
def test_a_container_that_cannot_write_refuses_a_store_that_is_a_file(opt: Path, tmp_path: Path) -> None:
    with container(opt, PAYMOCK_STORE=f"sqlite://{tmp_path}/payments.db") as made:
        assert made.process.wait(10) == 1
        assert made.process.stdout is not None
        assert "payments.db" in made.process.stdout.read()


@pytest.mark.nightly
@pytest.mark.redis
def test_what_is_composed_keeps_payments_when_redis_is_killed(opt: Path) -> None:
    server, redis = COMPOSITION["paymock"], COMPOSITION["redis"]
    environment = dict(server["environment"])
    assert environment.pop("PAYMOCK_API_KEY") is None  # which means: as it is outside
    variables = {name: str(value) for name, value in environment.items()}
    program, *options = redis["command"]
    with redis_server(*options) as engine:
        assert program == "redis-server"
        variables["PAYMOCK_STORE"] = variables["PAYMOCK_STORE"].replace("redis:6379", engine.address)
        with container(opt, **variables) as made:
            headers = {"Authorization": "Bearer mk_test_demo", "Idempotency-Key": "order-1001-payment"}
            created = httpx.post(f"{made.url}/v1/payments", json=dict(ORDER), headers=headers)
            assert created.status_code == 201
            path = created.headers["location"]
            engine.kill()
            assert made.status("/readyz") == 503
            engine.restart()
            wait_until(lambda: made.status("/readyz") == 200)
            assert made.status(path, "mk_test_demo") == 200


@pytest.mark.nightly
def test_a_pod_without_keys_does_not_start_and_with_keys_its_probes_pass(opt: Path) -> None:
    variables = {entry["name"]: entry["value"] for entry in SERVER["env"]}
    del variables["PAYMOCK_STORE"]
    with container(opt, **variables) as made:
        assert made.process.wait(10) == 1
    with container(opt, **variables, PAYMOCK_API_KEY="key-of-team-a") as made:
        for probe in ("livenessProbe", "readinessProbe"):
            assert made.status(SERVER[probe]["httpGet"]["path"]) == 200
        assert made.execute(*SERVER["lifecycle"]["preStop"]["exec"]["command"][:1], "0") == 0


def test_kubernetes_puts_no_variables_of_its_own_among_those_of_the_server() -> None:
    """A service named paymock gives every pod PAYMOCK_PORT=tcp://…, unless it asks for none."""
    names = [document["metadata"]["name"] for document in MANIFEST if document["kind"] == "Service"]
    assert "paymock" in names
    assert DEPLOYMENT["enableServiceLinks"] is False
    assert run("serve", PAYMOCK_PORT="tcp://10.0.0.1:80").returncode == 2


def test_ports_and_users_are_the_same_everywhere() -> None:
    assert IMAGE.last("EXPOSE") == str(DEFAULT_PORT)
    assert COMPOSITION["paymock"]["ports"] == [f"127.0.0.1:{DEFAULT_PORT}:{DEFAULT_PORT}"]
    assert SERVER["ports"][0]["containerPort"] == DEFAULT_PORT
    security = DEPLOYMENT["securityContext"]
    assert IMAGE.last("USER") == f"{security['runAsUser']}:{security['runAsGroup']}"


@pytest.mark.parametrize("name", FILES)
def test_every_variable_that_is_named_is_one_of_paymocks(name: str) -> None:
    known = run("serve", "--help").stdout + run("ready", "--help").stdout
    named = set(re.findall(r"PAYMOCK_[A-Z_]+", markdown.read(f"deploy/{name}")))
    assert named
    assert named <= set(re.findall(r"PAYMOCK_[A-Z_]+", known))
