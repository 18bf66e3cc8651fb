"""Models of other frameworks: requests to their front-ends, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .conversions import Values

Sizes = tuple[int | str | None, ...]
"""Sizes of axes, names of symbols, None for the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTensor:
    """An input or output: `name` for its users, `key` in its framework.

    `shape` has None for the batch and for axes that have neither size nor name; it is None if the rank is not known.
    `rows` is the file's name of the batch, "" if it has none.
    """

    name: str
    key: str
    dtype: str
    shape: Sizes | None
    rows: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesCall:
    """How the author of decision trees calls the model, as far as the spec says it; "" for what the file says.

    `iterations` is best, all, or a number. `missing` is the number that counts as missing beside NaN, as Python writes
    it; "nan" if there is none. `categories` says whether columns of categories contain values, as data frames do, or
    codes. `dtype` is the type of x.
    """

    iterations: str = ""
    missing: str = ""
    categories: Literal["", "values", "codes"] = ""
    dtype: Literal["", "float32", "float64"] = ""

    def __bool__(self) -> bool:
        return self != TreesCall()


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryColumn:
    """A column of x with categories, the `column`-th of it, which the file calls `name` ("" if it has no name).

    `given` says what x contains: the `values`, as they are in a data frame; their positions in `values`, because they
    are texts; or codes, which are these positions if the model was trained on a data frame.
    """

    column: int
    name: str
    given: Literal["values", "positions", "codes"]
    values: tuple[bool | int | float | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesFacts:
    """The call of decision trees that a package computes: `iterations` of `iterations_in_file`, and what counts as
    `missing`, as in TreesCall; 0 and "" if calls of the library do not choose them. `columns` of x and `classes` are
    names, if the file has them.
    """

    library: str
    iterations: int
    iterations_in_file: int
    missing: str
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    categories: tuple[CategoryColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceModel:
    """A model as its framework describes it. `origin` describes its format and producer: "opset 17, pytorch 2.1.0".

    `file` is the model's own file, also if a folder was named. If it is `by_row`, the batch is an axis of size 1 in the
    file, so that its framework computes one row at a time. If its framework cannot run it (`has_answers` is
    false), answers are those of the SavedModel. `symbols` are the smallest and the largest size of named axes, if the
    file has them; the largest is 0 if it has none.
    If the file contains answers of its author's framework, `answered_by` is that framework with its version, and
    reading has written them to its folder (from_onnx/exported.py). `library` is the framework's name, if the front-end
    reads files of several. `notes` say what the file leaves open. `trees` is there for decision trees alone: reading
    has written rows at which their answers change to its folder (from_trees/rows.py).
    """

    file: str
    origin: str
    inputs: tuple[SourceTensor, ...]
    outputs: tuple[SourceTensor, ...]
    by_row: bool
    has_answers: bool = True
    symbols: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    answered_by: str = ""
    library: str = ""
    notes: tuple[str, ...] = ()
    trees: TreesFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnnx:
    """Read the ONNX file `path`, or the one in the folder or .pt2 file `path`; write its graph to the folder `out` if
    there is one.

    `shapes` are those of inputs that the spec sets, by name; `constants` are inputs that get a value; `operations`
    are names of those that the author supplies. `qonnx` says that it is read with the operators of QONNX.
    """

    path: str
    shapes: Mapping[str, Sizes]
    out: str
    qonnx: bool = False
    operations: tuple[str, ...] = ()
    constants: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHls4ml:
    """Read the file `path` of hls4ml; write its parts (fixed_network.py) to the folder `out` if there is one."""

    path: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConifer:
    """Read the file `path` of conifer; write its parts (fixed_network.py) to the folder `out` if there is one."""

    path: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMlir:
    """Read the file `path`: an artifact of jax.export, a StableHLO module, or functions of TensorFlow's dialect.

    Write its parts to the folder `out` if there is one.
    """

    path: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildMlir:
    """Write the SavedModel of the parts in the folder `parts`, which ReadMlir made, to the folder `out`."""

    parts: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrees:
    """Read the file `path` of decision trees; write its parts to the folder `out` if there is one."""

    path: str
    out: str
    call: TreesCall = field(default_factory=TreesCall)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesLink:
    """An operation on the sums of trees (tree_lowering.py), with a number that it may need."""

    name: str
    number: float


INPUT = "x"
"""The name of the one input of decision trees, [batch, features]."""
TREES, FOREST, ENCODER = "model.json", "forest.npy", "encoder.npy"
"""Files that ReadTrees writes: FittedTrees; packed forests (forest.py) of the sums, and of the codes of categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTrees:
    """Decision trees as ReadTrees writes them, beside their forests.

    x is of the type `input`. First, the forest of codes, if there is one, replaces categories by their codes; then x is
    rounded to the type of the trees, and numbers equal to `missing` become NaN. `links` are operations on the sums, in
    the order of their calls. `output` is the name of the result, of the type `dtype`: [batch, outputs], or [batch] if
    it `is_flat`. `margin` is the name of the sums, "" if they are no result.
    """

    links: tuple[TreesLink, ...]
    output: str
    margin: str
    dtype: str
    is_flat: bool
    input: str
    missing: float | None
