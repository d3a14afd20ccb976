"""Restarts a Python script in .venv, which is created on first use."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREPARE = ["/bin/sh", "-eu", "-c", '. scripts/environment; prepare "$0"']

FAILED = 2
INTERRUPTED = 130


def enter(lock: str = "lock/dev.txt") -> None:
    """Starts the script again in .venv, unless it runs in an environment already, this one or another."""
    if sys.prefix == sys.base_prefix:
        try:
            prepared = subprocess.run([*PREPARE, lock], cwd=ROOT, check=False)  # noqa: S603 - our own
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        if prepared.returncode:
            sys.exit(FAILED)
        python = str(ROOT / ".venv" / "bin" / "python")
        os.execv(python, [python, *sys.argv])  # noqa: S606 - no shell is wanted
    sys.path.insert(0, str(ROOT))  # for what the scripts share with the tests
