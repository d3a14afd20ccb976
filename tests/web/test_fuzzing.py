"""schemathesis against the running server: every check, every phase, and proof that it has really run."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server

EXAMPLES = {"/openapi.yaml": 1000, "/_mock/openapi.yaml": 150}
"""For each operation of a document. Those of the control API are more, and slower to fuzz."""

OPTIONS = [
    "--checks=all",
    "--phases=examples,coverage,fuzzing,stateful",
    "--seed=8402",
    "--no-color",
]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("document", "examples"), EXAMPLES.items())
def test_schemathesis_finds_nothing(
    tmp_path: Path, shared_server: RunningServer, document: str, examples: int
) -> None:
    options = [*OPTIONS, f"--max-examples={examples}"]
    counts = tmp_path / "counts.json"
    environment = {"SCHEMATHESIS_HOOKS": "tests.support.fuzzing", "PAYMOCK_FUZZING_COUNTS": str(counts)}
    with running_server() as server:
        run = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", server.url + document, *options],
            env={**os.environ, **environment},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    answers = Counter(json.loads(counts.read_text()))
    for method, path, operation in Contract.of(shared_server.url, document).operations():
        label = f"{method} {path}"
        total = sum(number for answer, number in answers.items() if answer.startswith(label + " "))
        succeeded = sum(answers[f"{label} {status}"] for status in operation["responses"] if status < "300")
        assert succeeded, f"{label} never succeeded: {answers}"
        assert total >= examples or not operation.get("parameters"), f"{label} was tried {total} times only"
