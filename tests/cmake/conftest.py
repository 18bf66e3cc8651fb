"""A registry with two fake models that compile in a second, and projects that require them from CMake."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import completed
from tests.package.conftest import build_fake_libraries, make_contents, make_spec, write_tree
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.registry.archive import pack
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.spec.rules import package_name

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent


def add_model(registry: FolderRegistry, folder: Path, name: str, version: str, slope: float) -> RegistryEntry:
    """Publish a fake model that multiplies by `slope`."""
    libraries = folder / f"{name}-{version}"
    libraries.mkdir()
    build_fake_libraries(libraries, name, slope=slope, version=version)
    spec = make_spec(name, version=version)
    contents = make_contents(spec, libraries=libraries)
    write_tree(contents, libraries / "tree")
    archive = libraries / "archive"
    with archive.open("wb") as file:
        tree = pack(libraries / "tree", file)
    entry = RegistryEntry(
        name=package_name(name),
        model=name,
        version=version,
        key=key_of("test", 1, {"name": name, "version": version}),
        tree=tree.digest,
        toolchain="tensorflow 2.17.1",
        targets=spec.compilation.targets,
        batch_sizes=spec.compilation.batch_sizes,
        rows_independent=True,
        signature=contents.signature,
        license=spec.model.license,
        description=spec.model.description,
        blobs={"prefix": BlobRef.of(archive)},
    )
    return registry.publish(entry, {"prefix": archive}).entry


@pytest.fixture
def registry(tmp_path: Path) -> FolderRegistry:
    """With affine 1.2.0 (y = 2 x + b)."""
    made = FolderRegistry.create(tmp_path / "a registry")
    add_model(made, tmp_path, "affine", "1.2.0", 2)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What CMake printed, in lines that were not wrapped, and how it ended."""

    code: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project in a folder of its own; `calls` counts how often the tool was run for it."""

    source: Path
    build: Path
    counter: Path
    env: Mapping[str, str]

    def write(self, text: str, *, languages: str = "NONE") -> None:
        (self.source / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.15)\nproject(p LANGUAGES {languages})\nfind_package(tfaot-pkg REQUIRED)\n{text}\n"
        )

    def argv(self, *options: str) -> list[str]:
        tool = f"{self.source}/tool"
        known = (f"-Dtfaot-pkg_DIR={resources.cmake_package()}", f"-DTFAOT_PKG_COMMAND={tool}")
        return [f"{TOOLS}/cmake", "-S", str(self.source), "-B", str(self.build), *known, *options]

    def configure(self, *options: str, code: int = 0) -> Configured:
        argv = self.argv(*options)
        done = completed(argv, env=self.env, timeout=100)
        text = done.stdout + done.stderr
        assert done.returncode == code, text
        return Configured(code=done.returncode, text=text)

    def calls(self) -> int:
        return len(self.counter.read_text().splitlines()) if self.counter.exists() else 0


MakeProject = Callable[[str], Project]


@pytest.fixture
def project(tmp_path: Path, tfaot_home: Path) -> MakeProject:
    """`project("name")`: an empty project whose tool counts its calls."""

    def make(name: str) -> Project:
        source = tmp_path / f"{name} with a blank"
        source.mkdir()
        counter = source / "calls"
        tool = source / "tool"
        tool.write_text(f'#!/bin/sh\necho "$*" >> "{counter}"\nexec "{sys.executable}" -m tfaot_pkg "$@"\n')
        tool.chmod(0o755)
        env = {
            "PATH": f"{TOOLS}{os.pathsep}/usr/bin:/bin",
            "HOME": "/nonexistent",
            "TFAOT_HOME": str(tfaot_home),
            "PYTHONPATH": str(REPOSITORY),
        }
        return Project(source=source, build=source / "build", counter=counter, env=env)

    return make
