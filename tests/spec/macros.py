"""The macros without parameters that compilers and the headers of C, POSIX, Linux and X11 define."""

from __future__ import annotations

import re
import subprocess

HEADERS_OF_C = """
    aio alloca arpa/inet assert byteswap complex cpio ctype devctl dirent dlfcn endian err errno execinfo fcntl features
    fenv float fmtmsg fnmatch ftw getopt glob grp iconv inttypes iso646 langinfo libgen libintl limits locale malloc math
    monetary mqueue net/if netdb netinet/in netinet/tcp nl_types poll pthread pwd regex resolv sched search semaphore
    setjmp signal spawn stdalign stdarg stdatomic stdbit stdbool stdckdint stdcountof stddef stdint stdio stdlib
    stdnoreturn string strings sys/epoll sys/eventfd sys/file sys/inotify sys/ioctl sys/ipc sys/mman sys/msg sys/param
    sys/prctl sys/random sys/resource sys/select sys/sem sys/shm sys/signalfd sys/socket sys/stat sys/statvfs
    sys/sysinfo sys/sysmacros sys/time sys/timerfd sys/times sys/types sys/ucontext sys/uio sys/un sys/utsname sys/wait
    syslog tar termios tgmath threads time uchar ulimit unistd utime utmpx values wchar wctype wordexp X11/Xlib
""".split()
_MACRO = re.compile(r"#define ([A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*)(?: |$)", re.MULTILINE)
"""Without parameters, and not reserved: only such names could be those of tensors."""


def macros_of(compiler: str) -> set[str]:
    """Those of C and of C++, in the compiler's default mode. Headers that the system lacks are left out."""
    source = "".join(f"#if __has_include(<{name}.h>)\n#include <{name}.h>\n#endif\n" for name in HEADERS_OF_C)
    found = set[str]()
    for language in ("c",) if compiler.startswith("musl-") else ("c", "c++"):
        command = [compiler, "-x", language, "-D_GNU_SOURCE", "-dM", "-E", "-"]
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
        found |= set(_MACRO.findall(done.stdout))
    return found
