"""What turns other files into a SavedModel, and changes its border before all stages read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .graph import OfSignature, Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertKeras:
    """Write the SavedModel of the Keras model in `file` to the folder `out`."""

    file: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """An array, row-major."""

    shape: tuple[int, ...]
    values: tuple[bool, ...] | tuple[int, ...] | tuple[float, ...]

    def __post_init__(self) -> None:
        if min(self.shape, default=0) < 0 or math.prod(self.shape) != len(self.values):
            raise ValueError("the number of values must be that of the shape")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFiles:
    """The file of a graph and of a Config of tf2xla, and what the names of a checkpoint's files begin with.

    "" stands for no Config or checkpoint.
    """

    graph: str
    config: str
    checkpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertGraph:
    """Write the SavedModel of a graph to the folder `out`; its signature is `signature`, its tags are `tags`.

    `inputs` and `outputs` are tensors of the graph (`node`, `node:1`), or the names that its Config has for them; none
    for those of the Config, or for all that nothing computes and nothing uses. `shapes` are those of inputs that the
    spec sets. `constants` are values of placeholders; `feeds` are variables that need none.
    """

    files: GraphFiles
    tags: tuple[str, ...]
    signature: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, Shape]
    constants: Mapping[str, Values]
    feeds: tuple[str, ...]
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeGraph:
    """What may be the border of a graph; nothing is written."""

    files: GraphFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedGraph:
    """`constants` are values for placeholders that look like switches of training.

    `defaulted` are placeholders that have a value if nothing feeds them, `variables` those whose values the outputs
    need from a checkpoint.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: Mapping[str, Values]
    defaulted: tuple[str, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename(OfSignature):
    """Write to the file `out` the `saved_model.pb` of `folder` with other names in one signature.

    `inputs` and `outputs` have the new names of all by the present ones; none if those stay.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSignature:
    """The signature `key` under `name`, with new names of inputs and outputs as in Rename."""

    name: str
    key: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(OfSignature):
    """Write to the file `out` the `saved_model.pb` of `folder` with a further `signature`: all of `parts` together.

    Its inputs and outputs are called as in the parts, with the part's name and a slash before them.
    """

    parts: tuple[JoinedSignature, ...]
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(OfSignature):
    """Write to the file `out` the `saved_model.pb` of `folder` with constants instead of inputs or placeholders."""

    constants: Mapping[str, Values]
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expose(OfSignature):
    """Write to the file `out` the `saved_model.pb` of `folder` whose constants or variables `feeds` are inputs, too.

    If it `keeps_state`, random numbers that would follow from the input `seed` are drawn as they were.
    """

    feeds: tuple[str, ...]
    seed: str
    counts: Mapping[str, str]
    out: str
    keeps_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift(OfSignature):
    """Write to the file `out` the `saved_model.pb` of `folder` with variables as inputs and outputs (lifting.py).

    `read` and `update` name variables, or match them; the file `values` gets their trained values.
    """

    read: tuple[str, ...]
    update: tuple[str, ...]
    out: str
    values: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTensor:
    """The variable `name` as an input and an output of the lifted signature; no `output` ("") if it is only read.

    Its trained value begins at `offset` in the file of values, row-major.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    input: str
    output: str
    offset: int

    def __post_init__(self) -> None:
        if min((self.offset, *self.shape)) < 0:
            raise ValueError("offset and shape must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """Sorted by name."""

    state: tuple[StateTensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(OfSignature):
    """Write the signature of the SavedModel in `folder` to the file `out`.

    As text of MLIR's TensorFlow dialect, or as a GraphDef.
    """

    form: Literal["mlir", "graph"]
    out: str
