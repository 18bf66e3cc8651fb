"""tfaot/columns.h in ROOT itself: its RDataFrame, in C++ and in Python, with threads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.kept import kept
from tests.samples import Published
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

_ROOT = "root==0.1a12"  # ROOT 6.40: wheels are an alpha of its project
_PROGRAM = '''
import sys
import ROOT

prefix = sys.argv[1]
ROOT.gInterpreter.AddIncludePath(prefix + "/include")
ROOT.gSystem.Load(prefix + "/lib/libtfaot-model-wine.so")
ROOT.gInterpreter.Declare("""
#include <tfaot-model-wine/model.h>
#include <tfaot/columns.h>
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RVec.hxx>

const auto& score() {
  static const auto made = tfaot::column<tfaot_model::wine>(1);
  return made;
}

std::vector<std::string> names(const char* of) {
  std::vector<std::string> made;
  for (int i = 0; i < 13; ++i) made.push_back(of + std::to_string(i));
  return made;
}

double alike() {
  ROOT::RDataFrame frame(1000);
  ROOT::RDF::RNode node = frame;
  for (int i = 0; i < 13; ++i) {
    const auto value = [i](ULong64_t row) { return float((row * 7 + i * 3) % 11); };
    const auto values = [i](ULong64_t row) { return ROOT::RVec<float>{1.f, float((row * 7 + i * 3) % 11)}; };
    node = node.Define("x" + std::to_string(i), value, {"rdfentry_"}).Define("v" + std::to_string(i), values, {"rdfentry_"});
  }
  auto scored = node.Define("one", tfaot::column<tfaot_model::wine>(1), names("x"))
                    .Define("rows", tfaot::column_of_rows<tfaot_model::wine, ROOT::RVec>(1), names("v"))
                    .Define("whole", tfaot::column<tfaot_model::wine>(), names("x"));
  const auto same = [](float one, const ROOT::RVec<float>& rows, const std::vector<float>& whole) {
    return one == rows[1] && one == whole[1];
  };
  return *scored.Filter(same, {"one", "rows", "whole"}).Count() + *scored.Mean<float>("one");
}
""")
ROOT.EnableImplicitMT(2)
frame = ROOT.RDataFrame(1000)
for i in range(13):
    frame = frame.Define(f"x{i}", f"float((rdfentry_ * 7 + {i} * 3) % 11)")
mean = frame.Define("score", f"score()({', '.join(f'x{i}' for i in range(13))})").Mean("score").GetValue()
print(int(ROOT.alike()), abs(ROOT.alike() - 1000 - mean) < 1e-6, 0 < mean < 1)
'''


def test_rdataframe_calls_a_model_in_every_form(published: Published, shared_home_folder: Path, tmp_path: Path) -> None:
    def install(folder: Path) -> None:
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, _ROOT], timeout=900)

    root = kept(shared_home_folder, "root", {"package": _ROOT, "python": sys.version}, install)
    (tmp_path / "program.py").write_text(_PROGRAM)
    printed = run(
        [sys.executable, "-W", "ignore", tmp_path / "program.py", published.prefix],
        env={**os.environ, "PYTHONPATH": str(root)}, timeout=300,
    ).stdout  # fmt: skip
    assert printed.split() == ["1000", "True", "True"]
