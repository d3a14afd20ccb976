"""The examples do what they say: each is copied elsewhere, tested and judged, with the commands it shows."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.server_process import environment
from paymock.testing import ServerHandle
from tests.support import markdown

FOLDER = markdown.ROOT / "examples"
EXAMPLES = sorted(page.parent.name for page in FOLDER.glob("*/README.md"))
UNSAFE = {"unsafe_shop"}
PORT = "8000"
"""The port of each shop, in its page."""

NEEDS = {
    "browser_checkout": pytest.mark.browser,
    "frameworks": pytest.mark.process,
    "java": pytest.mark.java,
    "javascript": pytest.mark.npm,
    "shell": pytest.mark.curl,
    "typescript": pytest.mark.npm,
}


def each_example(*in_ci: str) -> pytest.MarkDecorator:
    nightly = pytest.mark.nightly
    marks = {name: [NEEDS.get(name, nightly), *([] if name in in_ci else [nightly])] for name in EXAMPLES}
    return pytest.mark.parametrize("example", [pytest.param(name, marks=marks[name]) for name in EXAMPLES])


@pytest.fixture
def folder(example: str, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of the example, below a folder with the npm packages if it needs them."""
    if NEEDS.get(example) == pytest.mark.npm:
        (tmp_path / "dist").symlink_to(request.getfixturevalue("npm_packages"))
    left_over = shutil.ignore_patterns("__pycache__", "build", "node_modules", "target")
    return shutil.copytree(FOLDER / example, tmp_path / "examples" / example, ignore=left_over)


def commands(example: str) -> tuple[str, str]:
    blocks = markdown.blocks(markdown.read(f"examples/{example}/README.md"))
    tests, judge = [block.text for block in blocks if block.language == "sh"]
    return tests, judge


def run(command: str, folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What becomes of a command of an example, in a copy of it; `options` are those of pytest."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with subprocess.Popen(
        ["/bin/sh", "-eu", "-c", command],
        cwd=folder,
        env=environment(
            PATH=path,
            PYTHONWARNINGS="error",
            PYTEST_ADDOPTS=" ".join(("-p no:cacheprovider", *options)),
            **variables,
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=480)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what the shell has started goes on otherwise
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)


@each_example("frameworks", "javascript")
def test_an_example_passes_its_own_tests_with_requests_that_are_right(
    example: str, folder: Path, paymock_server: ServerHandle, request: pytest.FixtureRequest
) -> None:
    variables = {"MAVEN_OPTS": request.getfixturevalue("maven")} if example == "java" else {}
    if any(folder.glob("test_*.py")):  # they start a server of their own
        ended = run(commands(example)[0], folder, "--paymock-coverage")
        assert re.search(r"^total .*%\n=*.* passed", ended.stdout, re.MULTILINE), ended.stdout
    else:
        ended = run(commands(example)[0], folder, PAYMOCK_URL=paymock_server.url, **variables)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.process
def test_a_wrong_shop_fails_a_test_of_each_framework_with_the_story_that_is_shown(tmp_path: Path) -> None:
    def masked(text: str) -> str:
        return re.sub("pay_[a-z2-7]+|20[0-9T:.-]+Z", "...", re.sub("  2 .* last shown", "  shown", text))

    folder = shutil.copytree(FOLDER / "frameworks", tmp_path / "frameworks")
    for shop in (folder / "fastapi_shop.py", folder / "django_shop" / "models.py", folder / "celery_shop.py"):
        good = shop.read_text()
        shop.write_text(good.replace('== "completed"', 'in ("completed", "failed")'))
    ended = run(f"{commands('frameworks')[0].strip()} -k 'not worker'", folder)
    assert "3 failed, 3 passed" in ended.stdout, ended.stdout
    [story] = re.findall("```text\n(.*?)```", markdown.read("examples/frameworks/README.md"), re.DOTALL)
    assert masked(ended.stdout).count(masked(story)) == 3, ended.stdout


@each_example()
def test_an_example_is_safe_unless_it_is_there_to_be_unsafe(example: str, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ended = run(commands(example)[1].replace(PORT, port), folder)
    assert ended.returncode == (1 if example in UNSAFE else 0), ended.stdout
    assert ("UNSAFE" in ended.stdout) == (example in UNSAFE), ended.stdout


def test_every_example_is_in_the_list_and_none_that_is_not_there() -> None:
    listed = [
        link.removesuffix("/README.md")
        for link in markdown.links(markdown.read("examples/README.md"))
        if link.endswith("/README.md")
    ]
    assert sorted(listed) == EXAMPLES
