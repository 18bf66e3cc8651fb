"""Virtual environments made on demand from pinned, hashed requirements: for TensorFlow, and for engines of `bench`.

Interpreters are inspected without importing TensorFlow. Only venv and pip install packages, because nothing else is
sure to exist on the user's machine.

A virtual environment cannot be moved, so it is made in place, under a lock, and is complete only if its marker exists,
which is written last: the next run deletes what a killed one left.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import NetworkError, StorageError, TfaotError, ToolchainError, TrustError
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.process import CommandFailed, run, stream
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import locked, storage_errors, write_file

# Settings that would install elsewhere, or other packages. The user's network settings (index, proxy, CA) are kept.
_DROPPED = {
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIREMENT"),
    *("PIP_CONSTRAINT", "PIP_NO_BINARY", "PIP_DRY_RUN", "PIP_EDITABLE", "PIP_LOG", "PIP_QUIET", "PIP_VERBOSE"),
}
# pip has no machine-readable progress; a changed wording costs the progress bar only.
_COLLECTING = re.compile(r"^Collecting ([\w.-]+)==([^ ;]+)")
_PROCESSING = re.compile(r"^Processing (?:.*/)?([\w.]+)-([^-/]+)-[^/]*\.whl")  # a wheel from a folder
# pip exits with 1 for every failure, so its messages must tell them apart.
_UNREACHABLE = (
    *("Temporary failure in name resolution", "Name or service not known", "NewConnectionError", "Connection refused"),
    *("ReadTimeoutError", "ConnectTimeoutError", "Read timed out", "ProxyError", "SSLError", "ConnectionResetError"),
    *("Connection aborted", "Network is unreachable", "IncompleteRead", "Connection broken", "Could not fetch URL"),
    *("HTTP error 4", "HTTP error 5"),
)
_NOTHING = "(from versions: none)"  # pip's only message for an unreachable index if retries are off
_FULL = ("No space left on device", "Disk quota exceeded", "Errno 28", "Errno 122")


# pip compiles one file after the other, the packages' own tests as well: 22 of 33 s for the libraries of decision
# trees, and 112 MB. Sandboxed workers cannot write: without compiled files, each would compile what it imports.
_COMPILE = """
import compileall, re, sysconfig
tests = re.compile("/tests?/")
compileall.compile_dir(sysconfig.get_path("purelib"), maxlevels=50, rx=tests, quiet=2, workers=0)
"""


def clean_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` without those that change where pip installs, or which Python modules it sees."""
    return {name: value for name, value in variables.items() if name not in _DROPPED}


def requirement_names(text: str) -> list[str]:
    """The names that a lock file pins, in its order; a name with versions for several Pythons counts once."""
    names = (line.partition("==")[0].strip() for line in text.splitlines() if "==" in line and line[0].isalnum())
    return list(dict.fromkeys(names))


def install(
    *,
    interpreter: Interpreter,
    folder: Path,
    requirements: Path,
    wheelhouse: Path | None,
    what: str,
    log: Path,
    progress: Progress,
    pass_fds: tuple[int, ...] = (),
) -> None:
    """Make the virtual environment `folder` with `interpreter` and install `requirements` in it.

    Every file must have one of the hashes in `requirements`. Only wheels are accepted, so no code of packages runs.
    `pass_fds` stay open in the subprocesses. Raises NetworkError, TrustError, StorageError, ToolchainError.
    """
    if wheelhouse is not None and not wheelhouse.is_dir():
        raise ToolchainError(f"the wheelhouse {wheelhouse} is not a folder", hint="name a folder with wheels in it")
    if not interpreter.makes_environments:
        raise no_venv(interpreter)
    env = clean_environment(os.environ)
    names = requirement_names(requirements.read_text(encoding="utf-8"))

    def start(argv: list[str | Path], on_line: Callable[[str], None]) -> None:
        try:
            stream(argv, on_line=on_line, log=log, env=env, pass_fds=pass_fds)
        except CommandFailed as error:
            raise failure(error, what=what, log=log, wheelhouse=wheelhouse) from error

    with progress.step(what, total=len(names) + 2, unit="packages") as step:

        def on_line(line: str) -> None:
            progress.output(line)
            match = _COLLECTING.match(line) or _PROCESSING.match(line)
            if match:
                step.advance(note=f"{match[1]} {match[2]}")
            elif line.startswith("Installing collected packages"):
                step.phase("unpacking")

        step.phase("virtual environment and downloads" if wheelhouse is None else "virtual environment")
        start(venv_command(interpreter, folder), progress.output)
        start([*pip_command(folder), *_wanted(requirements, wheelhouse)], on_line)
        step.phase("compiling Python files")
        start([folder / "bin" / "python", "-I", "-c", _COMPILE], progress.output)


def _can_install_elsewhere() -> bool:
    """Whether the running Python has a pip with the option --python. Environments without a pip of their own are made
    4 s sooner, are 24 MB smaller, and need no ensurepip, which Debian's Python lacks by default.
    """
    try:
        return Version(version("pip")) >= Version("22.3")
    except (PackageNotFoundError, InvalidVersion):
        return False


def venv_command(interpreter: Interpreter, folder: Path) -> list[str | Path]:
    """What makes a virtual environment in `folder`, with the pip that `pip_command` runs."""
    return [interpreter.path, "-I", "-m", "venv", *(["--without-pip"] if _can_install_elsewhere() else []), folder]


def pip_command(folder: Path) -> list[str | Path]:
    """Pip for the environment in `folder`: the running Python's, or the environment's own."""
    python = folder / "bin" / "python"
    if _can_install_elsewhere():
        return [sys.executable, "-I", "-m", "pip", "--python", python]
    return [python, "-I", "-m", "pip"]


def _wanted(requirements: Path, wheelhouse: Path | None) -> list[str | Path]:
    # --only-binary: building a package would run its code. --no-deps: the lock file is complete.
    checked = ["--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-compile"]
    quiet = ["--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-user"]
    offline: list[str | Path] = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
    return ["install", *checked, *quiet, *offline, "-r", requirements]


def failure(error: CommandFailed, *, what: str, log: Path, wheelhouse: Path | None) -> TfaotError:
    """The error for a failed venv or pip, by its output."""
    output = error.output
    # A full disk first: it also makes downloads and hashes fail.
    if any(sign in output for sign in _FULL):
        return StorageError(
            f"no space left while installing {what}",
            hint="free some space (TensorFlow needs 2 GB), or set TFAOT_HOME to a folder on another disk",
            log=log,
        )
    if "DO NOT MATCH THE HASHES" in output:
        return TrustError(
            f"a package of {what} is not the one that was pinned: {_after(output, 'DO NOT MATCH THE HASHES')}",
            hint="the server, a proxy or the wheelhouse gives other files than were locked: use another source",
            log=log,
        )
    if wheelhouse is None and (_NOTHING in output or any(sign in output for sign in _UNREACHABLE)):
        return NetworkError(
            f"cannot download {what}: the package index cannot be reached or has nothing for this machine and Python",
            hint="check the network and pip's settings, or install offline from a folder of wheels: --wheelhouse DIR",
            log=log,
        )
    return _other_failure(error, what=what, log=log, wheelhouse=wheelhouse)


def _other_failure(error: CommandFailed, *, what: str, log: Path, wheelhouse: Path | None) -> ToolchainError:
    missing = re.search(r"No matching distribution found for (\S+)", error.output)
    if missing:
        where = f"in the wheelhouse {wheelhouse}" if wheelhouse else "in the package index for this machine and Python"
        hint = (
            "fill it on a machine with a network: pip download --only-binary :all: --no-deps -r REQUIREMENTS -d DIR"
            if wheelhouse
            else "only 64-bit Linux with glibc is supported; check pip's settings (pip config list)"
        )
        return ToolchainError(f"{missing[1]}, which {what} needs, is not {where}", hint=hint, log=log)
    last = error.tail.strip().splitlines()[-1:] or [""]
    return ToolchainError(f"cannot install {what} ({error.reason}): {last[0]}", hint="see the log", log=log)


def _after(output: str, sign: str) -> str:
    """The package and file that pip names below its message about hashes."""
    lines = [line.strip() for line in output.partition(sign)[2].splitlines()[1:] if line.strip()]
    return lines[0].rstrip(":") if lines else "unknown file"


_TIMEOUT = 60.0
_MINORS = range(20, 7, -1)  # newest first; the toolchain's range selects

# Run with -I: neither the current folder nor PYTHONPATH changes the answer, as in the worker processes.
_PROGRAM = """
import importlib.metadata, importlib.util, json, os, sys

def version():
    for name in ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-rocm"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return ""

spec = importlib.util.find_spec("tensorflow")
origin = spec.origin if spec and spec.origin else ""
print(json.dumps({
    "python": "%d.%d.%d" % sys.version_info[:3],
    "venv": importlib.util.find_spec("venv") is not None,
    "ensurepip": importlib.util.find_spec("ensurepip") is not None,
    "tensorflow": version() if origin else "",
    "site_packages": os.path.dirname(os.path.dirname(origin)) if origin else "",
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A working Python interpreter.

    `python` is its full version. `venv` and `ensurepip` say whether it has these modules. `tensorflow` and
    `site_packages` are the version and the folder of its TensorFlow, empty if it has none.
    """

    path: Path
    python: str
    venv: bool
    ensurepip: bool
    tensorflow: str
    site_packages: str

    @property
    def minor(self) -> str:
        """`3.11`."""
        return ".".join(self.python.split(".")[:2])

    @property
    def makes_environments(self) -> bool:
        """Whether it makes environments that packages can be installed in."""
        return self.venv and (self.ensurepip or _can_install_elsewhere())

    def suits(self, toolchain: Toolchain) -> bool:
        return self.python in SpecifierSet(toolchain.python)


def inspect(path: Path) -> Interpreter:
    """Run the Python at `path` to inspect it (some 50 ms). Raises ToolchainError if it does not work."""
    try:
        finished = run([path, "-I", "-c", _PROGRAM], timeout=_TIMEOUT)
        answer = json.loads(finished.stdout)
        return Interpreter(path=path, **answer)
    except (CommandFailed, ValueError, TypeError) as error:
        reason = error.reason if isinstance(error, CommandFailed) else "its answer cannot be read"
        raise ToolchainError(
            f"{path} is not a working Python: {reason}",
            hint="name the python program itself, for example ENV/bin/python",
        ) from error


def choose(toolchain: Toolchain) -> Interpreter:
    """The Python for `toolchain`'s environment: the running one, otherwise the newest suitable one on the PATH.

    Raises ToolchainError if there is none, or if the suitable ones cannot make virtual environments.
    """
    suitable: list[Interpreter] = []
    for path in _candidates():
        try:
            interpreter = inspect(path)
        except ToolchainError:
            continue  # a broken one on the PATH, for example the shim of a version that is not active
        if not interpreter.suits(toolchain):
            continue
        if interpreter.makes_environments:
            return interpreter
        suitable.append(interpreter)
    if suitable:
        raise no_venv(suitable[0])
    raise ToolchainError(
        f"{toolchain.title} needs Python {toolchain.python}, and none is on the PATH",
        hint="install such a Python"
        + (
            ", or name an interpreter that has TensorFlow already (--toolchain-python)"
            if toolchain.has_tensorflow
            else ""
        ),
    )


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    for name in [*(f"python3.{minor}" for minor in _MINORS), "python3"]:
        found = shutil.which(name)
        # python3 is often the running interpreter under another name.
        if found and not os.path.samefile(found, sys.executable):
            yield Path(found)


def no_venv(interpreter: Interpreter) -> ToolchainError:
    """The error for an interpreter that cannot make virtual environments."""
    return ToolchainError(
        f"{interpreter.path} (Python {interpreter.python}) cannot make virtual environments: "
        + ("no ensurepip, and no pip of 22.3 or newer beside tfaot-pkg" if interpreter.venv else "no venv"),
        hint=f"on Debian and Ubuntu: apt install python3-venv (or python{interpreter.minor}-venv)"
        + (f"; or install pip beside tfaot-pkg, for {sys.executable}" if interpreter.venv else ""),
    )


_MARKER = ".complete"
_LOCK_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEnvironment:
    """A Python and its packages, which `identity` (64 hexadecimal digits, for keys) identifies."""

    python: Path
    site_packages: Path
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What an environment is made from: the lock file `requirements`.

    `title` is for messages, `stem` the prefix of its folders' names. `identity` is the same on every machine.
    """

    title: str
    stem: str
    requirements: Path
    identity: str

    def environments(self, folders: Folders) -> list[PythonEnvironment]:
        """The existing environments, made by any Python, sorted by folder."""
        return [found for folder in folders_of(self.stem, folders) if (found := self._read(folder))]

    def ensure(
        self, interpreter: Interpreter, *, folders: Folders, progress: Progress, wheelhouse: Path | None
    ) -> PythonEnvironment:
        """The environment of `interpreter`, made now if it is missing; from the wheels in `wheelhouse`, if given.

        Raises ToolchainError, NetworkError, TrustError, StorageError.
        """
        # The identity in the name: a new lock file gets a new folder, and builds that run keep the old one.
        folder = folders.toolchains / f"{self.stem}-py{interpreter.minor}-{self.identity[:12]}"
        with storage_errors(f"make the environment {folder}"), exclusive(folder) as lock:
            # Read under the lock: another process may have made it while this one waited.
            found = self._read(folder)
            if found is None:
                log = folders.logs / f"{folder.name}.log"
                self._make(folder, interpreter, lock=lock, log=log, progress=progress, wheelhouse=wheelhouse)
                found = self._read(folder)
        if found is None:
            raise ToolchainError(f"the environment {folder} is missing, although it was just made", log=log)
        return found

    def _read(self, folder: Path) -> PythonEnvironment | None:
        """The environment in `folder`; None if it is incomplete, has other packages, or its Python was removed."""
        try:
            marker = read_json((folder / _MARKER).read_bytes())
        except (OSError, ValueError):
            return None
        python = folder / "bin" / "python"
        site_packages = next(folder.glob("lib/python3.*/site-packages"), None)
        if marker.get("identity") != self.identity or site_packages is None or not python.exists():
            return None
        return PythonEnvironment(python=python, site_packages=site_packages, identity=self.identity)

    def _make(
        self,
        folder: Path,
        interpreter: Interpreter,
        *,
        lock: int,
        log: Path,
        progress: Progress,
        wheelhouse: Path | None,
    ) -> None:
        """Make the environment in `folder`, whose `lock` the caller holds. On any error the folder is deleted."""
        log.unlink(missing_ok=True)
        _wipe(folder)
        try:
            install(
                interpreter=interpreter, folder=folder, requirements=self.requirements, wheelhouse=wheelhouse,
                what=self.title, log=log, progress=progress, pass_fds=(lock,),
            )  # fmt: skip
            write_file(folder / _MARKER, json.dumps({"identity": self.identity}).encode())
        except BaseException:
            with suppress(OSError):  # the first error is the one to report
                _wipe(folder)
            raise


def folders_of(stem: str, folders: Folders) -> list[Path]:
    """The folders of all environments with this stem, whatever their Python, packages and state."""
    if not folders.toolchains.is_dir():
        return []
    return sorted(each for each in folders.toolchains.iterdir() if each.name.startswith(f"{stem}-py") and each.is_dir())


def remove_environment(folder: Path) -> None:
    """Delete an environment. Raises StorageError if it is being made right now."""
    with exclusive(folder, timeout=5):
        _wipe(folder)


@contextmanager
def exclusive(folder: Path, *, timeout: float = _LOCK_TIMEOUT) -> Iterator[int]:
    """Lock `folder`; gives a file descriptor that programs which write into it must inherit.

    The lock of a killed process is released at once, but the pip that it started continues for a while. pip has
    inherited the second lock, so no other process touches the folder before it has ended.
    """
    with locked(folder.with_name(folder.name + ".lock"), what=f"the environment {folder.name}", timeout=timeout):
        handle = os.open(folder.with_name(folder.name + ".writers.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)


def _wipe(folder: Path) -> None:
    """Delete `folder`, its marker first: if killed in between, the rest does not look complete."""
    (folder / _MARKER).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
