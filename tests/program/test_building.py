"""A real model whose rows depend on one another, from `check` to its callers: compiled batch sizes run, others do not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.bad_input.conftest import write_spec
from tests.samples import tfaot
from tests.wording import reported
from tfaot_pkg.ground.process import run
from tfaot_pkg.runtime.loader import RunError, load
from tfaot_pkg.verify.rows import arranged, arrangement, interactions
from tfaot_pkg.verify.runner import answers_of

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

PLACE = "output 'y': rows interact in node 'PartitionedCall/mean_of_rows' (reduce)"
WARNING = f"rows of a batch depend on one another: {PLACE}; only compiled batch sizes run"


@pytest.fixture(scope="module")
def spec(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each row less the mean of all."""
    path = tmp_path_factory.mktemp("centred") / "spec.yaml"
    return write_spec(path, models["centred"], compilation={"batch_sizes": [1, 4], "targets": ["x86-64-v2"]})


@pytest.fixture(scope="module")
def prefix(spec: Path, shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("centred") / "prefix"
    printed = tfaot(shared_home_folder, "build", spec, "-o", folder)
    assert f"note: {WARNING}" in printed.splitlines()
    return folder


def test_check_warns_and_names_the_node(spec: Path, shared_home_folder: Path) -> None:
    assert f"note: {WARNING}" in tfaot(shared_home_folder, "check", spec).splitlines()
    document = json.loads(tfaot(shared_home_folder, "check", spec, "--json"))
    assert (document["rows_independent"], document["rows_meet"]) == (False, [PLACE])


def test_the_package_says_so(prefix: Path) -> None:
    share = prefix / "share" / "tfaot-model-centred"
    info = json.loads((share / "info.json").read_text())
    assert (info["rows_independent"], info["rows_meet"]) == (False, [PLACE])
    report = json.loads((share / "validation.json").read_text())
    assert not report["rows"]["independent"] and report["rows"]["meet"][0]["operation"] == "reduce"
    assert WARNING in report["warnings"]


def test_python_runs_compiled_sizes_only(prefix: Path) -> None:
    model = load(prefix)
    x = np.array([[1, 2, 3], [3, 2, 1], [5, 6, 7], [7, 6, 5]], "float32")
    assert not model.rows_independent
    np.testing.assert_allclose(model(x=x)["y"], x - x.mean(0), rtol=1e-6)
    assert np.array_equal(model(x=x[:1])["y"], np.zeros((1, 3)))
    for rows in (0, 2, 3, 8):
        with reported(RunError):
            model(x=np.zeros((rows, 3), "float32"))


PROGRAM = """
#include <tfaot-model-centred/model.h>
#include <tfaot/tfaot.h>
#include <cstdio>

int main() {
  using tfaot_model::centred;
  static_assert(!centred::rows_independent, "");
  const std::vector<float> x = {1, 2, 3, 3, 2, 1, 5, 6, 7, 7, 6, 5};
  const tfaot_model_table& table = centred::table();
  tfaot_instance* instance = nullptr;
  table.create(nullptr, &instance, nullptr, 0);
  std::vector<float> y(12);
  const void* const in[] = {x.data()};
  void* const out[] = {y.data()};
  std::printf("C %d: %d %d, %s\\n", table.info->rows_independent, table.run(instance, 2, in, out),
              table.run(instance, 4, in, out), table.message(instance));
  table.destroy(instance);
  tfaot::Model<centred> model;
  for (const std::size_t rows : {4u, 2u}) {
    try {
      const auto result = model.run(rows, {{x.data(), 3 * rows}}).y;
      std::printf("%g %g %g\\n", double(result[0]), double(result[1]), double(result[2]));
    } catch (const tfaot::Error& error) {
      std::printf("%s\\n", error.what());
    }
  }
}
"""


def test_c_and_cpp_run_compiled_sizes_only(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(PROGRAM)
    library = prefix / "lib" / "libtfaot-model-centred.a"
    run(["g++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{prefix}/include", tmp_path / "program.cpp",
         library, "-pthread", "-o", tmp_path / "program"])  # fmt: skip
    no_such_batch_size = 4
    assert run([tmp_path / "program"]).stdout.splitlines() == [
        f"C 0: {no_such_batch_size} 0, model centred, batch size 2: this batch size was not compiled",
        "-3 -2 -1",
        "centred: batch size: expected a compiled one (1, 4) because rows of this model depend on one another, got 2",
    ]


def test_the_library_in_other_batches_shows_it_too(prefix: Path) -> None:
    """What validation would see if the analysis of the graph were wrong."""
    model = load(prefix)
    inputs = {"x": np.random.default_rng(1).standard_normal((24, 3)).astype("float32")}
    order = arrangement(24, model.batch_sizes)
    again = arranged(inputs, model.signature, order)
    known, answers = ({f"{size}/y": answers_of(model, each, size)["y"] for size in (1, 4)} for each in (inputs, again))
    found = interactions(answers, known, order, target="here", signature=model.signature, rtol=1e-4, atol=1e-5)
    assert [(one.batch_size, one.output) for one in found] == [(4, "y")]
