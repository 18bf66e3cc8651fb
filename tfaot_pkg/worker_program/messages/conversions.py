"""Requests that turn other files into a SavedModel, or change its inputs and outputs before the stages read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .graph import OfSignature, Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertKeras:
    """Write the SavedModel of the Keras model in `file` to the folder `out`.

    A SavedModel has the numbers of `model.predict(x)`. If a layer gives others in `model(x)`, it is made only if
    `answers` is "predict".
    """

    file: str
    out: str
    answers: Literal["call", "predict"] = "call"


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
    """The files of a graph and of a tf2xla Config, and the prefix of the names of a checkpoint's files.

    "" stands for no Config or checkpoint.
    """

    graph: str
    config: str
    checkpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertGraph:
    """Write the SavedModel of a graph to the folder `out`; its signature is `signature`, its tags are `tags`.

    `inputs` and `outputs` are tensors of the graph (`node`, `node:1`), or their names in the Config. If they are empty,
    those of the Config are meant, or else the graph's placeholders and sinks. `shapes` are shapes of inputs that the
    spec sets. `constants` are values for placeholders; `feeds` are variables that callers supply, without values.
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
    """Propose inputs and outputs of a graph; nothing is written."""

    files: GraphFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedGraph:
    """`constants` are values for placeholders that look like switches of training.

    `defaulted` are placeholders with a default value. `variables` are those whose values the outputs need from a
    checkpoint.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: Mapping[str, Values]
    defaulted: tuple[str, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename(OfSignature):
    """Write to the file `out` the `saved_model.pb` of `folder` with other names in one signature.

    `inputs` and `outputs` have the new names by the present ones, of all or of none.
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
    """Write to the file `out` the `saved_model.pb` of `folder` with constants or variables, `feeds`, as inputs.

    `seed` names an input that random numbers follow from; with `keeps_state` they are drawn as before. `counts` names
    outputs whose number of rows depends on values, and an output for each such number.
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

    As text of MLIR's TensorFlow dialect, of StableHLO, or as a GraphDef, binary or text. StableHLO gets fixed sizes:
    those of `shapes` by the names of inputs, and `batch_size` for the batch axis (0: there must be none).
    """

    form: Literal["mlir", "stablehlo", "graph", "graph_text"]
    out: str
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    batch_size: int = 0
