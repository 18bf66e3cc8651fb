"""Positions: inputs and outputs come in the order of the spec, in every interface, and the answers stay TensorFlow's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.bad_input.conftest import write_spec
from tests.samples import tfaot
from tfaot_pkg.ground.process import run
from tfaot_pkg.runtime.loader import load

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

FIRST = np.array([[1, 2, 3], [4, 5, 6]], "float32")
SECOND = np.array([[10, 20, 30], [40, 50, 60]], "float32")


PROGRAM = """
#include <tfaot-model-two-inputs/model.h>
#include <tfaot/model.h>
#include <cstdio>

int main() {
  tfaot::Model<tfaot_model::two_inputs> model;
  const tfaot::FloatArrays first = {{1, 2, 3}, {4, 5, 6}}, second = {{10, 20, 30}, {40, 50, 60}};
  const auto results = model.run<tfaot::FloatArrays, tfaot::FloatArrays>(2, second, first);
  for (const auto& tensor : tfaot_model::two_inputs::inputs) std::printf("%s ", tensor.name);
  for (const auto& output : {std::get<0>(results), std::get<1>(results)}) {
    for (const auto& row : output) for (const float value : row) std::printf("%g ", value);
  }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`inputs` and `outputs` by position, for the names that the spec gives.

    `second_first` is the difference that SECOND and FIRST, in these positions, give. `names` are the new ones of what
    is called otherwise in the model.
    """

    spec: Mapping[str, object]
    inputs: list[str]
    outputs: list[str]
    second_first: npt.NDArray[np.float32]
    names: Mapping[str, str] = field(default_factory=dict)


CASES = {
    "by name": Case(
        spec={}, inputs=["first", "second"], outputs=["difference", "sum"], second_first=SECOND - 2 * FIRST
    ),
    "swapped": Case(
        spec={"inputs": ["second", "first"], "outputs": ["sum", "difference"]},
        inputs=["second", "first"],
        outputs=["sum", "difference"],
        second_first=FIRST - 2 * SECOND,
    ),
    "renamed": Case(
        spec={"inputs": ["second", {"first": "early"}], "outputs": [{"sum": "total"}, {"difference": "rest"}]},
        inputs=["second", "early"],
        outputs=["total", "rest"],
        second_first=FIRST - 2 * SECOND,
        names={"first": "early", "sum": "total", "difference": "rest"},
    ),
}


@pytest.mark.sweep(night=["swapped"])
@pytest.mark.parametrize("name", CASES)
def test_positions_are_those_of_the_spec_everywhere(
    name: str, models: Mapping[str, Path], shared_home_folder: Path, tmp_path: Path
) -> None:
    case = CASES[name]
    compilation = {"batch_sizes": [1, 2], "targets": ["x86-64-v2"]}
    spec = write_spec(tmp_path / "spec.yaml", models["two_inputs"], model=case.spec, compilation=compilation)
    prefix = tmp_path / "prefix"
    built = json.loads(tfaot(shared_home_folder, "build", spec, "-o", prefix, "--json"))

    assert built["validation"]["passed"] and len(built["validation"]["comparisons"]) == 4
    info = json.loads((prefix / "share/tfaot-model-two-inputs/info.json").read_text())
    assert [tensor["name"] for tensor in info["inputs"]] == case.inputs
    assert [tensor["name"] for tensor in info["outputs"]] == case.outputs
    model = load(prefix)
    assert [tensor.name for tensor in model.signature.inputs] == case.inputs
    assert [tensor.name for tensor in model.signature.outputs] == case.outputs
    called = {name: case.names.get(name, name) for name in ("first", "second", "sum", "difference")}
    values = {called["first"]: FIRST, called["second"]: SECOND}
    answers = model(*[values[each] for each in case.inputs])
    assert list(answers) == case.outputs
    np.testing.assert_array_equal(answers[called["sum"]], FIRST + SECOND)
    np.testing.assert_array_equal(answers[called["difference"]], FIRST - 2 * SECOND)
    swapped = model(SECOND, FIRST)
    np.testing.assert_array_equal(swapped[called["difference"]], case.second_first)
    expected = np.concatenate([swapped[each].ravel() for each in case.outputs])
    printed = _compiled(prefix, tmp_path).split()
    assert printed[:2] == case.inputs
    np.testing.assert_array_equal(np.array(printed[2:], "float32"), expected)


def _compiled(prefix: Path, folder: Path) -> str:
    """What the program prints that gives the generated class its inputs by position."""
    (folder / "program.cpp").write_text(PROGRAM)
    library = prefix / "lib" / "libtfaot-model-two-inputs.a"
    run(
        [
            "g++",
            "-std=c++17",
            "-pthread",
            f"-I{prefix}/include",
            folder / "program.cpp",
            library,
            "-o",
            folder / "program",
        ]
    )
    return run([folder / "program"]).stdout
