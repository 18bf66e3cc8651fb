"""Artifacts of jax.export and MLIR modules become SavedModels with the author's names, and with JAX's own answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from tests.toolchains import VERSIONS
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.messages.conversions import Convert
from tfaot_pkg.worker_program.messages.requests import Nothing, Reference, Referenced
from tfaot_pkg.worker_program.messages.sources import BuildMlir, ReadMlir, SourceModel

pytestmark = [
    pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(300), pytest.mark.sweep("2.17.1*"),
]  # fmt: skip
_PROGRAM = Path(__file__).with_name("mlir_files.py")
_JAX = FRONTENDS["jax"]
_MLP = (["features"], ["norm", "score"])
_NAMES = {
    "mlp": _MLP,
    "platforms": _MLP,
    "shared": (["x"], ["output_0"]),
    "recurrent": (["in_", "start"], ["class_", "steps"]),
    "looked_up": (["codes", "flags", "unused"], ["output_0", "output_1"]),
    "fixed": _MLP,
    "ranged": (["x"], ["output_0"]),
}
_MODULES = ["mlp.mlir", "mlp.mlirbc", "shared.mlir", "recurrent.mlirbc", "fixed.mlirbc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Exported models in `folder`, and a pool of workers that can read them."""

    folder: Path
    pool: WorkerPool

    def read(self, path: Path) -> tuple[SourceModel, Path]:
        made, given = self.pool.new_folder("read"), self.pool.given_folder("read")
        found = self.pool.get(frontend=_JAX).call(ReadMlir(path=str(path), out=str(made)), SourceModel)
        self.pool.take(made, given)
        return found, given

    def built(self, path: Path) -> tuple[SourceModel, Path]:
        found, parts = self.read(path)
        made = self.pool.new_folder("built")
        self.pool.get(number=1).call(BuildMlir(parts=str(parts), out=str(made)), Nothing)
        return found, made

    def answers(self, request: Reference) -> dict[str, np.ndarray]:
        worker = self.pool.get(frontend=_JAX if request.framework == "jax" else None)
        worker.call(request, Referenced)
        return {name.removeprefix("3/"): values for name, values in _arrays(Path(request.out)).items()}

    def written(self, name: str, text: str) -> Path:
        path = self.pool.given_folder("text") / name
        path.write_text(text)
        return path


@pytest.fixture(scope="module", params=VERSIONS)
def files(
    request: pytest.FixtureRequest, shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Files]:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    environment = ensure(request.param, folders=folders, progress=Silent())
    frontends = FrontendEnvironments(folders=folders, progress=Silent())
    scratch = tmp_path_factory.mktemp("scratch")
    with WorkerPool(environment, scratch_root=scratch, logs=scratch / "logs", frontends=frontends) as pool:
        folder = pool.given_folder("jax")
        run([frontends.ensure(_JAX, environment.python).python, "-I", "-B", _PROGRAM, folder], timeout=200)
        yield Files(folder=folder, pool=pool)


@pytest.mark.parametrize("name", [*(f"{name}.jax" for name in _NAMES), *_MODULES])
def test_models_have_the_names_of_their_author_and_the_answers_of_jax(name: str, files: Files) -> None:
    source, folder = files.built(files.folder / name)
    case = name.partition(".")[0]
    inputs, outputs = _NAMES[case]
    if case == "recurrent" and source.origin == "StableHLO":
        inputs = ["inputs_in", "start"]  # only an artifact knows that `inputs` is a dictionary
    assert ([each.name for each in source.inputs], [each.name for each in source.outputs]) == (inputs, outputs)
    assert source.symbols == ({"n": (2, 40)} if case == "ranged" else {})
    given = _arrays(files.folder / f"{case}.inputs.npz")
    feeds = {each: given[str(place)] for place, each in enumerate(inputs)}
    right = _arrays(files.folder / f"{case}.answers.npz")
    expected = {each: right[str(place)] for place, each in enumerate(outputs)}
    _require_close(files.answers(_asked(files, feeds, outputs, folder, "tensorflow")), expected)
    asked = replace(
        _asked(files, feeds, outputs, files.folder / name, "jax"),
        feeds={each.name: each.key for each in source.inputs},
        fetches={each.name: each.key for each in source.outputs},
    )
    _require_close(files.answers(asked), expected)


def test_a_net_of_flax_that_an_older_jax_exported_gives_its_answers(files: Files) -> None:
    """Convolutions, normalizations, attention and an LSTM (artifacts/make_flax.py)."""
    folder = Path(__file__).with_name("artifacts")
    path = files.pool.given_folder("flax") / "flax.jax"
    path.write_bytes((folder / "flax.jax").read_bytes())
    source, built = files.built(path)
    known = _arrays(folder / "flax.npz")
    feeds, outputs = {name: known[name] for name in ("image", "track")}, ["kind", "mass"]
    assert [each.name for each in (*source.inputs, *source.outputs)] == [*feeds, *outputs]
    expected = {name: known[name] for name in outputs}
    _require_close(files.answers(_asked(files, feeds, outputs, built, "tensorflow")), expected)


@pytest.mark.parametrize("case", ["composed", "spectra", "rows_of"])
def test_functions_of_jax_numpy_lax_and_scipy_compute_what_jax_does(case: str, files: Files) -> None:
    source, folder = files.built(files.folder / f"{case}.jax")
    given, right = _arrays(files.folder / f"{case}.inputs.npz"), _arrays(files.folder / f"{case}.answers.npz")
    names = [each.name for each in source.outputs]
    found = files.answers(_asked(files, {"x": given["0"]}, names, folder, "tensorflow"))
    assert len(names) == len(right)
    wrong = {
        name: (found[name], right[str(place)])
        for place, name in enumerate(names)
        # A product of bfloat16 has 8 bits, if it is rounded.
        if not np.allclose(found[name], right[str(place)], rtol=2**-7 if name == "short" else 2e-4, atol=5e-6)
    }
    assert wrong == {}


def test_large_constants_are_weights_apart_from_the_code_and_equal_ones_are_one(files: Files) -> None:
    for name, weights in {"mlp": 1, "shared": 1, "recurrent": 2, "looked_up": 1}.items():
        _, parts = files.read(files.folder / f"{name}.jax")
        assert len(list(parts.glob("constant_*.bin"))) == weights, name


_DIALECT = """
func.func @main(%in: tensor<?x2xf32>, %steps: tensor<i32>) -> (tensor<?x3xf32>, tensor<?xi64>) {
  %w = "tf.Const"() {value = dense<[[1.0, 2.0, 3.0], [0.5, 0.25, -1.0]]> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %axis = "tf.Const"() <{value = dense<-1> : tensor<i32>}> {device = ""} : () -> tensor<i32>
  %0 = "tf.MatMul"(%in, %w) {transpose_a = false} : (tensor<?x2xf32>, tensor<2x3xf32>) -> tensor<?x3xf32>
  %1:2 = "tf.While"(%steps, %0) {cond = @more, body = @next, is_stateless = true}
    : (tensor<i32>, tensor<?x3xf32>) -> (tensor<i32>, tensor<?x3xf32>)
  %2 = "tf.ArgMax"(%1#1, %axis) : (tensor<?x3xf32>, tensor<i32>) -> tensor<?xi64>
  return %1#1, %2 : tensor<?x3xf32>, tensor<?xi64>
}
func.func private @more(%n: tensor<i32>, %y: tensor<?x3xf32>) -> tensor<i1> {
  %zero = "tf.Const"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = "tf.Greater"(%n, %zero) : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @next(%n: tensor<i32>, %y: tensor<?x3xf32>) -> (tensor<i32>, tensor<?x3xf32>) {
  %one = "tf.Const"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %half = "tf.Const"() {value = dense<0.5> : tensor<3xf32>} : () -> tensor<3xf32>
  %0 = "tf.Sub"(%n, %one) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %1 = "tf.AddV2"(%y, %half) : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  return %0, %1 : tensor<i32>, tensor<?x3xf32>
}
"""


def test_functions_of_the_tensorflow_dialect_compute_what_they_say_also_after_a_round_trip(files: Files) -> None:
    source, folder = files.built(files.written("hand.mlir", _DIALECT))
    assert [each.name for each in (*source.inputs, *source.outputs)] == ["in_", "steps", "output_0", "output_1"]
    assert not source.has_answers
    x = np.array([[1, 2], [-3, 4], [0, 0.5]], np.float32)
    feeds = {"in_": x, "steps": np.array(4, np.int32)}
    sums = x @ np.array([[1, 2, 3], [0.5, 0.25, -1]], np.float32) + 2
    expected = {"output_0": sums, "output_1": sums.argmax(axis=1)}
    _require_close(files.answers(_asked(files, feeds, [*expected], folder, "tensorflow", batched=("in_",))), expected)

    # As it was written until 2022.
    old = files.written("old.mlir", _DIALECT.replace("func.func", "func"))
    _, older = files.built(old)
    _require_close(files.answers(_asked(files, feeds, [*expected], older, "tensorflow", batched=("in_",))), expected)

    text = files.pool.new_folder("text") / "again.mlir"
    request = Convert(folder=str(folder), tags=("serve",), signature="serving_default", form="mlir", out=str(text))
    files.pool.get().call(request, Nothing)
    _, again = files.built(files.written("again.mlir", text.read_text()))
    _require_close(files.answers(_asked(files, feeds, [*expected], again, "tensorflow", batched=("in_",))), expected)


def _main(line: str) -> str:
    """A function of one line, which gives %0."""
    return f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  {line}\n  return %0 : tensor<4xf32>\n}}\n"


_ONE = ": (tensor<4xf32>) -> tensor<4xf32>"
_TWICE = f"func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  %0 = call @f(%x) {_ONE}\n  return %0 : tensor<4xf32>\n}}"
_TEXTS = {
    _main(f'%0 = "tf.Twice"(%x) ({{ "tf.Yield"() : () -> () }}) {_ONE}'): "the operation tf.Twice has regions",
    _main(f'%0 = "tf.Relooo"(%x) {_ONE}'): "has no operation Relooo",
    _main('%0 = "tf.AddV2"(%x) : (tensor<4xf32>) -> tensor<4xf32>'): "operands of tf.AddV2: 1 are given, it has 2",
    _main(f'%0 = "tf.Relu"(%x) {_ONE}').replace("f32", "i99"): "the type i99 is not one of TensorFlow's",
    _main(f'%0 = "tf.Softmax"(%x) {{T = i32}} {_ONE}'): "the operation tf.Softmax is not valid",
    _main(
        f'%0 = "tf.PartitionedCall"(%x) {{f = @main}} {_ONE}'
    ): "the function @main is not in the module, or calls itself",
    _main(f'%0 = "tf.Relu"(%x) {_ONE}').replace("return", "tf_executor.yield"): "is not MLIR of functions",
    _main(f"%0 = call @f(%x) {_ONE}") + _TWICE: "calls without an end",
    _TWICE: "no function named main",
    _main("%0 = stablehlo.negate %x : tensor<4xf32>").replace("32>\n}", "32> loc(" + "fused[" * 9000 + "\n}"): (
        "is nested deeper than 256 brackets"
    ),
    f"module attributes {{a = {'[' * 9000}{']' * 9000}}} {{ func.func @main() {{ return }} }}": "deeper than 256 brackets",
    "a func is not a module": "is not StableHLO that can be read",
    _main(f"%0 = stablehlo.custom_call @system(%x) {_ONE}"): "calls code that is not in it: system",
}


@pytest.mark.parametrize(("kind", "is_open"), [("i32", True), ("ui8", True), ("f64", False), ("i1", False)])
def test_only_conversions_to_integers_leave_results_open(kind: str, is_open: bool, files: Files) -> None:
    """Others are no operation by which validation may excuse a difference."""
    back = f"%1 = stablehlo.convert %0 : (tensor<3x{kind}>) -> tensor<3xf32>"
    text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3x{kind}>
  {back}
  return %1 : tensor<3xf32>
}}"""
    source, _ = files.read(files.written("converted.mlir", text))
    asked = _asked(files, {"x": np.ones(3, np.float32)}, ["y"], files.pool.given_folder("text"), "jax", batched=())
    asked = replace(
        asked, folder=str(files.written("again.mlir", text)), stacked=(),
        feeds={"x": source.inputs[0].key}, fetches={"y": source.outputs[0].key},
    )  # fmt: skip
    found = files.pool.get(frontend=_JAX).call(asked, Referenced)
    assert ("stablehlo.convert" in found.operations) == is_open


def test_modules_that_cannot_be_models_are_refused_with_the_reason(files: Files) -> None:
    found = {text: _refusal(partial(files.built, files.written("text.mlir", text))) for text in _TEXTS}
    assert {text: message for text, message in _TEXTS.items() if message not in found[text]} == {}


def test_artifacts_that_cannot_be_models_are_refused(files: Files) -> None:
    assert "was exported for tpu, not for CPUs" in _refusal(partial(files.built, files.folder / "tpu.jax"))
    assert "lapack_spotrf_ffi" in _refusal(partial(files.built, files.folder / "call.jax"))
    assert "ApproxTopK" in _refusal(partial(files.built, files.folder / "approximate.jax"))
    whole = (files.folder / "mlp.jax").read_bytes()
    for size in (0, 1, 100, len(whole) // 2):
        path = files.pool.given_folder("cut") / "cut.jax"
        path.write_bytes(whole[:size])
        assert "cut.jax" in _refusal(partial(files.built, path))


def _asked(
    files: Files,
    values: Mapping[str, np.ndarray],
    outputs: list[str],
    path: Path,
    framework: Literal["tensorflow", "jax"],
    *,
    batched: tuple[str, ...] | None = None,
) -> Reference:
    inputs = files.pool.given_folder("inputs") / "inputs.npz"
    np.savez(inputs, **values)  # type: ignore[arg-type]  # NumPy's stub takes keywords for options
    return Reference(
        folder=str(path), tags=("serve",), signature="serving_default", inputs=str(inputs),
        out=str(files.pool.new_folder("answers") / "answers.npz"), batch_sizes=(3,),
        batched=tuple(values) if batched is None else batched, stacked=tuple(outputs), framework=framework,
    )  # fmt: skip


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def _require_close(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-5, atol=2e-6)


def _refusal(convert: Callable[[], object]) -> str:
    with pytest.raises(ModelError) as caught:
        convert()
    return caught.value.message
