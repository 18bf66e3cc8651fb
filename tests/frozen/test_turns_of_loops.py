"""Loops that end when values say so: the error names the loop and the way out, and `max_iterations` is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tests.coverage import verified
from tests.kept import saved_models
from tests.toolchains import VERSIONS

HERE = Path(__file__).resolve().parent


@pytest.mark.sweep("2.17.1")
@pytest.mark.coverage
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_gradient_through_a_loop_needs_the_most_turns(
    version: str, shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    models = saved_models(shared_home_folder, HERE / "loop_models.py", toolchain_python)
    (tmp_path / "scratch").mkdir()
    tfaot = CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch")

    def spec(**given: object) -> Path:
        compilation = {"batch_sizes": [1], "targets": ["x86-64-v3"], "tensorflow": version, **given}
        validation = {"classes": ["scaled", "large"]}
        return write_spec(tmp_path / "s.yaml", models / "halved", compilation=compilation, validation=validation)

    tfaot.fails("build", spec(), "-o", tmp_path / "no", code=12,
                says=["PartitionedCall/while"], hints="max_iterations")  # fmt: skip
    with verified("control: gradient of a loop, max_iterations", version=version, engine="xla"):
        assert tfaot.works("build", spec(max_iterations=64), "-o", tmp_path / "prefix")["version"] == "1.0.0"
    # TensorFlow's loop goes on.
    tfaot.fails("build", spec(max_iterations=1), "-o", tmp_path / "no", code=15)
    assert not (tmp_path / "no").exists()
