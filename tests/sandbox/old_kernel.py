"""Runs a command as on a kernel without Landlock: old_kernel.py COMMAND..."""

import ctypes
import errno
import os
import sys

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def main() -> None:
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p
    ]  # fmt: skip
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    context = library.seccomp_init(_ALLOW)
    for name in (b"landlock_create_ruleset", b"landlock_add_rule", b"landlock_restrict_self"):
        number = library.seccomp_syscall_resolve_name(name)
        assert library.seccomp_rule_add_array(context, _ERRNO | errno.ENOSYS, number, 0, None) == 0
    assert library.seccomp_load(context) == 0
    os.execvp(sys.argv[1], sys.argv[1:])


main()
