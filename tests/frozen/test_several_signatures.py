"""Several signatures of one SavedModel in one package: one class each, weights once, TensorFlow's answers."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tests.coverage import verified
from tests.kept import saved_models
from tests.wording import reported
from tfaot_pkg.errors import RunError, SpecError
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.ground.process import run
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.spec.parse import parse_spec

HERE = Path(__file__).resolve().parent
SIGNATURES = {
    "score": {},
    "encode": {},
    "decode": {"serving_key": "decode_it", "inputs": ["z", "gain"], "outputs": {"output_0": "image"}},
}
COMPILATION = {"batch_sizes": [1, 4], "targets": ["x86-64-v3"]}
ONCE = 64 * 16 * 4
"""Bytes of the kernel that all signatures read, `decode` transposed: so it is packed twice, and not three times."""

PROGRAM = """
#include <tfaot-model-coder/model.h>
#include <tfaot/tfaot.h>

#include <cstdio>
#include <vector>

int main() {
  const tfaot::Shared<tfaot_model::coder_encode> encode;
  tfaot::Model<tfaot_model::coder_decode> decode;
  std::vector<float> x(3 * 64), z(3 * 16), image(3 * 64);
  const float gain[] = {2};
  if (std::fread(x.data(), sizeof(float), x.size(), stdin) != x.size()) return 1;
  encode.run(3, {x}, {z});
  decode.run(3, {z, gain}, {image});
  for (const float each : image) std::printf("%.9g\\n", static_cast<double>(each));

  // In C: a call of all tensors leaves a signature out by null pointers, but no part of it.
  const tfaot_model_table& all = tfaot_model::coder::table();
  if (all.info->num_signatures != 3 || all.info->signatures[0].table->info->num_inputs != 2) return 2;
  const tfaot_code* code = nullptr;
  if (all.select(nullptr, &code, nullptr, 0) != TFAOT_OK) return 3;
  const void* in[] = {nullptr, nullptr, reinterpret_cast<const char*>(x.data()) + 1, nullptr};  // gain, z, x: copied
  void* out[] = {nullptr, z.data(), nullptr};
  if (all.compute(code, 2, in, out, nullptr, 0, nullptr, 0) != TFAOT_OK) return 4;
  in[0] = gain;
  if (all.compute(code, 2, in, out, nullptr, 0, nullptr, 0) != TFAOT_INVALID_ARGUMENT) return 5;
  const void* const none[] = {nullptr, nullptr, nullptr, nullptr};
  void* const nowhere[] = {nullptr, nullptr, nullptr};
  return all.compute(code, 2, none, nowhere, nullptr, 0, nullptr, 0) == TFAOT_INVALID_ARGUMENT ? 0 : 6;
}
"""


@pytest.fixture(scope="session")
def made(shared_home_folder: Path, toolchain_python: Path) -> Path:
    return saved_models(shared_home_folder, HERE / "signature_models.py", toolchain_python)


@pytest.mark.coverage
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_each_signature_is_a_class_over_the_same_weights(made: Path, tfaot: CommandLine, tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path / "coder.yaml",
        made / "coder",
        model={"name": "coder", "version": "1.0.0", "saved_model": "coder", "signatures": SIGNATURES},
        compilation=COMPILATION,
        package={"source": True},
    )
    with verified("models: several signatures", version=DEFAULT_VERSION, engine="program"):
        tfaot.works("build", spec, "-o", tmp_path / "prefix")
    model, answers = load(tmp_path / "prefix"), np.load(made / "coder.npz")
    encoded = model.signatures["encode"](x=answers["encode/x"])
    decode = pickle.loads(pickle.dumps(model.signatures["decode"]))
    np.testing.assert_allclose(encoded["z"], answers["encode/z"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(decode(answers["decode/z"], 2.0)["image"], answers["decode/image"], rtol=1e-5, atol=1e-5)
    both = model(
        **{name: answers[name] for name in ("encode/x", "decode/z", "decode/gain")}, **{"score/x": answers["encode/x"]}
    )
    assert (both["encode/z"] == encoded["z"]).all() and sorted(both) == ["decode/image", "encode/z", "score/y"]
    np.testing.assert_allclose(both["score/y"], answers["score/y"], rtol=1e-5, atol=1e-5)
    with pytest.raises(RunError):
        decode(answers["decode/z"])
    share = tmp_path / "prefix/share/tfaot-model-coder"
    assert (share / "source/weights.bin").stat().st_size < 2.1 * ONCE
    info = json.loads((share / "info.json").read_text())
    assert info["signatures"] == [
        {"name": "decode", "class": "tfaot_model::coder_decode", "inputs": ["decode/z", "decode/gain"], "outputs": ["decode/image"]},
        {"name": "encode", "class": "tfaot_model::coder_encode", "inputs": ["encode/x"], "outputs": ["encode/z"]},
        {"name": "score", "class": "tfaot_model::coder_score", "inputs": ["score/x"], "outputs": ["score/y"]},
    ]  # fmt: skip

    source, prefix = tmp_path / "main.cpp", tmp_path / "prefix"
    source.write_text(PROGRAM)
    library = prefix / "lib/libtfaot-model-coder.a"
    run(
        [
            "c++",
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-I",
            prefix / "include",
            source,
            library,
            "-o",
            tmp_path / "main",
        ]
    )
    said = run([tmp_path / "main"], stdin=answers["encode/x"][:3].tobytes()).stdout
    expected = decode(encoded["z"][:3], 2.0)["image"].ravel()
    assert np.array(said.split(), np.float32).tolist() == expected.tolist()


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_functions_of_a_module_and_what_cannot_be_one_package(made: Path, tfaot: CommandLine, tmp_path: Path) -> None:
    def spec(name: str, signatures: object, **compilation: object) -> Path:
        return write_spec(
            tmp_path / f"{name}.yaml",
            made / name,
            model={"name": name, "version": "1.0.0", "saved_model": name, "signatures": signatures},
            compilation={**COMPILATION, **compilation},
        )

    bare = spec("bare", {"encode": {}, "decode": {}}, tensorflow="2.21.0")
    tfaot.works("build", bare, "-o", tmp_path / "prefix")
    answers = np.load(made / "coder.npz")
    z = load(tmp_path / "prefix").signatures["encode"](answers["encode/x"])["z"]
    np.testing.assert_allclose(z, answers["encode/z"], rtol=1e-5, atol=1e-5)
    tfaot.fails("check", spec("coder", {"encode": {}, "other": {}}), code=12, says=["'other'", "decode_it"])
    tfaot.fails("build", spec("meeting", {"encode": {}, "centred": {}}), "-o", tmp_path / "no", code=12,
                says=["become a program", "all signatures"], hints="serving_key")  # fmt: skip
    tfaot.fails("check", spec("shared", {"twice": {}, "half": {}}), code=12, says=["'half'", "'twice'", "'x'"])


@pytest.mark.parametrize(
    ("path", "model", "compilation"),
    [
        ("model.signatures", {"keras": "a.keras"}, {}),
        ("model.serving_key", {"serving_key": "encode"}, {}),
        ("compilation.engine", {}, {"engine": "xla"}),
        ("compilation.variables", {}, {"variables": {"update": ["*"]}}),
        ("model.signatures.decode.input", {"signatures": {"decode": {"input": ["x"]}}}, {}),
        ("model.signatures", {"signatures": {}}, {}),
    ],
)
def test_what_goes_with_one_signature_only(path: str, model: dict[str, object], compilation: dict[str, object]) -> None:
    document = {
        "model": {"name": "m", "version": "1.0.0", "signatures": {"encode": {}}, **model},
        "compilation": {"batch_sizes": [1], **compilation},
    }
    with reported(SpecError, path=path):
        parse_spec(json.dumps(document).encode(), Path("spec.yaml"))
