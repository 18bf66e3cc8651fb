"""The messages between the host (bench/) and the programs in peers' environments: frozen types that both sides share.

Each message is one line of JSON. Programs trust what they read, because the host made it; the host checks every answer.
Engines in C++ (templates/bench/serving.h) give the same answers. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """`shape` has None for the batch axis; `file` holds the values of `Options.rows` rows."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The first line for an engine; the lines after it are words, as in templates/bench/serving.h.

    `models` are files by batch size, `identity` is the file of a model that gives one float back, "" for decision
    trees. `calls` is the shared library of templates/bench/calls.cc. If it is `turning`, each timed run gets the next
    of the `rows`, so that the CPU does not know their branches.
    """

    engine: str
    models: Mapping[str, str]
    identity: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    rows: int
    calls: str
    turning: bool

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Options:
        """Raises TypeError for unknown and missing fields."""
        inputs = tuple(Input(**each) for each in document["inputs"])
        outputs = tuple(Output(**each) for each in document["outputs"])
        return cls(**{**document, "inputs": inputs, "outputs": outputs})


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Nanoseconds of loading the engine and one run."""

    nanoseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Nanoseconds of one run, chunk by chunk."""

    times: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peak resident memory in kB: with the inputs but before the engine was loaded, and now."""

    empty: int
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A limit of the machine, from templates/bench/limits.cc."""

    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The answers are in their file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The engine raised `error`; its traceback is in the log."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """An input: its name in the signature, and the node of the frozen graph."""

    name: str
    node: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An output: its name in the signature, and the output `index` of `node` in the frozen graph."""

    name: str
    node: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A signature of a SavedModel; `names` are the model's own, of inputs and outputs that the spec renames."""

    folder: str
    tags: tuple[str, ...]
    signature: str
    names: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixing:
    """The request to fix_onnx.py for the ONNX file `model`: `files` are the results by batch size.

    Without a file, the model returns its input.

    `inputs` are the shapes of its inputs by their names in the file, None for the batch; `outputs` are such names. Both
    are in the order of the signature.
    """

    model: str
    inputs: Mapping[str, tuple[int | None, ...]]
    outputs: tuple[str, ...]
    files: Mapping[str, str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Fixing:
        """Raises TypeError for unknown and missing fields."""
        return cls(**document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """The request to convert.py for a model; with neither `saved` nor `graph`, for the identity of one float.

    `kind` is graph, tflite or onnx. The model is `saved`, or the frozen graph in the file `graph`. `files` are the
    results by batch size. `paths` are folders to import from, beside those of the environment.
    """

    kind: str
    saved: Saved | None
    graph: str
    inputs: tuple[Placeholder, ...]
    outputs: tuple[Fetched, ...]
    files: Mapping[str, str]
    paths: tuple[str, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Conversion:
        """Raises TypeError for unknown and missing fields."""
        saved = document["saved"] and Saved(**document["saved"])
        inputs = tuple(Placeholder(**each) for each in document["inputs"])
        outputs = tuple(Fetched(**each) for each in document["outputs"])
        return cls(**{**document, "saved": saved, "inputs": inputs, "outputs": outputs})


GIVEN = "given.json"
"""The file in which convert_trees.py says what the model gives."""
ROWS = "tfaot_rows"
"""The C function that it adds to the code of tl2cgen: `int (entries, rows, features, results)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeConversion:
    """The request to convert_trees.py for the file `model` of `library`: `kind` is onnx or c, results go to `folder`.

    The input has `columns` numbers of type `dtype` in each row; ONNX files are for the batch sizes `sizes`. If it
    `is_label`, the result is a class and no probability.
    """

    kind: str
    library: str
    model: str
    folder: str
    sizes: tuple[int, ...]
    columns: int
    dtype: str
    is_label: bool

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> TreeConversion:
        """Raises TypeError for unknown and missing fields."""
        return cls(**document)
