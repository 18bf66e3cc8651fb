"""One build, in a process of its own: `python -m tfaot_pkg.nightly.build_task REQUEST.json`.

If it exits with 0, the verified result is in the state folder; a failure is in a file beside the request. supervise.py
starts it and enforces its limits; if that process ends, this one is killed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

# Python does not have this number of <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1
_TAIL_OF_LOG = 64 << 10  # bytes
# EX_SOFTWARE of sysexits.h, as for commands (cli/run.py).
INTERNAL = 70


def main(request_file: Path) -> int:
    """Build the request in the file. Returns the exit code."""
    # First, before the imports that take a second: a parent that ends meanwhile would leave this build running.
    die_with_parent()
    from tfaot_pkg.errors import TfaotError, ToolchainError
    from tfaot_pkg.nightly.build import build
    from tfaot_pkg.nightly.outcome import Answer, Request, class_of, kind_of

    request = Request.read(request_file)
    # All subprocesses inherit it, and the kernel kills what writes a larger file (SIGXFSZ).
    resource.setrlimit(resource.RLIMIT_FSIZE, (request.policy.output, request.policy.output))
    try:
        build(request, request_file.parent)
    except TfaotError as error:
        _copy_end(error.log)
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"hint: {error.hint}")
        cause = error.cause if isinstance(error, ToolchainError) else ""
        answer = Answer(kind=kind_of(error), error=error.message, error_class=class_of(error), cause=cause)
        answer.write(request_file)
        return error.exit_code
    except Exception:  # noqa: BLE001 (a bug of this tool: the log gets the traceback, the exit code tells the supervisor)
        _say(traceback.format_exc().rstrip())
        return INTERNAL
    return 0


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, even by SIGKILL."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent == 1 or os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGKILL)


def _copy_end(log: Path | None) -> None:
    """Print the end of the failed stage's log, which is removed with this build."""
    if log is not None and log.exists():
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_OF_LOG))
            text = file.read().decode("utf-8", "replace")
        _say(f"--- {log.name}\n{text.rstrip()}\n---")


def _say(text: str) -> None:
    from tfaot_pkg.ground.wording import say

    say(text)  # makes text from models safe for a terminal, in which logs are read too


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
