"""Environments of peers: made on demand beside those of toolchains, or this very process's."""

from __future__ import annotations

import importlib.metadata
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tfaot_pkg.keys import key_of, sha256_bytes
from tfaot_pkg.pipeline import Pipeline
from tfaot_pkg.toolchain.interpreter import inspect
from tfaot_pkg.toolchain.pinned import Pins, PythonEnvironment

_REQUIREMENTS = Path(__file__).resolve().parent / "requirements"


def requirements_file(packages: str) -> Path:
    return _REQUIREMENTS / f"{packages}.txt"


def installed_here(distributions: Sequence[str]) -> PythonEnvironment | None:
    """The environment of this very process, where it has all of `distributions` (by an extra of this package)."""
    try:
        versions = {name: importlib.metadata.version(name) for name in distributions}
    except importlib.metadata.PackageNotFoundError:
        return None
    return PythonEnvironment(
        python=Path(sys.executable),
        site_packages=Path(sysconfig.get_path("purelib")),
        identity=key_of("peer", 1, versions),
    )


def ensure_packages(packages: str, interpreter: Path, pipeline: Pipeline) -> PythonEnvironment:
    """The environment of the lock file `packages`, made now with the Python `interpreter` where it is missing.

    Raises NetworkError, TrustError, StorageError, ToolchainError.
    """
    requirements = requirements_file(packages)
    pins = Pins(
        title=f"the peer {packages}",
        stem=f"peer-{packages}",
        requirements=requirements,
        identity=key_of("peer", 1, {"requirements": sha256_bytes(requirements.read_bytes())}),
    )
    return pins.ensure(
        inspect(interpreter), folders=pipeline.folders, progress=pipeline.progress, wheelhouse=pipeline.wheelhouse
    )
