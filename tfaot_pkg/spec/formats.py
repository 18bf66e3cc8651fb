"""Formats of model files: the fields of `model` that name them, and how a file's name shows its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Format = Literal["saved_model", "keras", "onnx", "torch", "jax", "mlir", "trees", "graph"]
"""The field of `model` that names the model's files."""

SAVED_MODEL: Format = "saved_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """A format of models that are one file, without signatures and tags.

    `title` names one such file in sentences, with its article. Names of files end with one of `suffixes`. A file may
    have parts beside it, whose names are its own followed by one of `parts`. Models that are not `is_tensorflows` keep
    the inputs and outputs of their framework, except that some take constants for inputs, or counts of rows
    (model.counts).
    """

    field: Format
    title: str
    suffixes: tuple[str, ...]
    parts: tuple[str, ...] = ()
    is_tensorflows: bool = True
    takes_constants: bool = False
    takes_counts: bool = False


_FORMATS = (
    FileFormat(field="keras", title="a Keras file", suffixes=(".keras", ".h5", ".hdf5")),
    # Exporters put weights of more than 2 GB, or all weights, into such a file: PyTorch ".data", others "_data".
    FileFormat(
        field="onnx",
        title="an ONNX file",
        suffixes=(".onnx",),
        parts=(".data", "_data"),
        is_tensorflows=False,
        takes_constants=True,
        takes_counts=True,
    ),
    FileFormat(field="torch", title="a file of PyTorch", suffixes=(".pt2",), is_tensorflows=False, takes_counts=True),
    FileFormat(
        field="jax", title="an artifact of jax.export", suffixes=(".jax",), is_tensorflows=False, takes_constants=True
    ),
    # ".stablehlo" and ".mlirbc" are bytecode, ".mlir" is text; the content decides.
    FileFormat(
        field="mlir",
        title="an MLIR module",
        suffixes=(".mlir", ".mlirbc", ".stablehlo"),
        is_tensorflows=False,
        takes_constants=True,
    ),
    # Other files of trees are recognized by content (recognition.py): names such as "model.json" may be anything.
    FileFormat(
        field="trees", title="a file of decision trees", suffixes=(".xml", ".gz", ".skops"), is_tensorflows=False
    ),
    FileFormat(field="graph", title="a graph", suffixes=(".pb", ".pbtxt", ".meta")),
)

FILE_FORMATS: Mapping[Format, FileFormat] = MappingProxyType({each.field: each for each in _FORMATS})
"""By field; a SavedModel is a folder."""


def format_of(path: Path) -> FileFormat | None:
    """The format of a model's file by its name; None for any other path."""
    return next((each for each in _FORMATS if path.suffix.lower() in each.suffixes), None)


BUILT: frozenset[Format] = frozenset({"onnx", "torch", "trees"})
"""Formats without a graph of TensorFlow: this tool builds their SavedModels, operation by operation."""
