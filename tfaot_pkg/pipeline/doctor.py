"""Checks whether this machine meets the requirements of builds."""

from __future__ import annotations

import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS
from tfaot_pkg.frontends.toolchain.environment import installed
from tfaot_pkg.ground.documents import fields_of
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.sandbox import Level, reached
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.settings_file import Settings
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.native.emulator import emulator_of
from tfaot_pkg.pipeline.conan.package import conan_argv, conan_folder

_CONFINE = {
    Level.NAMESPACES: "",
    Level.LANDLOCK: "install bubblewrap and allow user namespaces: then a model cannot see which files exist",
    Level.NONE: "install bubblewrap and libseccomp, or allow user namespaces; until then models are built only with "
    "--unconfined",
}
_ROOM = 3 << 30  # bytes: a toolchain takes 1.2 GB, and its installation about as much temporarily


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check. `needed`: builds fail without it. `hint`: advice if it is not good."""

    subject: str
    good: bool
    finding: str
    needed: bool = False
    hint: str = ""

    def as_dict(self) -> dict[str, object]:
        return {**fields_of(self), "hint": "" if self.good else self.hint}


def examine(folders: Folders) -> list[Finding]:
    """Run all checks; nothing is installed or changed."""
    return [
        _compiler(folders),
        *_toolchains(folders),
        _conan(),
        _cmake(),
        _targets(),
        _confinement(),
        _room(folders),
        _settings(folders),
    ]


def _settings(folders: Folders) -> Finding:
    try:
        said = ", ".join(Settings.of_file(folders).lines) or "all have their defaults"
    except TfaotError as error:
        return Finding(subject="settings", good=False, finding=error.message, hint=error.hint)
    return Finding(subject="settings", good=True, finding=f"{folders.settings_file}: {said}")


def _compiler(folders: Folders) -> Finding:
    try:
        compiler = find_compiler(platform.machine(), log=folders.logs / "doctor.log", output=lambda _: None)
    except TfaotError as error:
        return Finding(subject="compiler", good=False, finding=error.message, needed=True, hint=error.hint)
    return Finding(subject="compiler", good=True, finding=compiler.identity, needed=True)


def _toolchains(folders: Folders) -> list[Finding]:
    present = {made.toolchain.version: made for made in installed(folders)}
    return [
        Finding(
            subject="tensorflow",
            good=version in present,
            finding=f"{version}: {present[version].python if version in present else 'not installed'}",
            hint="the first build that needs a toolchain installs it; to do so now: tfaot-pkg toolchain add VERSION",
        )
        for version in TOOLCHAINS
    ]


def _conan() -> Finding:
    try:
        # As a module of this Python, as in builds: a conan on the PATH may be another version.
        with conan_folder() as folder:
            version = run(conan_argv(["--version"]), cwd=folder, timeout=60).stdout.strip()
    except CommandFailed as error:
        return Finding(subject="conan", good=False, finding=str(error), hint="pip install conan")
    return Finding(subject="conan", good=True, finding=version)


def _cmake() -> Finding:
    # pip installs cmake and ninja there, and a virtual environment need not be on the PATH.
    beside = Path(sys.executable).parent
    found = {name: shutil.which(name, path=str(beside)) or shutil.which(name) for name in ("cmake", "ninja")}
    missing = [name for name, path in found.items() if path is None]
    text = f"missing: {', '.join(missing)}" if missing else ", ".join(map(str, found.values()))
    return Finding(subject="cmake", good=not missing, finding=text, hint="pip install cmake ninja")


def _targets() -> Finding:
    runnable = [target.name for target in TARGETS.values() if runs_here(target)]
    emulators = {target.name: emulator_of(target) for target in TARGETS.values() if not runs_here(target)}
    emulated = [f"; {emulator} runs {name}" for name, emulator in emulators.items() if emulator is not None]
    finding = f"this CPU runs {', '.join(runnable) or 'none'}{''.join(emulated)}"
    return Finding(subject="targets", good=bool(runnable), finding=finding)


def _confinement() -> Finding:
    """The level of the sandbox for models and for code compiled from them (sandbox/)."""
    found = reached()
    return Finding(
        subject="confinement",
        good=found.level is Level.NAMESPACES,
        finding="; ".join((found.level.value, *found.reasons)),
        needed=found.level is Level.NONE,
        hint=_CONFINE[found.level],
    )


def _room(folders: Folders) -> Finding:
    place = folders.cache
    # The cache may not exist before the first build; nothing is created here.
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    return Finding(
        subject="disk",
        good=free >= _ROOM,
        finding=f"{free / (1 << 30):.0f} GiB free for {folders.cache}",
        hint="set TFAOT_HOME to a folder with more room",
    )
