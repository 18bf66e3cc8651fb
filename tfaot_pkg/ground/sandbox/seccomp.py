"""The system calls that a confined program may not make, as a filter for the kernel; seccomp(2), made by libseccomp.

The filter is made here and loaded in the confined process, which therefore needs no library. Denied calls fail with
EPERM, so that programs which only try to use them continue.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_ATTRIBUTE_BAD_ARCHITECTURE = 2
_NOT_EQUAL, _MASKED_EQUAL = 1, 7
_INT = 0xFFFFFFFF  # the part of an argument that the kernel looks at
_UNKNOWN = -1

_PROGRAMS = "execve execveat"
_PROCESSES = "fork vfork"
_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)

# A list of what is denied, not of what is allowed: that would have to follow each release of TensorFlow and of
# the C library (decision 027).
_ALWAYS = (
    # The network, and every other kind of socket.
    "socket socketpair socketcall bind connect listen accept accept4 "
    # Other processes.
    "ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_open pidfd_getfd pidfd_send_signal "
    "perf_event_open "
    # Namespaces and mounts, which would undo the sandbox.
    "unshare setns mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick "
    "mount_setattr open_by_handle_at name_to_handle_at fanotify_init quotactl "
    # Shared memory and queues, which other processes could open, and memory that no limit counts.
    "memfd_create memfd_secret shmget shmat shmctl msgget msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open "
    # Links, devices and pipes: who reads the results must not be led elsewhere, nor wait forever.
    "symlink symlinkat link linkat mknod mknodat "
    # Permissions of files, which Landlock does not protect.
    "chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat setxattr lsetxattr fsetxattr setxattrat removexattr "
    "lremovexattr fremovexattr removexattrat utime utimes utimensat futimesat file_setattr "
    # The kernel and the machine.
    "bpf userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key kexec_load "
    "kexec_file_load init_module finit_module delete_module reboot swapon swapoff syslog acct lookup_dcookie iopl "
    "ioperm settimeofday clock_settime clock_adjtime adjtimex stime sethostname setdomainname vhangup modify_ldt uselib"
)

# For calls that libseccomp is too old to know: from 424 on numbers are the same on all architectures.
_NUMBERS = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "memfd_secret": 447, "fchmodat2": 452,
    "setxattrat": 463, "removexattrat": 466, "open_tree_attr": 467, "file_setattr": 469,
}  # fmt: skip


OWN_PROCESS = 0x7FF0F1D5
"""Placeholder in filters for the id of the process that loads them; no process can have this id."""

_SIGNALS = "kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo"
_OF_OTHERS = "prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr migrate_pages move_pages"
"""Their first argument is a process, 0 for the caller. Threads have ids of their own."""
_PRIORITIES = ("setpriority", 0), ("ioprio_set", 1)
"""With the value by which their second argument is a process, not a group or a user."""
_ON_FILES = ("fcntl", (8, 10, 15)), ("ioctl", (0x8901, 0x8902))
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP: they let events of a file signal any process."""


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint), ("operator", ctypes.c_int), ("first", ctypes.c_uint64), ("second", ctypes.c_uint64)
    )  # fmt: skip


def fault() -> str | None:
    """Why no filter can be made here; None if one can."""
    try:
        filter_of(starts_programs=False, is_program=True)
    except OSError as error:
        return f"no system call filter: {error}"
    return None


@cache
def filter_of(*, starts_programs: bool, is_program: bool, sees_others: bool = False) -> bytes:
    """The filter, as BPF instructions. Without `starts_programs` the process cannot start another one.

    With `is_program` the process has yet to become its program, so `execve` is allowed. With `sees_others` the user's
    other processes are visible to it, so calls that reach them are denied; OWN_PROCESS in the instructions must be
    replaced by its id. Raises OSError.
    """
    library = _library()
    with _context(library) as context:
        for name in _ALWAYS.split():
            _refuse(library, context, name)
        # A filter cannot read clone3's flags, which are in memory. On ENOSYS, libraries use clone instead.
        _refuse(library, context, "clone3", number=errno.ENOSYS)
        for flag in _CLONE_NAMESPACES:
            _refuse(library, context, "clone", _Comparison(0, _MASKED_EQUAL, flag, flag))
        if not starts_programs:
            # Threads stay allowed: XLA and NumPy start them.
            _refuse(library, context, "clone", _Comparison(0, _MASKED_EQUAL, _CLONE_THREAD, 0))
            for name in _PROCESSES.split():
                _refuse(library, context, name)
        if not starts_programs and not is_program:
            for name in _PROGRAMS.split():
                _refuse(library, context, name)
        if sees_others:
            _leave_others_alone(library, context, starts_programs=starts_programs)
        return _exported(library, context)


def _leave_others_alone(library: ctypes.CDLL, context: int, *, starts_programs: bool) -> None:
    """Deny calls that reach other processes. Landlock does this only for signals, and only from Linux 6.12 on."""
    for name, commands in _ON_FILES:
        for command in commands:
            _refuse(library, context, name, _Comparison(1, _MASKED_EQUAL, _INT, command))
    if starts_programs:  # then "others" are its own
        return
    for name in _SIGNALS.split():
        _refuse(library, context, name, _Comparison(0, _NOT_EQUAL, OWN_PROCESS))
    _refuse(library, context, "tkill")  # it takes the id of any thread; libraries use tgkill
    for name in _OF_OTHERS.split():
        _refuse(library, context, name, _Comparison(0, _NOT_EQUAL, 0))
    for name, process in _PRIORITIES:
        _refuse(library, context, name, _Comparison(0, _NOT_EQUAL, process))
        _refuse(library, context, name, _Comparison(1, _NOT_EQUAL, 0))


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Comparison)
    ]  # fmt: skip
    return library


@contextmanager
def _context(library: ctypes.CDLL) -> Iterator[int]:
    context = library.seccomp_init(_ALLOW)
    if not context:
        raise OSError("seccomp_init")
    try:
        # Calls by the numbers of another architecture (i386 on x86-64) would bypass the filter.
        _checked(library.seccomp_attr_set(context, _ATTRIBUTE_BAD_ARCHITECTURE, _KILL_PROCESS), "seccomp_attr_set")
        yield context
    finally:
        library.seccomp_release(context)


def _refuse(
    library: ctypes.CDLL, context: int, name: str, *comparisons: _Comparison, number: int = errno.EPERM
) -> None:
    call = library.seccomp_syscall_resolve_name(name.encode())
    if call == _UNKNOWN:
        # The kernel may be newer than libseccomp and have the call.
        call = _NUMBERS.get(name, _UNKNOWN)
    if call < 0:  # this architecture has none
        return
    array = (_Comparison * max(1, len(comparisons)))(*comparisons)
    _checked(library.seccomp_rule_add_array(context, _ERRNO | number, call, len(comparisons), array), name)


def _exported(library: ctypes.CDLL, context: int) -> bytes:
    handle = os.memfd_create("filter")
    try:
        _checked(library.seccomp_export_bpf(context, handle), "seccomp_export_bpf")
        os.lseek(handle, 0, os.SEEK_SET)
        return os.read(handle, 1 << 20)
    finally:
        os.close(handle)


def _checked(code: int, what: str) -> None:
    if code < 0:
        raise OSError(-code, f"{what}: {os.strerror(-code)}")
