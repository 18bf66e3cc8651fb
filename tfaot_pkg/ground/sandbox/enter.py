"""The last step before a confined program: limits, Landlock and the system call filter, then the program itself.

    PYTHON -I -B enter.py ORDERS       with ORDERS as JSON (see `_complete` in policy.py)

It runs in the program's own Python, so it uses the standard library only. A Python program runs in this process, so the
filter can deny `execve` before its first line; a native program replaces this process. A fork server (fork_server.py)
stays as it is, and each process that it forks takes the last step.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import resource
import signal
import struct
import sys
from types import ModuleType

# Without an import of typing, which takes time at every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_CAPABILITIES = 64
_CAPABILITY_VERSION_3 = 0x20080522
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4
_SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
_INSTRUCTION = "=HBBI"  # of BPF: code, two jumps, a value
_MESSAGE = 1 << 18  # bytes of orders at most; more than a socket takes
_HANDLES = 3  # standard input, the log, answers
ANSWERS = 3

# landlock(7): the numbers are the same on all architectures.
_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
# Rights that a kernel knows must all be handled, or those left out stay allowed everywhere.
_ALL_OF_ABI = {3: (1 << 15) - 1, 5: (1 << 16) - 1}
_SCOPES = 0b11  # abstract Unix sockets, signals
_ABI_OF_SCOPES = 6
# The kernel rejects rules that give a file the rights of folders.
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("handled_access_fs", "handled_access_net", "scoped")]


class _PathBeneath(ctypes.Structure):
    # The kernel's structure is packed (linux/landlock.h).
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def main() -> None:
    orders = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    # First, so that no later step can outlive the parent.
    _die_with(libc, orders["parent"])
    if orders["serves"] is not None:
        orders = _forked(orders)
        _die_with(libc, orders["parent"])
    if orders["core"] is not None:
        os.sched_setaffinity(0, {orders["core"]})
    # A core dump contains the model, and the system may store it outside of the sandbox.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(resource.RLIMIT_AS, orders["memory"])
    _limit(resource.RLIMIT_FSIZE, orders["disk"])
    _limit(resource.RLIMIT_NPROC, orders["threads"])
    if orders["folder"]:
        os.chdir(orders["folder"])
    source = _source(orders["program"])
    # The filter comes last: Landlock and capabilities need system calls that it may deny.
    if orders["landlock"] is not None:
        _restrict_files(libc, orders["landlock"])
    if orders["filter"]:
        _restrict_calls(libc, _own(base64.b64decode(orders["filter"]), orders["own_process"]))
    if source is None:
        _become(orders)
    _run(source, orders)


def _forked(served: dict[str, Any]) -> dict[str, Any]:
    """Serve until the socket `served["serves"]` closes. Returns in each process that is forked, with its orders.

    A message is orders as JSON, with the file descriptors of standard input, of the log and of answers; the answer is
    how the process ended. Any other message kills the process. The server reads nothing else, and waits meanwhile.
    """
    import importlib
    import socket

    control = socket.socket(fileno=served["serves"])
    sys.path[:0] = served["paths"]
    module, function = served["preload"].split(":")
    getattr(importlib.import_module(module), function)()
    # In a forked process there are no other threads, and what they held would stay locked.
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("what was imported has started threads")
    server = os.getpid()
    control.send(b"ready")
    while True:
        message, handles, _, _ = socket.recv_fds(control, _MESSAGE, _HANDLES)
        if not message:
            os._exit(0)
        if len(handles) != _HANDLES:  # to kill a process that has ended by itself
            continue
        child = os.fork()
        if child == 0:
            _take(handles)
            orders: dict[str, Any] = json.loads(message)
            os.environ.update(orders["environment"])
            # What was imported may have asked for TMPDIR already, and it is another one now.
            if "tempfile" in sys.modules:
                sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
            return {**orders, "parent": server}
        for handle in handles:
            os.close(handle)
        control.send(str(_end_of(child, control)).encode())


def _take(handles: list[int]) -> None:
    """Make these file descriptors standard input, output and error, and ANSWERS; close all others."""
    import fcntl

    # Out of the way first: they may have one of these numbers.
    given, log, answers = (fcntl.fcntl(handle, fcntl.F_DUPFD, ANSWERS + 1 + len(handles)) for handle in handles)
    for number, handle in enumerate((given, log, log, answers)):
        os.dup2(handle, number)
    os.closerange(ANSWERS + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _end_of(child: int, control: socket) -> int:
    """How `child` ended, by itself, or because a message came: its exit code, or minus the signal's number."""
    import select

    ended = os.pidfd_open(child)
    # By numbers, as a socket that was closed is readable, too: then nobody wants the process.
    if ended not in select.select([ended, control.fileno()], [], [])[0]:
        is_over = not control.recv(_MESSAGE)
        os.kill(child, signal.SIGKILL)
        if is_over:
            os._exit(0)
    os.close(ended)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _limit(kind: int, most: int) -> None:
    """Limit this process and its children to `most` (0: no limit of ours). A lower limit that exists is kept."""
    held = resource.getrlimit(kind)[1]
    if most and (held == resource.RLIM_INFINITY or most < held):
        resource.setrlimit(kind, (most, most))


def _die_with(libc: ctypes.CDLL, parent: int) -> None:
    """Let the kernel kill this process when its parent ends; prctl(2). `parent` is its id, 0 if not known here."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:  # it ended before prctl, so no signal would come
        os.kill(os.getpid(), signal.SIGKILL)


def _restrict_files(libc: ctypes.CDLL, rules: dict[str, list[str]]) -> None:
    """Landlock: allow the files in `rules` (paths by access) only, and no signals to processes outside."""
    _drop_capabilities(libc)
    abi = libc.syscall(_SYS_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    handled = max(mask for least, mask in _ALL_OF_ABI.items() if least <= abi)
    ruleset = _Ruleset(handled_access_fs=handled, scoped=_SCOPES)
    # Older kernels reject a longer structure whose new fields are not 0.
    size = ctypes.sizeof(_Ruleset) if abi >= _ABI_OF_SCOPES else 8
    handle = _checked(libc.syscall(_SYS_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0), "landlock")
    access = {"read": _READ, "write": _WRITE, "execute": _READ | _EXECUTE, "device": _READ_FILE | _WRITE_FILE}
    for kind, paths in rules.items():
        for path in paths:
            _allow(libc, handle, path, access[kind])
    # Of /proc its own entry only: those of other processes hold their environments.
    _allow(libc, handle, f"/proc/{os.getpid()}", _READ)
    _checked(libc.syscall(_SYS_RESTRICT_SELF, handle, 0), "landlock_restrict_self")
    os.close(handle)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Root has no more rights than other users from here on; capabilities(7)."""
    # Without it, the kernel lets only administrators load a filter or restrict themselves, and set-user-ID files
    # would give rights back.
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # The bounding set first: dropping from it needs a capability that capset takes away.
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not os.path.isdir(path):
        access &= _ON_FILES
    rule = _PathBeneath(allowed_access=access, parent_fd=beneath)
    _checked(libc.syscall(_SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0), f"landlock {path}")
    os.close(beneath)


def _own(code: bytes, placeholder: int) -> bytes:
    """The filter, with this process's id in place of `placeholder`."""
    instructions = struct.iter_unpack(_INSTRUCTION, code)
    return b"".join(
        struct.pack(_INSTRUCTION, *operation, os.getpid() if value == placeholder else value)
        for *operation, value in instructions
    )


def _restrict_calls(libc: ctypes.CDLL, code: bytes) -> None:
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = _Program(length=len(code) // struct.calcsize(_INSTRUCTION), instructions=code)
    number = _SYS_SECCOMP[os.uname().machine]
    flags = _SECCOMP_FILTER_FLAG_SPEC_ALLOW  # else kernels before 5.16 slow down all code here, which may be timed
    _checked(libc.syscall(number, _SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(program)), "seccomp")


def _checked(code: int, what: str) -> int:
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return code


def _source(program: str) -> bytes | None:
    """The text of a Python program; None if there is none to run."""
    if not program:
        return None
    with open(program, "rb") as file:
        return file.read()


def _become(orders: dict[str, Any]) -> NoReturn:
    argv = orders["argv"]
    if orders["passed_filter"]:
        # bubblewrap reads its filter from a file descriptor.
        handle = os.memfd_create("filter", 0)
        os.write(handle, base64.b64decode(orders["passed_filter"]))
        os.lseek(handle, 0, os.SEEK_SET)
        os.set_inheritable(handle, True)
        argv = [str(handle) if word == "{filter}" else word for word in argv]
    os.execv(argv[0], argv)  # noqa: S606 (it is what this process is for)


def _import_package(name: str, folder: str) -> None:
    """Import the package in `folder`, whose parent folder is not readable."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(folder)
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _run(source: bytes, orders: dict[str, Any]) -> None:
    program = orders["program"]
    sys.argv = [program, *orders["argv"]]
    sys.path[:0] = orders["paths"]
    for name, folder in orders["packages"].items():
        _import_package(name, folder)
    module = ModuleType("__main__")
    module.__file__ = program
    sys.modules["__main__"] = module
    exec(compile(source, program, "exec"), module.__dict__)  # noqa: S102 (it is what this process is for)


if __name__ == "__main__":
    main()
