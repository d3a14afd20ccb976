"""Commands that the documentation shows and no test runs, since they start, install or measure something:
at least each of their words must mean something.
"""

import re
import shlex
from collections.abc import Container, Mapping
from unittest import mock

import click

from paymock.cli.main import cli
from paymock.cli.serve import settings_from_options
from tests.support import markdown
from tests.support.dependencies import declared
from tests.support.groups import GROUPS


def check(text: str, files: Container[str | None] = ()) -> None:
    """Fails unless every command of a block can be given like this, where there are these files, too. Of a
    pipe, only what is at its beginning is looked at.
    """
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"\s*&&\s*", re.sub(r"\s+#.*|^#.*", "", line)):
            words = shlex.split(re.sub(r"\$\w+", "value", part).partition(" | ")[0])
            variables = {}
            while words and (match := re.fullmatch("([A-Z_]+)=(.*)", words[0])):
                variables[match[1]] = match[2]
                del words[0]
            if words:
                _check(words, variables, files)


def _check(words: list[str], variables: Mapping[str, str], files: Container[str | None]) -> None:
    program, *arguments = words
    program = program.removeprefix(".venv/bin/")
    if program == "paymock":
        _paymock(arguments, variables)
    elif program.startswith("scripts/"):
        _script(program, arguments, variables, files)
    elif program == "python" and arguments[:1] == ["-m"]:
        _module(arguments[1:])
    elif program == "python":
        _check(arguments, variables, files)
    elif program == "pytest":
        known_options = {"-q", "--paymock-coverage"}
        assert known_options.issuperset(arguments), words
    elif program == "pip":
        known = {*declared().values()}
        for extra in re.findall(r"\[(\w+)\]", " ".join(arguments)):
            assert extra in known, words
    elif program == "git":
        assert all((markdown.ROOT / path).exists() for path in arguments[1:]), words
    elif program == "apt-get":
        assert {*arguments[1:]} <= set().union(*(group.packages() for group in GROUPS.values())), words
    else:
        raise AssertionError(f"nothing is known of {program}: give the block an output, or teach {__name__}")


def _script(
    program: str, arguments: list[str], variables: Mapping[str, str], files: Container[str | None]
) -> None:
    if program == "scripts/run":
        _paymock(["serve", *arguments], variables)
    elif program == "scripts/test":
        path, *chosen = [one for one in arguments if one != "--all"] or ["tests"]
        assert path in files or (markdown.ROOT / path).exists(), path
        assert not chosen or (chosen[0] == "-k" and f"_{chosen[1]}_" in markdown.read(path)), chosen
    else:
        text = markdown.read(program)
        assert all(word in text or word.isupper() for word in arguments), arguments


def _paymock(arguments: list[str], variables: Mapping[str, str]) -> None:
    name, *rest = arguments
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    with mock.patch.dict("os.environ", variables):
        context = command.make_context(name, rest)
    if name == "serve":
        settings_from_options(**context.params)


def _module(words: list[str]) -> None:
    name, *arguments = words
    if name == "pytest":
        assert (markdown.ROOT / arguments[0]).exists(), words
        return
    path = markdown.ROOT / name.replace(".", "/")
    files = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else [*path.glob("*.py")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert files, words
    for flag in arguments:
        assert not flag.startswith("-") or f'"{flag}"' in text, words
