"""Runs a built library on NumPy arrays, through its C ABI (tfaot/c_api.h). No TensorFlow, no compiler.

Python packages of models carry a copy of this module and of those that it imports (pipeline/distributions/vendored.py).
"""

from __future__ import annotations

import importlib
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from inspect import isfunction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import DType, Signature, StateTensor, Symbol, Tensor
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.native.batching.planner import Planner
from tfaot_pkg.runtime.c_interface import CInfo, caller_of, table_of, tables_of_signatures
from tfaot_pkg.runtime.given import Columns, by_names, columns_of, into, is_frame, of_frame, shared
from tfaot_pkg.runtime.quick import quick_call, quick_method
from tfaot_pkg.runtime.shown import drawing_of, page_of, verdict_of
from tfaot_pkg.runtime.state import State
from tfaot_pkg.runtime.team import Team, team_of
from tfaot_pkg.worker_program.messages.elements import held, held_type, numbers
from tfaot_pkg.worker_program.messages.formulas import Formula

_DTYPES = (
    DType.BOOL, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.UINT16, DType.UINT32,
    DType.UINT64, DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16, DType.COMPLEX64, DType.COMPLEX128,
)  # fmt: skip
"""The dtypes in the order of the C ABI's constants, which start at 1."""


class Model:
    """A compiled model, ready to run. `load` returns it.

    Call it with one array per input, by name, or by position in the order of `signature.inputs`. Arrays have the
    batch axis first and any number of rows; the result is a dict of arrays by output name:

        model = tfaot_pkg.load("digits", prefix="external")
        model(image=images)["probability"]

    Tensors of PyTorch, JAX and others in the memory of the CPU are read without a copy (DLPack). A data frame of pandas
    or polars is read by the names of its columns: those of the inputs, or those that the model was trained with.

    Integers and floats are converted to the input's dtype if their values fit. NumPy has no bfloat16: outputs are
    arrays of ml_dtypes.bfloat16 if that package is installed, otherwise of their bits (uint16); inputs may be either,
    or floats.

    Any number of threads may call one model at the same time: its weights exist once, and the library keeps scratch
    memory for each thread (unless `run` gets some). In older libraries without code for all threads, one thread runs at
    a time. With `threads` of more than 1, that many threads share each call that is large enough: rows, or large layers
    of few rows, with the same bits. If several threads call such a model, they take turns with the additional threads.
    A model can be pickled: the path of its library, its uid, `target`, `threads`, and the name of the signature if
    there are several.
    """

    def __init__(self, path: Path, target: str | None, part: str = "", threads: int | Team = 1) -> None:
        self.path = path
        self._wanted_target, self._part = target, part
        self._lock = threading.Lock()  # of the planner
        whole = table_of(path)
        table = tables_of_signatures(whole)[part] if part else whole
        info = table.info.contents
        self.name: str = info.name.decode()
        self.version: str = info.version.decode()
        self.uid: str = info.uid.decode()
        self.toolchain: str = info.toolchain.decode()
        self.signature = Signature(
            inputs=tuple(_tensor(info, info.inputs, info.input_axes, i) for i in range(info.num_inputs)),
            outputs=tuple(_output(info, i) for i in range(info.num_outputs)),
            symbols=_symbols(info),
            state=_state(info),
        )
        self.batch_sizes: tuple[int, ...] = tuple(info.batch_sizes[i] for i in range(info.num_batch_sizes))
        self.targets: tuple[str, ...] = tuple(info.targets[i].decode() for i in range(info.num_targets))
        self.batch_costs: dict[str, dict[int, float]] = _batch_costs(info, self.targets, self.batch_sizes)
        """Nanoseconds of one run, by target and batch size: measured when the model was tuned, otherwise estimated.

        Empty for older libraries without this information.
        """
        self.any_batch_size: bool = _any_batch_size(info)
        """Whether the model is compiled for every number of rows; `batch_sizes` are then those that were validated and
        measured.
        """
        self.rows_independent: bool = _rows_independent(info)
        """Whether each row of the outputs depends on the same row of the inputs alone; if not, only `batch_sizes` run.

        True for older libraries without this information.
        """
        self._table = table
        self._wanted_threads: int = threads.size if isinstance(threads, Team) else threads
        self._team = threads if isinstance(threads, Team) else team_of(table, threads)
        self._caller = caller_of(path, table, target, self._team)
        self._caller.use_tiles()
        # Without costs, one fixed unit per run and one per row: large batches are then preferred.
        self._planner = Planner(self.batch_costs.get(self.target) or {size: 1.0 + size for size in self.batch_sizes})

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Path, str, str | None, str, int]]:
        # With the uid: an upgrade may have put another model at this path.
        return _unpickled, (self.path, self.uid, self._wanted_target, self._part, self._wanted_threads)

    @cached_property
    def signatures(self) -> Mapping[str, Model]:
        """The signatures of a package that has several, each as a model; they share the library and its weights."""
        threads = self._team or self._wanted_threads
        return {
            part: Model(self.path, self._wanted_target, part, threads) for part in tables_of_signatures(self._table)
        }

    @property
    def target(self) -> str:
        """The target whose code runs."""
        return self._caller.target

    def use_tiles(self, use: bool = True) -> bool:
        """Let the code use tiles of the CPU (AMX), as `load` does, or not, on all threads; answers have the same bits.

        Returns whether it makes a difference: the code has use for them, the CPU has some, and Linux permits it.
        """
        return self._caller.use_tiles(use)

    @property
    def threads(self) -> int:
        """The most threads that share a call; 1 if the library is too old to share them."""
        return 1 if self._team is None else self._team.size

    @property
    def memory(self) -> int:
        """Bytes of scratch memory that the library holds now, for all threads that called it."""
        return self._caller.memory

    def scratch_bytes(self, batch_size: int) -> int:
        """Bytes of an array of `uint8` that `run` takes as scratch memory for this batch size. Raises RunError."""
        return self._caller.scratch_bytes(batch_size)

    def state(self) -> State:
        """The variables of the model, with their trained values; its `step` carries them over.

        Raises RunError if the model has none.
        """
        if not self.signature.state:
            raise RunError(
                f"model {self.name} has no state",
                hint="list variables in compilation.variables of the model's spec, and build it again",
            )
        return State(self, self._table)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.signature.inputs))
        outputs = ", ".join(map(str, self.signature.outputs))
        sizes = "any batch size" if self.any_batch_size else f"batch sizes {', '.join(map(str, self.batch_sizes))}"
        return f"<{self.name} {self.version}: ({inputs}) -> ({outputs}); {sizes}; {self.target}>"

    def _repr_html_(self) -> str:
        return page_of(self, drawing_of(self.path, self.name, self.signature), self._verdict())

    def _verdict(self) -> str:
        return verdict_of(self.path)

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> dict[str, Array]:
        """The model's outputs for any number of rows. Raises RunError for arrays that do not fit.

        `out` is an array for the answers, or arrays by the names of outputs, of their dtypes and shapes.
        """
        if (quick := self._quick) is not None:
            made: dict[str, Array] | None
            made = quick(*arrays, **named) if out is None else quick(*arrays, out=out, **named)
            if made is not None:
                return made
        return self._otherwise(*arrays, out=out, **named)

    def _otherwise(self, *arrays: Any, out: Any = None, **named: Any) -> dict[str, Array]:
        """A call with what has to be converted or rejected."""
        if out is not None and "out" in (tensor.name for tensor in self.signature.inputs):
            return self._called(arrays, {**named, "out": out})
        found = self._called(arrays, named)
        return found if out is None else into(self.name, self.signature.outputs, found, out)

    @cached_property
    def _quick(self) -> Any:
        """Calls with arrays that fit as they are (quick.py); None without a compiler, or for other kinds of models."""
        costs = self.batch_costs.get(self.target, {})
        found = quick_call(self._caller, self.signature, self.batch_sizes, costs, any_size=self.any_batch_size)
        if found is not None and isfunction(Model.__call__):
            # From the second call on: a call with names costs 1.1 us less, one without 0.4 (benchmarks/python_call.py).
            Model.__call__ = quick_method(Model._otherwise, Model.__call__)  # type: ignore[method-assign]
        return found

    @cached_property
    def _columns(self) -> Columns:
        return columns_of(self.path)

    def _called(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Array]:
        inputs = self._checked(arrays, named)
        rows = self._rows(inputs)
        if rows is None:
            return self._run(self.batch_sizes[0], inputs)
        if rows in self.batch_sizes or (self.any_batch_size and rows > 0):
            return self._run(rows, inputs)
        self._require_composable(rows)
        parts: list[dict[str, Array]] = []
        start = 0
        while start < rows:
            size = self._next_size(rows - start)
            taken = min(size, rows - start)
            # The last run may be padded; rows beyond `taken` come from the padding.
            outputs = self._run(size, self._slice(inputs, start, size))
            parts.append({name: array[:taken] for name, array in outputs.items()})
            start += taken
        return self._joined(parts)

    def run(self, batch_size: int, inputs: Mapping[str, Array], scratch: Array | None = None) -> dict[str, Array]:
        """Run one batch of a compiled size (any, if `any_batch_size`), with the results that a C program gets.

        `scratch` is memory for this call alone: a contiguous array of `uint8` of at least `scratch_bytes(batch_size)`
        elements. Without it the library keeps some for each thread. Raises RunError.
        """
        return self._run(batch_size, self._checked((), inputs), scratch)

    def _checked(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Array]:
        tensors = self.signature.inputs
        if len(arrays) == 1 and not named and is_frame(arrays[0]):
            named = by_names(self.name, tensors, arrays[0], self._columns)
            arrays = ()
        if len(arrays) > len(tensors):
            raise RunError(
                f"model {self.name} has {counted(len(tensors), 'input')}, got {counted(len(arrays), 'array')}"
            )
        given = {tensor.name: array for tensor, array in zip(tensors, arrays, strict=False)}
        given.update(named)
        unknown = sorted(set(given) - {tensor.name for tensor in tensors})
        missing = [tensor.name for tensor in tensors if tensor.name not in given]
        if unknown or missing or len(given) != len(arrays) + len(named):
            listing = ", ".join(map(str, tensors))
            raise RunError(
                f"model {self.name} takes {listing}; missing {missing or 'none'}, unknown {unknown or 'none'}"
            )
        return {tensor.name: _fitting(self.name, tensor, self._array(tensor, given[tensor.name])) for tensor in tensors}

    def _array(self, tensor: Tensor, value: Any) -> Any:
        if is_frame(value):
            return of_frame(self.name, tensor, value, self._columns)
        return shared(self.name, tensor.name, value)

    def _rows(self, inputs: Mapping[str, Array]) -> int | None:
        """The number of rows; None if no input has a batch axis."""
        counts = {t.name: len(inputs[t.name]) for t in self.signature.inputs if t.has_batch_axis}
        if len(set(counts.values())) > 1:
            raise RunError(f"model {self.name}: inputs have different numbers of rows: {counts}")
        return next(iter(counts.values()), None)

    def _require_composable(self, rows: int) -> None:
        """Raise RunError if a batch of this size cannot be composed of compiled sizes."""
        whole = [str(tensor) for tensor in self.signature.outputs if not tensor.has_batch_axis]
        if whole:
            reason = f"its output {whole[0]} has no batch axis, so that answers for several batches cannot be joined"
        elif not self.rows_independent:
            reason = "its rows depend on one another"
        else:
            return
        if self.any_batch_size:  # only a batch without rows comes here
            raise RunError(f"model {self.name} takes at least 1 row, got {rows}: {reason}")
        taken = f"{_either(self.batch_sizes)} {'row' if self.batch_sizes == (1,) else 'rows'}"
        raise RunError(
            f"model {self.name} takes exactly {taken}, got {rows}: {reason}",
            hint="add the size to compilation.batch_sizes of the model's spec",
        )

    def _next_size(self, rows: int) -> int:
        """The compiled size to run next for the remaining `rows`; if it is larger, the batch is padded."""
        with self._lock:
            return self._planner.next(rows)

    def _slice(self, inputs: Mapping[str, Array], start: int, size: int) -> dict[str, Array]:
        batched = {tensor.name for tensor in self.signature.inputs if tensor.has_batch_axis}
        return {name: _padded(array[start : start + size], size) if name in batched else array
                for name, array in inputs.items()}  # fmt: skip

    def _joined(self, parts: list[dict[str, Array]]) -> dict[str, Array]:
        # An empty first part gives dtype and shape also for a batch without rows.
        empty = {
            t.name: _presented(np.empty(t.shape_at(0), held_type(t.dtype.value)), t) for t in self.signature.outputs
        }
        return {name: np.concatenate([first, *(part[name] for part in parts)]) for name, first in empty.items()}

    def _run(self, batch_size: int, inputs: Mapping[str, Array], scratch: Array | None = None) -> dict[str, Array]:
        # Kept in a variable: the library gets addresses only, which hold no reference.
        arrays = [np.asarray(inputs[tensor.name], order="C") for tensor in self.signature.inputs]
        sizes = _sizes(self.name, self.signature, inputs)
        at = self.signature.at(sizes) if sizes else self.signature
        for tensor, array in zip(at.inputs, arrays, strict=True):
            if array.shape != tensor.shape_at(batch_size):
                raise RunError(
                    f"model {self.name}: input {tensor.name!r} must have the shape {tensor.shape_at(batch_size)} "
                    f"at batch size {batch_size}, got {array.shape}"
                )
        outputs = {t.name: np.empty(t.shape_at(batch_size), held_type(t.dtype.value)) for t in at.outputs}
        given = [sizes[symbol.name] for symbol in self.signature.symbols]
        self._caller.run(batch_size, arrays, list(outputs.values()), scratch, given)
        return {t.name: _presented(outputs[t.name], t) for t in at.outputs}


def _unpickled(path: Path, uid: str, target: str | None, part: str = "", threads: int = 1) -> Model:
    if not path.is_file():
        raise RunError(f"there is no library {path}")
    model = Model(path, target, threads=threads)
    if model.uid != uid:
        raise RunError(
            f"{path} is {model.name} {model.version} (uid {model.uid}) now, not the model that was pickled (uid {uid})",
            hint="install the version of the pickled model, or load the new one and pickle it again",
        )
    return model.signatures[part] if part else model


def _batch_costs(info: Any, targets: tuple[str, ...], sizes: tuple[int, ...]) -> dict[str, dict[int, float]]:
    if info.struct_size < CInfo.batch_costs.offset + CInfo.batch_costs.size or not info.batch_costs:
        # Older libraries end before this field.
        return {}
    rows = {target: row * len(sizes) for row, target in enumerate(targets)}
    return {
        target: {size: info.batch_costs[start + i] for i, size in enumerate(sizes)} for target, start in rows.items()
    }


def _any_batch_size(info: Any) -> bool:
    # Older libraries end before this field, or have 0 in its place.
    known = info.struct_size >= CInfo.any_batch_size.offset + CInfo.any_batch_size.size
    return bool(info.any_batch_size) if known else False


def _rows_independent(info: Any) -> bool:
    known = info.struct_size >= CInfo.rows_independent.offset + CInfo.rows_independent.size
    return bool(info.rows_independent) if known else True


def _state(info: Any) -> tuple[StateTensor, ...]:
    if info.struct_size < CInfo.states.offset + CInfo.states.size:
        return ()  # older libraries end before these fields
    found = (info.states[i] for i in range(info.num_states))
    return tuple(
        StateTensor(
            name=each.name.decode(),
            input=info.inputs[each.input].name.decode(),
            output=info.outputs[each.output].name.decode() if each.output >= 0 else "",
            offset=0,
        )
        for each in found
    )


def _symbols(info: Any) -> tuple[Symbol, ...]:
    if info.struct_size < CInfo.output_axes.offset + CInfo.output_axes.size:
        return ()  # older libraries end before these fields
    found = (info.symbols[i] for i in range(info.num_symbols))
    return tuple(Symbol(name=each.name.decode(), minimum=each.minimum, maximum=each.maximum) for each in found)


def _tensor(info: Any, tensors: Any, axes: Any, number: int) -> Tensor:
    c, symbols = tensors[number], [symbol.name for symbol in _symbols(info)]
    shape = tuple(None if c.shape[i] < 0 else int(c.shape[i]) for i in range(c.rank))
    named = tuple(symbols[i] if i >= 0 else "" for i in axes[number][: c.rank]) if symbols and axes[number] else ()
    return Tensor(name=c.name.decode(), dtype=_DTYPES[c.dtype - 1], shape=shape, axes=named)


def _output(info: Any, number: int) -> Tensor:
    tensor = _tensor(info, info.outputs, info.output_axes, number)
    if info.struct_size < CInfo.output_terms.offset + CInfo.output_terms.size or not info.output_terms:
        return tensor  # older libraries end before this field
    symbols = [symbol.name for symbol in _symbols(info)]
    formulas: dict[int, list[tuple[tuple[str, ...], int]]] = {}
    for term in itertools.takewhile(lambda each: each.axis >= 0, info.output_terms[number] or ()):
        product = tuple(symbols[i] for i in term.symbols[: term.num_symbols])
        formulas.setdefault(term.axis, []).append((product, term.factor))
    axes = (str(Formula(tuple(formulas[i]))) if i in formulas else axis for i, axis in enumerate(tensor.axes))
    return replace(tensor, axes=tuple(axes))


def _sizes(model: str, signature: Signature, inputs: Mapping[str, Array]) -> dict[str, int]:
    """The size of each symbol, from the shapes of `inputs`. Raises RunError if they do not fit one another."""
    found: dict[str, int] = {}
    ranges = {symbol.name: symbol for symbol in signature.symbols}
    for tensor in signature.inputs:
        for axis, name in enumerate(tensor.axes):
            if not name:
                continue
            size, symbol = inputs[tensor.name].shape[axis], ranges[name]
            if not symbol.minimum <= size <= symbol.maximum:
                raise RunError(f"model {model}: input {tensor} takes {symbol}, got an array with {name} = {size}")
            if found.setdefault(name, size) != size:
                raise RunError(f"model {model}: {name} is {found[name]} in one input, and {size} in {tensor.name!r}")
    return found


def _fitting(model: str, tensor: Tensor, value: npt.ArrayLike | None) -> Array:
    """`value` as an array of the tensor's dtype. Raises RunError if its values or shape do not fit."""
    if value is None:
        raise RunError(f"model {model}: input {tensor} got None", hint="give an array, or what NumPy makes one of")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise RunError(f"model {model}: input {tensor} got something other than an array: {error}") from error
    given = tensor
    if len(tensor.axes) == array.ndim:
        given = tensor.at({name: size for name, size in zip(tensor.axes, array.shape, strict=True) if name})
    expected = given.row_shape if tensor.has_batch_axis else given.shape
    got = array.shape[1:] if tensor.has_batch_axis else array.shape
    if got != expected or (tensor.has_batch_axis and array.ndim == 0):
        raise RunError(f"model {model}: input {tensor} got an array of shape {array.shape}")
    return _converted(model, tensor, array)


def _converted(model: str, tensor: Tensor, array: Array) -> Array:
    if tensor.dtype is DType.BFLOAT16:
        return _bits(model, tensor, array)
    dtype = np.dtype(tensor.dtype.value)
    # Python's integers are int64: rejecting all that are wider would reject every plain list.
    integers = array.dtype.kind in "iu" and dtype.kind in "iu"
    if not integers and not np.can_cast(array.dtype, dtype, casting="same_kind"):
        raise RunError(f"model {model}: input {tensor.name!r} is {tensor.dtype.value}, got {array.dtype}")
    # The overflow is reported below, with the value.
    with np.errstate(over="ignore"):
        converted: Array = array.astype(dtype, copy=False)
    if integers:
        wrong = converted != array
    elif array.dtype != dtype and dtype.kind in "fc":
        wrong = np.isinf(converted) & ~np.isinf(array)
    else:
        return converted
    if np.any(wrong):
        raise RunError(
            f"model {model}: input {tensor.name!r} is {tensor.dtype.value}, "
            f"which cannot represent {array[wrong].flat[0]}"
        )
    return converted


def _bits(model: str, tensor: Tensor, array: Array) -> Array:
    """The bits of bfloat16. Raises RunError for values that are too large for them."""
    if array.dtype == np.uint16:
        return array
    if array.dtype.name == "bfloat16":  # of ml_dtypes
        return array.view(np.uint16)
    if array.dtype.kind not in "biuf":
        raise RunError(f"model {model}: input {tensor.name!r} is {tensor.dtype.value}, got {array.dtype}")
    with np.errstate(over="ignore"):
        made = held(array.astype(np.float32), tensor.dtype.value)
    wrong = np.isinf(numbers(made, tensor.dtype.value)) & ~np.isinf(array)
    if np.any(wrong):
        raise RunError(
            f"model {model}: input {tensor.name!r} is {tensor.dtype.value}, "
            f"which cannot represent {array[wrong].flat[0]}"
        )
    return made


@cache
def _bfloat16() -> np.dtype[Any] | None:
    """The type of ml_dtypes, which is an optional package; None without it."""
    try:
        found: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        return None
    return found


def _presented(array: Array, tensor: Tensor) -> Array:
    """A held array in the form that callers get."""
    if tensor.dtype is not DType.BFLOAT16 or (dtype := _bfloat16()) is None:
        return array
    return array.view(dtype)


def _either(sizes: tuple[int, ...]) -> str:
    """1, 2 or 4"""
    return " or ".join(filter(None, (", ".join(map(str, sizes[:-1])), str(sizes[-1]))))


def _padded(array: Array, rows: int) -> Array:
    """`array` with its last row repeated up to `rows`."""
    missing = rows - len(array)
    # Copies of the last row, as in C++ (decision 009): valid inputs, whose answers are dropped.
    return array if missing == 0 else np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])
