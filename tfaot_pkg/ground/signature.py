"""The signature of a model: names, dtypes and shapes. All stages use it, from the frozen graph to the registry."""

from __future__ import annotations

import enum
import math
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfaot_pkg.worker_program.messages.carriers import CARRIERS, PARTS
from tfaot_pkg.worker_program.messages.formulas import Formula


class DType(enum.Enum):
    """Element types that a compiled model's interface can have, by NumPy's name (bfloat16: by TensorFlow's)."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    COMPLEX64 = "complex64"
    COMPLEX128 = "complex128"

    @property
    def dtype(self) -> Any:
        """NumPy's type of its arrays, as in `numpy.zeros(3, tensor.dtype)`; uint16 for bfloat16, which NumPy lacks."""
        import numpy as np  # it would make every command start slower

        return np.dtype("uint16" if self is DType.BFLOAT16 else self.value)

    @property
    def is_inexact(self) -> bool:
        """Whether its numbers are rounded: floats and complex numbers."""
        return "float" in self.value or self in (DType.COMPLEX64, DType.COMPLEX128)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return 1 if self is DType.BOOL else int(self.value.strip(string.ascii_lowercase)) // 8

    @property
    def cpp(self) -> str:
        """The C++ type of one element."""
        return _CPP.get(self.value, f"std::{self.value}_t")

    @property
    def global_cpp(self) -> str:
        """The same type, also within namespaces that have a `std` or `tfaot` of their own."""
        return self.cpp if self.cpp in ("bool", "float", "double") else f"::{self.cpp}"

    @property
    def enumerator(self) -> str:
        """Its constant in the C ABI (tfaot/c_api.h)."""
        return f"TFAOT_{self.value.upper()}"


_CPP = {
    "bool": "bool", "float32": "float", "float64": "double", "float16": "tfaot::float16", "bfloat16": "tfaot::bfloat16",
    "complex64": "std::complex<float>", "complex128": "std::complex<double>",
}  # fmt: skip


_LONGEST_SYMBOL = 64
_SYMBOL = re.compile(rf"[A-Za-z_]\w{{0,{_LONGEST_SYMBOL - 1}}}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A size that each call of a model chooses, from `minimum` to `maximum`."""

    name: str
    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        """Raises ValueError for a name that is none: it becomes code, also by what packages of others say."""
        if not _SYMBOL.fullmatch(self.name):
            raise ValueError(f"{self.name[:_LONGEST_SYMBOL]!r} is no name of a size")

    def __str__(self) -> str:
        return (
            f"{self.name} <= {self.maximum}"
            if self.minimum == 1
            else f"{self.minimum} <= {self.name} <= {self.maximum}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One input or output.

    `shape` is row-major; None marks the batch axis, which can only be the first one. A tensor without None
    has the same shape at every batch size. `axes` names the symbol of each axis, "" for an axis without one; it is
    empty if there are none. In outputs it may be a formula of symbols, such as `n - 4`
    (worker_program/messages/formulas.py). `shape` has the sizes at the maxima of symbols.
    """

    name: str
    dtype: DType
    shape: tuple[int | None, ...]
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for axes that are no formulas."""
        for axis in filter(None, self.axes):
            Formula.read(axis)

    def as_dict(self) -> dict[str, object]:
        written = {"name": self.name, "dtype": self.dtype.value, "shape": list(self.shape)}
        return {**written, **({"axes": list(self.axes)} if self.axes else {})}

    def at(self, sizes: Mapping[str, int]) -> Tensor:
        """The same with `sizes` for symbols."""
        if not self.axes:
            return self
        shape = tuple(_size_at(axis, size, sizes) for axis, size in zip(self.axes, self.shape, strict=True))
        return replace(self, shape=shape)

    @property
    def computed(self) -> dict[int, Formula]:
        """The axes of an output whose sizes are computed from symbols, and how."""
        formulas = {place: Formula.read(axis) for place, axis in enumerate(self.axes) if axis}
        return {place: formula for place, formula in formulas.items() if not formula.is_symbol}

    @property
    def has_batch_axis(self) -> bool:
        return bool(self.shape) and self.shape[0] is None

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape without the batch axis."""
        return tuple(size for size in self.shape if size is not None)

    def shape_at(self, batch_size: int) -> tuple[int, ...]:
        return tuple(batch_size if size is None else size for size in self.shape)

    def nbytes_at(self, batch_size: int) -> int:
        return math.prod(self.shape_at(batch_size)) * self.dtype.itemsize

    @property
    def carried(self) -> Tensor:
        """The tensor that compiled code has in its place: the same bytes (worker_program/messages/elements.py)."""
        carrier = CARRIERS.get(self.dtype.value)
        if carrier is None:
            return self
        parts = self.dtype.value in PARTS
        return replace(
            self,
            dtype=DType(carrier),
            shape=(*self.shape, 2) if parts else self.shape,
            axes=(*self.axes, "") if parts and self.axes else self.axes,
        )

    def __str__(self) -> str:
        sizes = [str(size) if size is not None else "batch" if self.axes else "N" for size in self.shape]
        shown = [symbol or size for symbol, size in zip(self.axes or ("",) * len(sizes), sizes, strict=True)]
        return f"{self.name}: {self.dtype.value}[{', '.join(shown)}]"


def _size_at(axis: str, size: int | None, sizes: Mapping[str, int]) -> int | None:
    """The size of an axis at `sizes`; `size` if these do not determine it."""
    formula = Formula.read(axis) if axis else None
    return formula.at(sizes) if formula is not None and formula.symbols <= sizes.keys() else size


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTensor:
    """A variable of the model: the input and the output (by name) that have its value before and after a step.

    Steps do not change it if there is no output (""). Its trained value begins at `offset` in the file of such values.
    """

    name: str
    input: str
    output: str
    offset: int

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "input": self.input, **({"output": self.output} if self.output else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of several signatures: the names of its inputs and outputs, in their order, `NAME/x`, or `x` in itself."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def own(self, tensor: str) -> str:
        """The name of `tensor` within the signature."""
        return tensor.removeprefix(f"{self.name}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """All inputs and outputs in the order of their positions: that of the spec's lists, otherwise that of their names.

    It does not depend on TensorFlow's order. If the package has several signatures, they are its `parts`, and each
    input and output belongs to one of them.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    symbols: tuple[Symbol, ...] = ()
    state: tuple[StateTensor, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All inputs, then all outputs."""
        return (*self.inputs, *self.outputs)

    def determined_symbols(self) -> frozenset[str]:
        """The symbols whose sizes follow from the lengths of inputs: each is the only unknown axis of one."""
        known: frozenset[str] = frozenset()
        while True:
            unknown = [[axis for axis in tensor.axes if axis and axis not in known] for tensor in self.inputs]
            more = {axes[0] for axes in unknown if len(axes) == 1}
            if not more:
                return known
            known |= more

    def as_dict(self) -> dict[str, object]:
        written: dict[str, object] = {"inputs": self.inputs, "outputs": self.outputs}
        if self.symbols:
            written["symbols"] = self.symbols
        if self.parts:
            written["signatures"] = self.parts
        return {**written, **({"state": self.state} if self.state else {})}

    def of(self, part: Part) -> Signature:
        """One of `parts`, with its own names."""
        inputs, outputs = ({tensor.name: tensor for tensor in border} for border in (self.inputs, self.outputs))
        return Signature(
            inputs=tuple(replace(inputs[name], name=part.own(name)) for name in part.inputs),
            outputs=tuple(replace(outputs[name], name=part.own(name)) for name in part.outputs),
            symbols=self.symbols,
        )

    @property
    def step_inputs(self) -> tuple[Tensor, ...]:
        """The inputs that are not state."""
        state = {each.input for each in self.state}
        return tuple(tensor for tensor in self.inputs if tensor.name not in state)

    def without_state(self) -> Signature:
        """The signature of a step: the inputs and outputs that are not state."""
        return replace(self, inputs=self.step_inputs, outputs=self.step_outputs, state=())

    @property
    def step_outputs(self) -> tuple[Tensor, ...]:
        """The outputs that are not state."""
        state = {each.output for each in self.state}
        return tuple(tensor for tensor in self.outputs if tensor.name not in state)

    def at(self, sizes: Mapping[str, int]) -> Signature:
        """The same with `sizes` for symbols."""
        return Signature(
            inputs=tuple(tensor.at(sizes) for tensor in self.inputs),
            outputs=tuple(tensor.at(sizes) for tensor in self.outputs),
        )
