"""The host of builds, `python -m tfaot_pkg.nightly.build_task CONTROL PARENT`: it forks a process for each order.

It imports what builds import, and keeps fork servers of toolchains, for all of them; of a model it reads nothing.
hosts.py starts it and enforces limits; if that process ends, the host ends and its builds are killed. If a build exits
with 0, the verified result is in the state folder; a failure is in a file beside the request.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

# Imports of packages come later: they take a second, in which a parent could end.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from tfaot_pkg.frontends.toolchain.fork_servers import KeptServers

# Python does not have these numbers of <linux/prctl.h>.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_TAIL_OF_LOG = 64 << 10  # bytes
_IDLE = 300.0  # seconds without an order, after which a host ends
_MOST = 1 << 18  # bytes of an order
LENGTH = 64
"""Bytes of an answer: `forked N`, with the bytes of memory that are not the build's, or `ended CODE`."""
# EX_SOFTWARE of sysexits.h, as for commands (cli/run.py).
INTERNAL = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Build the request in the file `request`, in `folder`, with exactly the variables `environment`.

    It prints to the end of `log`. `program`, if there is one, does it instead, with the path as its last argument.
    `cache` and `tensorflow` ("": none) name the toolchain whose workers may be forked.
    """

    request: str
    folder: str
    environment: Mapping[str, str]
    log: str
    program: Sequence[str]
    cache: str
    tensorflow: str


def serve(control: socket.socket) -> None:
    """Fork a build for each order, one at a time, until the socket closes, or nothing comes for long.

    Also if this code was changed: whoever sent an order that remains without an answer starts another host.
    """
    from tfaot_pkg.ground.code import is_changed
    from tfaot_pkg.ground.process_tree import children_of, memory_of

    host = os.getpid()
    with ExitStack() as stack:
        servers: KeptServers | None = None
        while select.select([control], [], [], _IDLE)[0] and (message := control.recv(_MOST)) and not is_changed():
            order = Order(**json.loads(message))
            _print_to(order.log)
            if not order.program:
                servers = _prepared(order, servers, stack)
            before, kept = memory_of(host), children_of(host)
            if (child := os.fork()) == 0:
                _become(order, control, servers, host)
            control.send(f"forked {before}".encode())
            is_over = _is_over(child, control)
            code = _ended(child, kept)
            if is_over:
                return
            control.send(f"ended {code}".encode())


def _print_to(log: str) -> None:
    """From now on this process, and what it forks, print to the end of the file `log`."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def _prepared(order: Order, servers: KeptServers | None, stack: ExitStack) -> KeptServers | None:
    """Import what the build needs, and have a server for its toolchain. What fails here fails again in the build."""
    try:
        from tfaot_pkg.errors import TfaotError
        from tfaot_pkg.frontends.toolchain.environment import ensure
        from tfaot_pkg.frontends.toolchain.fork_servers import KeptServers
        from tfaot_pkg.frontends.toolchain.worker import scratch_folder, warm
        from tfaot_pkg.ground.progress import PlainProgress
        from tfaot_pkg.ground.sandbox import may_fork
        from tfaot_pkg.ground.settings import Folders
        from tfaot_pkg.nightly.build import prepare

        prepare()
    except Exception:  # noqa: BLE001 (the build says so, in its log)
        return None
    folders = Folders(cache=Path(order.cache), data=Path(order.cache))
    try:
        if not order.tensorflow or not may_fork():
            return servers
        if servers is None:
            folder = stack.enter_context(scratch_folder(folders.builds.resolve()))
            servers = stack.enter_context(KeptServers(folder, logs=folders.logs))
        warm(servers, ensure(order.tensorflow, folders=folders, progress=PlainProgress(verbose=True)))
    except (TfaotError, OSError):
        pass
    return servers


def _become(order: Order, control: socket.socket, servers: KeptServers | None, host: int) -> NoReturn:
    """Be the build, in a forked process: nothing of the host's is cleaned up here."""
    code = INTERNAL
    try:
        os.setsid()
        die_with_parent(host)
        control.close()
        os.environ.clear()
        os.environ.update(order.environment)
        # What was imported may have asked for TMPDIR already, and it is another one now.
        tempfile.tempdir = None
        os.chdir(order.folder)
        if order.program:
            for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and a program would inherit that
                signal.signal(ignored, signal.SIG_DFL)
            os.execvpe(order.program[0], [*order.program, order.request], os.environ)  # noqa: S606 (no shell)
        code = main(Path(order.request), servers)
    except BaseException:  # noqa: BLE001 (the log gets the traceback, the exit code tells the supervisor)
        _say(traceback.format_exc())
    finally:
        os._exit(code)


def _is_over(child: int, control: socket.socket) -> bool:
    """Wait for the end of `child`. Returns True before that if nobody waits for it any more."""
    ended = os.pidfd_open(child)
    try:
        # By numbers, as a socket that was closed is readable, too.
        return ended not in select.select([ended, control.fileno()], [], [])[0]
    finally:
        os.close(ended)


def _ended(child: int, kept: Collection[int]) -> int:
    """The exit code of `child`, or minus the number of a signal, after it and all that it left have been killed.

    What it left are children of this process, which is their subreaper; `kept` are its other ones.
    """
    from tfaot_pkg.ground.process_tree import children_of, kill_tree

    kill_tree(child)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    while left := set(children_of(os.getpid())).difference(kept):
        for one in left:
            kill_tree(one)
            os.waitpid(one, 0)
    return code


def main(request_file: Path, servers: KeptServers | None = None) -> int:
    """Build the request in the file, with workers that `servers` fork. Returns the exit code."""
    from tfaot_pkg.errors import TfaotError, ToolchainError
    from tfaot_pkg.nightly.build import build
    from tfaot_pkg.nightly.outcome import Answer, Request, class_of, kind_of

    request = Request.read(request_file)
    # All subprocesses inherit it, and the kernel kills what writes a larger file (SIGXFSZ).
    resource.setrlimit(resource.RLIMIT_FSIZE, (request.policy.output, request.policy.output))
    try:
        build(request, request_file.parent, servers)
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


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
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
    die_with_parent(int(sys.argv[2]))
    # Else what a build leaves at work would become a child of the system's first process, and be lost sight of.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        _control.set_inheritable(False)
        serve(_control)
