"""How far this machine can confine a program."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from tfaot_pkg.errors import SandboxError
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.sandbox import seccomp

UNCONFINED = "TFAOT_UNCONFINED"

_TIMEOUT = 30.0
_SYS_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1
_LEAST_LANDLOCK = 3  # Linux 6.2: without it files outside can be truncated
_ARCHITECTURES = ("x86_64", "aarch64")


class Level(Enum):
    """What stands between a program and the machine, best first."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"

    @classmethod
    def weakest(cls, names: Iterable[str]) -> Level:
        """The one that stood between the machine and all that was run at these levels."""
        return max(map(cls, names), key=list(cls).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A level; `reasons` say why it is not a better one. `bubblewrap` is the program for namespaces."""

    level: Level
    reasons: tuple[str, ...] = ()
    bubblewrap: Path | None = None


def is_unconfined() -> bool:
    """Whether the user wants no sandbox: `--unconfined`, or TFAOT_UNCONFINED=1."""
    return os.environ.get(UNCONFINED, "") not in ("", "0")


def allow_unconfined() -> None:
    """What `--unconfined` means: also for the processes that this one starts."""
    os.environ[UNCONFINED] = "1"


def required() -> Reached:
    """The level that programs are started with. Raises SandboxError if there is none and the user did not agree."""
    if is_unconfined():
        return Reached(level=Level.NONE, reasons=(f"{UNCONFINED} is set",))
    found = reached()
    if found.level is Level.NONE:
        raise SandboxError(
            "this machine cannot confine what a model runs: " + "; ".join(found.reasons),
            hint="install bubblewrap and libseccomp, or allow user namespaces; --unconfined (TFAOT_UNCONFINED=1) "
            "builds without a sandbox: only for models that you trust as you trust programs",
        )
    return found


@cache
def reached() -> Reached:
    """The best level of this machine; nothing is changed by asking."""
    if platform.machine() not in _ARCHITECTURES:
        return Reached(level=Level.NONE, reasons=(f"no system call filter for {platform.machine()}",))
    if (fault := seccomp.fault()) is not None:
        return Reached(level=Level.NONE, reasons=(fault,))
    bubblewrap = shutil.which("bwrap")
    no_namespaces = "bubblewrap (bwrap) is not installed" if bubblewrap is None else _refusal(Path(bubblewrap))
    if no_namespaces is None:
        assert bubblewrap is not None
        return Reached(level=Level.NAMESPACES, bubblewrap=Path(bubblewrap))
    if (version := _landlock()) >= _LEAST_LANDLOCK:
        return Reached(level=Level.LANDLOCK, reasons=(no_namespaces,))
    no_landlock = f"Landlock is of version {version}, not {_LEAST_LANDLOCK}" if version > 0 else "no Landlock"
    return Reached(level=Level.NONE, reasons=(no_namespaces, no_landlock))


NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--cap-drop", "ALL",
)  # fmt: skip


def _refusal(bubblewrap: Path) -> str | None:
    """Why bubblewrap does not work here; None if it does. It runs itself."""
    root = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    try:
        run([bubblewrap, *NAMESPACES, *root, bubblewrap, "--version"], timeout=_TIMEOUT)
    except CommandFailed as error:
        lines = error.tail.splitlines()
        return lines[-1] if lines else f"bubblewrap: {error.reason}"
    return None


def _landlock() -> int:
    """The version of Landlock's interface, 0 or less if the kernel has none; landlock_create_ruleset(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION))
