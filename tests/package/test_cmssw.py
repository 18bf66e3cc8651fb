"""package.cmssw: the headers that code for cms-tfaot includes beside model.h, in a package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.package.conftest import WARNINGS, build_fake_libraries, make_contents, make_spec, write_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.package.tree import render
from tfaot_pkg.spec.types import ModelSpec, PackageOptions

PROGRAM = """
#include <tfaot-model-jet-tagger/jet_tagger.h>
#include <tfaot-model-jet-tagger/jet_tagger_bs2.h>
#include <tfaot-model-jet-tagger/jet_tagger_bs4.h>
#include <cstdio>
int main() {
  tfaot_model::jet_tagger_bs4 model;
  if (model.arg0_count() != 3 || model.arg_feed_x_count() != 12 || model.result0_count() != 4) return 1;
  for (std::size_t i = 0; i < 3; ++i) model.arg_feed_bias_in(i) = 1;
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t i = 0; i < 3; ++i) model.arg1(row, i) = static_cast<float>(row == 3 ? 3 - i : i);
  }
  if (!model.Run()) return 2;
  std::printf("%g %g, %d %d\\n", static_cast<double>(model.result_fetch_y(2, 2)), static_cast<double>(model.result1(3, 0)),
              static_cast<int>(model.result0(2)), static_cast<int>(model.result_fetch_label(3)));
  return tfaot_model::jet_tagger_bs2().arg1_size() == 24 ? 0 : 3;
}
"""


def with_headers(name: str) -> ModelSpec:
    return replace(make_spec(name), package=PackageOptions(cmssw=True))


@pytest.mark.sweep("clang++")
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_each_batch_size_is_a_class_like_those_of_tfcompile(compiler: str, tmp_path: Path) -> None:
    build_fake_libraries(tmp_path, "jet_tagger", slope=2)
    write_tree(make_contents(with_headers("jet_tagger"), libraries=tmp_path), tmp_path / "prefix")
    (tmp_path / "main.cpp").write_text(PROGRAM)
    library = tmp_path / "prefix/lib/libtfaot-model-jet-tagger.a"
    include = f"-I{tmp_path / 'prefix/include'}"
    run([compiler, "-std=c++17", *WARNINGS, include, tmp_path / "main.cpp", library, "-o", tmp_path / "program"])
    assert run([tmp_path / "program"]).stdout == "5 7, 2 0\n"


def test_headers_are_there_on_request_alone() -> None:
    asked, usual = (render(make_contents(spec)) for spec in (with_headers("jet_tagger"), make_spec("jet_tagger")))
    folder = "include/tfaot-model-jet-tagger"
    assert asked.keys() - usual.keys() == {f"{folder}/jet_tagger{end}.h" for end in ("", "_bs2", "_bs4")}


@pytest.mark.parametrize("name", ["model", "entry"])
def test_a_models_name_does_not_replace_a_header_of_the_package(name: str) -> None:
    header = f"include/tfaot-model-{name}/{name}.h"
    assert render(make_contents(with_headers(name)))[header] == render(make_contents(make_spec(name)))[header]


def test_names_that_would_be_those_of_other_members_are_left_out() -> None:
    inputs = tuple(Tensor(name=name, dtype=DType.FLOAT32, shape=()) for name in ("x", "x_data", "y"))
    contents = make_contents(with_headers("jet_tagger"), signature=Signature(inputs=inputs, outputs=inputs[:1]))
    text = render(contents)["include/tfaot-model-jet-tagger/jet_tagger_bs2.h"].decode()
    assert "float& arg_feed_x_data()" in text and "float& arg_feed_y()" in text
    assert "float* arg_feed_x_data()" not in text and "float* arg0_data()" in text
