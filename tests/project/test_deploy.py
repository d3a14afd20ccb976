"""What docs/deploy.md describes, with the files in deploy/: nginx before servers on one Redis, or several,
and the commands of the page. And the jobs of docs/ci.md, whose steps run in a shell.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from harness.redis_engine import DURABLE, RedisEngine, free_port, redis_sentinel, redis_server
from harness.server_process import ServerProcess, environment, server_process
from paymock import __version__
from paymock.verify.process import end_processes_with
from paymock.web.telemetry.metrics import COUNTERS, DURATION
from tests.support import in_process, markdown
from tests.support.client import ORDER
from tests.support.snippets import write_files


@contextmanager
def balanced(folder: Path, servers: list[ServerProcess], *, several_stores: bool = False) -> Iterator[str]:
    """The URL of nginx before the servers, with the configuration of the documentation."""
    text = markdown.read(f"deploy/nginx{'-several-redis' if several_stores else ''}.conf")
    port = free_port()
    text = re.sub("\n *(listen 443|ssl_).*", "", text).replace("listen 80;", f"listen 127.0.0.1:{port};")
    documented = [*dict.fromkeys(re.findall(r"10\.0\.\d+\.\d+:8402", text))]
    for address, server in zip(documented, servers, strict=True):
        text = text.replace(address, f"127.0.0.1:{server.port}")
    with subprocess.Popen(nginx(folder, text)) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(transport=httpx.HTTPTransport(retries=9)) as client:
                client.get(f"{url}/readyz").raise_for_status()
            yield url
        finally:
            process.terminate()


def nginx(folder: Path, text: str) -> list[str]:
    """The command that runs nginx in a folder, with this configuration."""
    kinds = ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    paths = "".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    text = text.replace("http {", f"http {{ access_log off; {paths}")
    text = f"user root; pid {folder}/pid; daemon off; error_log {folder}/log; {text}"
    (folder / "nginx.conf").write_text(text)
    return ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "log")]


KEYS = [f"key-{number}" for number in range(10)]


class Deployment(NamedTuple):
    """Servers, and the balancer in front of them."""

    url: str
    servers: list[ServerProcess]
    engines: list[RedisEngine]

    def client(self, key: str = KEYS[0]) -> httpx.Client:
        """A client that opens a connection for each request."""
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


@contextmanager
def deployed(folder: Path, stores: int) -> Iterator[Deployment]:
    """Two servers, on one Redis or on one each."""
    with ExitStack() as stack:
        engines = [stack.enter_context(redis_server(*DURABLE)) for _ in range(stores)]
        folders = [folder / name for name in ("one", "other", "nginx")]
        for each in folders:
            each.mkdir()
        servers = [
            stack.enter_context(server_process(each, "--store", engine.url, PAYMOCK_API_KEYS=",".join(KEYS)))
            for each, engine in zip(folders[:2], [*engines, engines[0]], strict=False)
        ]
        url = stack.enter_context(balanced(folders[2], servers, several_stores=stores > 1))
        yield Deployment(url, servers, engines)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with deployed(tmp_path, 1) as deployment:
        yield deployment


def create(client: httpx.Client, key: str) -> httpx.Response:
    return client.post("/v1/payments", json=dict(ORDER), headers={"Idempotency-Key": key})


def test_many_servers_behave_as_one_and_one_that_is_killed_is_not_missed(deployment: Deployment) -> None:
    with deployment.client() as client:
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
    with deployment.client() as client:
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


@pytest.mark.nginx
@pytest.mark.redis
@pytest.mark.parametrize(("lost", "status"), [("server", 502), ("engine", 503)])
def test_each_key_stays_with_one_of_several_stores(tmp_path: Path, lost: str, status: int) -> None:
    """A checkout, which has no key, is found wherever it is. None replaces a deployment that is lost."""
    with deployed(tmp_path, 2) as deployment, ExitStack() as stack:
        clients = [
            stack.enter_context(deployment.client(key + name)) for key in KEYS for name in ("", ".branch")
        ]
        places: list[int] = []
        checkouts: list[str] = []
        for client in clients:
            created = create(client, "order-1001-payment")
            assert created.status_code == 201
            again = client.headers["Authorization"].replace("Bearer ", "bEARER  ")
            for authorization in (again, client.headers["Authorization"]):
                client.headers["Authorization"] = authorization
                assert create(client, "order-1001-payment").headers["Idempotent-Replayed"] == "true"
            checkouts.append(f"/checkout/{created.json()['id']}.json")
            found = [httpx.get(server.url + checkouts[-1]).status_code for server in deployment.servers]
            assert sorted(found) == [200, 404]
            places.append(found.index(200))
        assert {*places} == {0, 1}

        def seen(path: str) -> set[int]:
            found = {httpx.get(deployment.url + path).status_code for _ in range(6)}
            return {503 if status == 502 else status for status in found}

        nowhere = f"/checkout/pay_{'a' * 40}.json"
        assert [seen(path) for path in (*checkouts, nowhere)] == [{200}] * len(checkouts) + [{404}]
        (deployment.servers[0].process if lost == "server" else deployment.engines[0]).kill()
        replies = [create(client, "order-1001-payment").status_code for client in clients]
        assert replies == [201 if place else status for place in places]
        expected = [{200} if place else {503} for place in places]
        assert [seen(path) for path in (*checkouts, nowhere)] == [*expected, {503}]


def test_each_metric_of_an_alert_is_one_that_there_is() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    known = {sample.name for metric in registry.collect() for sample in metric.samples}
    alerts = yaml.safe_load(markdown.read("deploy/alerts.yaml"))["groups"][0]["rules"]
    named = {*re.findall(r"\b(\w+){", str(alerts))}
    assert {"up", *COUNTERS} & named < named <= known | {"up", *COUNTERS, f"{DURATION[0]}_bucket"}
    named = {*re.findall("`(Paymock[A-Za-z]+)`", markdown.read("docs/deploy.md"))}
    assert {alert["alert"] for alert in alerts} == named


def test_kubernetes_admits_only_paymock_to_redis_prometheus_to_metrics_and_no_variables() -> None:
    resources = [*yaml.safe_load_all(markdown.read("deploy/kubernetes.yaml"))]
    policies = [one["spec"] for one in resources if one["kind"] == "NetworkPolicy"]
    rules = [rule for spec in policies for rule in spec["ingress"]]
    assert {rule["ports"][0]["port"]: [*rule.get("from", [{}])[0]] for rule in rules} == {
        "http": [],
        "metrics": ["namespaceSelector"],
        "redis": ["podSelector"],
    }
    assert resources[0]["spec"]["template"]["spec"]["enableServiceLinks"] is False  # no PAYMOCK_PORT=tcp://…
    assert in_process.run("serve", PAYMOCK_PORT="tcp://10.0.0.1:80").returncode == 2


def test_options_and_variables_that_are_named_are_those_that_there_are() -> None:
    known = in_process.run("serve", "--help").stdout + in_process.run("ready", "--help").stdout
    for page in ("docs/deploy.md", "docs/stores.md"):
        named = {*re.findall(r"(?<!`)`(--[a-z-]+)", markdown.read(page))}  # its commands run
        assert named <= {*re.findall("--[a-z-]+", known)}, page
    for name in ("Containerfile", "README.md", "compose.yaml", "kubernetes.yaml"):
        named = set(re.findall(r"PAYMOCK_[A-Z_]+", markdown.read(f"deploy/{name}")))
        assert named <= set(re.findall(r"PAYMOCK_[A-Z_]+", known)), name


# CI of users: docs/ci.md


@pytest.mark.parametrize("page", ["deploy/kubernetes.yaml", "docs/ci.md"])
def test_it_names_the_version_that_this_is(page: str) -> None:
    assert {*re.findall(r"(?:v|paymock:)(\d+\.[\d.]*\d)", markdown.read(page))} == {__version__}


class Runner:
    """A job of GitHub, whose steps run in bash, with files for what they set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"RUNNER_TEMP": str(folder), "RUNNER_TRACKING_ID": uuid.uuid4().hex}
        for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"):
            (folder / name).touch()
            self.variables[name] = str(folder / name)

    def lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text().splitlines()

    def run(self, script: str, **more: str) -> tuple[int, str]:
        """The exit status and the output of a script."""
        exported = dict(line.split("=", 1) for line in self.lines("GITHUB_ENV"))
        variables = environment(**self.variables, **exported, **more)
        variables["PATH"] = os.pathsep.join([*self.lines("GITHUB_PATH")[::-1], variables["PATH"]])
        command = ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", f"exec 2>&1\n{script}"]
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            check=False,
        )
        return ended.returncode, ended.stdout

    def step(self, script: str, **more: str) -> str:
        """The output of a script that succeeds."""
        status, output = self.run(script, **more)
        assert status == 0, output
        return output

    def uses(self, inputs: Mapping[str, str], status: int = 0) -> str:
        """The output of the action, which ends with this exit status."""
        action = yaml.safe_load(markdown.read("deploy/action/action.yml"))
        values = {name: setting["default"] for name, setting in action["inputs"].items()}
        assert inputs.keys() <= values.keys()
        values.update(inputs)
        ended, outputs = 0, ""
        for step in action["runs"]["steps"]:
            assert "${{" not in step["run"]
            variables = {
                name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: values[match[1]], text)
                for name, text in step["env"].items()
            }
            path = str(markdown.ROOT / "deploy/action")
            if ended == 0:
                ended, output = self.run(step["run"], GITHUB_ACTION_PATH=path, **variables)
                outputs += output
        assert ended == status, outputs
        return outputs


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    runner = Runner(tmp_path)
    yield runner
    end_processes_with(f"RUNNER_TRACKING_ID={runner.variables['RUNNER_TRACKING_ID']}", 5)


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A command that runs this checkout."""
    path = tmp_path / "command"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m paymock "$@"\n')
    path.chmod(0o755)
    return path


@pytest.mark.process
def test_the_action_starts_a_server_for_the_steps_that_follow(runner: Runner, command: Path) -> None:
    [line] = runner.uses({"from": command.name, "arguments": "--speed x"}, 1).splitlines()
    assert line.startswith("::error title=paymock did not start::Error: Invalid value for '--speed': ")

    refused = runner.uses({"from": command.name, "arguments": "--api-key k"}, 1)
    assert "::error title=paymock refuses" in refused

    runner.uses({"from": command.name, "arguments": "--speed 0"})
    clock = runner.step('paymock --url "$PAYMOCK_URL" --key "$PAYMOCK_API_KEY" --json clock')
    assert json.loads(clock)["speed"] == 0
    exported = dict(line.split("=") for line in runner.lines("GITHUB_ENV"))
    outputs = dict(line.split("=") for line in runner.lines("GITHUB_OUTPUT"))
    assert outputs == {"url": exported["PAYMOCK_URL"], "api-key": exported["PAYMOCK_API_KEY"]}


@pytest.mark.process
def test_the_action_fails_with_a_summary_when_an_application_is_unsafe(runner: Runner, command: Path) -> None:
    url, folder = f"http://127.0.0.1:{free_port()}", markdown.ROOT / "examples/unsafe_shop"
    inputs = {
        "from": command.name,
        "run": f"cd '{folder}'; export PAYMENTS_URL=$PAYMOCK_URL PAYMENTS_API_KEY=$PAYMOCK_API_KEY; exec "
        f"'{sys.executable}' -m flask --app unsafe_shop:from_environment run --port {url.split(':')[2]}",
        "ready": f"{url}/ready",
        "order": f"POST {url}/orders/{{order_id}}",
        "deliveries": f"GET {url}/deliveries/{{order_id}}",
        "tick": f"POST {url}/poll",
        "arguments": "--scenario settlement_failed\n--fault status=500;after --fail-fast",
    }
    runner.uses(inputs, status=1)
    assert runner.lines("GITHUB_STEP_SUMMARY")[0].startswith("## UNSAFE: free_goods without a fault")


@pytest.mark.curl
def test_the_action_refuses_an_executable_with_another_checksum(runner: Runner, command: Path) -> None:
    url, checksum = command.as_uri(), hashlib.sha256(command.read_bytes()).hexdigest()
    for place in (url, command.name, command.name):  # also when a step is run again
        assert "FAILED" in runner.uses({"from": place, "sha256": f"{0:064}"}, status=1)
    assert "paymock answers" in runner.uses({"from": url, "sha256": checksum})


WORKFLOW = ".github/workflows/payments.yml"
QUICK = "--scenario settlement_failed --fault drop"
ASKS_FOR_CHAINS = """const {PAYMOCK_URL: url, PAYMOCK_API_KEY: key} = process.env;
const reply = await fetch(`${url}/v1/chains`, {headers: {Authorization: `Bearer ${key}`}});
process.exit(reply.ok ? 0 : 1);
"""


@pytest.fixture
def shop(runner: Runner) -> Path:
    """A shop of Node.js, with the files of docs/ci.md."""
    page = markdown.read("docs/ci.md").replace("8000", str(free_port()))
    write_files(runner.folder, markdown.blocks(page))
    shutil.copy(markdown.ROOT / "examples/javascript/shop.mjs", runner.folder)
    (runner.folder / "test.mjs").write_text(ASKS_FOR_CHAINS)
    package = {"name": "shop", "version": "1.0.0", "scripts": {"test": "node test.mjs"}}
    (runner.folder / "package.json").write_text(json.dumps(package))
    (runner.folder / "package-lock.json").write_text(json.dumps({**package, "lockfileVersion": 3}))
    runner.variables["PYTHONPATH"] = ""  # paymock is what a job installs
    check = Path(sys.executable).with_name("check-jsonschema")
    for kind, file in {"github-workflows": WORKFLOW, "gitlab-ci": ".gitlab-ci.yml"}.items():
        subprocess.run([check, "--builtin-schema", f"vendor.{kind}", runner.folder / file], check=True)
    return runner.folder


@pytest.mark.node
def test_the_workflow_of_the_page_succeeds_on_github(runner: Runner, shop: Path) -> None:
    workflow = yaml.safe_load((shop / WORKFLOW).read_text())
    for step in workflow["jobs"]["payments"]["steps"]:
        if "run" in step:
            runner.step(step["run"])
        elif "paymock" in step["uses"]:
            runner.uses({**step["with"], "arguments": QUICK} if "with" in step else {})
    assert runner.lines("GITHUB_STEP_SUMMARY")[0].startswith("## SAFE in 1 of 8 scenarios")


@pytest.mark.node
@pytest.mark.curl
def test_the_jobs_of_the_page_succeed_on_gitlab(runner: Runner, shop: Path) -> None:
    templates = yaml.safe_load(markdown.read("deploy/gitlab-ci.yml"))
    jobs = yaml.safe_load((shop / ".gitlab-ci.yml").read_text())
    port = str(free_port())
    runner.variables |= {"PAYMOCK_FROM": str(markdown.ROOT), "PAYMOCK_PORT": port}
    template = templates[jobs["tests"]["extends"]]
    [service] = template["services"]
    command = shlex.join([*service["entrypoint"], *service["command"]])
    runner.step(f"python3 -m venv image; PATH=$PWD/image/bin:$PATH; {command} > service.log 2>&1 &")
    script = "\n".join([*template["before_script"], *jobs["tests"]["script"]])
    runner.step(script, **{**template["variables"], "PAYMOCK_URL": f"http://127.0.0.1:{port}"})

    template = templates[jobs["payments"]["extends"]]
    script = "\n".join([*template["before_script"], *jobs["payments"]["script"]])
    runner.step(f"{script} {QUICK}")
    artifacts = template["artifacts"]
    assert runner.lines(artifacts["paths"][0])[0].startswith("## SAFE in 1 of 8 scenarios")
    assert (shop / artifacts["reports"]["junit"]).exists()


# A machine of one's own: docs/deploy.md. Besides, it has folders, and servers start and stop as with systemd.

MACHINE = """
mkdir -p etc/nginx etc/systemd/system nginx var/backups var/lib/paymock
systemctl() {
    for unit in $*; do
        [[ $unit = paymock@* ]] || continue
        [ $1 != reload ] || { until grep -q started log-$unit; do sleep .1; done; }
        [ $1 != reload ] || { kill -HUP $(cat $unit); continue; }
        [ ! -e $unit ] || { kill $(cat $unit); tail --pid $(cat $unit) -f /dev/null; rm $unit; }
        command=$(sed -n "s/%i/${unit#*@}/; s/^ExecStart=//p" etc/systemd/system/paymock@.service)
        [ $1 = stop ] || { $command > log-$unit 2>&1 & echo $! > $unit; }
    done
}
"""


@pytest.mark.nginx
def test_the_page_leads_from_an_empty_machine_to_several_servers_behind_tls(runner: Runner) -> None:
    root, port, tls_port, metrics = runner.folder, free_port(), free_port(), free_port() // 20
    places = {
        "(apt-get|useradd) ": "true ", " -o paymock": "", "/(?=(opt|etc|var)/)": f"{root}/", r" \\\n +": " ",
        "reverse_proxy 10.*{": f"reverse_proxy 127.0.0.1:{port} {{", "0[.]0[.]0[.]0": "127.0.0.1",
        "--reuse-port": f"--reuse-port --port {port}", "8402": f"{port}", "940(?=1|%i)": f"{metrics}",
        "(listen |bind :|[$]host:)443": rf"\g<1>{tls_port}", "//[$]host/": f"//$host:{tls_port}/",
        "# tls": "tls",
        "(sandbox.example) {": rf"{{\n auto_https disable_redirects\n admin off\n}}\n\1:{tls_port} {{",
    }  # fmt: skip
    shutil.copytree(markdown.ROOT, root, ignore=shutil.ignore_patterns(".*", "dist"), dirs_exist_ok=True)
    for file in (page := root / "docs/deploy.md", *filter(Path.is_file, (root / "deploy").iterdir())):
        text = file.read_text()
        for pattern, place in places.items():
            text = re.sub(pattern, place, text)
        file.write_text(text)
    runner.variables["PAYMOCK_URL"] = f"http://127.0.0.1:{port}"
    blocks = [block.text for block in markdown.blocks(page.read_text()) if block.language == "sh"]
    install, keys, tls, check, backup, upgrade, sentinels, scrape = blocks

    documentation = "$(sed -n 's|^Documentation=file://||p' etc/systemd/system/paymock@.service)"
    haproxy = 'sed "$one_server" deploy/haproxy.cfg > etc/haproxy.cfg'
    runner.step(f"{MACHINE}{install}{keys}{tls}{haproxy}; test -e {documentation}")
    client = "opt/paymock/bin/paymock --key $(cut -d ' ' -f 1 etc/paymock/keys.txt | tail -n 1)"
    url = f"https://sandbox.example:{tls_port}"
    seen = f"{url}/openapi.yaml --cacert etc/paymock/tls.pem --resolve {url[8:]}:127.0.0.1"
    for proxy in (
        nginx(root / "nginx", (root / "etc/nginx/nginx.conf").read_text()),
        ["haproxy", "-f", "etc/haproxy.cfg"],
        ["caddy", "run", "--adapter", "caddyfile", "--config", "deploy/Caddyfile"],
    ):
        with subprocess.Popen(proxy, cwd=root, env=environment(HOME=str(root))) as process:
            try:
                shown = runner.step(f"curl --silent --retry 30 --retry-delay 1 --retry-all-errors {seen}")
                assert '"chain_id"' in runner.step(f"host=sandbox.example; {check}")
            finally:
                process.terminate()
        assert f"url: {url}\n" in shown, proxy

    runner.step(f"{client} create --order before\n{MACHINE}{backup}{upgrade}{client} ready --wait 30")
    runner.step(f"{client} payment before; test $(stat -c %a var/backups/payments.db) = 600")
    with redis_sentinel() as sentinel:
        runner.step(MACHINE + sentinels.replace("10.0.0.21,10.0.0.22,10.0.0.23", sentinel.address))
        runner.step(f"{client} ready --wait 30; {client} create --order after")
        assert sentinel.master().execute("DBSIZE")
    assert "paymock_requests_total" in runner.step(scrape)
