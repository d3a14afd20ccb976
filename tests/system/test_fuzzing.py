"""schemathesis against the running server: every check, every phase, and proof that it has really run.

Its check `object_level_authorization` needs two users; test_tenants.py does that for every operation.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import markdown
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server

EXAMPLES = {"/openapi.yaml": 500, "/_mock/openapi.yaml": 150}
"""For each operation of a document. Those of the control API are more, and slower to fuzz."""

UNFIT = "positive_data_acceptance"
"""No schema can state all rules of a valid request; tests/model and bad_input.py do."""

PHASES = ("examples", "coverage", "fuzzing", "stateful")
EVERYWHERE = ("coverage", "fuzzing")
"""The phases that try every operation. The others need an example, or a link between operations."""


@pytest.mark.parametrize(("document", "examples"), EXAMPLES.items())
def test_schemathesis_finds_nothing(
    tmp_path: Path, shared_server: RunningServer, document: str, examples: int
) -> None:
    options = ["--checks=all", f"--exclude-checks={UNFIT}", f"--phases={','.join(PHASES)}"]
    options += [f"--max-examples={examples}", "--seed=8402", "--no-color"]
    fuzzed = tmp_path / "fuzzed.json"
    environment = {"SCHEMATHESIS_HOOKS": "tests.support.fuzzing", "PAYMOCK_FUZZED": str(fuzzed)}
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
    tried = {(phase, label) for phase, label in json.loads(fuzzed.read_text())}
    assert {phase for phase, _ in tried} == {*PHASES}
    contract = Contract.of(shared_server.url, document)
    operations = [f"{method} {path}" for method, path, _ in contract.operations()]
    assert tried >= {(phase, operation) for phase in EVERYWHERE for operation in operations}
