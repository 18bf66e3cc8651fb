"""Engines of decision trees: the library that trained them, and tl2cgen."""

from __future__ import annotations

import ctypes
import json
import warnings
from pathlib import Path

import messages
import numpy as np
import served

_NORMAL, _ALL, _ROW_MAJOR = 0, -1, 1
_LIGHTGBM_TYPES = {"float32": 0, "float64": 1}
_MISSING = -1


class Library:
    """XGBoost and LightGBM through their C APIs, scikit-learn from Python."""

    def __init__(self) -> None:
        self._kind = None

    def model(self, path: str, inputs: list, outputs: list):
        if not path:
            return self._empty()
        self._kind = _kind_of(path)
        return self._kind(path, *inputs, outputs)

    def _empty(self) -> ScikitLearn:
        """A tree of one leaf, whose time is the cost of a call of scikit-learn."""
        if self._kind is not _scikit_learn:
            raise ValueError("no call is made through Python")
        from sklearn.tree import DecisionTreeClassifier

        x = np.zeros((1, 1), np.float32)
        return ScikitLearn(DecisionTreeClassifier().fit(x, [0]), x)


def _kind_of(path: str):
    with open(path, "rb") as file:
        head = file.read(64).lstrip()
    return _scikit_learn if head[:2] == b"PK" else XGBoost if head[:1] == b"{" else LightGBM


class XGBoost:
    def __init__(self, path: str, x: np.ndarray, outputs: list) -> None:
        import xgboost

        booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(Path(path).read_bytes()))
        interface = {"data": [x.ctypes.data, True], "shape": x.shape, "typestr": x.dtype.str, "version": 3}
        config = {
            "type": 0, "training": False, "iteration_begin": 0, "iteration_end": 0, "strict_shape": False,
            "missing": float("nan"), "cache_id": 0,
        }  # fmt: skip
        texts = [ctypes.c_char_p(json.dumps(each).encode()) for each in (interface, config)]
        shape, axes, self._result = (
            ctypes.POINTER(ctypes.c_uint64)(),
            ctypes.c_uint64(),
            ctypes.POINTER(ctypes.c_float)(),
        )
        self._count = outputs[0].size
        self.call = served.CCall(
            function=_address(xgboost.core._LIB.XGBoosterPredictFromDense),  # noqa: SLF001
            arguments=(
                booster.handle.value, *(ctypes.cast(text, ctypes.c_void_p).value for text in texts), None,
                *map(ctypes.addressof, (shape, axes, self._result)),
            ),
            keep=(booster, texts, x, shape, axes),
        )  # fmt: skip

    def results(self) -> list[np.ndarray]:
        return [np.ctypeslib.as_array(self._result, (self._count,)).copy()]


class LightGBM:
    """One row by its fastest function, whose settings are made beforehand."""

    def __init__(self, path: str, x: np.ndarray, outputs: list) -> None:
        import lightgbm

        booster = lightgbm.Booster(model_file=path)
        library, handle = lightgbm.basic._LIB, booster._handle  # noqa: SLF001
        settings, count = ctypes.c_char_p(b"num_threads=1"), ctypes.c_int64()
        kind, (rows, columns) = _LIGHTGBM_TYPES[x.dtype.name], x.shape
        fast = ctypes.c_void_p()
        self._results = outputs
        result = outputs[0].ctypes.data
        if rows == 1:
            made = library.LGBM_BoosterPredictForMatSingleRowFastInit(
                handle, _NORMAL, 0, _ALL, kind, columns, settings, ctypes.byref(fast)
            )
            if made:
                raise RuntimeError(library.LGBM_GetLastError().decode(errors="replace"))
            function = library.LGBM_BoosterPredictForMatSingleRowFast
            arguments = (fast.value, x.ctypes.data, ctypes.addressof(count), result)
        else:
            function = library.LGBM_BoosterPredictForMat
            arguments = (
                handle.value, x.ctypes.data, kind, rows, columns, _ROW_MAJOR, _NORMAL, 0, _ALL,
                ctypes.cast(settings, ctypes.c_void_p).value, ctypes.addressof(count), result,
            )  # fmt: skip
        keep = (booster, settings, x, count, fast)
        self.call = served.CCall(function=_address(function), arguments=arguments, keep=keep)

    def results(self) -> list[np.ndarray]:
        return self._results


class ScikitLearn:
    def __init__(self, estimator, x: np.ndarray) -> None:
        if hasattr(estimator, "n_jobs"):
            estimator.n_jobs = 1
        predict = estimator.predict_proba if hasattr(estimator, "classes_") else estimator.predict

        def call() -> None:
            self._result = predict(x)

        self.call = call

    def results(self) -> list[np.ndarray]:
        return [self._result.astype(np.float64, copy=False)]


def _scikit_learn(path: str, x: np.ndarray, outputs: list) -> ScikitLearn:
    from convert_trees import scikit_learn

    warnings.simplefilter("ignore")
    return ScikitLearn(scikit_learn(path), x)


def _address(function) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value


class Tl2cgen:
    """C code of the trees, compiled, which walks rows one after the other.

    Rows are converted to its entries beforehand: numbers of the type of its thresholds, or a mark for missing ones.
    """

    def model(self, path: str, inputs: list, outputs: list) -> Tl2cgenModel:
        if not path:
            raise ValueError("no call is made through Python")
        return Tl2cgenModel(path, *inputs, outputs)


class Tl2cgenModel:
    def __init__(self, path: str, x: np.ndarray, outputs: list) -> None:
        library = ctypes.CDLL(path)
        library.get_threshold_type.restype = ctypes.c_char_p
        self._threshold = library.get_threshold_type().decode()
        self.entries = self.as_read(x)
        self._results = outputs
        function = _address(getattr(library, messages.ROWS))
        (result,) = outputs
        self.call = served.CCall(
            function=function, arguments=(self.entries.ctypes.data, *x.shape, result.ctypes.data), keep=library
        )

    def as_read(self, x: np.ndarray) -> np.ndarray:
        """The rows as entries."""
        entries = served.aligned(x.shape, self._threshold)
        entries[...] = x
        # An entry is a union: its first 4 bytes say that it is missing.
        marks = entries.view(np.int32).reshape(*x.shape, -1)
        marks[np.isnan(x), 0] = _MISSING
        return entries

    def results(self) -> list[np.ndarray]:
        return self._results
