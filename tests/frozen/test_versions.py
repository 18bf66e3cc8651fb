"""The version of the framework that a report names is one of the environment's lock file, whatever a worker says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS


def _original(**fields: object) -> Original:
    return Original(path=Path("model"), tags=(), signature="", **fields)  # type: ignore[arg-type]


def test_a_version_of_the_lock_file_is_taken() -> None:
    assert _original().require_version(DEFAULT_VERSION, DEFAULT_VERSION) == DEFAULT_VERSION
    for frontend in FRONTENDS.values():
        text = frontend.requirements.read_text()
        name = {"onnx": "onnxruntime", "jax": "jax", "trees": "lightgbm"}[frontend.framework]
        version = text.partition(f"\n{name}==")[2].split()[0]
        assert _original(frontend=frontend).require_version(version, DEFAULT_VERSION) == version


def test_formulas_of_a_file_have_the_version_that_the_file_states() -> None:
    found = _original(frontend=FRONTENDS["trees"], origin="TMVA 4.2.1 BDT, Classification, BoostType=Grad")
    assert found.require_version("4.2.1", DEFAULT_VERSION) == "4.2.1"
    assert found.require_version("", DEFAULT_VERSION) == ""


@pytest.mark.parametrize("told", ["99.0", "1.0 (verified by us)", f"{DEFAULT_VERSION}\n"])
def test_another_version_is_refused(told: str) -> None:
    for each in (_original(), *(_original(frontend=one) for one in FRONTENDS.values())):
        with pytest.raises(ToolchainError, match="cannot be read"):
            each.require_version(told, DEFAULT_VERSION)
