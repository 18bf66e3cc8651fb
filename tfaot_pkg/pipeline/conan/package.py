"""Making the Conan package of a model from its recipe."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import ConanError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.storage import locked, refusal_in, refused, storage_errors, write_file
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.registry.trust.keys import FOLDER, PASSPHRASE

# Remotes are for uploads only (upload.py): a package must not depend on what they hold, or on whether they answer.
_NO_REMOTE = "--no-remote"
_SECRETS = (PASSPHRASE, FOLDER)
_CONAN_ARCH = {"x86_64": "x86_64", "aarch64": "armv8"}
ARCHITECTURES = {name: architecture for architecture, name in _CONAN_ARCH.items()}
"""Architectures by the names that Conan has for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanBinary:
    """One binary package: the static or the shared library."""

    shared: bool
    package_id: str
    package_revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanPackage:
    """A package in the Conan home: `reference` is NAME/VERSION."""

    reference: str
    recipe_revision: str
    binaries: tuple[ConanBinary, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "reference": self.reference,
            "recipe_revision": self.recipe_revision,
            "binaries": [
                {"shared": b.shared, "package_id": b.package_id, "package_revision": b.package_revision}
                for b in self.binaries
            ],
        }


def create(
    recipe_folder: Path,
    version: str,
    *,
    home: ConanHome,
    shared: Sequence[bool] = (False, True),
    prefix: Path | None = None,
    architecture: str = platform.machine(),
    progress: Progress,
) -> ConanPackage:
    """Make the binaries `shared` of the recipe in `recipe_folder` (that of conanfile.py), and build its test with each.

    `prefix` is the model's install tree, already built: it is packaged as it is (`conan export-pkg`). Without one the
    recipe builds the model (`conan create`). `architecture` is that of the targets (x86_64, aarch64); code that this
    machine cannot run is not tested. The same input gives the same revisions. Raises ConanError, StorageError.
    """
    recipe = [str(recipe_folder), "--version", version]
    made: list[tuple[bool, dict[str, str]]] = []
    with home.opened() as opened, progress.step("conan", total=1 + len(shared), unit="packages") as step:
        export_base(opened)
        step.advance(note="tfaot-pkg")
        for kind in shared:
            with temporary_folder(prefix="tfaot-conan-") as scratch:
                options = _options(kind, architecture, scratch)
                node = _node_of(opened.conan_json(*_action(prefix, scratch), *recipe, *options))
                made.append((kind, node))
            step.advance(note="shared" if kind else "static")
    # All binaries are of one recipe.
    reference, _, revision = made[0][1]["ref"].partition("#")
    binaries = tuple(
        ConanBinary(shared=kind, package_id=node["package_id"], package_revision=node["prev"]) for kind, node in made
    )
    return ConanPackage(reference=reference, recipe_revision=revision, binaries=binaries)


def export_base(home: OpenHome) -> None:
    """Put the `python_requires` base of all models' recipes into `home`. Raises ConanError."""
    home.conan("export", str(resources.base_recipe()), "--version", __version__, _NO_REMOTE)


# What Conan writes beside the package goes into `scratch`, because a recipe's folder may be a checkout.


def _action(prefix: Path | None, scratch: Path) -> list[str]:
    if prefix is None:
        return ["create", _NO_REMOTE]
    return ["export-pkg", _NO_REMOTE, "-of", str(scratch), "-c", f"user.tfaot:prefix={prefix.absolute()}"]


# A recipe's test is compiled and linked, but not run: the model's code runs in the sandbox only.
_RUN_NOTHING = ("-c", "tools.build.cross_building:can_run=False")


def _options(shared: bool, architecture: str, scratch: Path) -> list[str]:
    # An empty `-tf` leaves out the test.
    runs_here = architecture == platform.machine()
    test = ["-c", f"tools.cmake.cmake_layout:test_folder={scratch / 'test'}"] if runs_here else ["-tf", ""]
    return ["-s", f"arch={_CONAN_ARCH[architecture]}", "-o", f"&:shared={shared}", *_RUN_NOTHING, *test]


def _node_of(document: Mapping[str, object]) -> dict[str, str]:
    """The new package's node in the graph that Conan prints."""
    graph = document.get("graph")
    nodes = graph.get("nodes", {}) if isinstance(graph, dict) else {}
    for node in nodes.values():
        # The consumer, which is the command line, has no package revision.
        if node.get("package_id") and node.get("prev") and node.get("ref"):
            return {name: str(node[name]) for name in ("ref", "package_id", "prev")}
    raise ConanError("Conan did not say which package it made")


# Without this file Conan would add Conan Center.
_NO_REMOTES = '{"remotes": []}\n'
# No user presets: Conan would write CMakeUserPresets.json into the folder of the recipe.
_GLOBAL_CONF = """\
# Made by tfaot-pkg.
core:non_interactive = True
core.version_ranges:resolve_prereleases = False
tools.cmake.cmaketoolchain:generator = Ninja
tools.cmake.cmaketoolchain:user_presets =
"""
_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanHome:
    """The Conan home in the folder `root`. `log` gets the full output of every command."""

    root: Path
    log: Path

    @contextmanager
    def opened(self) -> Iterator[OpenHome]:
        """Hold the home for a few commands: made if it is missing, locked against other processes.

        Raises ConanError, StorageError.
        """
        with storage_errors(f"use the Conan home {self.root}"):
            lock = self.root.with_name(self.root.name + ".lock")
            with locked(lock, what=f"the Conan home {self.root}", timeout=3600):
                home = OpenHome(root=self.root, log=self.log)
                self._prepare(home)
                yield home

    def _prepare(self, home: OpenHome) -> None:
        for name, text in (("remotes.json", _NO_REMOTES), ("global.conf", _GLOBAL_CONF)):
            if not (self.root / name).is_file():
                write_file(self.root / name, text.encode())
        # A profile without a compiler was made when none was installed: Conan would use it for ever.
        profile = self.root / "profiles" / "default"
        if not profile.is_file() or "compiler=" not in profile.read_text():
            home.conan("profile", "detect", "--force")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHome:
    """A Conan home that this process holds."""

    root: Path
    log: Path

    def conan(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run `conan ARGUMENTS` and return its standard output. Raises ConanError.

        `env` are more variables for it; unlike arguments they are seen in no list of processes and no log.
        """
        try:
            with conan_folder() as scratch:
                # Its temporary files, and those of the compilers that it starts, go with it, also when it is killed.
                variables = {**conan_environment(self.root), **(env or {}), "TMPDIR": str(scratch)}
                return run(conan_argv(arguments), cwd=scratch, env=variables, log=self.log, timeout=_TIMEOUT).stdout
        except CommandFailed as error:
            # A full disk is no fault of the recipe, but Conan reports it only in the middle of its output.
            if line := refusal_in(error.output):
                raise refused(f"use the Conan home {self.root}", line) from error
            raise ConanError(
                f"conan {arguments[0]} failed ({error.reason}): {_reason(error.output)}",
                hint=f"to repeat it: CONAN_HOME={self.root} {shlex.join(error.argv)}",
                log=self.log,
            ) from error

    def conan_json(self, *arguments: str, env: Mapping[str, str] | None = None) -> Mapping[str, object]:
        """Run `conan ARGUMENTS --format=json`, Conan's stable interface. Raises ConanError."""
        text = self.conan(*arguments, "--format=json", env=env)
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ConanError(f"conan {arguments[0]} printed no JSON", log=self.log) from error
        if not isinstance(document, dict):
            raise ConanError(f"conan {arguments[0]} printed JSON of another form", log=self.log)
        return document


@contextmanager
def conan_folder() -> Iterator[Path]:
    """A temporary folder to run Conan in.

    The user's current folder may be that of a model's author. Python would import modules from it, and Conan would take
    a home, with its hooks, from a file `.conanrc` in it or above it, whatever CONAN_HOME says.
    """
    with temporary_folder(prefix="tfaot-conan-") as scratch:
        # Conan takes the nearest one. This one names no home, so CONAN_HOME holds.
        (scratch / ".conanrc").touch()
        yield scratch


def conan_argv(arguments: Sequence[str]) -> list[str]:
    """Conan of this Python: a script of that name on the PATH may be of another Python. Run it in `conan_folder`."""
    return [sys.executable, "-m", "conans.conan", *arguments]


def conan_environment(root: Path) -> dict[str, str]:
    """The environment of this process, with Conan at home in `root` and this Python's CMake and Ninja found first.

    It has no passphrase of a registry's keys: Conan and CMake need none.
    """
    # CONAN_... variables of the user would change what is made.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONAN", *_SECRETS))}
    path = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), kept.get("PATH")]))
    return {**kept, "CONAN_HOME": str(root), "PATH": path}


def _reason(output: str) -> str:
    """Conan's own message: from its last line that begins with ERROR on."""
    lines = output.rstrip().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("ERROR: ")]
    if not starts:
        return "\n".join(lines[-5:])
    return "\n".join(lines[starts[-1] :]).removeprefix("ERROR: ")
