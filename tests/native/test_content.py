"""One library serves every toolchain that leads to the same program (decision 104)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.native.conftest import Variant
from tfaot_pkg.spec.rules import model_version

TARGETS = ["x86-64-v2", "x86-64-v3"]
BINARIES = ("lib/libtfaot-model-digits.a", "lib/libtfaot-model-digits.so", "bin/digits_benchmark")


@pytest.mark.parametrize(
    ("version", "own"),
    [
        ("1.0.0+tf2.17.1.b1", "1.0.0"),
        ("1.0.0+tf2.21.0.b12", "1.0.0"),
        ("2.0rc1+tfaot.b3", "2.0rc1"),
        ("1.0.0", "1.0.0"),
        ("1.0.0+cms3", "1.0.0+cms3"),
        ("1.0.0+tf2.17.1", "1.0.0+tf2.17.1"),
    ],
)
def test_toolchain_and_number_of_a_build_are_no_part_of_the_models_version(version: str, own: str) -> None:
    assert model_version(version) == own


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_toolchains_that_give_one_program_give_one_library(variant: Variant) -> None:
    nights = [
        variant(
            "digits",
            targets=TARGETS,
            tensorflow=version,
            more={"model": {"version": f"1.0.0+tf{version}.b{number}"}, "package": {"tools": True}},
        )
        for number, version in ((1, "2.17.1"), (7, "2.21.0"))
    ]
    first, second = ([(prefix / name).read_bytes() for name in BINARIES] for prefix in nights)
    assert first == second
    # Each was compared with the answers of its own toolchain.
    assert [_reference(prefix) for prefix in nights] == ["tensorflow 2.17.1", "tensorflow 2.21.0"]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_xlas_code_is_that_of_its_toolchain(variant: Variant) -> None:
    more = {"compilation": {"engine": "xla", "batch_sizes": [1], "targets": ["x86-64-v3"]}}
    made = [variant("digits", targets=TARGETS, tensorflow=version, more=more) for version in ("2.17.1", "2.21.0")]
    first, second = ((prefix / "lib" / "libtfaot-model-digits.so").read_bytes() for prefix in made)
    assert b"tensorflow 2.17.1" in first and b"tensorflow 2.21.0" in second


def _reference(prefix: Path) -> str:
    report = json.loads((prefix / "share" / "tfaot-model-digits" / "validation.json").read_text())
    return str(report["reference"])
