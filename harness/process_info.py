"""State and resource usage of processes, from Linux's /proc.

Functions raise OSError for a process that has ended, unless they say otherwise.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the program's name; the first is the state, see proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    with suppress(OSError):
        return stat_fields(pid)[0] not in "ZX"
    return False


def child_pids(pid: int) -> list[int]:
    """The living children of a process; none when it has ended."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def cpu_seconds(pid: int) -> float:
    """CPU time used so far, user and system."""
    user, system = stat_fields(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def cpu_nanoseconds(pid: int) -> int:
    """CPU time used so far, by the scheduler's exact clock."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # as clock_getcpuclockid(3) computes the id


def count_open_files(pid: int) -> int:
    """The number of open file descriptors."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def resident_bytes(pid: int) -> int:
    """Resident memory in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessTree:
    """A server's main process and its children, with their total resource usage."""

    pid: int

    @property
    def pids(self) -> tuple[int, ...]:
        """The main process and its children."""
        return self.pid, *child_pids(self.pid)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all processes so far."""
        return sum(map(cpu_seconds, self.pids))

    @property
    def megabytes(self) -> float:
        """Resident memory of all processes."""
        return sum(map(resident_bytes, self.pids)) / 1e6
