"""How long `paymock serve` takes to its first answer, beside a bare interpreter, and the memory it holds.

    python benchmarks/start.py [ROUNDS]

Medians of ROUNDS starts (default 9). The baseline is the same interpreter importing nothing and exiting.
"""

import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path


def bare() -> float:
    """Seconds that the interpreter takes to start and end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - started


def served() -> tuple[float, float]:
    """Seconds from the start of the process to its first answered request, and its resident memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder, "ready.json")
        command = [sys.executable, "-m", "paymock", "serve", "--port", "0", "--ready-file", str(ready)]
        started = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while not ready.exists():
                time.sleep(0.002)
            request = urllib.request.Request(
                json.loads(ready.read_text())["url"] + "/v1/chains",
                headers={"Authorization": "Bearer mk_test_demo"},
            )
            with urllib.request.urlopen(request) as reply:
                reply.read()
            seconds = time.perf_counter() - started
            memory = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
            process.send_signal(signal.SIGTERM)
    assert memory is not None
    return seconds, int(memory[1]) / 1000


def main() -> None:
    """Prints the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    served()  # the first start compiles
    baselines, starts = zip(*((bare(), served()) for _ in range(rounds)), strict=True)
    baseline = statistics.median(baselines)
    seconds = statistics.median(start for start, _ in starts)
    memory = statistics.median(memory for _, memory in starts)
    print(f"bare interpreter        {baseline * 1000:6.0f} ms")
    print(
        f"start to first answer   {seconds * 1000:6.0f} ms   {seconds / baseline:.1f} times the interpreter"
    )
    print(f"resident memory         {memory:6.1f} MB")


if __name__ == "__main__":
    main()
