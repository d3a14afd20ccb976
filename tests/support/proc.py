"""What Linux says about processes in /proc. Where nothing is said otherwise, OSError is raised for a process
that has gone.
"""

import os
from contextlib import suppress
from pathlib import Path


def fields(pid: int) -> list[str]:
    """What /proc/PID/stat says after the name of the program: first the state, see proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def runs(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    with suppress(OSError):
        return fields(pid)[0] not in "ZX"
    return False


def children(pid: int) -> list[int]:
    """The processes that it has started and that are left; none when it has gone."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def cpu_seconds(pid: int) -> float:
    """The CPU time that it has had."""
    user, system = fields(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def open_files(pid: int) -> int:
    """How many files it has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def resident_bytes(pid: int) -> int:
    """Its resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
