"""Small packages in a real registry, and the command line over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from tests.registry.conftest import Package, package_of
from tests.registry.tiny import tiny_files
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def registry(tmp_path: Path) -> FolderRegistry:
    return FolderRegistry.create(tmp_path / "registry")


Publish = Callable[..., RegistryEntry]


@pytest.fixture
def publish(registry: FolderRegistry, tmp_path: Path) -> Publish:
    """`publish("digits", "1.0", needs=["tfaot-model-wine>=1"], targets=(...))`."""

    def add(model: str, version: str, *, needs: tuple[str, ...] = (), **fields: Any) -> RegistryEntry:
        package: Package = package_of(
            tmp_path, model, version, tiny_files(model, version), dependencies=needs, **fields
        )
        return registry.publish(package.entry, package.blobs).entry

    return add


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


Tool = Callable[..., Ended]


@pytest.fixture
def tool(tmp_path: Path, tfaot_home: Path) -> Tool:
    """`tool("resolve", "digits", code=16)` in the folder `tmp_path / "project"`; asserts the exit code."""
    project = tmp_path / "project"
    project.mkdir()

    def call(*words: str | Path, code: int = 0, env: Mapping[str, str] | None = None) -> Ended:
        variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})}
        done = run_command(words, cwd=project, env=variables, timeout=100)
        assert done.returncode == code, done.stdout + done.stderr
        return Ended(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    return call
