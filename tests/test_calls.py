"""Calls from Python: the quick way gives what the other one gives, and answers go into the caller's arrays."""

from __future__ import annotations

import ctypes
import inspect
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_loader import NAMES, _library, _rows
from tests.wording import reported
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType
from tfaot_pkg.runtime import quick
from tfaot_pkg.runtime.given import shared
from tfaot_pkg.runtime.loader import Model, RunError, load

BIAS = np.array([0, 10, 20], "float32")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake")
    _library(folder / "lib", "affine", "fake_model.cpp", "the_table", **NAMES)
    return folder


@pytest.fixture
def model(prefix: Path) -> Model:
    return load(prefix)


def _only_quick(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_: object) -> None:
        raise AssertionError("the loader's own way was taken")

    monkeypatch.setattr(Model, "_called", called)


def test_arrays_that_fit_take_the_quick_way(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model._called((BIAS, _rows(2)), {})
    _only_quick(model, monkeypatch)
    for found in (model(BIAS, _rows(2)), model(BIAS, x=_rows(2)), model(**{"x": _rows(2), "bias-in": BIAS})):
        assert list(found) == list(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, strict=True)


@pytest.mark.parametrize(
    "arrays",
    [
        (BIAS, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        (BIAS, _rows(2).astype("float64")),
        (BIAS, np.asfortranarray(_rows(2))),
        (BIAS, _rows(4)[::2]),
        (BIAS, _rows(3)),  # composed of 2 and 2
        (BIAS, _rows(2).view(np.ma.MaskedArray)),
        (BIAS.newbyteorder() if hasattr(BIAS, "newbyteorder") else BIAS.astype(">f4"), _rows(2)),
    ],
)
def test_all_others_are_converted_as_before(model: Model, arrays: tuple[object, ...]) -> None:
    found, expected = model(*arrays), model._called(arrays, {})
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_wrong_calls_are_rejected_as_before(model: Model) -> None:
    for wrong in ((BIAS,), (BIAS, _rows(2), BIAS), (BIAS, np.zeros((2, 4), "float32"))):
        with pytest.raises(RunError):
            model(*wrong)
    with pytest.raises(RunError):
        model(BIAS, x=_rows(2), y=_rows(2))
    with pytest.raises(RunError):
        model(_rows(2), **{"bias-in": BIAS})


def test_without_a_compiler_calls_take_the_loaders_own_way(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfaot_pkg.runtime.quick._module", lambda: None)
    assert model._quick is None
    np.testing.assert_array_equal(model(BIAS, _rows(2))["y"], 2 * _rows(2) + BIAS)


def test_answers_go_into_the_callers_arrays(model: Model) -> None:
    out = {"y": np.zeros((2, 3), "float32"), "label": np.zeros(2, "int64")}
    for arrays in ((BIAS, _rows(2)), (BIAS.tolist(), _rows(2).tolist())):
        out["y"][:] = 0
        found = model(*arrays, out=out)
        assert found["y"] is out["y"] and found["label"] is out["label"]
        np.testing.assert_array_equal(out["y"], 2 * _rows(2) + BIAS)
    # An output in the memory of an input: computed apart, and copied.
    rows = _rows(2)
    expected = 2 * rows + BIAS
    model(BIAS, rows, out={**out, "y": rows})
    np.testing.assert_array_equal(rows, expected)


def test_arrays_for_answers_that_do_not_fit_are_rejected(model: Model) -> None:
    good = {"y": np.zeros((2, 3), "float32"), "label": np.zeros(2, "int64")}
    for wrong in ({**good, "y": np.zeros((2, 3))}, {**good, "y": np.zeros((3, 3), "float32")}):
        with reported(RunError):
            model(BIAS, _rows(2), out=wrong)
    with reported(RunError):
        model(BIAS, _rows(2), out=good["y"])
    good["y"].flags.writeable = False
    with pytest.raises(RunError):
        model(BIAS, _rows(2), out=good)


def test_the_method_keeps_its_signature_and_its_documentation(model: Model, prefix: Path) -> None:
    model(BIAS, _rows(2))
    assert type(Model.__call__).__module__ == "tfaot_call", "from the second call on no function of Python"
    assert list(inspect.signature(model).parameters) == ["arrays", "out", "named"]
    assert (Model.__call__.__doc__ or "").startswith("The model's outputs")
    np.testing.assert_array_equal(model.__call__(BIAS, _rows(2))["y"], 2 * _rows(2) + BIAS)

    class Derived(Model):
        pass

    derived = Derived(model.path, None)
    np.testing.assert_array_equal(derived(BIAS, x=_rows(2).tolist())["y"], 2 * _rows(2) + BIAS)
    with pytest.raises(TypeError):
        Model.__call__()  # type: ignore[call-arg]


def test_threads_call_one_model_the_quick_way(model: Model) -> None:
    found: list[bool] = []

    def work() -> None:
        for _ in range(200):
            found.append(bool((model(BIAS, _rows(2))["y"] == 2 * _rows(2) + BIAS).all()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(found) and len(found) == 800


def test_long_calls_let_other_threads_run() -> None:
    assert quick._release_at({1: 1000.0, 100: 50_000.0}) == 20  # 1 us a row
    assert quick._release_at({1: 30_000.0}) == 1
    assert quick._release_at({}) == 1


class _Tensor:
    """A tensor of another library, which only its memory can be had of."""

    def __init__(self, values: np.ndarray, *, fails: bool = False) -> None:
        self._values, self._fails, self.requires_grad = values, fails, fails

    def __dlpack__(self, **options: Any) -> object:
        if self._fails:
            raise BufferError("Can't export tensors that require gradient")
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()

    def __array__(self, *_: object, **__: object) -> None:
        raise RuntimeError("not by copying")


def test_tensors_are_read_where_they_are(model: Model) -> None:
    rows = _rows(2)
    assert np.shares_memory(shared("affine", "x", _Tensor(rows)), rows)
    np.testing.assert_array_equal(model(BIAS, _Tensor(rows))["y"], 2 * rows + BIAS)
    with reported(RunError):
        model(BIAS, _Tensor(rows, fails=True))


_WAIT = """
#include <unistd.h>
volatile int flag, seen;
void wait_for_the_flag(void) {
  for (int i = 0; i < 60000 && !flag; ++i) usleep(1000);
  seen = flag;
}
"""


@pytest.mark.parametrize("quickly", [True, False])
def test_another_thread_runs_during_a_long_call(model: Model, tmp_path: Path, quickly: bool) -> None:
    (tmp_path / "wait.c").write_text(_WAIT)
    run(["gcc", "-shared", "-fPIC", tmp_path / "wait.c", "-o", tmp_path / "wait.so"])
    waiting = ctypes.CDLL(str(tmp_path / "wait.so"))
    flag, seen = (ctypes.c_int.in_dll(waiting, name) for name in ("flag", "seen"))
    model.batch_costs[model.target] = {2: 30_000.0, 4: 60_000.0}
    rows = _rows(4) if quickly else _rows(4).tolist()
    assert (model._quick(BIAS, rows) is not None) is quickly
    # The library's code waits, without Python, until the other thread of Python has run.
    ctypes.CDLL(str(model.path)).the_table_during(ctypes.cast(waiting.wait_for_the_flag, ctypes.c_void_p))
    caller = threading.Thread(target=model, args=(BIAS, rows))
    caller.start()
    flag.value = 1
    caller.join(120)
    assert seen.value == 1


def test_dtypes_are_types_for_numpy(model: Model) -> None:
    assert [np.zeros(2, tensor.dtype).dtype for tensor in model.signature.inputs] == [np.dtype("float32")] * 2
    assert np.dtype(DType.BFLOAT16) == np.dtype("uint16")


def test_a_notebook_shows_signature_and_sizes(model: Model) -> None:
    page = model._repr_html_()
    for part in ("affine 1.2.0", "<td>bias-in</td><td>float32</td><td>[3]</td>", "[N, 3]", "rows: 2, 4"):
        assert part in page


def test_a_notebook_draws_the_graph_of_a_package(model: Model, tmp_path: Path) -> None:
    share, library = tmp_path / "share" / "tfaot-model-affine", tmp_path / "lib" / model.path.name
    share.mkdir(parents=True)
    library.parent.mkdir()
    library.write_bytes(model.path.read_bytes())
    nodes = [
        {"name": "x", "op": "Placeholder", "kind": "input", "inputs": [], "dtype": "float32", "shape": [None, 3]},
        {
            "name": "affine",
            "op": "Scale<2>",
            "kind": "operation",
            "inputs": [0],
            "dtype": "float32",
            "shape": [None, 3],
        },
        {"name": "y", "op": "Identity", "kind": "output", "inputs": [1], "dtype": "float32", "shape": [None, 3]},
    ]
    for written, drawn in (
        ({"nodes": nodes}, True),
        ({"nodes": nodes[:1] * 60}, False),  # too many for a notebook
        ({"nodes": "none"}, False),
    ):
        (share / "graph.json").write_text(json.dumps(written))
        page = load(library)._repr_html_()
        assert ("<summary>graph</summary>" in page, "Scale&lt;2&gt;" in page) == (drawn, drawn), written
    assert "<summary>" not in model._repr_html_(), "a library alone"
