"""What a hostile program tries. Prints a JSON object: each attempt with "" if it succeeded, else how it failed.

    attempts.py MODEL SECRET OUTSIDE PROCESS PORT

MODEL is a folder that it may read, SECRET a file that it may not, OUTSIDE a folder that exists, PROCESS and PORT run and
listen outside. It writes below the working directory.
"""

import ctypes
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import threading

# Else only the names of the attempts are wanted.
TOLD = len(sys.argv) == 6 and (sys.argv[0] == "-c" or sys.argv[0].endswith("attempts.py"))
MODEL, SECRET, OUTSIDE = sys.argv[1:4] if TOLD else ("", "", "")
PROCESS, PORT = map(int, sys.argv[4:6]) if TOLD else (0, 0)
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def write(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"x")


def rewrite(path: str) -> None:
    """Write what is there already."""
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content)


def list_home() -> None:
    if ".netrc" not in os.listdir(os.path.dirname(SECRET)):
        raise FileNotFoundError


def fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def truncate(path: str) -> None:
    os.truncate(path, 0)


def see(process: int) -> None:
    if not os.path.exists(f"/proc/{process}/status"):
        raise FileNotFoundError
    read(f"/proc/{process}/status")


def connect() -> None:
    socket.create_connection(("127.0.0.1", PORT), timeout=5).close()


def unix() -> None:
    socket.socket(socket.AF_UNIX).close()


def set_owner(process: int, request: int) -> None:
    """Have the process signalled when something is written into a pipe; fcntl(2)."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(read_end, request, process)
    fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGURG)
    fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC)
    os.write(write_end, b"x")


def limit(process: int) -> None:
    resource.prlimit(process, resource.RLIMIT_CORE, (0, resource.prlimit(process, resource.RLIMIT_CORE)[1]))


def thread() -> None:
    started = threading.Thread(target=lambda: None)
    started.start()
    started.join()


def environments() -> None:
    """No process that can be seen has a variable that is called so."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if b"TFAOT_TEST_SECRET" in file.read():
                    return
        except OSError:
            continue
    raise OSError("none")


def variable() -> None:
    if "TFAOT_TEST_SECRET" not in os.environ:
        raise OSError("none")


def all_memory() -> None:
    mmap.mmap(-1, 64 << 30)


def second_name() -> None:
    write("one")
    os.link("one", "two")


ALLOWED = {
    "read the model": lambda: read(f"{MODEL}/file"),
    "list the model": lambda: os.listdir(MODEL),
    "write scratch": lambda: write("file"),
    "make a folder": lambda: os.mkdir("folder"),
    "rename": lambda: os.rename("file", "folder/file"),
    "remove": lambda: os.remove("folder/file"),
    "start a thread": thread,
    "signal itself": lambda: os.kill(os.getpid(), 0),
    "raise": lambda: signal.raise_signal(signal.SIGURG),
    "read random bytes": lambda: read("/dev/urandom"),
    "write /dev/null": lambda: write("/dev/null"),
    "read /proc/self": lambda: read("/proc/self/status"),
    "read cpuinfo": lambda: read("/proc/cpuinfo"),
}
REFUSED = {
    "read a secret": lambda: read(SECRET),
    "read it through a link": lambda: read(f"{MODEL}/link"),
    "read it through /proc": lambda: read(f"/proc/{PROCESS}/root{SECRET}"),
    "truncate a secret": lambda: truncate(SECRET),
    "read /etc/passwd": lambda: read("/etc/passwd"),
    "read /etc/shadow": lambda: read("/etc/shadow"),
    "list the home folder": list_home,
    "write outside": lambda: write(f"{OUTSIDE}/file"),
    "write the model": lambda: write(f"{MODEL}/new"),
    "change the model": lambda: os.truncate(f"{MODEL}/file", 0),
    "remove the model": lambda: os.remove(f"{MODEL}/file"),
    "write /": lambda: write("/file"),
    "write /usr": lambda: write("/usr/lib/file"),
    "write /dev/shm": lambda: write("/dev/shm/file"),
    "write /proc/sys": lambda: write("/proc/sys/kernel/hostname"),
    "change the kernel's settings": lambda: rewrite("/proc/sys/kernel/core_pattern"),
    "press magic keys": lambda: os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY)),
    "change rights": lambda: os.chmod(f"{MODEL}/file", 0o777),
    "make a link": lambda: os.symlink(SECRET, "link"),
    "make a hard link": lambda: os.link(SECRET, "hard"),
    "make a hard link within scratch": second_name,
    "make a pipe": lambda: os.mkfifo("pipe"),
    "start a shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
    "start itself": lambda: subprocess.run([sys.executable, "-V"], check=True),
    "become a program": lambda: os.execv(sys.executable, [sys.executable, "-V"]),
    "fork": fork,
    "vfork": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "see a process": lambda: see(PROCESS),
    "signal a process": lambda: os.kill(PROCESS, signal.SIGKILL),
    "ask for a process": lambda: os.kill(PROCESS, 0),
    "signal a group": lambda: os.killpg(os.getpgid(PROCESS), signal.SIGURG),
    "signal a thread": lambda: call(
        "syscall", {"x86_64": 234, "aarch64": 131}[os.uname().machine], PROCESS, PROCESS, 23
    ),
    "signal by a file": lambda: set_owner(PROCESS, fcntl.F_SETOWN),
    "limit a process": lambda: limit(PROCESS),
    "bind a process to a CPU": lambda: os.sched_setaffinity(PROCESS, os.sched_getaffinity(PROCESS)),
    "slow a process down": lambda: os.setpriority(os.PRIO_PROCESS, PROCESS, 19),
    "memory that is a file": lambda: os.close(os.memfd_create("x")),
    "write /tmp": lambda: write("/tmp/tfaot-attempt"),
    "trace a process": lambda: call("ptrace", 16, PROCESS, 0, 0),
    "be traced": lambda: call("ptrace", 0, 0, 0, 0),
    "connect": connect,
    "make a Unix socket": unix,
    "make a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "enter a namespace": lambda: call("unshare", 0x10000000),
    "mount": lambda: call("mount", b"none", b"/", None, 1 << 18, None),
    "chroot": lambda: os.chroot("."),
    "share memory": lambda: call("shmget", 1, 4096, 0o1777),
    "ring of calls": lambda: call("syscall", 425, 1, None),
    "keys": lambda: call("syscall", 250, 0, -3, 0, 0, 0),
    "read environments": environments,
    "read the environment": variable,
    "take all memory": all_memory,
}
OTHERS = [
    "ask for a process", "signal a group", "signal a thread", "signal by a file", "limit a process",
    "bind a process to a CPU", "slow a process down",
]  # fmt: skip
"""Of those that are refused, what reaches for other processes, and harms none of them where it is not."""


def outcome(attempt) -> str:  # type: ignore[no-untyped-def]
    try:
        attempt()
    except BaseException as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: outcome(attempt) for name, attempt in {**ALLOWED, **REFUSED}.items()}))
