"""Making the Conan package of a model from its recipe."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg._version import __version__
from tfaot_pkg.conan.home import ConanHome, OpenHome
from tfaot_pkg.errors import ConanError
from tfaot_pkg.progress import Progress
from tfaot_pkg.temporary import temporary_folder

# Remotes are for uploads (upload.py): what is made must not depend on what they hold, or whether they answer.
_NO_REMOTE = "--no-remote"
_CONAN_ARCH = {"x86_64": "x86_64", "aarch64": "armv8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanBinary:
    """One binary package: the static or the shared library."""

    shared: bool
    package_id: str
    package_revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanPackage:
    """What lies in the Conan home: `reference` is NAME/VERSION."""

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
    recipe builds the model (`conan create`). `architecture` is the targets' (x86_64, aarch64); what this machine
    cannot run gets no test. The same input gives the same revisions. Raises ConanError, StorageError.
    """
    recipe = [str(recipe_folder), "--version", version]
    made: list[tuple[bool, dict[str, str]]] = []
    with home.opened() as opened, progress.step("conan", total=1 + len(shared), unit="package") as step:
        export_base(opened)
        step.advance(note="tfaot-pkg")
        for kind in shared:
            with temporary_folder(prefix="tfaot-conan-") as scratch:
                options = _options(kind, architecture, scratch)
                node = _node_of(opened.conan_json(*_action(prefix, scratch), *recipe, *options))
                made.append((kind, node))
            step.advance(note="shared" if kind else "static")
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
    runs_here = architecture == platform.machine()
    test = ["-c", f"tools.cmake.cmake_layout:test_folder={scratch / 'test'}"] if runs_here else ["-tf", ""]
    return ["-s", f"arch={_CONAN_ARCH[architecture]}", "-o", f"&:shared={shared}", *_RUN_NOTHING, *test]


def _node_of(document: Mapping[str, object]) -> dict[str, str]:
    """The node of what was made, in the graph that Conan prints."""
    graph = document.get("graph")
    nodes = graph.get("nodes", {}) if isinstance(graph, dict) else {}
    for node in nodes.values():
        if node.get("package_id") and node.get("prev") and node.get("ref"):
            return {name: str(node[name]) for name in ("ref", "package_id", "prev")}
    raise ConanError("Conan did not say which package it made")
