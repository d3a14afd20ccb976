"""The OpenAPI documents are an authority: they change when somebody means it."""

import difflib
import hashlib
import subprocess

import httpx
import pytest

from scripts.generated_docs import DOCUMENTS
from tests.support import markdown
from tests.support.server import RunningServer

SERVICE, _ = DOCUMENTS


@pytest.mark.parametrize("copy", DOCUMENTS)
def test_a_server_serves_the_document_that_is_agreed_upon(shared_server: RunningServer, copy: str) -> None:
    path, _ = DOCUMENTS[copy]
    served = httpx.get(shared_server.url + path, headers={"Host": "127.0.0.1:8402"}).text.splitlines()
    agreed = markdown.read(copy).splitlines()
    changes = list(difflib.unified_diff(agreed, served, copy, path, lineterm=""))
    assert not changes, "if this is meant: scripts/update-docs, and CHANGELOG.md\n" + "\n".join(changes)


@pytest.mark.process
def test_whoever_changes_a_document_tells_so_in_the_changelog() -> None:
    def output_of(*command: str) -> str:
        return subprocess.check_output(command, cwd=markdown.ROOT, text=True)

    base = output_of("bash", "scripts/submission-base").strip()
    changed = {*output_of("git", "diff", "--name-only", base).splitlines()}
    assert "CHANGELOG.md" in changed or not changed & {*DOCUMENTS}


def test_the_types_of_the_typescript_example_are_made_from_the_document_as_it_is() -> None:
    """Its tests hold its code against them; what makes them cannot be had everywhere."""
    document = hashlib.sha256((markdown.ROOT / SERVICE).read_bytes()).hexdigest()
    first, _ = markdown.read("examples/typescript/openapi.d.ts").split("\n", 1)
    assert f"{SERVICE}, SHA-256 {document}" in first, "run scripts/update-types, which needs npm"
