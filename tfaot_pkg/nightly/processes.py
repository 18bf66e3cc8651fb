"""Trees of processes: what they use, and ending them whole. Linux: proc(5)."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")
_OWN_MEMORY = (b"RssAnon:", b"RssShmem:")
_MAX_ROUNDS = 20


def tree_of(root: int) -> list[int]:
    """`root` and its running descendants, parents first."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in filter(str.isdecimal, os.listdir(_PROC)):
        try:
            state, parent = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):  # it has ended
            continue
        if state not in (b"Z", b"X"):
            children[int(parent)].append(int(name))
    found = [root]
    for one in found:  # grows
        found += children[one]
    return found


def memory_below(root: int) -> int:
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


def kill_tree(root: int) -> None:
    """Kill `root` and all of its descendants, in whatever sessions; `root` must not have been waited for.

    All are stopped first, so that none starts another one unseen.
    """
    stopped: list[int] = []
    for _ in range(_MAX_ROUNDS):
        new = [one for one in tree_of(root) if one not in stopped]
        if not new:
            break
        for one in new:
            _signal(one, signal.SIGSTOP)
        stopped += new
    for one in stopped:
        _signal(one, signal.SIGKILL)


def _signal(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


def oom_kills() -> int:
    """How many processes of this machine the kernel has killed for want of memory; 0 where it does not say."""
    try:
        lines = (_PROC / "vmstat").read_bytes().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(b"oom_kill ")), 0)
