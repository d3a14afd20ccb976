"""schemathesis against the running server: every check, every phase, and proof that it has really run.

Its check `object_level_authorization` needs two users; test_tenants.py does that for every operation.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import markdown
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server

EXAMPLES = {"/openapi.yaml": 500, "/_mock/openapi.yaml": 150}
"""For each operation of a document. Those of the control API are more, and slower to fuzz."""

PHASES = ("examples", "coverage", "fuzzing", "stateful")
EVERYWHERE = ("coverage", "fuzzing")
"""The phases that try every operation. The others need an example, or a link between operations."""


@pytest.mark.parametrize(("document", "examples"), EXAMPLES.items())
def test_schemathesis_finds_nothing(
    tmp_path: Path, shared_server: RunningServer, document: str, examples: int
) -> None:
    phases = f"--phases={','.join(PHASES)}"
    options = ["--checks=all", phases, f"--max-examples={examples}", "--seed=8402", "--no-color"]
    counts = tmp_path / "counts.json"
    environment = {"SCHEMATHESIS_HOOKS": "tests.support.fuzzing", "PAYMOCK_FUZZING_COUNTS": str(counts)}
    with running_server() as server:
        run = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", server.url + document, *options],
            env={**os.environ, **environment},
            cwd=markdown.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    tried: Counter[tuple[str, str]] = Counter()
    succeeded: Counter[tuple[str, str]] = Counter()
    for phase, label, status, number in json.loads(counts.read_text()):
        tried[phase, label] += number
        succeeded[phase, label] += number if status < 300 else 0
    assert {phase for phase, _ in succeeded} == {*PHASES}
    for method, path, operation in Contract.of(shared_server.url, document).operations():
        label = f"{method} {path}"
        for phase in EVERYWHERE:
            assert succeeded[phase, label], f"{label} never succeeded in the phase {phase}: {tried}"
        total = sum(tried[phase, label] for phase in PHASES)
        assert total >= examples or not operation.get("parameters"), f"{label} was tried {total} times only"
