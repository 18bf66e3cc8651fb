"""Outputs with as many rows as values say: all rows that there may be, zeros behind those that are meant, and their number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.bad_input.conftest import CommandLine, write_spec
from tests.coverage import verified
from tests.kept import saved_models
from tests.toolchains import VERSIONS
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.runtime.loader import load

HERE = Path(__file__).resolve().parent
_OF_ONNX = ("hits", "kept", "kinds", "number", "first", "selected")
_TORCH = HERE / "artifacts" / "torch" / "selection.onnx"
_PROGRAM = """
#include <cstdio>
#include <tfaot-model-NAME/model.h>
#include <tfaot/model.h>

int main() {
  float x[24];
  if (std::fread(x, sizeof(float), 24, stdin) != 24) return 1;
  tfaot::Model<tfaot_model::NAME> model;
  const auto out = model.run(1, {x});
PRINT
}
"""
_PRINT = '  for (const auto each : out.{}_rows()) std::printf("%.9g ", static_cast<double>(each));'


class Counted:
    """The models of counted_models.py, for one toolchain."""

    def __init__(self, version: str, home: Path, python: Path, folder: Path) -> None:
        self.version, self.folder = version, folder
        self.models = saved_models(home, HERE / "counted_models.py", python)
        (folder / "scratch").mkdir()
        self.tfaot = CommandLine(home=home, scratch=folder / "scratch")
        self.answers = np.load(self.models / "counted.npz")

    def spec(self, signature: str, *outputs: str) -> Path:
        model = {"name": "counted", "version": "1.0.0", "saved_model": "counted", "serving_key": signature}
        model["counts"] = {output: f"{output}_count" for output in outputs}  # type: ignore[assignment]
        compilation = {"batch_sizes": [4], "targets": ["x86-64-v3"], "tensorflow": self.version}
        path = self.folder / f"{signature}.yaml"
        return write_spec(path, self.models / "counted", model=model, compilation=compilation)

    def built(self, signature: str, *outputs: str) -> Path:
        """The package of a signature; its rows are TensorFlow's, and zeros stand behind them."""
        prefix = self.folder / signature
        with verified(f"counts: {signature}", version=self.version, engine="program"):
            self.tfaot.works("build", self.spec(signature, *outputs), "-o", prefix)
            start = f"{signature}/inputs/"
            given = load(prefix)(
                **{key[len(start) :]: self.answers[key] for key in self.answers if key.startswith(start)}
            )
            for name in outputs:
                expected, count = self.answers[f"{signature}/outputs/{name}"], int(given[f"{name}_count"])
                assert count == len(expected) > 0, name
                np.testing.assert_allclose(given[name][:count], expected, rtol=1e-5, atol=1e-6, err_msg=name)
                assert len(given[name]) > count and not given[name][count:].any(), name
            if signature == "kinds":
                np.testing.assert_array_equal(given["index"], self.answers["kinds/outputs/index"])
        return prefix


@pytest.fixture
def counted(version: str, shared_home_folder: Path, toolchain_python: Path, tmp_path: Path) -> Counted:
    return Counted(version, shared_home_folder, toolchain_python, tmp_path)


@pytest.mark.sweep("2.17.1")
@pytest.mark.coverage
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_rows_that_are_meant_are_tensorflows_also_in_cpp(counted: Counted) -> None:
    prefix = counted.built("masked", "rows", "places")
    outputs = ["rows", "places"]
    printed = _printed("counted", outputs, prefix, counted.answers["masked/inputs/x"])
    expected = [number for name in outputs for number in counted.answers[f"masked/outputs/{name}"].ravel()]
    np.testing.assert_allclose(printed, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.coverage
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_a_batch_and_of_integers_are_counted_and_others_are_rejected(counted: Counted) -> None:
    counted.built("batch", "rows")
    counted.built("kinds", "values")
    for signature, output, says in (
        ("mean", "y", ["Sum", "'y'"]),
        ("reversed", "y", ["StridedSlice", "'y'"]),
        ("kinds", "index", ["'index'"]),
    ):
        counted.tfaot.fails("check", counted.spec(signature, output), code=12, says=says)


@pytest.mark.release
@pytest.mark.coverage
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
def test_the_rows_of_an_onnx_file_are_onnx_runtimes(shared_home_folder: Path, tmp_path: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(VERSIONS[0], folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    files = saved_models(shared_home_folder, HERE / "counted_files.py", frontend.python)
    (tmp_path / "scratch").mkdir()
    tfaot = CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch")
    model = {"name": "counted", "version": "1.0.0", "onnx": str(files / "counted.onnx")}
    compilation = {"batch_sizes": [1], "targets": ["x86-64-v3"], "tensorflow": VERSIONS[0]}

    def spec(name: str, **more: object) -> Path:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"model": {**model, **more}, "compilation": compilation}))
        return path

    tfaot.fails("check", spec("plain"), code=12, says=["depends on the values"], hints="model.counts")
    with verified("counts: rows of ONNX", version=VERSIONS[0], engine="program"):
        tfaot.works("build", spec("rows", counts={name: f"{name}_count" for name in _OF_ONNX}), "-o", tmp_path / "made")
        answers = np.load(files / "counted.npz")
        given = load(tmp_path / "made")(**{key[7:]: answers[key] for key in answers if key.startswith("inputs/")})
        for name in _OF_ONNX:
            expected, count = answers[f"outputs/{name}"], int(given[f"{name}_count"])
            assert 0 < count == len(expected) < len(given[name]), name
            np.testing.assert_array_equal(given[name][:count], expected, err_msg=name)
            assert not given[name][count:].any(), name
        np.testing.assert_array_equal(given["inverse"], answers["outputs/inverse"])


@pytest.mark.release
@pytest.mark.coverage
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_rows_of_a_pytorch_file_are_pytorchs(version: str, shared_home_folder: Path, tmp_path: Path) -> None:
    """Its answers, which are in the file, are as long as values said; one output has another name in the package."""
    (tmp_path / "scratch").mkdir()
    tfaot = CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch")
    outputs = [{"hits": "found"}, "places", "best"]
    counts = {name: f"{name}_count" for name in ("hits", "places", "best")}
    model = {"name": "selection", "version": "1.0.0", "torch": str(_TORCH), "outputs": outputs, "counts": counts}
    compilation = {"batch_sizes": [1], "targets": ["x86-64-v3"], "tensorflow": version}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({"model": model, "compilation": compilation}))
    with verified("counts: rows of PyTorch", version=version, engine="program"):
        tfaot.works("build", tmp_path / "spec.yaml", "-o", tmp_path / "prefix")
    report = json.loads((tmp_path / "prefix/share/tfaot-model-selection/validation.json").read_text())
    of_pytorch = next(each for each in report["classes"] if each["name"] == "PyTorch")
    assert not of_pytorch["not_run"] and of_pytorch["elements"] == 8 * 2 + 24 * 2 + 8 * 3 + 3, of_pytorch
    x = np.random.default_rng(2).standard_normal((8, 3), np.float32)
    given = load(tmp_path / "prefix")(x)
    kept, best = x[x[:, 0] > 0.25], x[x[:, 1] > 0]
    assert int(given["hits_count"]) == len(kept) > 0
    np.testing.assert_array_equal(given["places"][: given["places_count"]], np.argwhere(x > 0))
    expected = [*given["found"][: len(kept)].ravel(), *np.argwhere(x > 0).ravel(), *best.ravel()]
    printed = _printed("selection", ["found", "places", "best"], tmp_path / "prefix", x)
    np.testing.assert_allclose(printed, expected, rtol=1e-6)


def _printed(model: str, outputs: Sequence[str], prefix: Path, x: np.ndarray) -> np.ndarray:
    """The rows of `outputs` that a C++ program with the package of `model` in `prefix` prints for `x`."""
    source, library = prefix / "main.cpp", next((prefix / "lib").glob("*.a"))
    source.write_text(_PROGRAM.replace("NAME", model).replace("PRINT", "\n".join(map(_PRINT.format, outputs))))
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
    run(["c++", *strict, "-I", prefix / "include", source, library, "-o", prefix / "main"])
    return np.array(run([prefix / "main"], stdin=x.tobytes()).stdout.split(), np.float32)
