"""The document of an .aten file (tfaot_pkg/export says what it has), which is not trusted: its form is checked here.

Another form raises ModelError with the place of the fault. The bytes of arrays are checked where the file is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfaot_pkg.compiler.program import BATCH, Size
from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground import documents
from tfaot_pkg.ground.arrays import Array

FORMAT = 1
_NAME = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)
_DEEPEST = 4
"""The limit of lists within lists, in arguments."""
_MOST_TEXT = 200
_BITS = {"bfloat16": "uint16"}
"""Element types that NumPy does not have -> those of their bits."""
_TYPES = frozenset(
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128".split()
)
HINT = "export the model again with tfaot_pkg.export, or copy the file again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The value of an input, a weight, or a node."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementType:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """An argument of a kind that has no form in the document."""

    text: str


Argument = None | bool | int | float | complex | str | Reference | ElementType | Other | tuple["Argument", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The type of a tensor; a size is None if it is no polynomial in the symbols."""

    dtype: str
    sizes: tuple[Size | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An operator with arguments by name. Of `results`, one for each tensor, None is no tensor.

    `module` names the module around it, and `line` the line of the author's code; "" if they are not known.
    """

    name: str
    op: str
    arguments: Mapping[str, Argument]
    results: tuple[Result | None, ...]
    module: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An axis is a size or the name of a symbol."""

    name: str
    value: str
    dtype: str
    axes: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    dtype: str
    shape: tuple[int, ...]
    sha256: str

    def __post_init__(self) -> None:
        if self.dtype not in _TYPES and self.dtype not in _BITS:
            raise ValueError(f"the element type {self.dtype!r:.40}")
        if any(size < 0 for size in self.shape) or len(self.shape) > 32:
            raise ValueError(f"an array of the shape {list(self.shape)!r:.60}")

    @property
    def held(self) -> np.dtype[Any]:
        """The type of its elements in the file."""
        found: np.dtype[Any] = np.dtype(_BITS.get(self.dtype, self.dtype)).newbyteorder("<")
        return found

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.held.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Answers to batches of so many `rows`, as numbers of arrays: which batches `ran`, their `outputs` by name, and
    what is known `beside` by KIND/NAME (tfaot_pkg/export).
    """

    rows: int
    ran: int
    outputs: Mapping[str, int]
    beside: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredClass:
    """A class of inputs at `sizes` of symbols: numbers of arrays by input, and the runs."""

    name: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, int]
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    name: str
    op: str
    arguments: Mapping[str, object]
    results: tuple[object, ...]
    module: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    format: int = FORMAT
    framework: str
    version: str
    symbols: Mapping[str, tuple[int, int | None]]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    arrays: tuple[ArrayType, ...]
    weights: Mapping[str, int]
    answers: Mapping[str, int]
    nodes: tuple[_Node, ...]
    guards: tuple[str, ...] = ()
    classes: tuple[AnsweredClass, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file says. `weights` and `answers` are numbers of `arrays`, by value and by "in/NAME" or "out/NAME".
    `classes` are those of inputs that it has answers to.

    `symbols` are the least and the largest size of axes that vary, and `guards` what PyTorch assumed of them, as text.
    """

    version: str
    symbols: Mapping[str, tuple[int, int | None]]
    guards: tuple[str, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    nodes: tuple[Node, ...]
    arrays: tuple[ArrayType, ...]
    weights: Mapping[str, int]
    answers: Mapping[str, int]
    classes: tuple[AnsweredClass, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Module:
    """A document with the elements of its weights, by value. Arrays of `bits` hold bfloat16."""

    document: Document
    weights: Mapping[str, Array]
    bits: frozenset[str] = field(default_factory=frozenset)


def read(content: bytes, what: str) -> Document:
    """The document in `content`, which is named as `what`. Raises ModelError."""
    found = documents.read(_Document, content, what, error=ModelError, hint=HINT)
    try:
        return _checked(found)
    except ValueError as error:
        raise ModelError(f"{what} is damaged: {error}", hint=HINT) from error


def _checked(found: _Document) -> Document:
    if found.framework != "PyTorch" or not re.fullmatch(r"[\w.+-]{1,40}", found.version, re.ASCII):
        raise ValueError(f"it is of {found.framework!r:.40} {found.version!r:.40}")
    for name, (least, most) in found.symbols.items():
        _require_name(name)
        if least < 0 or (most is not None and most < max(least, 1)):
            raise ValueError(f"the symbol {name} is between {least} and {most}")
    for numbers in (found.weights, found.answers, *(each for one in found.classes for each in _numbers(one))):
        if wrong := [number for number in numbers.values() if not 0 <= number < len(found.arrays)]:
            raise ValueError(f"there is no array {wrong[0]}")
    ends = {f"in/{each.name}" for each in found.inputs} | {f"out/{each.name}" for each in found.outputs}
    if set(found.answers) != ends or len(ends) != len(found.inputs) + len(found.outputs):
        raise ValueError("its answers are of other inputs and outputs, or a name occurs twice")
    for each in found.classes:
        _require_answers(found, each)
    made = Document(
        version=found.version,
        symbols=found.symbols,
        guards=found.guards,
        inputs=found.inputs,
        outputs=found.outputs,
        nodes=tuple(map(_node, found.nodes)),
        arrays=found.arrays,
        weights=found.weights,
        answers=found.answers,
        classes=found.classes,
    )
    _require_order(made)
    return made


def _numbers(found: AnsweredClass) -> Iterator[Mapping[str, int]]:
    yield found.inputs
    for run in found.runs:
        yield from (run.outputs, run.beside, {"ran": run.ran})


def _require_answers(document: _Document, found: AnsweredClass) -> None:
    """Raise ValueError unless inputs and runs are those of the document, with as many batches as there are rows."""
    what = f"its answers to the class {found.name!r:.40}"
    if not re.fullmatch(r"[a-z]{1,20}( [a-z]{1,20})?", found.name):
        raise ValueError(f"{found.name!r:.40} is no class of inputs")
    if set(found.sizes) != set(document.symbols) - {BATCH} or set(found.inputs) != {e.name for e in document.inputs}:
        raise ValueError(f"{what} are of other symbols or inputs")
    kinds = {each.name: document.arrays[found.inputs[each.name]] for each in document.inputs}
    batched = [each for each in document.inputs if each.axes[:1] == (BATCH,)]
    rows = {kinds[each.name].shape[:1] for each in batched}
    ((count,),) = rows if len(rows) == 1 and () not in rows else [(1,)]
    for each in document.inputs:
        known = {**found.sizes, BATCH: count}
        wanted = tuple(known[axis] if isinstance(axis, str) else axis for axis in each.axes)
        if (kinds[each.name].dtype, kinds[each.name].shape) != (each.dtype, wanted):
            raise ValueError(f"{what} are to {each.name!r:.60} of another type")
    for run in found.runs:
        _require_run(document, run, count, what)


def _require_run(document: _Document, run: Run, count: int, what: str) -> None:
    names = {each.name for each in document.outputs}
    if not 1 <= run.rows <= count:
        raise ValueError(f"{what} are to batches of {run.rows} rows")
    if set(run.outputs) - names or {name.partition("/")[2] for name in run.beside} - names:
        raise ValueError(f"{what} are of other outputs")
    batches = count // run.rows
    if (document.arrays[run.ran].dtype, document.arrays[run.ran].shape) != ("bool", (batches,)):
        raise ValueError(f"{what} are of other batches")
    for name, number in {**run.outputs, **run.beside}.items():
        if document.arrays[number].shape[:1] != (batches,):
            raise ValueError(f"{what}: {name!r:.60} is of other batches")


def _require_order(found: Document) -> None:
    """Raise ValueError unless each value has one name, and is there before what reads it."""
    known: set[str] = set()

    def add(name: str) -> None:
        _require_name(name)
        if name in known:
            raise ValueError(f"two values are called {name}")
        known.add(name)

    for each in found.inputs:
        add(each.value)
        for axis in each.axes:
            if axis not in found.symbols if isinstance(axis, str) else axis < 0:
                raise ValueError(f"the input {each.name!r:.60} has an axis of {axis!r:.60} elements")
    for name in found.weights:
        add(name)
    for node in found.nodes:
        for reference in _references(tuple(node.arguments.values())):
            if reference not in known:
                raise ValueError(f"{node.name} reads {reference!r:.60}, which is not computed before it")
        add(node.name)
    for output in found.outputs:
        if output.value not in known:
            raise ValueError(f"the output {output.name!r:.60} is computed nowhere")


def _references(argument: Argument) -> Iterator[str]:
    if isinstance(argument, Reference):
        yield argument.name
    elif isinstance(argument, tuple):
        for each in argument:
            yield from _references(each)


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.60} is no name of a value")


def _node(found: _Node) -> Node:
    if not re.fullmatch(r"[\w.]{1,200}", found.op, re.ASCII):
        raise ValueError(f"{found.op!r:.60} is no name of an operator")
    return Node(
        name=found.name,
        op=found.op,
        arguments={name: _argument(value) for name, value in found.arguments.items()},
        results=tuple(map(_result, found.results)),
        module=found.module[:_MOST_TEXT],
        line=found.line[:_MOST_TEXT],
    )


def _argument(value: object, depth: int = 0) -> Argument:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) and depth < _DEEPEST:
        return tuple(_argument(each, depth + 1) for each in value)
    if isinstance(value, dict) and len(value) == 1:
        ((kind, content),) = value.items()
        match value:
            case {"complex": [int() | float() as real, int() | float() as imaginary]}:
                return complex(real, imaginary)
        if isinstance(content, str):
            match kind:
                case "value":
                    return Reference(name=content)
                case "dtype":
                    return ElementType(name=content)
                case "other":
                    return Other(text=content[:_MOST_TEXT])
                case "number" if content in ("inf", "-inf", "nan"):
                    return float(content)
    raise ValueError(f"the argument {value!r:.60}")


def _result(value: object) -> Result | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"dtype", "shape"} or not isinstance(value["shape"], list):
        raise ValueError(f"the type {value!r:.60}")
    return Result(dtype=str(value["dtype"])[:_MOST_TEXT], sizes=tuple(map(_size, value["shape"])))


def _size(value: object) -> Size | None:
    if value is None:
        return None
    if type(value) is int:
        return Size(value)
    if isinstance(value, list):
        return Size.of(_term(term) for term in value)
    raise ValueError(f"the size {value!r:.60}")


def _term(value: object) -> tuple[tuple[str, ...], int]:
    match value:
        case [int(coefficient), [*names]] if all(isinstance(each, str) for each in names) and len(names) < 16:
            return tuple(sorted(map(str, names))), coefficient
    raise ValueError(f"the term {value!r:.60} of a size")
