"""Environments of toolchains: each TensorFlow release has its own virtual environment in the user's cache.

It is made on demand from pinned, hashed requirements (pinned.py) and shared by all projects. Instead, the user may name
an interpreter that has TensorFlow (decision 001).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.toolchain.definition import OWN, TOOLCHAINS, Toolchain, toolchain
from tfaot_pkg.frontends.toolchain.pinned import (
    Interpreter,
    Pins,
    PythonEnvironment,
    choose,
    folders_of,
    inspect,
    remove_environment,
)
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.keys import key_of, sha256_bytes
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors, write_file

_REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
_NOTICES = ("THIRD_PARTY_NOTICES.txt", "include/LICENSE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainEnvironment(PythonEnvironment):
    """A Python that has TensorFlow; of the toolchain OWN, a front-end's.

    `identity` is the same on every machine for the same pinned packages; for a user's interpreter it depends on
    TensorFlow's version only, but differs from those of pinned ones. `site_packages` contains the `tensorflow` folder.
    """

    toolchain: Toolchain

    @property
    def tensorflow_folder(self) -> Path:
        return self.site_packages / "tensorflow"

    @property
    def include(self) -> Path:
        """The include folder for the sources of XLA's runtime."""
        return self.tensorflow_folder / "include"

    @property
    def notices(self) -> tuple[Path, ...]:
        """Files with the licences of TensorFlow and of what it bundles, such as Eigen and Abseil."""
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
    """The environment of TensorFlow `version`, made now if it is missing (a 250 MB download, about a minute).

    `wheelhouse` is a folder of wheels to install from, without the network.
    Raises ToolchainError, NetworkError, TrustError, StorageError.
    """
    wanted = toolchain(version)
    return ensure_from(wanted, requirements_file(wanted), folders=folders, progress=progress, wheelhouse=wheelhouse)


def ensure_from(
    wanted: Toolchain, requirements: Path, *, folders: Folders, progress: Progress, wheelhouse: Path | None = None
) -> ToolchainEnvironment:
    """`ensure` for any toolchain and lock file."""
    pins = _pins(wanted, requirements)
    # Before `choose`, which starts interpreters: an environment of any suitable Python will do.
    for found in pins.environments(folders):
        return _environment(wanted, found)
    made = pins.ensure(choose(wanted), folders=folders, progress=progress, wheelhouse=wheelhouse)
    return _environment(wanted, made)


def external(python: Path, *, folders: Folders | None = None) -> ToolchainEnvironment:
    """The environment of an interpreter that the user names and that has TensorFlow.

    Its answer is kept below `folders` (the user's, by default) until it or its packages change.
    Raises ToolchainError if it does not run, has no TensorFlow, or one of an unknown version.
    """
    # Not resolve(): the python of a virtual environment is a link that leads out of it.
    path = Path(os.path.abspath(python.expanduser()))
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
        # The full version, with a local part: a build of somebody's own may compile differently.
        identity=key_of("toolchain", 1, {"tensorflow": interpreter.tensorflow, "requirements": "external"}),
        site_packages=Path(interpreter.site_packages),
    )


def own(found: PythonEnvironment) -> ToolchainEnvironment:
    """The environment `found` of a front-end, as the toolchain of the models that it reads."""
    return _environment(OWN, found)


def installed(folders: Folders) -> list[ToolchainEnvironment]:
    """The complete environments of known toolchains, sorted by version and folder."""
    return [
        _environment(wanted, found)
        for wanted in TOOLCHAINS.values()
        for found in _pins(wanted, requirements_file(wanted)).environments(folders)
    ]


def remove(version: str, *, folders: Folders) -> list[Path]:
    """Delete all environments of TensorFlow `version`, also incomplete and outdated ones; return their folders.

    Raises ToolchainError if there is none, StorageError if one is being made right now.
    """
    present = folders_of(_stem(version), folders)
    if not present:
        raise ToolchainError(
            f"there is no environment of TensorFlow {version} in {folders.toolchains}",
            hint="`tfaot-pkg toolchain list` lists them",
        )
    with storage_errors(f"remove the toolchain {version}"):
        for folder in present:
            remove_environment(folder)
    return present


def _stem(version: str) -> str:
    return f"tensorflow-{version}"


def _pins(wanted: Toolchain, requirements: Path) -> Pins:
    return Pins(
        title=f"TensorFlow {wanted.version}",
        stem=_stem(wanted.version),
        requirements=requirements,
        identity=identity_of(wanted, requirements),
    )


def _environment(wanted: Toolchain, found: PythonEnvironment) -> ToolchainEnvironment:
    return ToolchainEnvironment(
        toolchain=wanted, python=found.python, site_packages=found.site_packages, identity=found.identity
    )


def _release(version: str) -> str:
    """`2.17.1` of `2.17.1+local`: other builds of a release work as the release."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _remembered(path: Path, folders: Folders) -> Interpreter:
    """The interpreter's answer, from the cache if nothing has changed since."""
    note = folders.toolchains / "external" / f"{sha256_bytes(os.fsencode(path))[:32]}.json"
    try:
        kept = read_json(note.read_bytes())
        if kept["stamp"] == _stamp(path, kept["interpreter"]["site_packages"]):
            return Interpreter(**{**kept["interpreter"], "path": path})
    # A damaged or older note is as good as none: the interpreter is asked again.
    except (OSError, ValueError, KeyError, TypeError):
        pass
    interpreter = inspect(path)
    # Without TensorFlow there is no folder whose change would show that it was installed.
    if interpreter.tensorflow:
        fields = {**asdict(interpreter), "path": str(path)}
        kept = {"stamp": _stamp(path, interpreter.site_packages), "interpreter": fields}
        with storage_errors(f"write {note}"):
            write_file(note, json.dumps(kept).encode())
    return interpreter


def _stamp(path: Path, site_packages: str) -> list[int]:
    """Values that change with the interpreter and with the packages beside its TensorFlow."""
    # The link and its target: an upgrade of Python may replace either.
    return [path.stat().st_mtime_ns, path.lstat().st_mtime_ns, Path(site_packages).stat().st_mtime_ns]
