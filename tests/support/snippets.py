"""Running the examples of the documentation: commands in a shell, files in a folder."""

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from harness.server_process import environment
from paymock.cli.main import cli
from paymock.cli.serve import settings_from_options
from tests.support import markdown
from tests.support.markdown import Block
from tests.support.server import RunningServer

SERVER = "http://127.0.0.1:8402"
"""The server in the examples."""

_VARYING = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z|flt_[0-9a-f]{32}")
"""Times, and the ids of fault rules."""

_FILE = re.compile(r"(?:<\?php )?(?:#|//) (\S+\.\w+)\n")


def variables(**more: str) -> dict[str, str]:
    """The environment of a user who has installed paymock, with further variables."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return environment(PATH=path, **more)


def shell(server: RunningServer, script: str) -> str:
    """The output of a shell script. `sleep N` advances the clock of the server by N seconds instead."""
    script = re.sub(r"^sleep (\d+)$", r"echo wait \1; read -r _", script, flags=re.MULTILINE)
    script = script.replace(SERVER, server.url).replace(".venv/bin/", "")
    output = ""
    with subprocess.Popen(
        ["/bin/sh", "-e", "-c", script],
        env=variables(PAYMOCK_URL=server.url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=markdown.ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if wait := re.fullmatch(r"wait (\d+)\n", line):
                server.clock.advance(int(wait[1]))
                process.stdin.write("\n")
                process.stdin.flush()
            else:
                output += line
    assert process.returncode == 0, output
    return output


def comparable(text: str) -> object:
    """Output in a form to compare: JSON as values, other output as text; times and such are masked."""
    text = _VARYING.sub("...", text.strip())
    values, decoder = [], json.JSONDecoder()
    try:
        while text:
            value, end = decoder.raw_decode(text)
            values.append(value)
            text = text[end:].lstrip()
    except ValueError:
        return text
    return values


def parse_commands(text: str) -> None:
    """Fails if a command of paymock in a block does not exist, or does not take such options together."""
    for part in re.split(r"\n|&&", text.replace("\\\n", " ").replace(' "$@"', "")):
        words = shlex.split(re.sub(r"\$\w+", "value", part).partition(" | ")[0], comments=True)
        words = [*itertools.dropwhile(re.compile("[A-Z_]+=").match, words)]
        if words and words[0].removeprefix(".venv/bin/") in ("paymock", "scripts/run"):
            name, *arguments = ["serve", *words[1:]] if words[0] == "scripts/run" else words[1:]
            command = cli.get_command(click.Context(cli), name)
            assert command is not None, name
            context = command.make_context(name, arguments)
            if name == "serve":
                settings_from_options(**context.params)


def file_of(block: Block) -> str | None:
    """The file name in the first line of a block, or None."""
    match = _FILE.match(block.text)
    return match[1] if match else None


def example_shop() -> list[Block]:
    """The shop of docs/faults.md, and its fixture."""
    blocks = markdown.blocks(markdown.read("docs/faults.md"))
    return [block for block in blocks if file_of(block) in ("shop.py", "conftest.py")]


def write_files(folder: Path, blocks: Iterable[Block], url: str = SERVER) -> None:
    """Write the files in the blocks, for a server at `url`."""
    for block in blocks:
        if name := file_of(block):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text.replace(SERVER, url))


def change_files(folder: Path, diff: str) -> None:
    """Apply a diff without line numbers: context lines locate each change."""
    name = ""
    for part in re.split(r"^(--- a/.+\n\+\+\+ b/.+\n)?@@\n", diff, flags=re.MULTILINE):
        if header := re.match(r"--- a/.+\n\+\+\+ b/(.+)\n", part or ""):
            name = header[1]
        elif part:
            lines = part.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            new = "".join(line[1:] for line in lines if line[0] in " +")
            text = (folder / name).read_text()
            assert text.count(old) == 1, f"{name} has changed: the lines around a change are not there"
            (folder / name).write_text(text.replace(old, new))


def run_in(folder: Path, script: str, url: str = SERVER, **more: str) -> str:
    """The output of a script in a folder. `scripts/test` stands for `pytest -q` there."""
    script = script.replace(SERVER, url).replace("scripts/test", "pytest -q")
    ended = subprocess.run(
        ["/bin/sh", "-eu", "-c", script],
        cwd=folder,
        env=variables(PYTHONWARNINGS="error", PYTEST_ADDOPTS="-p no:cacheprovider", **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout
