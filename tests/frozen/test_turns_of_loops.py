"""Loops that end when values say so: the error names the loop and the way out, and `max_iterations` is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tests.coverage import verified
from tests.kept import saved_models
from tests.toolchains import VERSIONS

HERE = Path(__file__).resolve().parent

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

WriteSpec = Callable[..., Path]


@pytest.fixture
def spec(shared_home_folder: Path, toolchain_python: Path, tmp_path: Path) -> WriteSpec:
    """`spec("2.17.1", max_iterations=64)`: of a model with the gradient through a loop that halves its input."""
    models = saved_models(shared_home_folder, HERE / "loop_models.py", toolchain_python)

    def write(version: str, **given: object) -> Path:
        compilation = {"batch_sizes": [1], "targets": ["x86-64-v3"], "tensorflow": version, **given}
        validation = {"classes": ["scaled", "large"]}
        return write_spec(tmp_path / "s.yaml", models / "halved", compilation=compilation, validation=validation)

    return write


@pytest.mark.sweep("2.17.1")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_gradient_through_a_loop_needs_the_most_turns(
    version: str, spec: WriteSpec, tfaot: CommandLine, tmp_path: Path
) -> None:
    tfaot.fails("build", spec(version), "-o", tmp_path / "no", code=12,
                says=["PartitionedCall/while"], hints="max_iterations")  # fmt: skip
    assert not (tmp_path / "no").exists()


@pytest.mark.coverage
@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_as_many_turns_as_it_takes_are_enough_and_fewer_are_found(
    version: str, spec: WriteSpec, tfaot: CommandLine, tmp_path: Path
) -> None:
    with verified("control: gradient of a loop, max_iterations", version=version, engine="xla"):
        built = tfaot.works("build", spec(version, max_iterations=64), "-o", tmp_path / "prefix")
        assert built["version"] == "1.0.0"
    # TensorFlow's loop goes on.
    tfaot.fails("build", spec(version, max_iterations=1), "-o", tmp_path / "no", code=15)
    assert not (tmp_path / "no").exists()
