"""Which of the top-level packages for development import each other."""

import re

import pytest

from tests.support import markdown


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("tests", "benchmarks"),
        ("tests", r"tests\.(?:\w+\.)*test_\w+ import"),
        ("benchmarks", "tests"),
        ("harness", "(?:tests|benchmarks)"),
    ],
)
def test_tests_and_benchmarks_share_only_the_harness(package: str, forbidden: str) -> None:
    statement = re.compile(rf"^\s*(?:from|import) {forbidden}\b", re.MULTILINE)
    files = [*(markdown.ROOT / package).rglob("*.py")]
    assert files
    assert [file for file in files if statement.search(file.read_text(encoding="utf-8"))] == []
