"""Models that are programs take any batch size, in C, C++ and Python: one call, TensorFlow's answers, the same bits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.kept import saved_models
from tests.native.conftest import C_FLAGS, PLACEMENTS, VALGRIND, compile_c
from tests.samples import REPOSITORY, tfaot
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.runtime.loader import Model, load

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

MAKER = REPOSITORY / "tests" / "models" / "any_size.py"
SIZES = (1, 2, 3, 63, 64, 65, 1000)
TARGETS = ("x86-64-v2", "x86-64-v3")
SPEC = """\
model: {{name: mixture, version: 1.0.0, saved_model: mixture}}
source: {{path: {models}}}
compilation: {{engine: program, batch_sizes: [1, 4], targets: [x86-64-v2, x86-64-v3]}}
package: {{tools: true, objects: true, source: true}}
"""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The package, and TensorFlow's answers to 1000 rows."""

    prefix: Path
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    @property
    def library(self) -> Path:
        return self.prefix / "lib" / "libtfaot-model-mixture.so"

    def load(self, target: str | None = None) -> Model:
        return load("mixture", prefix=self.prefix, target=target)

    def rows(self, first: int, size: int) -> dict[str, Array]:
        """The inputs of some rows. `shift` has no batch axis."""
        return {
            name: values if name == "shift" else values[first : first + size] for name, values in self.inputs.items()
        }

    def write_inputs(self, folder: Path) -> Path:
        folder.mkdir()
        for name, values in self.inputs.items():
            (folder / f"{name}.bin").write_bytes(values.tobytes())
        return folder


@pytest.fixture(scope="module")
def mixture(shared_home_folder: Path, toolchain_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    models = saved_models(shared_home_folder, MAKER, toolchain_python)
    folder = tmp_path_factory.mktemp("mixture")
    (folder / "spec.yaml").write_text(SPEC.format(models=models))
    tfaot(shared_home_folder, "build", folder / "spec.yaml", "-o", folder / "prefix")
    return read_mixture(folder / "prefix", models)


def read_mixture(prefix: Path, models: Path) -> Mixture:
    """The package in `prefix`, with the answers that lie beside its model."""
    arrays = np.load(models / "answers.npz")
    named = {
        kind: {key[len(kind) :]: arrays[key] for key in arrays if key.startswith(kind)} for kind in ("in_", "out_")
    }
    return Mixture(prefix=prefix, inputs=named["in_"], outputs=named["out_"])


def in_parts(model: Model, mixture: Mixture, size: int) -> Iterator[dict[str, Array]]:
    yield from (model(**mixture.rows(first, size)) for first in range(0, 1000 // size * size, size))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_have_the_same_bits_at_every_size_and_are_tensorflows(mixture: Mixture, target: str) -> None:
    model = mixture.load(target)
    assert model.any_batch_size and model.batch_sizes == (1, 4)
    whole = model(**mixture.inputs)
    for name, wanted in mixture.outputs.items():
        np.testing.assert_allclose(whole[name], wanted, rtol=1e-4, atol=1e-6, err_msg=name)
        assert whole[name].dtype == wanted.dtype and whole[name].shape == wanted.shape
    for size in SIZES:
        parts = list(in_parts(model, mixture, size))
        for name, values in whole.items():
            if name == "twice":
                assert all(part[name].tobytes() == values.tobytes() for part in parts)
                continue
            joined = np.concatenate([part[name] for part in parts])
            assert joined.tobytes() == values[: len(joined)].tobytes(), (name, size)


@pytest.mark.parametrize("target", TARGETS)
def test_buffers_lie_anywhere_and_one_scratch_serves_all_sizes(mixture: Mixture, target: str, tmp_path: Path) -> None:
    program = compile_c("any_size", tmp_path / "any_size")
    inputs, outputs = mixture.write_inputs(tmp_path / "inputs"), tmp_path / "outputs"
    outputs.mkdir()
    assert run([program, mixture.library, target, inputs, outputs, *map(str, SIZES)]).stdout == f"{target}\n"
    whole = mixture.load(target)(**mixture.inputs)
    for size in SIZES:
        for place in (*PLACEMENTS, "odd"):
            for name, values in whole.items():
                expected = values if name == "twice" else values[:size]
                assert (outputs / f"{place}.{size}.{name}.bin").read_bytes() == expected.tobytes(), (place, size, name)


@pytest.mark.parametrize("target", TARGETS)
def test_the_callers_arithmetic_changes_no_answer_and_is_kept(mixture: Mixture, target: str, tmp_path: Path) -> None:
    program = compile_c("float_control", tmp_path / "float_control", "-lm")
    inputs, outputs = mixture.write_inputs(tmp_path / "inputs"), tmp_path / "outputs"
    outputs.mkdir()
    assert run([program, mixture.library, target, inputs, outputs, "100"]).stdout == "kept\n"
    for name, values in mixture.load(target)(**mixture.inputs).items():
        expected = values if name == "twice" else values[:100]
        assert (outputs / f"nearest.100.{name}.bin").read_bytes() == expected.tobytes(), name


def test_valgrind_finds_nothing(mixture: Mixture, tmp_path: Path) -> None:
    program = compile_c("any_size", tmp_path / "any_size")
    inputs, outputs = mixture.write_inputs(tmp_path / "inputs"), tmp_path / "outputs"
    outputs.mkdir()
    run(["valgrind", *VALGRIND, program, mixture.library, "x86-64-v3", inputs, outputs, "1", "3", "65"], timeout=300)


@pytest.mark.parametrize("target", TARGETS)
def test_sixty_four_threads_share_the_program(mixture: Mixture, target: str, tmp_path: Path) -> None:
    program = compile_c("compute", tmp_path / "compute", "-pthread")
    inputs = mixture.write_inputs(tmp_path / "inputs")
    assert run([program, mixture.library, target, inputs, "1", "3", "65"]).stdout == f"{target}\n"
    model = mixture.load(target)
    expected = {size: model(**mixture.rows(0, size)) for size in (1, 65)}

    def same(size: int) -> bool:
        answers = model(**mixture.rows(0, size))
        return all(answers[name].tobytes() == values.tobytes() for name, values in expected[size].items())

    with ThreadPoolExecutor(64) as executor:
        assert all(executor.map(same, (1, 65) * 200))


@pytest.mark.nightly
def test_sixty_four_threads_share_xlas_code(
    mixture: Mixture, shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    """Of fixed sizes, with XLA's tables of buffers."""
    models = saved_models(shared_home_folder, MAKER, toolchain_python)
    spec = SPEC.format(models=models).replace("program", "xla").replace("x86-64-v2, x86-64-v3", "x86-64-v2")
    (tmp_path / "spec.yaml").write_text(spec.partition("package:")[0])
    tfaot(shared_home_folder, "build", tmp_path / "spec.yaml", "-o", tmp_path / "prefix")
    library = tmp_path / "prefix/lib/libtfaot-model-mixture.so"
    program = compile_c("compute", tmp_path / "compute", "-pthread")
    inputs = mixture.write_inputs(tmp_path / "inputs")
    assert run([program, library, "x86-64-v2", inputs, "1", "4"]).stdout == "x86-64-v2\n"


CPP = """
#include <tfaot-model-mixture/model.h>
#include <tfaot/tfaot.h>
#include <cstdio>
#include <vector>

int main() {
  tfaot::Model<tfaot_model::mixture> model;
  const tfaot::Shared<tfaot_model::mixture> shared;
  tfaot::Threads threads(3);
  static_assert(tfaot_model::mixture::any_batch_size, "");
  for (const std::size_t rows : {1u, 5u, 777u}) {
    std::vector<std::int64_t> n(rows, 3), near(rows);
    std::vector<float> shift(3, 0.25f), x(rows * 10, 0.5f), y(rows * 3), twice(3);
    tfaot::BoolArrays flags;
    std::vector<double> half(rows);
    const std::vector<char> memory(rows, 1);
    std::vector<char> flag(rows);
    const tfaot::span<const bool> on(reinterpret_cast<const bool*>(memory.data()), rows);
    const tfaot::span<bool> flag_span(reinterpret_cast<bool*>(flag.data()), rows);
    model.run(rows, {n, on, shift, x}, {flag_span, half, near, twice, y});
    const std::vector<float> alone = y;
    shared.run(rows, {n, on, shift, x}, {flag_span, half, near, twice, y}, tfaot::team_of(threads));
    std::printf("%s %g %d %g %d\\n", model.batchRule(rows).text().c_str(), half[rows - 1], int(near[rows - 1]),
                double(twice[2]), alone == y);
  }
}
"""


def test_cpp_calls_it_once_and_divides_it_among_threads(mixture: Mixture, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(CPP)
    run(["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{mixture.prefix}/include", tmp_path / "main.cpp",
         mixture.prefix / "lib/libtfaot-model-mixture.a", "-pthread", "-o", tmp_path / "main"])  # fmt: skip
    assert run([tmp_path / "main"]).stdout.splitlines() == [f"{rows}:{rows} 1.5 4 0.5 1" for rows in (1, 5, 777)]


def test_the_package_says_so(mixture: Mixture) -> None:
    info = json.loads((mixture.prefix / "share/tfaot-model-mixture/info.json").read_text())
    assert (info["any_batch_size"], info["batch_sizes"]) == (True, [1, 4])


def test_its_benchmark_takes_any_size_and_its_test_passes(mixture: Mixture) -> None:
    tools = mixture.prefix / "bin"
    timed = json.loads(run([tools / "mixture_benchmark", "--batch-size", "7", "--seconds", "0", "--json"]).stdout)
    assert [each["batch_size"] for each in timed["measurements"]] == [7]
    for wrong in ("0", "-3", "seven", "7x", "99999999999999999999"):
        with pytest.raises(CommandFailed) as caught:
            run([tools / "mixture_benchmark", "--batch-size", wrong, "--seconds", "0"])
        assert f"--batch-size {wrong}: write a number of rows from 1 to 1000000" in caught.value.output
    run([tools / "mixture_test"])


def test_its_objects_are_the_static_library(mixture: Mixture, tmp_path: Path) -> None:
    """An object for each batch size, so that build systems need not know what computes a model; they hold nothing."""
    objects = sorted((mixture.prefix / "lib").glob("*.o"))
    assert [path.name for path in objects] == ["mixture_bs1.o", "mixture_bs4.o", "mixture_common.o"]
    header = (mixture.prefix / "include/tfaot-model-mixture/model.h").read_text()
    entry = re.search(r"\btfaot_model_mixture_[0-9a-f]{12}\b", header)
    assert entry
    (tmp_path / "main.c").write_text(
        f"#include <tfaot/c_api.h>\nconst tfaot_model_table* {entry[0]}(void);\n"
        f"int main(void) {{ return {entry[0]}()->info->any_batch_size - 1; }}\n"
    )
    run(["gcc", *C_FLAGS, tmp_path / "main.c", *objects, "-lm", "-o", tmp_path / "main"])
    run([tmp_path / "main"])
