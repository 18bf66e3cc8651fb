"""`Sandbox`: what a program may do, which level of confinement this machine has, and the command that starts it."""

from __future__ import annotations

import base64
import ctypes
import errno
import json
import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path

from tfaot_pkg.errors import SandboxError, ToolchainError
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.process_tree import memory_here
from tfaot_pkg.ground.sandbox import seccomp
from tfaot_pkg.ground.sandbox.command import Command, Most, Watch
from tfaot_pkg.ground.sandbox.root import (
    DEVICES,
    PACKAGE,
    PROCESS_FACTS,
    SYSTEM,
    Root,
    file_of,
    is_narrow,
    own_readable,
    own_sites,
    readable_of,
    root_of,
)
from tfaot_pkg.ground.sandbox.seccomp import OWN_PROCESS, filter_of
from tfaot_pkg.ground.settings import number_from

UNCONFINED = "TFAOT_UNCONFINED"

_TIMEOUT = 30.0
_SYS_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1
_LEAST_LANDLOCK = 3  # Linux 6.2: without it files outside can be truncated
_ARCHITECTURES = ("x86_64", "aarch64")


class Level(Enum):
    """How a program is confined, best first."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    NONE = "none"

    @classmethod
    def weakest(cls, names: Iterable[str]) -> Level:
        """The weakest of these levels."""
        return max(map(cls, names), key=list(cls).index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A level; `reasons` say why it is not a better one. `bubblewrap` is the program that makes namespaces."""

    level: Level
    reasons: tuple[str, ...] = ()
    bubblewrap: Path | None = None


def is_unconfined() -> bool:
    """Whether the user wants no sandbox: `--unconfined`, or TFAOT_UNCONFINED=1."""
    return os.environ.get(UNCONFINED, "") not in ("", "0")


def allow_unconfined() -> None:
    """Apply `--unconfined`, also to the processes that this one starts."""
    # In the environment, because builds of a night run in subprocesses of this tool.
    os.environ[UNCONFINED] = "1"


def required() -> Reached:
    """The level to start programs with. Raises SandboxError if there is none and the user did not allow that."""
    if is_unconfined():
        return Reached(level=Level.NONE, reasons=(f"{UNCONFINED} is set",))
    found = reached()
    if found.level is Level.NONE:
        raise SandboxError(
            "this machine has no sandbox for models: " + "; ".join(found.reasons),
            hint="install bubblewrap and libseccomp, or allow user namespaces; --unconfined (TFAOT_UNCONFINED=1) "
            "builds without a sandbox: only for models that you trust as you trust programs",
        )
    return found


def reached() -> Reached:
    """The best level of this machine; asking changes nothing."""
    # By the program that PATH names now: what is remembered is true of that file alone.
    return _reached_with(shutil.which("bwrap"))


@cache
def _reached_with(bubblewrap: str | None) -> Reached:
    if platform.machine() not in _ARCHITECTURES:
        return Reached(level=Level.NONE, reasons=(f"no system call filter for {platform.machine()}",))
    # First: both levels need the filter.
    if (fault := seccomp.fault()) is not None:
        return Reached(level=Level.NONE, reasons=(fault,))
    no_namespaces = "bubblewrap (bwrap) is not installed" if bubblewrap is None else _refusal(Path(bubblewrap))
    if no_namespaces is None:
        assert bubblewrap is not None
        return Reached(level=Level.NAMESPACES, bubblewrap=Path(bubblewrap))
    if (version := _landlock()) >= _LEAST_LANDLOCK:
        return Reached(level=Level.LANDLOCK, reasons=(no_namespaces,))
    no_landlock = f"Landlock is of version {version}, not {_LEAST_LANDLOCK}" if version > 0 else "no Landlock"
    return Reached(level=Level.NONE, reasons=(no_namespaces, no_landlock))


def may_fork() -> bool:
    """Whether a fork server can confine what it forks: by Landlock, for which namespaces come too late."""
    return required().level is not Level.NONE and _landlock() >= _LEAST_LANDLOCK


# A cgroup namespace is optional: kernels may be built without it, and it hides only names.
NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--cap-drop", "ALL",
)  # fmt: skip


def _refusal(bubblewrap: Path) -> str | None:
    """Why bubblewrap does not work here; None if it does. It is tried with itself as the program."""
    root = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    try:
        # Only a trial tells: distributions and containers forbid user namespaces in several ways.
        run([bubblewrap, *NAMESPACES, *root, bubblewrap, "--version"], timeout=_TIMEOUT)
    except CommandFailed as error:
        lines = error.tail.splitlines()
        return lines[-1] if lines else f"bubblewrap: {error.reason}"
    return None


def _landlock() -> int:
    """The version of Landlock's interface, 0 or less if the kernel has none; landlock_create_ruleset(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION))


_ENTER = file_of("tfaot_pkg.ground.sandbox.enter")
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
_LIBRARY_PATH = "LD_LIBRARY_PATH"
_NO_HOME = "/dev/null"  # no folder below it can exist or be made, not even by root without a sandbox
_GIGABYTE = 1 << 30
_UNUSED = 64 * _GIGABYTE
_LEAST, _MOST = 1e-3, 1e7  # of seconds, of GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds of a program, or of each request to a server; bytes of memory (0: three quarters of this machine's);
    bytes below the folders that it writes to (0: no limit); threads and processes.
    """

    timeout: float = 1800
    memory: int = 0
    disk: int = 16 * _GIGABYTE
    threads: int = 2048

    @classmethod
    def of_user(cls) -> Limits:
        """The defaults, changed by TFAOT_WORKER_TIMEOUT (seconds), TFAOT_WORKER_MEMORY and TFAOT_WORKER_DISK (GiB), and
        TFAOT_WORKER_THREADS.

        Raises ToolchainError.
        """
        usual = cls()
        timeout = _setting("TFAOT_WORKER_TIMEOUT", usual.timeout, "seconds")
        memory = _setting("TFAOT_WORKER_MEMORY", usual.memory / _GIGABYTE, "GiB")
        disk = _setting("TFAOT_WORKER_DISK", usual.disk / _GIGABYTE, "GiB")
        threads = number_from("TFAOT_WORKER_THREADS", usual.threads, 1, 1e6, error=ToolchainError)
        return cls(
            timeout=timeout, memory=int(memory * _GIGABYTE), disk=int(disk * _GIGABYTE), threads=int(threads)
        )  # fmt: skip

    def within(self, other: Limits) -> Limits:
        """The lower one of each limit; a limit of memory or disk that is not set is the higher one."""
        return Limits(
            timeout=min(self.timeout, other.timeout),
            memory=min(filter(None, (self.memory, other.memory)), default=0),
            disk=min(filter(None, (self.disk, other.disk)), default=0),
            threads=min(self.threads, other.threads),
        )

    def seconds(self, asked: float | None) -> float:
        """The seconds that something which needs `asked` may take (None: as many as it likes)."""
        return min(asked or self.timeout, self.timeout)

    @property
    def in_use(self) -> int:
        """Bytes of memory that all processes of a program may use."""
        return self.memory or memory_here() * 3 // 4

    @property
    def addresses(self) -> int:
        """Bytes that each process may map: a limit that was set, which programs reach as a lack of memory, which they
        can report; else far more than is in use, because TensorFlow reserves memory for each thread.
        """
        return self.memory or self.in_use + _UNUSED


def _setting(variable: str, default: float, unit: str) -> float:
    return number_from(variable, default, _LEAST, _MOST, error=ToolchainError, unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a program may do.

    It can read `readable` and its own files and libraries, and write below `writable` (the first is its working
    directory and TMPDIR). It can start other programs only with `starts_programs`. `core` is the CPU it is bound to.
    """

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits.of_user)
    starts_programs: bool = False
    core: int | None = None

    def native(self, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> Command:
        """The program argv[0], a path or a name on PATH, with `env` added to a minimal environment.

        Raises SandboxError if this machine cannot confine it, CommandFailed if there is no such program.
        """
        words = [os.fspath(word) for word in argv]
        program = shutil.which(words[0]) or words[0]
        command = [os.path.abspath(program), *words[1:]]
        if not os.path.isfile(command[0]):
            raise CommandFailed(words, None, f"cannot start {words[0]} ({os.strerror(errno.ENOENT)})", "")
        own = (Path(command[0]), *_library_folders())
        found = required()
        variables = self._environment(env or {})
        if found.level is Level.NAMESPACES:
            # bubblewrap loads the filter itself, after its mounts, which the filter denies.
            inside = [*_bubblewrap(found, self._root(own), self._folder), "--seccomp", "{filter}", "--", *command]
            argv = self._enter(Path(sys.executable), {"argv": inside, "passed_filter": self._filter(is_program=True)})
        else:
            orders = {"argv": command, **self._restrictions(found, own, executable=own[:1], is_program=True)}
            argv = self._enter(Path(sys.executable), orders)
        return self._command(argv, env=variables, meant=words)

    def python(
        self,
        python: Path,
        program: Path,
        arguments: Sequence[str | Path] = (),
        *,
        env: Mapping[str, str] | None = None,
    ) -> Command:
        """The Python program `program`, a file or a folder with `__main__.py`, in the interpreter `python`.

        If it is a folder, it can import the modules in it. It loses the right to start programs before its first line.
        Raises SandboxError if this machine cannot confine it, ToolchainError if `python` does not run.
        """
        paths = (program,) if program.is_dir() else ()
        file = program / "__main__.py" if program.is_dir() else program
        readable = (program, *readable_of(python))
        return self._python(python, file, arguments, paths=paths, readable=readable, packages={}, env=env or {})

    def own_python(
        self, module: str, arguments: Sequence[str | Path] = (), *, env: Mapping[str, str] | None = None
    ) -> Command:
        """As `python`, for a module of this package (`tfaot_pkg.verify.runner`), in the Python that runs here."""
        return self._python(
            Path(sys.executable), file_of(module), arguments,
            paths=own_sites(), readable=own_readable(), packages={PACKAGE.name: str(PACKAGE)}, env=env or {},
        )  # fmt: skip

    def fork_server(
        self, python: Path, program: Path, preload: str, control: int, *, env: Mapping[str, str] | None = None
    ) -> Command:
        """A process in the interpreter `python` that calls `preload`, "module:function" of the folder `program`, and
        then forks a process for each order on the socket `control` (fork_server.py).

        It can see what `python` can, and has no filter of system calls: it runs these imports and nothing else.
        Raises as `python`.
        """
        own = _files_of(python, program)
        found = required()
        orders: dict[str, object] = {"serves": control, "preload": preload, "paths": [str(program)]}
        if found.level is Level.NAMESPACES:
            inside = self._enter(python, orders, parent=0)
            argv = [*_bubblewrap(found, self._root(own), self._folder), "--", *inside]
        else:
            argv = self._enter(python, orders)
        return self._command(argv, env=self._environment(env or {}), meant=(str(python), preload))

    def forked(self, python: Path, program: Path, arguments: Sequence[str | Path] = ()) -> dict[str, object]:
        """The orders for a process of a fork server of `python` and `program`, which runs that program.

        Namespaces are those of the server; Landlock and the filter confine the process to what this sandbox allows.
        """
        own = _files_of(python, program)
        found = required()
        orders = {
            "program": str(program / "__main__.py"),
            "argv": [os.fspath(word) for word in arguments],
            "environment": self._environment({}),
            # The server may have no such limit, which a process that is started here would inherit.
            "disk": min(filter(None, (self.limits.disk, _largest_file())), default=0),
            **self._restrictions(found, own, executable=(), is_program=False),
        }
        return self._complete(orders, parent=0 if found.level is Level.NAMESPACES else None)

    def _python(
        self,
        python: Path,
        program: Path,
        arguments: Sequence[str | Path],
        *,
        paths: Sequence[Path],
        readable: Sequence[Path],
        packages: Mapping[str, str],
        env: Mapping[str, str],
    ) -> Command:
        words = [os.fspath(word) for word in arguments]
        own = (_ENTER, *readable, *_library_folders())
        found = required()
        orders: dict[str, object] = {
            "program": str(program),
            "argv": words,
            "paths": [*map(str, paths)],
            "packages": dict(packages),
        }
        if found.level is Level.NAMESPACES:
            # enter.py runs inside of the namespaces and loads the filter there: Python itself needs execve to start.
            orders["filter"] = self._filter(is_program=False)
            # 0: in a process namespace the parent has another id; bubblewrap has --die-with-parent.
            inside = self._enter(python, orders, parent=0)
            argv = [*_bubblewrap(found, self._root(own), self._folder), "--", *inside]
        else:
            argv = self._enter(python, {**orders, **self._restrictions(found, own, executable=(), is_program=False)})
        return self._command(argv, env=self._environment(env), meant=(str(python), str(program), *words))

    def watch(self, log: Path) -> Watch:
        """The watch over a program of this sandbox that prints to `log`."""
        return Watch(self.writable, self._most, log)

    @property
    def _most(self) -> Most:
        return Most(disk=self.limits.disk, memory=self.limits.in_use, threads=self.limits.threads)

    def _command(self, argv: Sequence[str], *, env: Mapping[str, str], meant: Sequence[str]) -> Command:
        return Command(
            argv=tuple(argv), env=env, meant=tuple(meant),
            timeout=self.limits.timeout, writable=self.writable, most=self._most,
        )  # fmt: skip

    @property
    def _folder(self) -> str:
        return str(self.writable[0]) if self.writable else "/"

    def _environment(self, env: Mapping[str, str]) -> dict[str, str]:
        libraries = os.environ.get(_LIBRARY_PATH)
        return {
            "LANG": "C.UTF-8",
            "HOME": _NO_HOME,  # without it, libraries take the home folder of the user database
            **({"TMPDIR": str(self.writable[0])} if self.writable else {}),
            **({_LIBRARY_PATH: libraries} if libraries else {}),
            **env,
        }

    def _root(self, own: Sequence[Path]) -> Root:
        return root_of((*SYSTEM, *self.readable, *own), self.writable)

    def _filter(self, *, is_program: bool, sees_others: bool = False) -> str:
        code = filter_of(starts_programs=self.starts_programs, is_program=is_program, sees_others=sees_others)
        return base64.b64encode(code).decode()

    def _restrictions(
        self, found: Reached, own: Sequence[Path], *, executable: Sequence[Path], is_program: bool
    ) -> dict[str, object]:
        """What enter.py does to its process at the level `landlock`."""
        if found.level is Level.NONE:
            return {}
        root = self._root(own)
        places = [str(path) for path in root.readable]
        # To start a native program, the kernel executes its loader too.
        loaders = [*map(str, executable), *_LOADERS] if executable else []
        return {
            "landlock": {
                "read": [*places, *PROCESS_FACTS],
                "write": [*map(str, root.writable)],
                "execute": places if self.starts_programs else loaders,
                "device": list(DEVICES),
            },
            "filter": self._filter(is_program=is_program, sees_others=True),
        }

    def _enter(self, python: Path, orders: Mapping[str, object], *, parent: int | None = None) -> list[str]:
        # -I: neither PYTHONPATH nor the current folder chooses modules. -B: its folders are not writable.
        return [str(python), "-I", "-B", str(_ENTER), json.dumps(self._complete(orders, parent=parent))]

    def _complete(self, orders: Mapping[str, object], *, parent: int | None) -> dict[str, object]:
        return {
            "parent": os.getpid() if parent is None else parent,
            "core": self.core,
            "memory": self.limits.addresses,
            # In a user namespace of its own only this program counts, unless root started it; elsewhere all threads of
            # the user do, in other containers too. There the watch alone counts (command.py).
            "threads": self.limits.threads if parent == 0 else 0,
            "disk": self.limits.disk,
            "folder": self._folder,
            "program": "",
            "argv": [],
            "paths": [],
            "packages": {},
            "landlock": None,
            "filter": "",
            "own_process": OWN_PROCESS,
            "passed_filter": "",
            "serves": None,
            "preload": "",
            **orders,
        }


def _largest_file() -> int:
    """Bytes of a file that this process may write; 0 if it has no limit."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return 0 if limit == resource.RLIM_INFINITY else limit


def _bubblewrap(found: Reached, root: Root, folder: str) -> list[str]:
    assert found.bubblewrap is not None
    return [str(found.bubblewrap), *NAMESPACES, "--hostname", "sandbox", *root.arguments(), "--chdir", folder]


def _files_of(python: Path, program: Path) -> tuple[Path, ...]:
    """What the program in the folder `program` needs to run in the interpreter `python`."""
    return (_ENTER, program, *readable_of(python), *_library_folders())


def _library_folders() -> tuple[Path, ...]:
    """The folders of LD_LIBRARY_PATH that may be shown."""
    paths = [Path(folder) for folder in os.environ.get(_LIBRARY_PATH, "").split(os.pathsep) if folder]
    return tuple(path for path in paths if path.is_absolute() and path.is_dir() and is_narrow(path))
