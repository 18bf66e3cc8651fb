"""Every kind of model: the library gives TensorFlow's answers, or a clear error says why not."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from tests.coverage import Cell, Row, record
from tests.toolchains import VERSIONS
from tests.zoo.cases import BY_NAME, CASES, NEWEST_VERSION, Case
from tests.zoo.conftest import ZOO, Build, Builder, Freeze
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.frozen.model import weight_size
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, toolchain
from tfaot_pkg.frontends.toolchain.worker import Worker
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.signature import DType
from tfaot_pkg.native.compiled.program import engine_of
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.spec.types import Compilation
from tfaot_pkg.worker_program.messages.graph import Frozen

_BUILDS = [(case, version) for version in VERSIONS for case in CASES if version == DEFAULT_VERSION or case.everywhere]

_NO_PROGRAMS = frozenset(
    "svd "  # steps until all matrices have converged
    "bessel linear_algebra qr second_gradients "  # little but operations that the compiler lacks
    "wide_bits "  # arrays of another rank
    "stateless_random "  # numbers for each row, which follow from its place
    "indexing matrix_exponential scalars segments shared_in_two_functions stateful_random unbatched_output_from_batch unique "
    "while_loop".split()  # rows that depend on one another
)
_PROGRAMS_EVERYWHERE = frozenset(
    "attention complex_arithmetic conv3d conv_kinds determinant dtypes half_inside lstm sorting version1_loop".split()
)
_PROGRAMS = [
    (case, version)
    for version in VERSIONS
    for case in CASES
    if DEFAULT_VERSION not in case.faults and (version == DEFAULT_VERSION or case.name in _PROGRAMS_EVERYWHERE)
]


def _ids(builds: Sequence[tuple[Case, str]]) -> list[str]:
    return [f"{case.name}-{version}" for case, version in builds]


def test_every_model_of_the_zoo_has_its_case() -> None:
    tree = ast.parse(ZOO.read_text())
    models = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id == "model" for d in node.decorator_list)
    }
    assert models == set(BY_NAME)


@pytest.mark.coverage
@pytest.mark.sweep(
    "dense-2.17.1",
    "dense-2.21.0",
    "lstm-2.17.1",
    "version1_loop-2.17.1",
    "conv3d-2.21.0",
    "short_and_complex_borders-2.17.1",
    "complex_arithmetic-2.17.1",
    "rewritten-2.17.1",
    "lookup-2.17.1",
    "wide_output-2.17.1",
    "counter-2.17.1",
    "python_function-2.17.1",
    night=5,
)
@pytest.mark.slow
@pytest.mark.parametrize(("case", "tensorflow"), _BUILDS, ids=_ids(_BUILDS))
def test_a_model_gives_tensorflows_answers_or_a_clear_error(case: Case, tensorflow: str, build: Build) -> None:
    fault = case.faults.get(tensorflow)
    start = time.perf_counter()
    if fault is None:
        built = build(case, tensorflow=tensorflow)
        assert not built.report.failed
        compared = {(each.batch_size, each.output) for each in built.report.comparisons}
        assert compared == {(size, out.name) for size in (1, 3) for out in built.frozen.signature.outputs}
        _record(case, tensorflow, "xla", start)
        return
    with pytest.raises(fault.error, match=fault.message) as caught:
        build(case, tensorflow=tensorflow)
    assert caught.value.hint
    _record(case, tensorflow, "xla", start, refused=caught.value.message)


def _record(case: Case, version: str, engine: Literal["program", "xla"], start: float, *, refused: str = "") -> None:
    """What becomes of a model, for docs/coverage.md. A refusal has the first words of its message."""
    seconds = round(time.perf_counter() - start, 1)
    message = " ".join(refused.split())[:300]
    cell = Cell(outcome="refused" if refused else "verified", seconds=0.0 if refused else seconds, message=message)
    record(Row(construct=f"models: {case.name}", version=version, engine=engine, cell=cell))


@pytest.mark.coverage
@pytest.mark.sweep("conv_kinds-2.17.1", "half_inside-2.17.1", night=15)
@pytest.mark.slow
@pytest.mark.parametrize(("case", "tensorflow"), _PROGRAMS, ids=_ids(_PROGRAMS))
def test_a_model_that_becomes_a_program_gives_tensorflows_answers(
    case: Case, tensorflow: str, builder: Builder
) -> None:
    start = time.perf_counter()
    if case.name in _NO_PROGRAMS:  # the test above links the code that XLA makes of it
        engine = builder.compile(case, tensorflow=tensorflow, engine="auto").engine
        assert not engine.is_program
        _record(case, tensorflow, "program", start, refused=engine.reason)
        return
    built = builder.build(case, tensorflow=tensorflow, engine="auto")
    assert not built.report.failed and built.compiled.engine.is_program, built.compiled.engine
    _record(case, tensorflow, "program", start)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"engine": "xla"}, "compilation.engine is xla"),
        ({"kernels": "none"}, "compilation.kernels is none"),
        ({"weights": "embedded"}, "compilation.weights is embedded"),
        ({"xla_flags": ("--xla_cpu_enable_fast_math=false",)}, "the spec has flags for XLA"),
        ({}, ""),
    ],
)
def test_auto_leaves_a_model_to_xla_if_the_spec_says_how_xla_is_to_compile_it(
    changes: dict[str, Any], reason: str, builder: Builder
) -> None:
    frozen = builder.freeze(BY_NAME["dense"], tensorflow=DEFAULT_VERSION)
    spec = builder.spec(BY_NAME["dense"], Compilation(batch_sizes=(1, 3), targets=("x86-64-v3",), **changes))
    engine, _ = engine_of(spec, frozen, toolchain(DEFAULT_VERSION))
    assert (engine.is_program, engine.reason) == (not reason, reason)


@pytest.mark.sweep(night=["bessel-2.21.0"])
@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, NEWEST_VERSION])
@pytest.mark.parametrize("name", ["linear_algebra", "bessel"])
def test_what_the_compiler_lacks_is_a_segment_of_xlas_code(name: str, tensorflow: str, build: Build) -> None:
    built = build(BY_NAME[name], tensorflow=tensorflow, engine="program")
    engine = built.compiled.engine
    assert not built.report.failed and engine.segments
    assert engine.bits == {"reproducible": "no", "difference": "XLA computes parts of it"}


@pytest.mark.sweep("dense-2.17.1", night=["while_loop-2.17.1", "large_constant_output-2.21.0"])
@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, NEWEST_VERSION])
@pytest.mark.parametrize("name", ["dense", "conv_kinds", "while_loop", "large_constant_output"])
def test_embedded_weights_give_the_same_answers(name: str, tensorflow: str, build: Build) -> None:
    if tensorflow == NEWEST_VERSION and name == "conv_kinds":
        pytest.skip("the default toolchain shows it; this one takes longer")
    built = build(BY_NAME[name], tensorflow=tensorflow, weights="embedded")
    assert built.frozen.weights == () and not built.report.failed


@pytest.mark.sweep(night=["dense", "complex_inside"])
@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", "conv1d", "half_inside", "sorting", "complex_inside"])
def test_the_lowest_target_gives_the_same_answers(name: str, build: Build) -> None:
    built = build(BY_NAME[name], tensorflow=DEFAULT_VERSION, targets=("x86-64-v2", "x86-64-v3"))
    assert {each.target for each in built.report.comparisons} == {"x86-64-v2", "x86-64-v3"}


@pytest.mark.nightly
@pytest.mark.slow
def test_a_weight_that_xla_must_know_stays_in_the_code_and_the_others_are_shared(build: Build) -> None:
    built = build(BY_NAME["large_loop_bound"], tensorflow=DEFAULT_VERSION)
    assert len(built.frozen.weights) == 1 and built.compiled.weights == ()
    assert built.frozen.weights_file is not None
    whole = build(BY_NAME["dense"], tensorflow=DEFAULT_VERSION)
    assert whole.compiled.weights == whole.frozen.weights


@pytest.mark.slow
def test_weights_are_stored_once_for_a_program_and_for_xla(freeze_only: Freeze) -> None:
    frozen = freeze_only(BY_NAME["dense"], tensorflow=DEFAULT_VERSION)
    listed = [array.tobytes() for array in frozen.listed_constants()]
    assert frozen.weights and all(frozen.weight(weight) in listed for weight in frozen.weights)
    files = sum(path.stat().st_size for path in frozen.folder.glob("*.bin"))
    assert files < 1.5 * sum(map(weight_size, frozen.weights))


@pytest.mark.slow
def test_weights_that_no_output_needs_are_left_out(freeze_only: Freeze) -> None:
    frozen = freeze_only(BY_NAME["unused_weight"], tensorflow=DEFAULT_VERSION)
    assert [weight.shape for weight in frozen.weights] == [(20, 20)]


@pytest.mark.slow
def test_signatures_say_which_axes_grow_with_the_batch(freeze_only: Freeze) -> None:
    signature = freeze_only(BY_NAME["unbatched_output_from_batch"], tensorflow=DEFAULT_VERSION).signature
    assert {tensor.name: tensor.shape for tensor in signature.outputs} == {"mean": (3,), "n": ()}
    mixed = freeze_only(BY_NAME["mixed_batch_axes"], tensorflow=DEFAULT_VERSION).signature
    assert {tensor.name: tensor.shape for tensor in mixed.inputs} == {"table": (3, 6), "x": (None, 3)}
    unknown = freeze_only(BY_NAME["unknown_second_axis"], tensorflow=DEFAULT_VERSION).signature
    assert {tensor.name: tensor.shape for tensor in unknown.outputs} == {"y": (None,), "z": (None, 6)}


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, NEWEST_VERSION])
def test_inputs_of_one_shape_are_told_apart_by_name(tensorflow: str, build: Build) -> None:
    model = load(build(replace(BY_NAME["identity_output"], classes=()), tensorflow=tensorflow).library.shared)
    x, y = np.full((3, 4), 1, "float32"), np.full((3, 4), 20, "float32")
    answers = model(y=y, x=x)
    assert np.array_equal(answers["x_again"], x) and np.array_equal(answers["y_too"], y)
    assert np.array_equal(answers["sum"], x + y)
    assert np.array_equal(model(x, y)["x_again"], x)


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, NEWEST_VERSION])
def test_every_dtype_goes_through_whole(tensorflow: str, build: Build) -> None:
    model = load(build(replace(BY_NAME["dtypes"], classes=()), tensorflow=tensorflow).library.shared)
    inputs = {}
    for tensor in model.signature.inputs:
        dtype = np.dtype(tensor.dtype.value)
        if tensor.dtype is DType.BOOL:
            inputs[tensor.name] = np.array([[True, False, True]])
        elif dtype.kind == "f":
            inputs[tensor.name] = np.array([[np.finfo(dtype).max / 2, -0.5, np.finfo(dtype).tiny]], dtype)
        else:
            info = np.iinfo(dtype)
            inputs[tensor.name] = np.array([[info.max // 2, info.min // 2, 3]], dtype)
    answers = model(**inputs)
    for name, values in inputs.items():
        expected = ~values if values.dtype == bool else values * 2
        assert np.array_equal(answers[f"{name}_out"], expected)
        assert answers[f"{name}_out"].dtype == values.dtype


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, NEWEST_VERSION])
def test_sorting_survives_nan_and_keeps_the_order_of_equals(tensorflow: str, build: Build) -> None:
    model = load(build(BY_NAME["sorting"], tensorflow=tensorflow).library.shared)
    x = np.array([[3, 1, 2, 1, 5, 5, -1, 0, 4]], "float32")
    answers = model(x)
    assert answers["top"].tolist() == [[5, 5, 4]] and answers["where"].tolist() == [[4, 5, 8]]
    assert answers["order"].tolist() == [[6, 7, 1, 3, 2, 0, 8, 4, 5]]
    assert answers["sorted"].tolist() == [sorted(x[0].tolist())]
    assert answers["down"].tolist() == [sorted(x[0].tolist(), reverse=True)]
    x[0, ::2] = math.nan
    survived = model(x)
    for name in ("sorted", "down"):
        assert np.array_equal(np.sort(survived[name]), np.sort(x), equal_nan=True)  # NaN wherever, but nothing is lost
    assert sorted(survived["order"][0].tolist()) == list(range(9))


@pytest.mark.nightly
@pytest.mark.slow
def test_random_models_are_warned_of(build: Build) -> None:
    built = build(BY_NAME["stateful_random"], tensorflow=DEFAULT_VERSION)
    assert "RandomUniform: random numbers differ from TensorFlow's" in built.report.warnings


@pytest.mark.sweep(night=["2.21.0"])
@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, NEWEST_VERSION])
def test_libraries_are_the_same_bytes_however_they_are_built(
    tensorflow: str, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other cache folders, locale, time zone, working directory, number of workers and history of the worker process."""
    case, sizes = BY_NAME["cond"], (1, 2, 4)
    libraries = []
    for number, per_worker in enumerate((99, 1)):
        home = tmp_path / f"home {number}"
        (home / "cwd").mkdir(parents=True)
        monkeypatch.chdir(home / "cwd")
        monkeypatch.setenv("TZ", ("UTC", "Asia/Tokyo")[number])
        monkeypatch.setenv("LANG", ("C", "de_DE.UTF-8")[number])
        monkeypatch.setattr("tfaot_pkg.native.compiled.model._UNITS_PER_WORKER", per_worker)
        folders = Folders(cache=home / "cache", data=home / "data")
        libraries.append(build(case, tensorflow=tensorflow, batch_sizes=sizes, folders=folders).library)
    first, second = libraries
    assert first.static.read_bytes() == second.static.read_bytes()
    assert first.shared.read_bytes() == second.shared.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("tensorflow", [DEFAULT_VERSION, pytest.param(NEWEST_VERSION, marks=pytest.mark.nightly)])
def test_segments_that_iterate_for_all_rows_at_once_are_known_by_their_listing(
    tensorflow: str, builder: Builder
) -> None:
    found = [each for name in ("svd", "qr") for each in builder.freeze(BY_NAME[name], tensorflow=tensorflow).segments]
    assert {each.found.reason.partition(" ")[0]: each.facts.iterates for each in found} == {
        "Qr": False, "SelfAdjointEigV2": True, "Svd": True,
    }  # fmt: skip
    assert not any(each.facts.has_weights for each in found)


@pytest.mark.nightly
@pytest.mark.slow
def test_nothing_is_made_of_what_a_worker_lies_about(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smaller output would be written beyond its end."""
    call = Worker.call

    def lie(worker: Worker, request: object, answer: type[Any], **options: Any) -> Any:
        found = call(worker, request, answer, **options)
        if answer is not Frozen:
            return found
        outputs = tuple(replace(each, shape=(*each.shape[:-1], 1)) for each in found.model.outputs)
        return replace(found, model=replace(found.model, outputs=outputs))

    monkeypatch.setattr(Worker, "call", lie)
    folders = Folders(cache=tmp_path / "cache", data=tmp_path / "data")
    with pytest.raises(ToolchainError, match="gave an answer that cannot be read"):
        builder.build(BY_NAME["dense"], tensorflow=DEFAULT_VERSION, engine="auto", folders=folders)
