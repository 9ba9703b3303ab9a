"""What a process takes of the machine, and how many files this one may open. On Linux: it is read from /proc."""

import os
import resource
from pathlib import Path

from msgspec import Struct

MIB = 1024 * 1024


class Memory(Struct, frozen=True):
    """Bytes that are in memory: all, the share of what several processes use, and those that belong to no file."""

    resident: int
    proportional: int
    own: int

    def __str__(self) -> str:
        return f"{self.resident / 1e6:.1f} MB (Pss {self.proportional / 1e6:.1f}, own {self.own / 1e6:.1f})"


def memory_of(pid: int) -> Memory:
    figures = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()[1:]:
        name, value, _ = line.split()
        figures[name] = int(value) * 1024
    return Memory(figures["Rss:"], figures["Pss:"], figures["Anonymous:"])


def processor_seconds(pid: int) -> float:
    """In user mode and in the kernel, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def allow_files(wanted: int) -> None:
    """Raise the soft limit of open files, as far as the hard one lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))
