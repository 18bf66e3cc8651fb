"""Formats of model files: the fields of `model` that name them, and how a file's name shows its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Format = Literal[
    "saved_model", "keras", "onnx", "qonnx", "hls4ml", "conifer", "aten", "torch", "jax", "mlir", "trees", "graph"
]
"""The field of `model` that names the model's files."""

SAVED_MODEL: Format = "saved_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """A format of models that are one file, without signatures and tags.

    `about` says in the reference what the key of a spec means, with an `example` of its value.
    `title` names one such file in sentences, with its article. Names of files end with one of `suffixes`. A file may
    have parts beside it, whose names are its own followed by one of `parts`. Models that are not `is_tensorflows` keep
    the inputs and outputs of their framework, except that some take constants for inputs, or counts of rows
    (model.counts).
    """

    field: Format
    about: str
    example: str
    title: str
    suffixes: tuple[str, ...]
    parts: tuple[str, ...] = ()
    is_tensorflows: bool = True
    takes_constants: bool = False
    takes_counts: bool = False


_FORMATS = (
    FileFormat(
        field="keras",
        about="File of a Keras model (.keras or .h5), instead of saved_model; without signatures and tags.",
        example="./tagger.keras",
        title="a Keras file",
        suffixes=(".keras", ".h5", ".hdf5"),
    ),
    # Exporters put weights of more than 2 GB, or all weights, into such a file: PyTorch ".data", others "_data".
    FileFormat(
        field="onnx",
        about="File of an ONNX model (.onnx), or a folder that holds it and its external data, instead of "
        "saved_model; answers are compared with ONNX Runtime's.",
        example="./tagger.onnx",
        title="an ONNX file",
        suffixes=(".onnx",),
        parts=(".data", "_data"),
        is_tensorflows=False,
        takes_constants=True,
        takes_counts=True,
    ),
    # Behind "onnx": its files have the same names, and recognition.py tells them by the domain of their operators.
    FileFormat(
        field="qonnx",
        about="File of a quantized network in QONNX (.onnx with Quant, BipolarQuant or Trunc, as Brevitas, QKeras and "
        "hls4ml's tools write it), instead of saved_model; answers are compared with those of QONNX's executor.",
        example="./tagger.onnx",
        title="a QONNX file",
        suffixes=(".onnx",),
        parts=(".data", "_data"),
        is_tensorflows=False,
        takes_constants=True,
    ),
    FileFormat(
        field="hls4ml",
        about="File of a network of hls4ml that its `serialize_model` wrote (.fml), instead of saved_model; answers "
        "are compared with those of hls4ml's emulator, which g++ compiles.",
        example="./tagger.fml",
        title="a file of hls4ml",
        suffixes=(".fml",),
        is_tensorflows=False,
    ),
    # Recognized by content: any JSON file has such a name.
    FileFormat(
        field="conifer",
        about="File of decision trees for FPGAs that conifer's `save` or `write` made (JSON), instead of saved_model; "
        "answers are compared with those of conifer's C++, which g++ compiles.",
        example="./trees.json",
        title="a file of conifer",
        suffixes=(),
        is_tensorflows=False,
    ),
    FileFormat(
        field="aten",
        about="File of a PyTorch module that `python -m tfaot_pkg.export` wrote (.aten), instead of saved_model; "
        "answers are compared with PyTorch's, which are in the file.",
        example="./tagger.aten",
        title="a program of PyTorch",
        suffixes=(".aten",),
        is_tensorflows=False,
    ),
    FileFormat(
        field="torch",
        about="File that `python -m tfaot_pkg.export` wrote (.pt2 or .onnx), instead of saved_model; answers are "
        "compared with ONNX Runtime's, and with those of PyTorch in the file.",
        example="./tagger.pt2",
        title="a file of PyTorch",
        suffixes=(".pt2",),
        is_tensorflows=False,
        takes_counts=True,
    ),
    FileFormat(
        field="jax",
        about="Artifact of jax.export (.jax), instead of saved_model; answers are compared with JAX's.",
        example="./tagger.jax",
        title="an artifact of jax.export",
        suffixes=(".jax",),
        is_tensorflows=False,
        takes_constants=True,
    ),
    # ".stablehlo" and ".mlirbc" are bytecode, ".mlir" is text; the content decides.
    FileFormat(
        field="mlir",
        about="MLIR module, instead of saved_model: StableHLO as text or bytecode, compared with the answers of "
        "JAX's XLA, or functions of the TensorFlow dialect as text.",
        example="./tagger.mlir",
        title="an MLIR module",
        suffixes=(".mlir", ".mlirbc", ".stablehlo"),
        is_tensorflows=False,
        takes_constants=True,
    ),
    # Other files of trees are recognized by content (recognition.py): names such as "model.json" may be anything.
    FileFormat(
        field="trees",
        about="File of decision trees, instead of saved_model: XGBoost's (JSON, UBJSON), LightGBM's (text), "
        "scikit-learn's (skops) or TMVA's (.weights.xml); answers are compared with the library's.",
        example="./model.json",
        title="a file of decision trees",
        suffixes=(".xml", ".gz", ".skops"),
        is_tensorflows=False,
    ),
    FileFormat(
        field="graph",
        about="File of a graph (GraphDef .pb or .pbtxt, or .meta), instead of saved_model; inputs and outputs then "
        "choose its tensors (by default: placeholders, and tensors that no node uses).",
        example="./frozen.pb",
        title="a graph",
        suffixes=(".pb", ".pbtxt", ".meta"),
    ),
)

FILE_FORMATS: Mapping[Format, FileFormat] = MappingProxyType({each.field: each for each in _FORMATS})
"""By field; a SavedModel is a folder."""


def format_of(path: Path) -> FileFormat | None:
    """The format of a model's file by its name; None for any other path."""
    return next((each for each in _FORMATS if path.suffix.lower() in each.suffixes), None)


LOWERED: frozenset[Format] = frozenset({"aten", "conifer", "hls4ml", "onnx", "qonnx", "torch", "trees"})
"""Formats whose models this tool makes programs of: no TensorFlow takes part."""
