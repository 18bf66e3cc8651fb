"""Requests and their answers, and the messages that carry both between host and worker."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .conversions import (
    Convert,
    ConvertGraph,
    ConvertKeras,
    Expose,
    Join,
    Lift,
    Lifted,
    Pin,
    ProposedGraph,
    ProposeGraph,
    Rename,
    Values,
)
from .graph import (
    Check,
    Checked,
    Feed,
    Fetch,
    FindSizes,
    FoundSizes,
    Freeze,
    Frozen,
    Inspect,
    Inspected,
    OfSignature,
    Weight,
)
from .sources import BuildMlir, ReadConifer, ReadHls4ml, ReadMlir, ReadOnnx, ReadTrees, SourceModel, TreesCall


class ModelFault(Exception):
    """A fault of a model, in words for its author; `newer` if a newer toolchain may read the model."""

    def __init__(self, message: str, hint: str = "", *, newer: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.newer = newer


# TensorFlow adds the Python stack of the node that failed, with paths of the machine that exported it.
_OF_STACKS = re.compile(r'\s*(File "|Graph execution error:|Detected at node |Node: )')


def one_line(error: BaseException) -> str:
    """The first 300 characters of an error's text, on one line, without stack traces.

    Python's own text about files that are nested too deeply speaks of Python.
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    lines = [line for line in str(error).splitlines() if not _OF_STACKS.match(line)]
    return " ".join(" ".join(lines).split())[:300] or type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`op` is a name of OPERATIONS, `args` its request."""

    op: str
    args: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first message: the program has started."""

    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """`advance` more steps are done."""

    advance: float
    note: str

    def __post_init__(self) -> None:
        if not math.isfinite(self.advance):
            raise ValueError("advance must be finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress of the request; its answer follows."""

    event: Advance


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """`ok` is the operation's answer."""

    ok: object


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultText:
    """A ModelFault."""

    message: str
    hint: str
    newer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulty:
    """The model is at fault."""

    fault: FaultText


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The results of the reference of `operation`, which runs elsewhere, for the arrays in the file `inputs` (.npz, by
    position) of this program's TMPDIR.
    """

    operation: str
    inputs: str
    attributes: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to the host, before the answer to its request. The host sends Told."""

    asked: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The file of results, in the form of the inputs; or the fault of the reference."""

    out: str
    fault: FaultText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """TensorFlow raised `error`."""

    error: str


Reply = Ready | Event | Asked | Done | Faulty | OutOfMemory | Failed
"""One line from this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOperations:
    """List the allowed operations that the toolchain can compile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTable:
    """Operation -> its kernels -> attribute -> the dtypes that it may have."""

    operations: Mapping[str, tuple[Mapping[str, tuple[str, ...]], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFlags:
    """Make TensorFlow and XLA read their flags, which ends the process if one is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """The answer to a request that has no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One batch size for one target: `prefix` of its files, `name` of its symbols."""

    prefix: str
    name: str
    batch_size: int
    target: str
    triple: str
    cpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """Compile `units` of `graph` into `out`.

    Feeds of a unit are `inputs`, then `weights` in the order given, except those of `embed` (names of nodes), which
    stay constants of the graph; their values are in the file `blob`. With `constants` the toolchain writes a second
    object, for constants. `lowerings` are operations to replace (lowerings.py).
    """

    out: str
    graph: str
    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]
    weights: tuple[Weight, ...]
    blob: str
    embed: tuple[str, ...]
    constants: bool
    lowerings: tuple[str, ...]
    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """If `embed` is not empty, XLA must know the values of those weights too: repeat with them embedded."""

    embed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """An output whose number of rows depends on values: the output `count` has that number, `rows` is its maximum.

    With `like`, an input, the maximum is the number of elements of its axis `axis`.
    """

    count: str
    rows: int
    like: str = ""
    axis: int = 0

    def most(self, inputs: Mapping[str, Any]) -> int:
        """How many rows there may be for these arrays."""
        return int(inputs[self.like].shape[self.axis]) if self.like else self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(OfSignature):
    """Run the model on the arrays in `inputs` (.npz) in batches of each of `batch_sizes`; write answers to `out`.

    For TensorFlow, `folder` is the folder of the SavedModel; for the `framework` of a front-end, the model's file.
    `feeds` and `fetches` are that framework's names of inputs and outputs, by ours; with `by_row` it computes one row
    at a time. `constants` are values of further inputs of the file, by our names. `operations` are those that the
    framework lacks; the host runs their references. The outputs `counted` are padded with zeros. Decision trees are
    called by `call`.

    `batched` are the inputs that have a batch axis, `stacked` the outputs that have one; `most` batches of each size
    are run, None for all; of a size in `chosen`, only the batches with these numbers. Each size reports `advance` steps
    of progress. reference.py says what the options `jit`, `perturbed` and `tolerant` do.
    """

    inputs: str
    out: str
    batch_sizes: tuple[int, ...]
    batched: tuple[str, ...]
    stacked: tuple[str, ...]
    most: int | None = None
    chosen: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    advance: int = 1
    jit: bool = False
    perturbed: int = 0
    tolerant: bool = False
    framework: Literal["tensorflow", "onnx", "qonnx", "hls4ml", "conifer", "jax", "trees"] = "tensorflow"
    feeds: Mapping[str, str] = field(default_factory=dict)
    fetches: Mapping[str, str] = field(default_factory=dict)
    by_row: bool = False
    operations: tuple[str, ...] = ()
    counted: Mapping[str, Counted] = field(default_factory=dict)
    constants: Mapping[str, Values] = field(default_factory=dict)
    call: TreesCall = field(default_factory=TreesCall)


@dataclass(frozen=True, slots=True, kw_only=True)
class Referenced:
    """The kinds of operations in the graph, and the framework's first messages about batches that it rejected."""

    version: str
    operations: tuple[str, ...]
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSteps(OfSignature):
    """Run the signature as it was, with variables, step by step on the arrays in `inputs` (.npz: name -> steps).

    `variables` are those whose values after the last step are written to `out`, with the outputs of all steps
    (stateful_reference.py); `tries` further runs, on perturbed inputs, find how much roundings of the inputs matter.
    """

    inputs: str
    out: str
    variables: tuple[str, ...]
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawNumbers(OfSignature):
    """Call the signature, whose random numbers have a state, `count` times on the arrays in `inputs`.

    stateful_reference.py does it.
    """

    inputs: str
    out: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOperation:
    """Run the function `operation` of the Python file `file` on the arrays in `inputs` (.npz), by position.

    Its results are written to `out` in the same form.
    """

    file: str
    operation: str
    inputs: str
    attributes: Mapping[str, tuple[float, ...]]
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBranches:
    """Look for inputs that take sides of branches, for `seconds` (0 for not at all); write them to `out`."""

    graph: str
    blob: str
    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]
    weights: tuple[Weight, ...]
    rows: int
    seed: int
    seconds: float
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of the branch `node`, the path of a node through functions ("while/body/cond")."""

    node: str
    operation: str
    side: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """`found` says whether there is a file of inputs."""

    taken: tuple[Side, ...]
    not_taken: tuple[Side, ...]
    found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Translate:
    """Write `graph` for one batch size, with symbols at their maxima, in another form to the file `out`."""

    graph: str
    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]
    weights: tuple[Weight, ...]
    form: Literal["hlo", "stablehlo", "mlir-tf"]
    batch_size: int
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCorpus:
    """Write small SavedModels of many kinds to the folder `out`."""

    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The models that were written, each in the folder of its name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace(OfSignature):
    """Write the spans of `calls` calls of the signature on the batch in `inputs` (.npz) to `out`, as Chrome's JSON.

    With `jit` XLA compiles the signature first. `scratch` is an empty folder for TensorFlow's profiler.
    """

    inputs: str
    scratch: str
    out: str
    calls: int
    jit: bool


OPERATIONS: Mapping[str, tuple[type[Any], type[Any]]] = {
    "keras": (ConvertKeras, Nothing),
    "read onnx": (ReadOnnx, SourceModel),
    "read mlir": (ReadMlir, SourceModel),
    "build mlir": (BuildMlir, Nothing),
    "read trees": (ReadTrees, SourceModel),
    "read hls4ml": (ReadHls4ml, SourceModel),
    "read conifer": (ReadConifer, SourceModel),
    "convert": (Convert, Nothing),
    "graph": (ConvertGraph, Nothing),
    "propose": (ProposeGraph, ProposedGraph),
    "rename": (Rename, Nothing),
    "join": (Join, Nothing),
    "pin": (Pin, Nothing),
    "expose": (Expose, Nothing),
    "lift": (Lift, Lifted),
    "steps": (RunSteps, Nothing),
    "draws": (DrawNumbers, Nothing),
    "inspect": (Inspect, Inspected),
    "operations": (ListOperations, OperationTable),
    "flags": (ReadFlags, Nothing),
    "check": (Check, Checked),
    "freeze": (Freeze, Frozen),
    "compile": (Compile, Compiled),
    "reference": (Reference, Referenced),
    "operation": (RunOperation, Nothing),
    "branches": (SearchBranches, Sides),
    "translate": (Translate, Nothing),
    "trace": (Trace, Nothing),
    "sizes": (FindSizes, FoundSizes),
    "corpus": (WriteCorpus, Corpus),
}
"""Name -> (request, answer)."""
