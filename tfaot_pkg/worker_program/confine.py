"""Confine this process: no network, nothing writable but one folder.

Models are programs: loading one may run operations that write files or open connections. The kernel's
namespaces take that away where it allows them to unprivileged users; elsewhere the reason is returned and
the process goes on unconfined. Linux: unshare(2), mount_setattr(2) (5.12), user_namespaces(7).
"""

import ctypes
import os

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_MOUNT_ATTR_RDONLY = 1
_AT_RECURSIVE = 0x8000
_AT_FDCWD = -100
_SYS_MOUNT_SETATTR = 442
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_LAST_CAPABILITY = 63


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def confine(writable: list) -> str:
    """Confine this process to write below the folders `writable` only; "yes", or "no: REASON" where it cannot be."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    try:
        _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWNET), "unshare")
    except OSError as error:
        return f"no: {error}"
    try:
        _map_ids(uid, gid)
        _check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mount private")
        for folder in writable:
            path = os.fsencode(folder)
            _check(libc.mount(path, path, None, _MS_BIND, None), "bind")
        _set_mount(libc, b"/", _MountAttributes(set=_MOUNT_ATTR_RDONLY), _AT_RECURSIVE)
        for folder in writable:
            _set_mount(libc, os.fsencode(folder), _MountAttributes(clear=_MOUNT_ATTR_RDONLY), 0)
            # the working directory may lie on the read-only view
        if writable:
            os.chdir(writable[0])
    except OSError as error:
        return f"partly: {error}"
    _drop_capabilities(libc)
    return "yes"


def _map_ids(uid: int, gid: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _set_mount(libc, path: bytes, attributes: _MountAttributes, flags: int) -> None:
    size = ctypes.sizeof(attributes)
    code = libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, ctypes.byref(attributes), size)
    _check(code, "mount_setattr")


def _drop_capabilities(libc) -> None:
    """No program that is started from here on, and no further call here, can undo the mounts."""
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    libc.capset(header, (ctypes.c_uint32 * 6)())


def _check(code: int, what: str) -> None:
    if code != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
