"""A release of TensorFlow that is not a toolchain yet: its packages are resolved, locked with hashes, and installed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS, Toolchain
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment, identity_of
from tfaot_pkg.frontends.toolchain.pinned import (
    Interpreter,
    Pins,
    choose,
    clean_environment,
    failure,
    pip_command,
    remove_environment,
    venv_command,
)
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.temporary import temporary_folder

_TIMEOUT = 1800.0
_SHOWN = 8
_HEADER = "# Resolved by `tfaot-pkg toolchain try`.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`toolchain` is that of the nearest known release with the new version; `lock` is the text of the lock file.

    `note` says what is unknown about it; empty if a release of the same minor version is known.
    """

    toolchain: Toolchain
    environment: ToolchainEnvironment
    lock: str
    note: str


def nearest(version: str) -> tuple[Toolchain, str]:
    """The definition to try `version` with, and a note if it is that of another minor release.

    Raises ToolchainError for a release before the oldest known one.
    """
    wanted = Version(version)
    # By minor release: patch releases share a definition.
    older = [each for each in TOOLCHAINS.values() if Version(each.version).release[:2] <= wanted.release[:2]]
    if not older:
        oldest = next(iter(TOOLCHAINS))
        raise ToolchainError(
            f"TensorFlow {version} is older than {oldest}, the oldest release that this tool knows",
            hint=f"known toolchains: {', '.join(TOOLCHAINS)}",
        )
    # The newest of them: the way in which XLA's code is linked changes with minor releases, and rarely.
    base = older[-1]
    same = Version(base.version).release[:2] == wanted.release[:2]
    note = "" if same else f"it is not known how XLA's code of {version} is linked: tried as that of {base.version}"
    return replace(base, version=version, tested="before releases"), note


@contextmanager
def candidate(version: str, *, folders: Folders, progress: Progress, keep: bool = False) -> Iterator[Candidate]:
    """An environment of TensorFlow `version`, removed after the block unless `keep`.

    Raises ToolchainError (no such version, no suitable Python), NetworkError, TrustError, StorageError.
    """
    toolchain, note = nearest(version)
    interpreter = choose(toolchain)
    with temporary_folder(prefix="tfaot-try-") as folder:
        with progress.step(f"resolve TensorFlow {version}"):
            lock = _resolved(version, interpreter, folder, folders.logs / f"try-{version}.log")
        requirements = folder / "requirements.txt"
        requirements.write_text(lock)
        pins = Pins(
            title=f"TensorFlow {version}",
            stem=f"tried-tensorflow-{version}",
            requirements=requirements,
            identity=identity_of(toolchain, requirements),
        )
        made = pins.ensure(interpreter, folders=folders, progress=progress, wheelhouse=None)
        environment = ToolchainEnvironment(
            toolchain=toolchain, python=made.python, site_packages=made.site_packages, identity=made.identity
        )
        try:
            yield Candidate(toolchain=toolchain, environment=environment, lock=lock, note=note)
        finally:
            if not keep:
                with storage_errors(f"remove the environment of TensorFlow {version}"):
                    remove_environment(made.python.parent.parent)


def _resolved(version: str, interpreter: Interpreter, folder: Path, log: Path) -> str:
    """A lock file of all that TensorFlow `version` needs with `interpreter`, as pip resolves it."""
    report, pip = folder / "report.json", folder / "pip"
    # --dry-run and wheels only: building a source distribution would run its code, outside any sandbox.
    options: list[str | Path] = [
        "--dry-run",
        "--ignore-installed",
        "--only-binary",
        ":all:",
        "--quiet",
        "--report",
        report,
    ]
    quiet = ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    env = clean_environment(os.environ)
    log.unlink(missing_ok=True)
    try:
        # -I: neither the user's site-packages nor environment variables change what pip resolves.
        run(venv_command(interpreter, pip), env=env, timeout=_TIMEOUT, log=log)
        wanted = f"tensorflow-cpu=={version}"
        run([*pip_command(pip), "install", *options, *quiet, wanted], env=env, timeout=_TIMEOUT, log=log)
    except CommandFailed as error:
        # Only this message of pip says which versions exist.
        if found := re.search(r"tensorflow-cpu==\S+ \(from versions: ([^)]*)\)", error.output):
            known = [each for each in found[1].split(", ") if each != "none"]
            if known:
                raise ToolchainError(
                    f"there is no TensorFlow {version} for Python {interpreter.minor}",
                    hint=f"the index has: {', '.join(known[-_SHOWN:])}",
                    log=log,
                ) from error
        raise failure(error, what=f"TensorFlow {version}", log=log, wheelhouse=None) from error
    return lock_of(report.read_bytes(), log)


def lock_of(report: bytes, log: Path) -> str:
    """The lock file of pip's installation report (https://pip.pypa.io/en/stable/reference/installation-report/).

    Raises ToolchainError for a report of another form.
    """
    pinned = []
    try:
        for each in read_json(report)["install"]:
            # Validated, because they become lines of a file that pip reads, where anything else could be an option.
            name = canonicalize_name(each["metadata"]["name"], validate=True)
            version = Version(each["metadata"]["version"])
            digest = each["download_info"]["archive_info"]["hashes"]["sha256"]
            if not re.fullmatch("[0-9a-f]{64}", digest):
                raise ValueError(f"{name}: no SHA-256")
            pinned.append(f"{name}=={version} \\\n    --hash=sha256:{digest}\n")
    except (KeyError, TypeError, ValueError) as error:
        raise ToolchainError(f"pip's report of what it would install cannot be read: {error!r}", log=log) from error
    return _HEADER + "".join(sorted(pinned))
