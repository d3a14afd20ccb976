"""What a Containerfile says, and as much of it done as can be done without a container engine."""

import json
import re
import shlex
import shutil
import site
import subprocess
import sys
from pathlib import Path

from tests.support import markdown


class Containerfile:
    """The instructions of a Containerfile: (name, arguments) of each, by stage."""

    def __init__(self, name: str) -> None:
        text = re.sub(r"^#.*\n", "", markdown.read(name), flags=re.MULTILINE)
        lines = re.sub(r"\\\n\s*", "", text).splitlines()
        instructions = [tuple(line.split(" ", 1)) for line in lines if line]
        starts = [at for at, (name, _) in enumerate(instructions) if name == "FROM"]
        self.stages = [
            instructions[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)
        ]

    def last(self, name: str) -> str:
        """The arguments of the one instruction of that name in the last stage."""
        [arguments] = [arguments for one, arguments in self.stages[-1] if one == name]
        return arguments

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a container starts with."""
        pairs = (word.split("=", 1) for word in shlex.split(self.last("ENV")))
        return {name: value for name, value in pairs if name != "PATH"}

    @property
    def command(self) -> list[str]:
        """What a container runs that is given no arguments."""
        return [*json.loads(self.last("ENTRYPOINT")), *json.loads(self.last("CMD"))]

    @property
    def health_check(self) -> list[str]:
        """What tells whether a container is well."""
        words: list[str] = json.loads(self.last("HEALTHCHECK").partition(" CMD ")[2])
        return words

    def build(self, folder: Path) -> Path:
        """Carries out the first stage in a folder, and returns its `/opt`. What comes over the network is
        borrowed from the environment of the tests.
        """
        source, opt = folder / "source", folder / "opt"
        opt.mkdir()
        for name, arguments in self.stages[0]:
            if name == "COPY":
                *names, target = arguments.split()
                for one in names:
                    _copy(
                        markdown.ROOT / one,
                        source / target if one.endswith("/") else source / target / Path(one).name,
                    )
            for command in arguments.split(" && ") if name == "RUN" else ():
                if "--require-hashes" in command:
                    assert (source / command.split()[-1]).exists()
                    borrow(opt / "build")
                else:
                    _run(command.replace("/opt/", f"{opt}/"), source)
        borrow(opt / "paymock")
        return opt


def borrow(environment: Path) -> None:
    """Lets a virtual environment import what that of the tests has, but for paymock itself."""
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def _run(command: str, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    ended = subprocess.run(
        ["/bin/sh", "-euc", command],
        cwd=folder,
        env={"PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
