"""Trees of processes: what belongs to one, how much memory it uses, and killing all of it. Linux: proc(5)."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_ENDED = (b"Z", b"X")  # states of processes that only wait for their parent to ask how they ended
_OWN_MEMORY = (b"RssAnon:", b"RssShmem:")
_KILL_INTERVAL = 0.002  # seconds between looks at what has been killed
_KILLED_AFTER = 10.0  # seconds; longer is what hangs in the kernel, on a dead network disk say


def tree_of(root: int) -> list[int]:
    """The running processes among `root`, its descendants, and the sessions that any of these lead.

    Neither is enough alone: a descendant may begin a session of its own, as every program does that we start, and
    the parent of a process in a session may have ended, which makes it a child of the system's first process.
    """
    below: dict[int, set[int]] = defaultdict(set)
    running = set()
    for name in filter(str.isdecimal, os.listdir(_PROC)):
        try:
            state, parent, _, session = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):  # it has ended
            continue
        process = int(name)
        below[int(parent)].add(process)
        below[int(session)].add(process)
        if state not in _ENDED:
            running.add(process)
    found, seen = [root], {root}
    for one in found:  # grows
        new = sorted(below[one] - seen)
        found += new
        seen.update(new)
    return [one for one in found if one in running]


def kill_tree(root: int) -> None:
    """Kill all of `tree_of(root)`; none of it works any more when this returns.

    Call it before `root` has been waited for: until then, no other process or session can have its number.
    """
    last = time.monotonic() + _KILLED_AFTER
    stopped: set[int] = set()
    # Stopped before killed: a process that runs could start another between the look and the kill, and with its parent
    # gone nothing would show whose it is.
    while (new := set(tree_of(root)) - stopped) and time.monotonic() < last:
        for one in new:
            _signal(one, signal.SIGSTOP)
        stopped |= new
    # What is killed may still be making a file: it must be gone before anybody removes its folder.
    while (left := tree_of(root)) and time.monotonic() < last:
        for one in left:
            _signal(one, signal.SIGKILL)
        time.sleep(_KILL_INTERVAL)


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def memory_of(root: int) -> int:
    """Bytes that `root` and its descendants have for themselves: no files that they map, which others map too."""
    found = [root]
    for one in found:  # grows
        found += _children(one)
    return sum(map(_own_memory, found))


def _children(process: int) -> list[int]:
    """Those that any thread of `process` started, as the kernel lists them: far cheaper than looking at all processes.

    One that ends in this moment may hide others: next time they are seen again.
    """
    try:
        lists = [path.read_bytes() for path in (_PROC / str(process) / "task").glob("*/children")]
    except OSError:
        return []
    return [int(word) for one in lists for word in one.split()]


def _own_memory(process: int) -> int:
    try:
        lines = (_PROC / str(process) / "status").read_bytes().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_OWN_MEMORY))


def oom_kills() -> int:
    """How many processes of this machine the kernel has killed because memory ran out; 0 if it does not say."""
    try:
        lines = (_PROC / "vmstat").read_bytes().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), 0)
