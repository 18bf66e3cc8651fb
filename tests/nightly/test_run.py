"""A night of real builds, on this machine's executor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.bad_input.conftest import write_spec
from tests.nightly.nights import coordinator, home_of, task_of, to_build
from tfaot_pkg.nightly.types import Policy
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]


def test_a_verified_model_is_published_under_a_version_that_names_toolchain_and_build(
    shared_home: Path, models: Mapping[str, Path], tmp_path: Path
) -> None:
    folders = home_of(shared_home)
    decision = to_build(task_of(write_spec(tmp_path / "spec.yaml", models["dense"]), "dense"), folders)
    night = coordinator(tmp_path, folders).run(lambda: [decision])
    (outcome,) = night.outcomes
    assert outcome.kind == "published", outcome
    assert night.exit_code == 0
    (entry,) = FolderRegistry.open(tmp_path / "registry").entries("tfaot-model-dense")
    assert (entry.version, entry.key) == ("1.0.0+tf2.17.1.b1", decision.key)
    assert outcome.figures is not None and outcome.figures.library_size > 0
    assert 0 < outcome.figures.error < 1e-4
    assert set(outcome.figures.latency) == {"x86-64-v3"}


@pytest.mark.nightly
def test_a_package_beyond_the_limit_is_its_models_fault_wherever_it_is_met(
    shared_home: Path, models: Mapping[str, Path], tmp_path: Path
) -> None:
    """Here it is met while the package is packed: the build itself is in the cache."""
    folders = home_of(shared_home)
    task = task_of(write_spec(tmp_path / "spec.yaml", models["dense"]), "dense")
    decision = to_build(task, folders)
    assert coordinator(tmp_path / "first", folders).run(lambda: [decision]).exit_code == 0
    policy = Policy(timeout=120, output=20 << 10)
    (outcome,) = coordinator(tmp_path / "second", folders, policy=policy).run(lambda: [decision]).outcomes
    assert (outcome.kind, outcome.error_class, outcome.attempts) == ("build failed", "output too large", 1)
