"""Trees of processes: their members, their memory, and how to kill them. Linux: proc(5)."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ENDED = (b"Z", b"X")  # zombies, which wait for their parent only
# Without RssFile: pages of mapped files are shared, and the kernel drops them when memory is short.
_OWN_MEMORY = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
_KILL_INTERVAL = 0.002  # seconds between looks at killed processes
_KILLED_AFTER = 10.0  # seconds; a process may hang in the kernel for longer, on a dead network disk for example


def tree_of(root: int) -> list[int]:
    """The running processes among `root`, its descendants, and the sessions that any of these lead.

    Neither is enough alone: a descendant may start its own session, as every program of `process.start` does, and the
    parent of a process in a session may have ended, which makes it a child of the system's first process.
    """
    below: dict[int, set[int]] = defaultdict(set)
    running = set()
    for name in filter(str.isdecimal, os.listdir(_PROC)):
        try:
            # After the last ')', because the name of a program may contain blanks and parentheses.
            state, parent, _, session = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):  # it has ended
            continue
        process = int(name)
        below[int(parent)].add(process)
        below[int(session)].add(process)
        if state not in _ENDED:
            running.add(process)
    found, seen = [root], {root}
    for one in found:  # the list grows while it is iterated
        new = sorted(below[one] - seen)
        found += new
        seen.update(new)
    return [one for one in found if one in running]


def kill_tree(root: int) -> None:
    """Kill all of `tree_of(root)`; none of them runs when this returns.

    Call it before `root` has been waited for: until then, no other process or session can have its id.
    """
    last = time.monotonic() + _KILLED_AFTER
    stopped: set[int] = set()
    # Stopped before killed: a running process could start another one in between, which could no longer be found
    # after its parent has ended.
    while (new := set(tree_of(root)) - stopped) and time.monotonic() < last:
        for one in new:
            _signal(one, signal.SIGSTOP)
        stopped |= new
    # A killed process may still be creating a file, so it must have ended before its folder is removed.
    while (left := tree_of(root)) and time.monotonic() < last:
        for one in left:
            _signal(one, signal.SIGKILL)
        time.sleep(_KILL_INTERVAL)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def memory_of(root: int) -> int:
    """Bytes of memory of `root` and its descendants, without mapped files, which they may share."""
    # The list grows while it is iterated, so descendants of descendants are included.
    found = [root]
    for one in found:  # grows
        found += children_of(one)
    return sum(map(own_memory, found))


def children_of(process: int) -> list[int]:
    """The children of all threads of `process`, also zombies, from the kernel's list: far cheaper than reading all
    processes.

    A child that ends meanwhile may hide others, until the next call.
    """
    try:
        lists = [path.read_bytes() for path in (_PROC / str(process) / "task").glob("*/children")]
    except OSError:
        return []
    return [int(word) for one in lists for word in one.split()]


def threads_of(process: int) -> int:
    """The threads of a process, at least 1 while it runs; 0 if it has ended."""
    try:
        return int((_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()[17])
    except (OSError, ValueError, IndexError):
        return 0


def own_memory(process: int) -> int:
    """Bytes of memory of one process, without mapped files; 0 if it has ended."""
    try:
        lines = (_PROC / str(process) / "status").read_bytes().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_OWN_MEMORY))


_CONTROL_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_here() -> int:
    """Bytes of memory that this machine, or the container that we are in, has."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CONTROL_GROUPS:
        with suppress(OSError, ValueError):  # "max", or no such file
            total = min(total, int(Path(path).read_text()))
    return total


def oom_kills() -> int:
    """The number of processes that the kernel killed for lack of memory; 0 if it is not known."""
    try:
        lines = (_PROC / "vmstat").read_bytes().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), 0)
