import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tests_have_no_more_lines_than_their_budget() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = sum(len(path.read_bytes().splitlines()) for path in (ROOT / "tests").rglob("*.py"))
    assert lines <= project["tool"]["paymock"]["tests"]["lines"], (
        "remove some, or raise it in a commit of its own"
    )
