"""The C++ interface over real models: TensorFlow's answers by every kind of call, without races or allocations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.bad_input.conftest import write_spec
from tests.consumers.conftest import cmake_build
from tests.native.conftest import HERE
from tests.samples import NAMES, REPOSITORY, Published, Sample, recipe, tfaot
from tests.sanitizers import CATCH_ERRORS, CATCH_RACES, run_sanitized
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
ROWS = 1000


@pytest.fixture(scope="module")
def rows(samples: Mapping[str, Sample], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files as cpp/interface.cpp reads them: the held-out data, again and again."""
    folder = tmp_path_factory.mktemp("rows")
    for name, sample in samples.items():
        for tensor, values in (*sample.inputs.items(), *sample.answers.items()):
            repeated = np.take(values, range(ROWS), axis=0, mode="wrap")
            (folder / f"{name}.{tensor}.bin").write_bytes(repeated.tobytes())
    return folder


@pytest.mark.sweep("clang++--fsanitize=address,undefined", night=["g++--DCOUNT_ALLOCATIONS"])
@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("g++", ("-O1", *CATCH_RACES)),
        ("g++", ("-O1", "-DCOUNT_ALLOCATIONS")),
        ("clang++", ("-O0", *CATCH_ERRORS)),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1],
)
def test_every_kind_of_call_gives_tensorflows_answers(
    compiler: str,
    flags: tuple[str, ...],
    published: Published,
    rows: Path,
    tmp_path: Path,
    require_sanitizers: Callable[[str], Path],
) -> None:
    require_sanitizers(compiler)
    program = tmp_path / "interface"
    libraries = [published.library(name, "a") for name in NAMES]
    run([compiler, "-std=c++17", "-g1", *flags, *WARNINGS, f"-I{published.prefix}/include",
         f"-I{HERE.parent / 'package' / 'cpp'}", HERE / "cpp" / "interface.cpp", *libraries, "-pthread", "-o", program])  # fmt: skip
    finished = run_sanitized([program, rows])
    assert (finished.stdout, finished.stderr) == ("", "")


def test_an_example_in_cmssws_style_builds_with_no_change_but_its_include_path(
    published: Published, samples: Mapping[str, Sample], tmp_path: Path
) -> None:
    options = [f"-DCMAKE_PREFIX_PATH={published.prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror"]
    build = cmake_build(tmp_path / "build", *options, source=REPOSITORY / "examples" / "cmssw-style")
    program, table = build / "digit-producer", recipe("digits") / "data" / "held-out.csv"
    sample = samples["digits"]
    right = f"{np.count_nonzero(sample.answers['digit'] == sample.labels)} of {len(sample.labels)} images right"
    by_default = run([program, table]).stdout.splitlines()
    assert by_default == [right]  # a model for any batch size takes one call for each
    with_rules = run([program, table, "5:1,2,2", "9:4,4,4"]).stdout.splitlines()
    assert with_rules[0] == right
    assert {"5 rows take 3 calls", "9 rows take 3 calls"} <= set(with_rules)


MIXED = """
#include <tfaot-model-mixed/model.h>
#include <tfaot/model.h>
#include <cstdio>

int main() {
  tfaot::Model<tfaot_model::mixed> model;
  static_assert(tfaot_model::mixed::inputs[2].row_size == 6, "the spec says [null, 3, 2]");
  for (const std::size_t size : {1u, 2u, 3u, 0u}) {
    try {
      const auto [total, y] = model.run<tfaot::DoubleArrays, tfaot::FloatArrays>(
          size, tfaot::FloatArrays{{100, 200}}, tfaot::Int32Arrays{{3}},
          tfaot::FloatArrays(size, {1, 2, 3, 4, 5, 6}));
      std::printf("total %g", total[0][0]);
      for (const auto& row : y) for (const float value : row) std::printf(" %g", double(value));
      std::printf("\\n");
    } catch (const tfaot::Error& error) {
      std::printf("%s\\n", error.what());
    }
  }
}
"""


@pytest.mark.nightly
def test_tensors_without_a_batch_axis_scalars_and_fixed_axes(
    models: Mapping[str, Path], shared_home_folder: Path, tmp_path: Path
) -> None:
    """y[n] = scale * sum over k of x[n, k] + shift; total is the sum of y over all rows."""
    spec = write_spec(
        tmp_path / "spec.yaml",
        models["mixed"],
        model={"shapes": {"x": [None, 3, 2]}},
        compilation={"batch_sizes": [1, 2], "targets": ["x86-64-v2"]},
    )
    tfaot(shared_home_folder, "build", spec, "-o", tmp_path / "prefix")
    (tmp_path / "mixed.cpp").write_text(MIXED)
    run(["g++", "-std=c++17", "-O0", *WARNINGS, f"-I{tmp_path}/prefix/include", tmp_path / "mixed.cpp",
         tmp_path / "prefix/lib/libtfaot-model-mixed.a", "-o", tmp_path / "mixed"])  # fmt: skip
    refused = 'mixed: batch size: expected a compiled one (1, 2) because output "total" has no batch axis, got '
    assert run([tmp_path / "mixed"]).stdout.splitlines() == [
        "total 363 127 236",
        "total 726 127 236 127 236",
        f"{refused}3",
        f"{refused}0",
    ]


PREAMBLE = """
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>
#include <tfaot/dynamic.h>
%s
int main() {
  [[maybe_unused]] const std::size_t batch_size = 5;
%s
}
"""


def test_the_code_of_the_how_to_page_compiles_and_runs(published: Published, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "how-to" / "cpp-interface.md").read_text()
    # Those of ROOT are ```c++: tests/consumers/test_root.py has them.
    blocks = re.findall(r"^```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    includes = [block for block in blocks if block.startswith("#include")]
    calls = [f"  {{\n{block}}}\n" for block in blocks if block not in includes]
    assert len(includes) == 3 and len(calls) > 10
    (tmp_path / "page.cpp").write_text(PREAMBLE % ("".join(includes), "".join(calls)))
    run(["g++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Wno-unused", "-Werror", f"-I{published.prefix}/include",
         tmp_path / "page.cpp", published.library("digits", "a"), "-pthread", "-o", tmp_path / "page"])  # fmt: skip
    printed = run([tmp_path / "page"]).stdout
    assert printed == 'digits: input "image": expected 128 elements (2 rows of 64), got 100\n'
    assert printed.strip() in page


def test_the_sizes_of_instances_are_those_of_the_how_to_page(published: Published, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "how-to" / "cpp-interface.md").read_text()
    (tmp_path / "sizes.cpp").write_text(SIZES)
    run(["g++", "-std=c++17", "-O0", f"-I{published.prefix}/include", tmp_path / "sizes.cpp",
         published.library("digits", "a"), "-o", tmp_path / "sizes"])  # fmt: skip
    new, scratch, staging = run([tmp_path / "sizes"]).stdout.splitlines()
    assert f"| new | {new} |" in page
    assert f"| after the first run, for all batch sizes | {scratch} more |" in page
    assert f"| after a buffer with misaligned elements was given | {staging} more |" in page


SIZES = """
#include <tfaot-model-digits/model.h>
#include <cstdio>

int main() {
  using tfaot_model::digits;
  digits model(digits::table().info->targets[0]);
  std::printf("%zu\\n", model.memory());
  alignas(64) static float image[1025], probability[161];
  alignas(64) static std::int64_t digit[17];
  std::size_t before = model.memory();
  for (const std::size_t size : digits::batch_sizes) {
    model.run(size, {image, 64 * size}, {digit, size}, {probability, 10 * size});
    std::printf(size == 1 ? "%zu\\n" : "", model.memory() - before);
    if (size == 1) before = model.memory();
  }
  auto* const odd = reinterpret_cast<const float*>(reinterpret_cast<const char*>(image) + 1);
  model.run(1, {odd, 64}, {digit, 1}, {probability, 10});
  std::printf("%zu\\n", model.memory() - before);
}
"""
