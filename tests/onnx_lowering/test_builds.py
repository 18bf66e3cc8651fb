"""Packages of ONNX files: from the file to the library without any TensorFlow."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.homes import home_with_frontend
from tests.onnx_lowering.graphs import arrays_of
from tfaot_pkg.errors import ModelError, SpecError, ValidationError
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run as process_run
from tfaot_pkg.runtime.loader import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
Tool = Callable[..., str]


@pytest.fixture
def tool(shared_home_folder: Path, tmp_path: Path) -> Tool:
    """Runs a command with a home that has the front-end of ONNX, and no toolchain; no other one can be installed."""
    home = home_with_frontend("onnx", shared_home_folder, tmp_path / "home")
    env = {**os.environ, "TFAOT_HOME": str(home), "https_proxy": "http://127.0.0.1:9"}

    def run(*words: str | Path, code: int = 0) -> str:
        done = run_command(words, cwd=tmp_path, env=env)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return run


@pytest.mark.sweep("class_token", night=["graph_of_any_size", "quantized_in_float"])
@pytest.mark.parametrize(
    "name", ["class_token", "deep_sets", "graph_of_any_size", "gru_tagger", "images_2d", "pruned", "quantized_in_float"]
)
def test_a_package_needs_no_tensorflow_and_gives_onnx_runtimes_answers(
    name: str, tool: Tool, networks: Path, tmp_path: Path
) -> None:
    made = networks / f"{name}.onnx"
    (tmp_path / f"{name}.onnx").write_bytes((made if made.exists() else networks / "files" / made.name).read_bytes())
    tool("init", f"{name}.onnx", "-o", "spec.yaml")
    assert "tensorflow" not in (tmp_path / "spec.yaml").read_text()
    assert "toolchain: tfaot-pkg " in tool("check", "spec.yaml")
    # Kernels of bytes ask a CPU of x86-64-v4 for more than that level has.
    fewer = ["--target", "x86-64-v3", "--target", "x86-64-v4", "--batch-size", "1", "--batch-size", "4"]
    assert "verified against ONNX Runtime" in tool("build", "spec.yaml", "-o", "prefix", *fewer)
    model = load(tmp_path / "prefix")
    for rows in (1, 5):
        inputs, theirs = arrays_of(networks / name / f"{rows}.npz")
        ours = model(
            **{each.name: inputs[key] for each in model.signature.inputs for key in inputs if key == each.name}
        )
        for key, wanted in theirs.items():
            assert np.allclose(ours[key], wanted, 1e-5, 1e-5), key


_REDUCED = """\
model: {name: image_classes, version: 1.0.0, onnx: image_classes.onnx, shapes: {image: [batch, 8, 10, 10]}}
compilation: {batch_sizes: [1, 4], targets: [x86-64-v2, x86-64-v3], precision: {compute: bfloat16}}
"""


@pytest.mark.nightly
def test_a_package_of_bfloat16_states_its_price(tool: Tool, networks: Path, tmp_path: Path) -> None:
    (tmp_path / "image_classes.onnx").write_bytes((networks / "files" / "image_classes.onnx").read_bytes())
    spec = tmp_path / "spec.yaml"
    spec.write_text(_REDUCED)
    assert "bfloat16 changes the model's answers, so the spec must say by how much" in tool(
        "check", spec, code=SpecError.exit_code
    )
    spec.write_text(f"{_REDUCED}validation: {{accuracy: {{logit: {{largest: 1}}}}}}\n")
    said = tool("build", spec, "-o", "prefix", code=SpecError.exit_code)
    assert "the model has no output 'logit'" in said and "the output 'logits' has no bars" in said
    spec.write_text(f"{_REDUCED}validation: {{accuracy: {{all: {{mean: 0.1, largest: 1e-4}}}}}}\n")
    said = tool("build", spec, "-o", "prefix", code=ValidationError.exit_code)
    assert "output 'logits', x86-64-v3: the largest error is 0.0" in said and "and the bar 0.0001" in said
    assert not (tmp_path / "prefix").exists()
    spec.write_text(f"{_REDUCED}validation: {{accuracy: {{all: {{largest: 0.1, quantile: {{0.95: 0.05}}}}}}}}\n")
    built = json.loads(tool("publish", spec, "--registry", "models", "--json"))
    assert built["engine"]["precision"] == {"compute": "bfloat16", "layers": 3}
    assert built["engine"]["reproducible"] == "cpus"
    said = tool("show", "image_classes", "--registry", "models")
    assert "precision:   bfloat16: layers multiply numbers of 8 significant bits" in said
    assert "errors:      logits: largest 0.0" in said and ", 0.95 quantile 0.0" in said and "argmax equal for" in said
    shown = json.loads(tool("show", "image_classes", "--registry", "models", "--json"))
    (price,) = shown["accuracy"]
    assert shown["precision"] == "bfloat16" and 1e-4 < price["mean"] < price["largest"] < 0.1
    figure = r"\d+\.\d\d"
    for gain in shown["gains"]:
        assert re.fullmatch(
            rf"{figure}(, {figure})* times as fast as in float32 at batch sizes? [\d, ]+ \(x86-64-v\d\)", gain
        )
    assert f"gains:       {shown['gains'][0]}" in said
    tool("install", "image_classes", "--registry", "models", "--prefix", "prefix")
    assert "bfloat16_dense" in tool("inspect", spec, "--what", "program")
    model = load(tmp_path / "prefix")
    inputs, theirs = arrays_of(networks / "image_classes" / "5.npz")
    errors = np.abs(model(**inputs)["logits"] - theirs["logits"])
    assert 1e-4 < errors.max() < 0.1


@pytest.mark.nightly
def test_a_package_of_products_of_parts_is_nearly_float32(tool: Tool, networks: Path, tmp_path: Path) -> None:
    """Of two parts with a bar that bfloat16 misses, and of three with one that two miss."""
    (tmp_path / "image_classes.onnx").write_bytes((networks / "files" / "image_classes.onnx").read_bytes())
    spec = tmp_path / "spec.yaml"
    inputs, theirs = arrays_of(networks / "image_classes" / "5.npz")
    found = {}
    for compute, largest in (("float32x3", 5e-5), ("float32x6", 2e-6)):
        wanted = _REDUCED.replace("compute: bfloat16", f"compute: {compute}")
        spec.write_text(f"{wanted}validation: {{accuracy: {{all: {{largest: {largest:.1e}}}}}}}\n")
        assert f"3 layers in {compute}; reproducible: cpus" in tool("build", spec, "-o", compute)
        found[compute] = np.abs(load(tmp_path / compute)(**inputs)["logits"] - theirs["logits"]).max()
        assert found[compute] < largest
    assert found["float32x6"] < found["float32x3"]
    assert "parts=3" in tool("inspect", spec, "--what", "program")


_BYTES = _REDUCED.replace("compute: bfloat16", "compute: int8, calibration: rows.npz")


def test_a_package_of_bytes_is_calibrated_and_states_what_layers_cost(
    tool: Tool, networks: Path, tmp_path: Path
) -> None:
    (tmp_path / "image_classes.onnx").write_bytes((networks / "files" / "image_classes.onnx").read_bytes())
    rows = np.random.default_rng(8).normal(size=(50, 8, 10, 10)).astype(np.float32)
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"{_BYTES}validation: {{accuracy: {{all: {{largest: 0.2}}}}}}\n")
    said = tool("build", spec, "-o", "prefix", code=SpecError.exit_code)
    assert "compilation.precision.calibration: cannot read" in said
    np.savez(tmp_path / "rows.npz", picture=rows)
    said = tool("build", spec, "-o", "prefix", code=SpecError.exit_code)
    assert "has the arrays ['picture'], but the model's inputs are ['image']" in said
    np.savez(tmp_path / "rows.npz", image=rows)
    spec.write_text(f"{_BYTES}validation: {{accuracy: {{all: {{largest: 1e-5}}}}}}\n")
    said = tool("build", spec, "-o", "prefix", code=ModelError.exit_code)
    assert "no layer alone keeps the bars" in said and said.count("  float32\n") >= 3
    spec.write_text(f"{_BYTES}validation: {{accuracy: {{all: {{largest: 0.2}}}}}}\n")
    built = json.loads(tool("publish", spec, "--registry", "models", "--json"))
    precision = built["engine"]["precision"]
    assert (precision["compute"], precision["layers"]) == ("int8", 3)
    assert built["engine"]["reproducible"] == "cpus"
    assert "3 of 3 layers in int8, 100% of the multiply-adds" in tool("build", spec, "-o", "prefix")
    table = tool("inspect", spec, "--what", "precision").splitlines()
    assert table[0] == "compute: int8, 3 layers" and [line.split()[-1] for line in table[2:]] == ["int8"] * 3
    model = load(tmp_path / "prefix")
    inputs, theirs = arrays_of(networks / "image_classes" / "5.npz")
    errors = np.abs(model(**inputs)["logits"] - theirs["logits"])
    assert 1e-4 < errors.max() < 0.2
    report = json.loads((tmp_path / "prefix/share/tfaot-model-image-classes/validation.json").read_text())
    assert [each["compute"] for each in report["layers"]] == ["int8"] * 3
    said = tool("show", "image_classes", "--registry", "models")
    assert "precision:   int8: layers multiply bytes, and add integers" in said
    provenance = (tmp_path / "prefix/share/tfaot-model-image-classes/provenance.json").read_text()
    assert '"calibration rows.npz"' in provenance and sha256_file(tmp_path / "rows.npz") in provenance


@pytest.mark.nightly
def test_labelled_rows_are_judged_by_accuracy_and_auc(tool: Tool, networks: Path, tmp_path: Path) -> None:
    (tmp_path / "image_classes.onnx").write_bytes((networks / "files" / "image_classes.onnx").read_bytes())
    random, spec = np.random.default_rng(8), tmp_path / "spec.yaml"
    np.savez(tmp_path / "rows.npz", image=random.normal(size=(50, 8, 10, 10)).astype(np.float32))
    np.savez(tmp_path / "labels.npz", logits=random.integers(0, 11, 50) + np.arange(50) // 49 * 20)
    bars = "accuracy: {logits: {largest: 0.1, accuracy: 0.05, auc: 0.05}}"
    spec.write_text(f"{_REDUCED}validation: {{inputs: rows.npz, labels: labels.npz, {bars}}}\n")
    said = tool("build", spec, "-o", "prefix", code=SpecError.exit_code)
    assert "validation.labels: the array 'logits' has labels from 0 to " in said and "the classes are 0 to 9" in said
    np.savez(tmp_path / "labels.npz", logits=random.integers(0, 10, 50))
    tool("publish", spec, "--registry", "models")
    shown = json.loads(tool("show", "image_classes", "--registry", "models", "--json"))
    accuracy, auc = shown["accuracy"][0]["tasks"]
    assert (accuracy["name"], auc["name"]) == ("accuracy", "AUC")
    assert 0 <= accuracy["theirs"] - accuracy["ours"] <= 0.05 or accuracy["ours"] > accuracy["theirs"]
    assert accuracy["theirs"] * 50 == pytest.approx(round(accuracy["theirs"] * 50))


@pytest.mark.nightly
def test_forms_of_precision_are_built_compared_and_timed(tool: Tool, networks: Path, tmp_path: Path) -> None:
    (tmp_path / "image_classes.onnx").write_bytes((networks / "files" / "image_classes.onnx").read_bytes())
    np.savez(tmp_path / "rows.npz", image=np.random.default_rng(8).normal(size=(50, 8, 10, 10)).astype(np.float32))
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"{_REDUCED.partition(', targets')[0]}, targets: [x86-64-v3]}}\nvalidation: {{accuracy: {{all: {{largest: 1e-5}}}}}}\n"
    )
    words = ["--precision", "--calibration", "rows.npz", "-o", "plot.svg", "--json"]
    found = json.loads(tool("tune", spec, *words))
    float32, bfloat16, int8 = found["points"]
    assert "no layer alone keeps the bars" in found["unavailable"]["int8 within bars"]
    errors = [each["accuracy"][0]["largest"] for each in (float32, bfloat16, int8)]
    assert errors[0] < 1e-5 < errors[1] < errors[2] < 0.2
    assert [bool(each["missed"]) for each in (float32, bfloat16, int8)] == [False, True, True]
    assert [each["layers"] for each in (float32, bfloat16, int8)] == [0, 3, 3]
    assert [(each["target"], each["batch_size"]) for each in int8["times"]] == [("x86-64-v3", 1), ("x86-64-v3", 4)]
    assert {each["times"] for each in float32["times"]} == {1.0}
    assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml") and not (tmp_path / "spec.tune.json").exists()


def test_inspect_shows_which_layers_skip_zeros(tool: Tool, networks: Path, tmp_path: Path) -> None:
    (tmp_path / "pruned.onnx").write_bytes((networks / "pruned.onnx").read_bytes())
    tool("init", "pruned.onnx", "-o", "spec.yaml")
    assert tool("inspect", "spec.yaml", "--what", "cpp").count("sparseDense(") == 2


_CALLS = r"""
#include <tfaot-model-computed-sizes/model.h>
#include <tfaot/shared.h>

#include <cstdio>
#include <vector>

template <class Call>
void failing(Call&& call) {
  try {
    call();
  } catch (const tfaot::Error& error) {
    std::puts(error.what());
  }
}

int main() {
  tfaot_model::computed_sizes model;
  const tfaot::Shared<tfaot_model::computed_sizes> shared;
  std::vector<float> x(2 * 3 * 7), m(2 * 5), steps(2 * 4 * 5), pairs(2 * 35);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5);
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = static_cast<float>(i);
  model.run(2, {m, x}, {pairs, steps});
  const auto results = shared.run(2, {m, x});
  std::printf("%zu %zu\n", results.steps.size(), results.pairs.size());
  bool same = true;
  for (std::size_t i = 0; i < steps.size(); ++i) same = same && steps[i] == results.steps.data()[i];
  for (std::size_t i = 0; i < pairs.size(); ++i) same = same && pairs[i] == results.pairs.data()[i];
  std::puts(same && pairs[69] == 9 * (x[27] + x[34] + x[41]) ? "same" : "different");
  steps.resize(2 * 4 * 7);
  failing([&] { model.run(2, {m, x}, {pairs, steps}); });
  failing([&] { shared.run(2, {m, x}, {pairs, steps}); });
}
"""


def test_outputs_have_sizes_that_are_computed_from_symbols(tool: Tool, networks: Path, tmp_path: Path) -> None:
    """In Python and C++: from the sizes of inputs, which differ between calls."""
    (tmp_path / "computed_sizes.onnx").write_bytes((networks / "computed_sizes.onnx").read_bytes())
    tool("init", "computed_sizes.onnx", "-o", "spec.yaml")
    text = (tmp_path / "spec.yaml").read_text()
    assert "float32[batch, 4, time - 2]" in text and "float32[batch, masses*time]" in text
    fewer = ["--target", "x86-64-v3", "--batch-size", "1", "--batch-size", "4"]
    assert "verified against ONNX Runtime" in tool("build", "spec.yaml", "-o", "prefix", *fewer)
    model = load(tmp_path / "prefix")
    assert {each.name: each.axes for each in model.signature.outputs} == {
        "pairs": ("", "masses*time"),
        "steps": ("", "", "time - 2"),
    }
    for rows in (1, 5):
        inputs, theirs = arrays_of(networks / "computed_sizes" / f"{rows}.npz")
        ours = model(m=inputs["m"], x=inputs["x"])
        for key, wanted in theirs.items():
            np.testing.assert_allclose(ours[key], wanted, 1e-5, 1e-5)
    (tmp_path / "calls.cpp").write_text(_CALLS)
    prefix, flags = tmp_path / "prefix", "-std=c++17 -Wall -Wextra -Wconversion -Wshadow -Werror".split()
    command: list[str | Path] = [
        "g++",
        *flags,
        f"-I{prefix / 'include'}",
        tmp_path / "calls.cpp",
        f"-L{prefix / 'lib'}",
    ]
    process_run([*command, "-ltfaot-model-computed-sizes", f"-Wl,-rpath,{prefix / 'lib'}", "-o", tmp_path / "calls"])
    assert process_run([tmp_path / "calls"]).stdout.splitlines() == [
        "40 70",
        "same",
        'computed_sizes: output "steps": expected 40 elements (2 rows of 20), got 56',
        'computed_sizes: output "steps": expected 40 elements (2 rows of 20), got 56',
    ]


@pytest.mark.nightly
def test_rows_that_depend_on_one_another_are_an_axis_with_a_range(tool: Tool, networks: Path, tmp_path: Path) -> None:
    """A sum over all rows."""
    (tmp_path / "loops.onnx").write_bytes((networks / "files" / "long_loops.onnx").read_bytes())
    tool("init", "loops.onnx", "-o", "spec.yaml")
    text = (tmp_path / "spec.yaml").read_text()
    assert 'x: ["rows <= 128", 3]' in text and "To fill in" not in text
    text = text.replace('["rows <= 128", 3]', "[batch, 3]")
    (tmp_path / "spec.yaml").write_text(text)
    assert "rows <= 64" in tool("check", "spec.yaml", code=12)


def test_what_cannot_be_built_is_an_error_with_a_way_out(tool: Tool, networks: Path, tmp_path: Path) -> None:
    """An operator that is not supported, and XLA, which compiles only TensorFlow's graphs."""
    spec = (
        "model: {name: sampled, version: '1.0.0', onnx: sampled.onnx}\nsource: {path: .}\n"
        "compilation: {batch_sizes: [1]}\n"
    )
    (tmp_path / "sampled.onnx").write_bytes((networks / "files" / "rejected" / "sampled.onnx").read_bytes())
    (tmp_path / "spec.yaml").write_text(spec)
    said = tool("check", "spec.yaml", code=12)
    assert "com.microsoft.Sampling (node" in said and "ORT_ENABLE_BASIC" in said
    (tmp_path / "dense.onnx").write_bytes((networks / "files" / "dense.onnx").read_bytes())
    (tmp_path / "spec.yaml").write_text(spec.replace("sampled", "dense").replace("[1]", "[1], engine: xla"))
    assert "engine is xla" in tool("check", "spec.yaml", code=12)
    assert "TensorFlow takes no part" in tool("inspect", "spec.yaml", "--what", "hlo", code=12)
