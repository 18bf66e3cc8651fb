"""Environments of toolchains: a TensorFlow release in a virtual environment of its own, in the user's cache.

One is made on demand from pinned, hashed requirements and shared by all projects; or the user names an interpreter
that has TensorFlow already. A virtual environment cannot be moved, so it is made in place, under a lock, and counts
only once its marker is there, which is written last: what a killed run leaves is wiped by the next one.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.folders import Folders
from tfaot_pkg.keys import key_of, sha256_bytes
from tfaot_pkg.progress import Progress
from tfaot_pkg.storage import locked, storage_errors, write_file
from tfaot_pkg.toolchain.definition import TOOLCHAINS, Toolchain, toolchain
from tfaot_pkg.toolchain.installation import install, remove_folder
from tfaot_pkg.toolchain.interpreter import Interpreter, choose, inspect

_REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
_MARKER = ".complete"
_LOCK_TIMEOUT = 3600.0
_NOTICES = ("THIRD_PARTY_NOTICES.txt", "include/LICENSE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainEnvironment:
    """A Python that has TensorFlow.

    `identity` (64 hexadecimal digits, for keys) is the same on every machine for the same pinned packages;
    for a user's interpreter it depends on TensorFlow's version and on its not being one of ours.
    `site_packages` holds the `tensorflow` folder.
    """

    toolchain: Toolchain
    python: Path
    identity: str
    site_packages: Path

    @property
    def tensorflow_folder(self) -> Path:
        return self.site_packages / "tensorflow"

    @property
    def include(self) -> Path:
        """The include folder for the sources of XLA's runtime."""
        return self.tensorflow_folder / "include"

    @property
    def runtime_sources(self) -> Path:
        """The sources of XLA's CPU runtime, as TensorFlow's wheel carries them."""
        return self.tensorflow_folder / "xla_aot_runtime_src"

    @property
    def notices(self) -> tuple[Path, ...]:
        """Files with the licences of TensorFlow and of all that it carries (Eigen, Abseil and others among them)."""
        return tuple(path for path in (self.tensorflow_folder / name for name in _NOTICES) if path.is_file())


def requirements_file(wanted: Toolchain) -> Path:
    """The pinned and hashed requirements of a toolchain."""
    return _REQUIREMENTS / f"tensorflow-{wanted.version}.txt"


def identity_of(wanted: Toolchain, requirements: Path) -> str:
    """The identity of an environment made from `requirements`: the same on every machine."""
    text = requirements.read_bytes()
    return key_of("toolchain", 1, {"tensorflow": wanted.version, "requirements": sha256_bytes(text)})


def ensure(
    version: str, *, folders: Folders, progress: Progress, wheelhouse: Path | None = None
) -> ToolchainEnvironment:
    """The environment of TensorFlow `version`, made now where it is missing (a 250 MB download, about a minute).

    `wheelhouse` is a folder of wheels to install from, with no network.
    Raises ToolchainError, NetworkError, TrustError, StorageError.
    """
    wanted = toolchain(version)
    return ensure_from(wanted, requirements_file(wanted), folders=folders, progress=progress, wheelhouse=wheelhouse)


def ensure_from(
    wanted: Toolchain, requirements: Path, *, folders: Folders, progress: Progress, wheelhouse: Path | None = None
) -> ToolchainEnvironment:
    """`ensure` for any toolchain and lock file."""
    identity = identity_of(wanted, requirements)
    found = _complete(wanted, identity, folders)
    if found is not None:
        return found
    if wheelhouse is not None and not wheelhouse.is_dir():
        raise ToolchainError(f"the wheelhouse {wheelhouse} is no folder", hint="name a folder with wheels in it")
    interpreter = choose(wanted)
    folder = folders.toolchains / _folder_name(wanted, interpreter.minor, identity)
    with storage_errors(f"make the toolchain {folder}"), _exclusive(folder) as lock:
        found = _read(folder, wanted, identity)
        if found is None:
            found = _make(
                wanted,
                requirements,
                interpreter=interpreter,
                folder=folder,
                log=folders.logs / f"toolchain-{folder.name}.log",
                progress=progress,
                wheelhouse=wheelhouse,
                lock=lock,
            )
    return found


def external(python: Path, *, folders: Folders | None = None) -> ToolchainEnvironment:
    """The environment of an interpreter that the user names and that has TensorFlow.

    What it answered is kept below `folders` (the user's, by default) until it or its packages change.
    Raises ToolchainError where it does not run, has no TensorFlow, or one of an unknown version.
    """
    path = Path(os.path.abspath(python.expanduser()))  # links stay: a virtual environment's python is one
    if not path.is_file():
        raise ToolchainError(f"there is no Python at {path}", hint="name the python program itself: ENV/bin/python")
    interpreter = _remembered(path, folders or Folders.of_user())
    if not interpreter.tensorflow:
        raise ToolchainError(
            f"{path} (Python {interpreter.python}) has no TensorFlow",
            hint=f"install one of {', '.join(TOOLCHAINS)} there, or leave --toolchain-python out",
        )
    wanted = toolchain(_release(interpreter.tensorflow))
    return ToolchainEnvironment(
        toolchain=wanted,
        python=path,
        identity=key_of("toolchain", 1, {"tensorflow": interpreter.tensorflow, "requirements": "external"}),
        site_packages=Path(interpreter.site_packages),
    )


def installed(folders: Folders) -> list[ToolchainEnvironment]:
    """The complete environments of known toolchains, sorted by version and folder."""
    found = []
    for wanted in TOOLCHAINS.values():
        identity = identity_of(wanted, requirements_file(wanted))
        found += [each for folder in _folders(wanted.version, folders) if (each := _read(folder, wanted, identity))]
    return found


def remove(version: str, *, folders: Folders) -> list[Path]:
    """Delete all environments of TensorFlow `version`, incomplete and outdated ones too; return their folders.

    Raises ToolchainError where there is none, StorageError where one is being made right now.
    """
    present = _folders(version, folders)
    if not present:
        raise ToolchainError(
            f"there is no environment of TensorFlow {version} in {folders.toolchains}",
            hint="`tfaot-pkg toolchain list` names those that there are",
        )
    with storage_errors(f"remove the toolchain {version}"):
        for folder in present:
            with _exclusive(folder, timeout=5):
                remove_folder(folder, marker=_MARKER)
    return present


def _folder_name(wanted: Toolchain, minor: str, identity: str) -> str:
    return f"tensorflow-{wanted.version}-py{minor}-{identity[:12]}"


def _folders(version: str, folders: Folders) -> list[Path]:
    """All environments of `version`, whatever their Python, identity and state."""
    if not folders.toolchains.is_dir():
        return []
    prefix = f"tensorflow-{version}-py"
    return sorted(each for each in folders.toolchains.iterdir() if each.name.startswith(prefix) and each.is_dir())


def _complete(wanted: Toolchain, identity: str, folders: Folders) -> ToolchainEnvironment | None:
    """An environment that is there already, made by whichever Python."""
    for folder in _folders(wanted.version, folders):
        found = _read(folder, wanted, identity)
        if found is not None:
            return found
    return None


def _read(folder: Path, wanted: Toolchain, identity: str) -> ToolchainEnvironment | None:
    """The environment in `folder`; None where it is incomplete, of other packages, or has lost its Python."""
    try:
        marker = json.loads((folder / _MARKER).read_bytes())
    except (OSError, ValueError):
        return None
    python = folder / "bin" / "python"
    if marker.get("identity") != identity or marker.get("python") not in SpecifierSet(wanted.python):
        return None
    if not python.exists():  # the Python that it was made with has been removed from the machine
        return None
    minor = ".".join(marker["python"].split(".")[:2])
    site_packages = folder / "lib" / f"python{minor}" / "site-packages"
    return ToolchainEnvironment(toolchain=wanted, python=python, identity=identity, site_packages=site_packages)


def _make(
    wanted: Toolchain,
    requirements: Path,
    *,
    interpreter: Interpreter,
    folder: Path,
    log: Path,
    progress: Progress,
    wheelhouse: Path | None,
    lock: int,
) -> ToolchainEnvironment:
    """Fill `folder`, whose `lock` the caller holds; whatever goes wrong, nothing of it stays."""
    identity = identity_of(wanted, requirements)
    log.unlink(missing_ok=True)
    remove_folder(folder, marker=_MARKER)
    try:
        install(
            interpreter=interpreter.path,
            folder=folder,
            requirements=requirements,
            wheelhouse=wheelhouse,
            what=f"TensorFlow {wanted.version}",
            log=log,
            progress=progress,
            pass_fds=(lock,),
        )
        marker = {"tensorflow": wanted.version, "identity": identity, "python": interpreter.python}
        write_file(folder / _MARKER, json.dumps(marker).encode())
    except BaseException:
        with suppress(OSError):  # what went wrong matters more than what could not be wiped
            remove_folder(folder, marker=_MARKER)
        raise
    made = _read(folder, wanted, identity)
    if made is None:
        raise ToolchainError(f"the toolchain {folder} is not there although it was made", log=log)
    return made


@contextmanager
def _exclusive(folder: Path, *, timeout: float = _LOCK_TIMEOUT) -> Iterator[int]:
    """Hold `folder` alone; gives a file handle that programs which write into it must inherit.

    The lock of a killed process is free at once, but the pip that it started goes on for a while. It has inherited
    the second lock, so nobody touches the folder before it has ended.
    """
    with locked(folder.with_name(folder.name + ".lock"), what=f"the toolchain {folder.name}", timeout=timeout):
        handle = os.open(folder.with_name(folder.name + ".writers.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)


def _release(version: str) -> str:
    """`2.17.1` of `2.17.1+local`: who built it does not matter here."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _remembered(path: Path, folders: Folders) -> Interpreter:
    """What the interpreter says about itself, from a note of an earlier run where nothing has changed since."""
    note = folders.toolchains / "external" / f"{sha256_bytes(os.fsencode(path))[:32]}.json"
    try:
        kept = json.loads(note.read_bytes())
        if kept["stamp"] == _stamp(path, kept["interpreter"]["site_packages"]):
            return Interpreter(**{**kept["interpreter"], "path": path})
    except (OSError, ValueError, KeyError, TypeError):
        pass
    interpreter = inspect(path)
    if interpreter.tensorflow:
        fields = {**asdict(interpreter), "path": str(path)}
        kept = {"stamp": _stamp(path, interpreter.site_packages), "interpreter": fields}
        with storage_errors(f"write {note}"):
            write_file(note, json.dumps(kept).encode())
    return interpreter


def _stamp(path: Path, site_packages: str) -> list[int]:
    """Changes with the interpreter and with what is installed beside its TensorFlow."""
    return [path.stat().st_mtime_ns, path.lstat().st_mtime_ns, Path(site_packages).stat().st_mtime_ns]
