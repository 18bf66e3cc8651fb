"""Environments of peers: made on demand beside those of toolchains, from pinned and hashed requirements.

As toolchain/environment.py, for packages that are no TensorFlow.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.folders import Folders
from tfaot_pkg.keys import key_of, sha256_bytes
from tfaot_pkg.progress import Progress
from tfaot_pkg.storage import locked, storage_errors, write_file
from tfaot_pkg.toolchain.installation import install, remove_folder
from tfaot_pkg.toolchain.interpreter import inspect

_REQUIREMENTS = Path(__file__).resolve().parent / "requirements"
_MARKER = ".complete"
_LOCK_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerEnvironment:
    """A virtual environment that holds what a lock file pins; `identity` is that of the lock file (for keys)."""

    folder: Path
    identity: str
    minor: str

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        return self.programs / "python"

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / f"python{self.minor}" / "site-packages"


def requirements_file(packages: str) -> Path:
    return _REQUIREMENTS / f"{packages}.txt"


def installed_here(distributions: Sequence[str]) -> PeerEnvironment | None:
    """The environment of this very process, where it has all of `distributions` (by an extra of this package)."""
    try:
        versions = {name: importlib.metadata.version(name) for name in distributions}
    except importlib.metadata.PackageNotFoundError:
        return None
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    return PeerEnvironment(folder=Path(sys.prefix), identity=key_of("peer", 1, versions), minor=minor)


def ensure_packages(
    packages: str, *, interpreter: Path, folders: Folders, progress: Progress, wheelhouse: Path | None = None
) -> PeerEnvironment:
    """The environment of the lock file `packages`, made now with the Python `interpreter` where it is missing.

    Raises NetworkError, TrustError, StorageError, ToolchainError.
    """
    requirements = requirements_file(packages)
    identity = key_of("peer", 1, {"requirements": sha256_bytes(requirements.read_bytes())})
    minor = inspect(interpreter).minor
    folder = folders.toolchains / f"peer-{packages}-py{minor}-{identity[:12]}"
    found = PeerEnvironment(folder=folder, identity=identity, minor=minor)
    with storage_errors(f"make the environment {folder}"):
        with locked(folder.with_name(folder.name + ".lock"), what=folder.name, timeout=_LOCK_TIMEOUT):
            if not _complete(found):
                _make(found, packages, interpreter, folders, progress, wheelhouse)
    return found


def _complete(environment: PeerEnvironment) -> bool:
    try:
        marker = json.loads((environment.folder / _MARKER).read_bytes())
    except (OSError, ValueError):
        return False
    return marker == {"identity": environment.identity} and environment.python.exists()


def _make(
    environment: PeerEnvironment,
    packages: str,
    interpreter: Path,
    folders: Folders,
    progress: Progress,
    wheelhouse: Path | None,
) -> None:
    log = folders.logs / f"peer-{packages}.log"
    log.unlink(missing_ok=True)
    remove_folder(environment.folder, marker=_MARKER)
    try:
        install(
            interpreter=interpreter, folder=environment.folder, requirements=requirements_file(packages),
            wheelhouse=wheelhouse, what=f"the peer {packages}", log=log, progress=progress,
        )  # fmt: skip
        write_file(environment.folder / _MARKER, json.dumps({"identity": environment.identity}).encode())
    except BaseException:
        with suppress(OSError):  # what went wrong matters more than what could not be wiped
            remove_folder(environment.folder, marker=_MARKER)
        raise
