"""Running a library on NumPy arrays: any number of rows, and a clear error for whatever does not fit.

The library is the packaging tests' stand-in (package/fake_model.cpp): y = 2 x + bias, for batch sizes 2 and 4.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tfaot_pkg
from tests.wording import reported
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Tensor
from tfaot_pkg.runtime.c_interface import CInfo
from tfaot_pkg.runtime.loader import Model, RunError, load
from tfaot_pkg.runtime.model import _any_batch_size, _batch_costs, _fitting, _rows_independent
from tfaot_pkg.spec.rules import package_name

PACKAGE = Path(__file__).parent / "package"
BIAS = np.array([0, 10, 20], "float32")


NAMES = {"NAME": '"affine"', "VERSION": '"1.2.0"', "UID": '"0123456789ab"', "SYMBOL": "the_table", "SLOPE": "2.0f"}


def _library(folder: Path, name: str, source: str, symbol: str, **names: str) -> Path:
    """The shared library of a stand-in of the packaging tests, whose entry function is `symbol`."""
    folder.mkdir(parents=True, exist_ok=True)
    entry, output = folder / "entry.cc", folder / f"lib{package_name(name)}.so"
    entry.write_text(
        f'#include <tfaot/c_api.h>\nextern "C" const tfaot_model_table* {symbol}();\n'
        f'extern "C" const tfaot_model_table* tfaot_model_entry() {{ return {symbol}(); }}\n'
    )
    defines = [f"-DMODEL_{key}={value}" for key, value in names.items()]
    flags = ["-std=c++17", "-shared", "-fPIC", *defines, f"-I{resources.headers()}"]
    run(["g++", *flags, PACKAGE / source, entry, "-o", output])
    return output


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Of one name, which an error shows, whatever other tests this process has run.
    folder = tmp_path_factory.mktemp("prefix") / "fake"
    _library(folder / "lib", "affine", "fake_model.cpp", "the_table", **NAMES)
    return folder


@pytest.fixture
def model(prefix: Path) -> Model:
    return load(prefix)


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The same by a version without code for all threads."""
    folder = tmp_path_factory.mktemp("former")
    return load(_library(folder, "affine", "fake_model.cpp", "the_table", **NAMES, FORMER=""))


def _rows(count: int) -> npt.NDArray[np.float32]:
    return np.arange(3 * count, dtype="float32").reshape(count, 3)


def test_a_model_tells_what_it_is(model: Model) -> None:
    assert (model.name, model.version, model.uid) == ("affine", "1.2.0", "0123456789ab")
    assert model.batch_sizes == (2, 4) and model.targets == ("x86-64-v2", "x86-64-v3") and model.memory == 0
    assert repr(model) == (
        "<affine 1.2.0: (bias-in: float32[3], x: float32[N, 3]) -> (label: int64[N], y: float32[N, 3]); "
        "batch sizes 2, 4; x86-64-v2>"
    )


def test_a_model_tells_what_its_batch_sizes_cost(model: Model) -> None:
    assert model.batch_costs == {"x86-64-v2": {2: 100.0, 4: 100.0}, "x86-64-v3": {2: 100.0, 4: 150.0}}


def test_a_library_of_a_version_without_costs_has_none() -> None:
    costs = (ctypes.c_double * 1)(7.0)
    assert _batch_costs(CInfo(struct_size=ctypes.sizeof(CInfo), batch_costs=costs), ("a",), (1,)) == {"a": {1: 7.0}}
    before = CInfo(struct_size=CInfo.batch_costs.offset, batch_costs=costs)  # not the library's: it lies behind
    assert _batch_costs(before, ("x86-64-v2",), (1,)) == {}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8, 11])
def test_any_number_of_rows_is_cut_into_compiled_batches(model: Model, count: int) -> None:
    x = _rows(count)
    answers = model(x=x, **{"bias-in": BIAS})
    assert np.array_equal(answers["y"], 2 * x + BIAS)
    assert np.array_equal(answers["label"], np.full(count, 2)) and answers["label"].dtype == np.int64


def _dependent(folder: Path) -> Model:
    """`affine`, but with `centred` in its place: y = x - mean(x) over the batch, for 1 and 4 rows."""
    symbol = "tfaot_model_centred_0123456789ab"
    return load(_library(folder, "centred", "fake_others.cpp", symbol))


def test_rows_that_depend_on_one_another_run_as_whole_batches_only(model: Model, tmp_path: Path) -> None:
    centred = _dependent(tmp_path)
    assert model.rows_independent and not centred.rows_independent
    assert np.array_equal(centred(x=[1, 2, 3, 6])["y"], [-2, -1, 0, 3])
    assert np.array_equal(centred(x=[5])["y"], [0])
    for count in (0, 2, 5, 8):
        with reported(RunError):
            centred(x=np.zeros(count, "float32"))


def test_a_model_for_any_batch_size_is_called_once(model: Model, tmp_path: Path) -> None:
    whole = load(_library(tmp_path, "any", "fake_others.cpp", "tfaot_model_any_0123456789ab"))
    assert whole.any_batch_size and not model.any_batch_size
    assert whole.batch_sizes == (1, 4)
    assert repr(whole) == "<any 1.2.0: (x: float32[N]) -> (size: int64[N]); any batch size; x86-64>"
    for rows in (1, 3, 4, 5, 1000):
        assert whole(x=np.zeros(rows))["size"].tolist() == [rows] * rows  # the number of rows of the call
    assert whole.run(7, {"x": np.zeros(7)})["size"][0] == 7
    assert whole(x=[])["size"].shape == (0,)
    with reported(RunError):
        whole.run(7, {"x": np.zeros(6)})


def test_a_model_for_any_batch_size_may_have_an_output_without_batch_axis(tmp_path: Path) -> None:
    fixed = load(_library(tmp_path, "fixed", "fake_others.cpp", "tfaot_model_fixed_0123456789ab"))
    answers = fixed(x=np.zeros(5))
    assert answers["whole"] == 7 and answers["size"].tolist() == [5] * 5
    with reported(RunError):
        fixed(x=[])


def test_a_library_of_a_version_that_does_not_tell_takes_its_sizes_only() -> None:
    info = CInfo(struct_size=CInfo.any_batch_size.offset, any_batch_size=1)  # not the library's: it lies behind
    assert not _any_batch_size(info)
    assert _any_batch_size(CInfo(struct_size=ctypes.sizeof(CInfo), any_batch_size=1))
    assert not _any_batch_size(CInfo(struct_size=ctypes.sizeof(CInfo), any_batch_size=0))  # as it was when reserved


def test_a_library_of_a_version_that_does_not_tell_of_rows_composes_batches() -> None:
    info = CInfo(struct_size=CInfo.rows_independent.offset, rows_independent=0)
    assert _rows_independent(info)
    assert not _rows_independent(CInfo(struct_size=ctypes.sizeof(CInfo), rows_independent=0))


def test_a_busy_library_is_a_clear_error(former: Model) -> None:
    x = _rows(2)
    x[0, 0] = -2000  # this stand-in answers TFAOT_BUSY then
    with reported(RunError):
        former(x=x, **{"bias-in": BIAS})


def test_a_model_can_be_pickled(prefix: Path) -> None:
    model = load(prefix, target="x86-64-v3")
    stored = pickle.dumps(model)
    again = pickle.loads(stored)
    assert (again.path, again.uid, again.target) == (model.path, model.uid, "x86-64-v3")
    assert np.array_equal(again(x=_rows(3), **{"bias-in": BIAS})["y"], 2 * _rows(3) + BIAS)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        answers = pool.submit(model, x=_rows(3), **{"bias-in": BIAS}).result()
    assert np.array_equal(answers["y"], 2 * _rows(3) + BIAS)


def test_a_pickled_model_whose_library_was_replaced_is_refused(tmp_path: Path) -> None:
    names = {"NAME": '"affine"', "VERSION": '"1"', "UID": '"0123456789ab"', "SYMBOL": "first", "SLOPE": "2.0f"}
    path = _library(tmp_path, "affine", "fake_model.cpp", "first", **names)
    stored = pickle.dumps(load(path))
    path.unlink()
    _library(tmp_path, "affine", "fake_model.cpp", "second", **{**names, "UID": '"ba9876543210"', "SYMBOL": "second"})
    # In a new process: the loader of this one has the path's first library, and gives it again.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with reported(RunError):
            pool.submit(pickle.loads, stored).result()
    path.unlink()
    with reported(RunError):
        pickle.loads(stored)


def test_a_relative_folder_that_looks_like_a_name_is_taken_if_no_such_package_is_installed(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prefix.parent)
    monkeypatch.setenv("TFAOT_PREFIX", str(tmp_path))
    assert load(prefix.name).path == prefix / "lib" / "libtfaot-model-affine.so"
    with reported(RunError):
        load("nowhere")
    with reported(RunError):
        load(prefix.name, prefix=tmp_path)


def test_no_rows_give_no_rows(model: Model) -> None:
    answers = model(x=_rows(0), **{"bias-in": BIAS})
    assert answers["y"].shape == (0, 3) and answers["label"].shape == (0,) and answers["label"].dtype == np.int64


def test_arrays_may_be_given_by_position_and_as_lists(model: Model) -> None:
    assert np.array_equal(model(BIAS, _rows(2))["y"], 2 * _rows(2) + BIAS)
    assert np.array_equal(model([0.0, 0.0, 1.0], x=[[1.0, 2.0, 3.0]])["y"], [[2, 4, 7]])


def test_arrays_in_any_memory_order_and_of_wider_floats_are_taken(model: Model) -> None:
    x = np.asfortranarray(_rows(4).astype("float64"))
    assert np.array_equal(model(BIAS, x)["y"], 2 * x + BIAS)
    assert np.array_equal(model(BIAS, np.repeat(_rows(4), 2, axis=0)[::2])["y"], 2 * _rows(4) + BIAS)


def test_a_callers_arrays_are_not_changed(model: Model) -> None:
    x, bias = _rows(3), BIAS.copy()
    model(bias, x)
    assert np.array_equal(x, _rows(3)) and np.array_equal(bias, BIAS)


@pytest.mark.parametrize(
    ("positional", "named"),
    [
        ((), {"x": _rows(1)}),
        ((BIAS, _rows(1)), {"z": 1}),
        ((BIAS, _rows(1), 3), {}),
        ((BIAS, _rows(1)), {"x": _rows(1)}),
        ((BIAS, _rows(1).reshape(3)), {}),
        ((BIAS, np.zeros((2, 4), "float32")), {}),
        ((BIAS[:2], _rows(1)), {}),
        ((BIAS, None), {}),
        ((BIAS, np.float32(1)), {}),
        ((BIAS, _rows(1) + 1j), {}),
        ((BIAS, np.array([["a", "b", "c"]])), {}),
        ((BIAS, [[1.0, 2.0, 3.0], [4.0]]), {}),
        ((BIAS, [[1.0, 1e300, 3.0]]), {}),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(
    model: Model, positional: tuple[object, ...], named: dict[str, object]
) -> None:
    with reported(RunError):
        model(*positional, **named)


def test_a_batch_of_a_size_that_was_not_compiled_is_refused(model: Model) -> None:
    with pytest.raises(RunError):
        model.run(3, {"bias-in": BIAS, "x": _rows(3)})
    with reported(RunError):
        model.run(4, {"bias-in": BIAS, "x": _rows(2)})


def test_an_output_without_batch_axis_is_not_put_together_from_several_batches(tmp_path: Path) -> None:
    total = load(_library(tmp_path, "total", "fake_others.cpp", "tfaot_model_total_0123456789ab"))
    answers = total(x=[[1, 2], [3, 4]])
    assert answers["total"].shape == () and answers["total"] == 10 and answers["y"].tolist() == [3, 7]
    for rows in (0, 3, 4):
        with reported(RunError):
            total(x=np.zeros((rows, 2)))


def test_a_model_without_inputs_is_called_without_arrays(tmp_path: Path) -> None:
    source = load(_library(tmp_path, "source", "fake_others.cpp", "tfaot_model_source_0123456789ab"))
    assert source()["y"].tolist() == [1, 2]
    assert repr(source).startswith("<source 1.2.0: () -> (y: float64[2]); ")
    with reported(RunError):
        source(1)


def test_a_failed_computation_is_an_error_with_the_librarys_words(model: Model) -> None:
    x = _rows(2)
    x[1, 1] = -1000
    with reported(RunError):
        model(BIAS, x)
    assert np.array_equal(model(BIAS, _rows(2))["y"], 2 * _rows(2) + BIAS)


@pytest.mark.parametrize("version", ["model", "former"])
def test_sixty_four_threads_share_a_model(version: str, request: pytest.FixtureRequest) -> None:
    model: Model = request.getfixturevalue(version)
    with ThreadPoolExecutor(64) as executor:
        answers = list(executor.map(lambda n: model(BIAS, _rows(7) + n)["y"], range(640)))
    assert all(np.array_equal(y, 2 * (_rows(7) + n) + BIAS) for n, y in enumerate(answers))


def test_a_call_is_made_while_another_one_runs(model: Model) -> None:
    library = ctypes.CDLL(str(model.path))
    inner: list[float] = []

    def during() -> None:  # in a call of this thread
        with ThreadPoolExecutor(1) as executor:
            inner.append(executor.submit(lambda: model(BIAS, _rows(2))["y"][0, 0]).result(timeout=60))

    called = ctypes.CFUNCTYPE(None)(during)
    library.the_table_during(called)
    assert model(BIAS, _rows(4))["y"][0, 1] == 12 and inner == [0.0]


def test_scratch_memory_may_be_given(model: Model) -> None:
    inputs = {"bias-in": BIAS, "x": _rows(4)}
    size = model.scratch_bytes(4)
    assert size == 4 * 64 + 63
    for offset in range(3):
        memory = np.zeros(size + offset + 1, "uint8")
        answers = model.run(4, inputs, scratch=memory[offset : offset + size])
        assert np.array_equal(answers["y"], 2 * inputs["x"] + BIAS)
        assert memory.any() and memory[offset + size] == 0  # it was used, and nothing behind it
    read_only = np.zeros(size, "uint8")
    read_only.flags.writeable = False
    for wrong in (np.zeros(size - 1, "uint8"), np.zeros(size, "int8"), np.zeros(2 * size, "uint8")[::2], read_only):
        with reported(RunError):
            model.run(4, inputs, scratch=wrong)
    with reported(RunError):
        model.scratch_bytes(3)


def test_a_library_of_a_version_without_code_for_all_threads_takes_no_scratch_memory(former: Model) -> None:
    assert former.memory > 0 and np.array_equal(former(BIAS, _rows(5))["y"], 2 * _rows(5) + BIAS)
    with reported(RunError):
        former.scratch_bytes(4)
    with reported(RunError):
        former.run(4, {"bias-in": BIAS, "x": _rows(4)}, scratch=np.zeros(4096, "uint8"))


def test_the_target_can_be_chosen_and_an_unknown_one_is_refused(prefix: Path) -> None:
    assert load(prefix, target="x86-64-v2").target == "x86-64-v2"
    with reported(RunError):
        load(prefix, target="sparc")


def test_what_is_no_model_library_is_refused(prefix: Path, tmp_path: Path) -> None:
    with reported(RunError):
        load(tmp_path / "absent.so")
    (tmp_path / "text.so").write_text("no library")
    with reported(RunError):
        load(tmp_path / "text.so")
    (tmp_path / "other.c").write_text("int other;")
    run(["gcc", "-shared", "-fPIC", tmp_path / "other.c", "-o", tmp_path / "other.so"])
    with reported(RunError):
        load(tmp_path / "other.so")
    with reported(RunError):
        load(tmp_path)


@pytest.mark.parametrize("wrong", [3, None, b"digits", object()])
def test_what_is_neither_a_name_nor_a_path_is_refused(wrong: object) -> None:
    with reported(RunError):
        load(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["affine", "tfaot-model-affine"])
def test_a_name_is_looked_for_in_the_prefix_that_is_given(name: str, prefix: Path) -> None:
    assert load(name, prefix=prefix).path == prefix / "lib" / "libtfaot-model-affine.so"


@pytest.mark.parametrize("variable", ["TFAOT_PREFIX", "CMAKE_PREFIX_PATH"])
def test_a_name_is_looked_for_in_the_prefixes_of_the_environment(
    variable: str, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"{tmp_path}::{prefix}")
    assert load("affine").name == "affine"


def test_a_name_is_looked_for_in_the_environment_of_python(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(prefix))
    assert load("affine").name == "affine"


def test_the_first_prefix_that_has_the_model_counts(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    library = Path("lib", "libtfaot-model-affine.so")
    (tmp_path / library).write_bytes((prefix / library).read_bytes())
    monkeypatch.setenv("TFAOT_PREFIX", str(tmp_path))
    monkeypatch.setenv("CMAKE_PREFIX_PATH", str(prefix))
    assert load("affine").path == tmp_path / library


def test_a_model_that_is_not_installed_is_an_error_that_lists_the_places(
    prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFAOT_PREFIX", str(prefix))
    monkeypatch.setenv("CMAKE_PREFIX_PATH", str(tmp_path))
    monkeypatch.setattr("sys.prefix", "/python")
    with reported(RunError):
        load("steep")
    with reported(RunError):
        load("affine", prefix=tmp_path)  # there, and nowhere else


def test_a_path_is_no_name(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(prefix.parent)
    assert load(f"./{prefix.name}").name == load(Path(prefix.name)).name == "affine"
    with reported(RunError):
        load("./affine", prefix=prefix)


def _input(dtype: DType) -> Tensor:
    return Tensor(name="x", dtype=dtype, shape=(None,))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT32, DType.UINT64])
def test_integers_of_any_width_are_taken_where_their_values_fit(dtype: DType) -> None:
    converted = _fitting("m", _input(dtype), [1, 2, 100])
    assert converted.dtype == np.dtype(dtype.value) and converted.tolist() == [1, 2, 100]


@pytest.mark.parametrize(
    ("dtype", "given", "value"),
    [
        (DType.INT8, "int64", 128),
        (DType.UINT8, "int64", -1),
        (DType.INT32, "int64", 1 << 40),
        (DType.UINT64, "int64", -5),
        (DType.INT64, "uint64", (1 << 63) + 1),
    ],
)
def test_an_integer_that_does_not_fit_is_refused_with_its_value(dtype: DType, given: str, value: int) -> None:
    with pytest.raises(RunError, match=rf"is {dtype.value}, which cannot represent {value}$"):
        _fitting("m", _input(dtype), np.array([1, value], given))


def test_numbers_are_no_booleans_and_booleans_are_numbers() -> None:
    with reported(RunError):
        _fitting("m", _input(DType.BOOL), [1, 0])
    with reported(RunError):
        _fitting("m", _input(DType.INT32), [1.0])
    assert _fitting("m", _input(DType.FLOAT32), [True, False]).tolist() == [1, 0]


def test_load_is_part_of_the_package(prefix: Path) -> None:
    assert tfaot_pkg.load(str(prefix / "lib" / "libtfaot-model-affine.so")).name == "affine"


def test_the_former_name_of_the_module_is_kept() -> None:
    from tfaot_pkg import runtime
    from tfaot_pkg.runtime import loader

    assert set(runtime.__all__) == {"Array", "Model", "RunError", "load"}
    assert all(getattr(runtime, name) is getattr(loader, name) for name in ("Model", "RunError", "load"))
