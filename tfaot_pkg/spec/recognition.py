"""Recognize the format of a model by its content: its first bytes, or the names in an archive. Nothing else is read.

Formats without such marks (Protocol Buffers, artifacts of JAX) are recognized by the file's name; ONNX files of
quantized networks by the domains of operators that they import.
"""

from __future__ import annotations

import mmap
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import ModelError
from tfaot_pkg.spec.formats import FILE_FORMATS, FileFormat, Format, format_of
from tfaot_pkg.spec.wire_format import LENGTH, Damaged, fields
from tfaot_pkg.worker_program.from_onnx.graphs import QONNX_DOMAINS

_HEAD = 4096  # bytes: comments may stand before an MLIR module's first word
_MOST_NAMES = 8  # of a folder, in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """The first bytes of a file, and the names in it if it is a zip archive, without their common folder."""

    head: bytes
    names: frozenset[str] = frozenset()

    def begins(self, pattern: bytes) -> bool:
        """Whether `pattern` matches after blanks, a byte order mark and comments of MLIR."""
        return re.match(rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n)*(?:" + pattern + rb")", self.head) is not None


TMVA = "TMVA's formulas"
"""What computes files of TMVA, in requests of workers and in reports."""
Test = Callable[[_Content], bool]

_KINDS: tuple[tuple[Format, Test], ...] = (
    # Keras 2 wrote HDF5, whose signature this is; Keras 3 writes a zip archive with these members.
    ("keras", lambda each: each.head.startswith(b"\x89HDF\r\n\x1a\n")),
    ("keras", lambda each: {"config.json", "metadata.json"} <= each.names),
    # torch.export: old and new releases name the members differently; with the ONNX model, tfaot_pkg.export made it.
    ("torch", lambda each: bool(each.names & {"models/model.json", "archive_format", "tfaot/model.onnx"})),
    ("torch", lambda each: "serialized_exported_program.json" in each.names),
    ("aten", lambda each: "program.json" in each.names),
    ("trees", lambda each: each.begins(rb"(?:<\?xml[^>]*>\s*)?<MethodSetup\b")),  # TMVA
    # XGBoost writes JSON, or Universal Binary JSON: there a length of 8 bytes stands before the first key.
    ("trees", lambda each: each.begins(rb"\{\s*\"learner\"\s*:") or each.head.startswith(b"{L\0\0\0\0\0\0\0\7learner")),
    ("trees", lambda each: re.match(rb"tree\r?\nversion=v", each.head) is not None),  # LightGBM
    ("trees", lambda each: "schema.json" in each.names),  # skops
    ("conifer", lambda each: each.begins(rb"\{\s*\"n_classes\"\s*:")),
    # MLIR's bytecode, then its text: a colon before the first bracket would be that of YAML.
    ("mlir", lambda each: each.head.startswith(b"ML\xefR")),
    ("mlir", lambda each: each.begins(rb"(?:module\b|func\.func\b|func\s+@|\"builtin\.module\")[^:]*[{(@]")),
    # More loosely than above: XGBoost's with the version first, LightGBM's after a byte order mark or blanks.
    (
        "trees",
        lambda each: each.begins(rb"\{\s*\"(?:learner|version)\"|\{L[\0-\xff]{8}(?:learner|version)|tree\r?\nversion="),
    ),
    ("graph", lambda each: each.begins(rb"node\s*\{\s*name\s*:")),
)
"""Tests of the content of files, by the field of `model`; the first that holds decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Foreign:
    """A format that is known but not read; `way_out` says how to get a model that is."""

    title: str
    way_out: str
    is_it: Test


_LOAD = (
    "make the module, load the weights into it, and export it where PyTorch is installed: "
    "python -m tfaot_pkg.export MODULE:FUNCTION --input x=batch,16"
)
_OLD_XGBOOST = re.compile(rb"[\s\S]{136}[\s\S]\0{7}[a-z]+:[a-z0-9_]+[\s\S]\0{7}(?:gbtree|dart|gblinear)")
"""Parameters of 136 bytes, and two names with their lengths in 8 bytes (LearnerModelParamLegacy of XGBoost)."""
# In this order: a TorchScript file has the members of a torch.save file too.
_FOREIGN = (
    _Foreign(
        title="a TorchScript file",
        way_out="where PyTorch is installed: python -m tfaot_pkg.export {name} --input x=batch,16; then `tfaot-pkg "
        "init {stem}.onnx`",
        is_it=lambda each: "constants.pkl" in each.names and "data.pkl" in each.names,
    ),
    _Foreign(
        title="a file of torch.save (weights, or a pickle), without the network",
        way_out=_LOAD,
        is_it=lambda each: "data.pkl" in each.names,
    ),
    _Foreign(
        title="a TensorFlow Lite model",
        way_out="export the model that it was converted from: a Keras file, a SavedModel or ONNX",
        # FlatBuffers have the identifier of their schema at byte 4, after the offset of the root; as ORTM below.
        is_it=lambda each: each.head[4:8] == b"TFL3",
    ),
    _Foreign(
        title="a safetensors file, weights without the network",
        way_out=_LOAD,
        # The length of a JSON header in 8 bytes, lowest first: headers are far below 2**48 bytes.
        is_it=lambda each: re.match(rb"[\s\S]{6}\0\0\{\s*\"", each.head) is not None,
    ),
    _Foreign(
        title="a GGUF file",
        way_out="export the network to ONNX; quantized weights of this form are not read",
        is_it=lambda each: each.head.startswith(b"GGUF"),
    ),
    _Foreign(
        title="a NumPy archive, arrays without a network",
        way_out="export the model itself; `validation.inputs` takes such files",
        is_it=lambda each: bool(each.names) and all(name.endswith(".npy") for name in each.names),
    ),
    _Foreign(
        title="an ORT file, which ONNX Runtime made for one machine",
        way_out="name the .onnx file that it was made of",
        is_it=lambda each: each.head[4:8] == b"ORTM",
    ),
    _Foreign(
        title="a model of CatBoost",
        way_out='where CatBoost is installed: model.save_model("{stem}.onnx", format="onnx"); then `tfaot-pkg init '
        "{stem}.onnx`",
        is_it=lambda each: (
            each.head.startswith(b"CBM1")
            or each.begins(rb"\{\s*\"(?:features_info|ctr_data|model_info|oblivious_trees|scale_and_bias)\"\s*:")
        ),
    ),
    _Foreign(
        title="a binary model of XGBoost 1 or 2",
        way_out='write it with that version: booster.save_model("{stem}.json"); then `tfaot-pkg init {stem}.json`',
        is_it=lambda each: each.head.startswith((b"binf", b"bs64")) or _OLD_XGBOOST.match(each.head) is not None,
    ),
    _Foreign(
        title="a dump of trees for reading, without what a model needs",
        way_out="write the model where it was trained: XGBoost with booster.save_model("
        '"model.json"), LightGBM with booster.save_model("model.txt")',
        is_it=lambda each: each.begins(
            rb"\[\s*\{\s*\"nodeid\"|\{\s*\"name\"\s*:\s*\"tree\"|booster\[0\]:\s|0:\[[^\n]*\] yes="
        ),
    ),
    _Foreign(
        title="PMML",
        way_out="write the model itself where it was trained, or export it to ONNX (skl2onnx, onnxmltools)",
        is_it=lambda each: each.begins(rb"(?:<\?xml[^>]*>\s*)?<PMML\b"),
    ),
    _Foreign(
        title="the architecture of a Keras model, without weights",
        way_out='make the model, load its weights, and save all of it: model.save("{stem}.keras")',
        is_it=lambda each: each.begins(rb"\{\s*\"(?:module\"\s*:\s*\"keras\b|class_name\")"),
    ),
    _Foreign(
        title="a ROOT file",
        way_out="TMVA writes its weights as XML beside it: dataset/weights/NAME.weights.xml",
        is_it=lambda each: each.head.startswith(b"root\0"),
    ),
    _Foreign(
        title="a pickle, which runs code when it is read",
        way_out="write the model where it works: PyTorch with `python -m tfaot_pkg.export`, XGBoost with "
        'model.save_model("{stem}.json"), LightGBM with model.booster_.save_model("{stem}.txt"), Keras with '
        'model.save("{stem}.keras"), scikit-learn with skops',
        # Protocols 2 to 5: with a frame, or with one of the usual first opcodes. Also compressed by zlib, as joblib
        # does it.
        is_it=lambda each: (
            re.match(
                rb"\x80[\x02-\x05](?:[\x95}\]()cK\x8a]|\x8c)|x(?:[\x01\x9c\xda]|\x5e[\s\S]{,9}[\x80-\xff])", each.head
            )
            is not None
        ),
    ),
)


def recognized(path: Path) -> FileFormat | None:
    """The format of the model at `path`, by its content or else by its name.

    None for any other file, and for the folder of a SavedModel.

    Raises ModelError for files that are known and not read, with what to do about them, and for folders without
    a model.
    """
    if path.is_dir():
        return _format_in(path)
    content = _content(path)
    if content is None:
        return format_of(path)
    # The content decides before the name: files are renamed, and many formats share .json, .txt and .pt.
    for field, fits in _KINDS:
        if fits(content):
            return FILE_FORMATS[field]
    for foreign in _FOREIGN:
        if foreign.is_it(content):
            hint = foreign.way_out.format(name=path.name, stem=path.stem)
            raise ModelError(f"{path} is {foreign.title}", hint=hint)
    if path.name == "checkpoint" or path.suffix == ".index" or re.search(r"\.data-\d{5}-of-\d{5}$", path.name):
        raise _checkpoint(path)
    return _onnx_or_qonnx(path) if path.suffix == ".onnx" else format_of(path)


def _onnx_or_qonnx(path: Path) -> FileFormat:
    return FILE_FORMATS["qonnx" if is_qonnx(path) else "onnx"]


_OPSET_IMPORT = 8
"""The field of ONNX's ModelProto that names a domain of operators, and its version."""
_OF_NODES = tuple(b"\x3a" + bytes([len(each)]) + each.encode() for each in sorted(QONNX_DOMAINS))
"""The field 7 of a NodeProto, which is its domain."""
_FIRST = 24 << 20
"""Bytes in which nodes are looked for: initializers come behind them."""


def is_qonnx(path: Path) -> bool:
    """Whether the ONNX file at `path`, or in the folder, imports operators of QONNX, or has one; not of damaged files.

    QONNX's own `cleanup` writes files with nodes of a domain that they do not import.
    """
    found = sorted(path.glob("*.onnx"))[:1] if path.is_dir() else [path]
    try:
        with found[0].open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            imported = [content[each.start : each.end] for each in fields(content) if each.number == _OPSET_IMPORT]
            has_nodes = any(content.find(each, 0, _FIRST) >= 0 for each in _OF_NODES)
            return has_nodes or any(_domain(each) in QONNX_DOMAINS for each in imported)
    except (Damaged, IndexError, OSError, ValueError):
        return False


def _domain(imported: bytes) -> str:
    """The domain in an OperatorSetIdProto. Raises Damaged."""
    named = [each for each in fields(imported) if (each.number, each.kind) == (1, LENGTH)]
    return imported[named[-1].start : named[-1].end].decode("utf-8", "replace") if named else ""


def _format_in(folder: Path) -> FileFormat | None:
    """None for a SavedModel, else ONNX, if there is one such file. Raises ModelError for other folders."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None  # the code that reads it next reports why
    if any(name.startswith("saved_model.pb") for name in names):
        return None
    # ONNX models of more than 2 GB, the limit of Protocol Buffers, keep their weights in files beside them.
    if sum(name.endswith(".onnx") for name in names) == 1:
        return _onnx_or_qonnx(folder)
    if any(name.endswith(".index") for name in names):
        raise _checkpoint(folder)
    found = ", ".join(names[:_MOST_NAMES]) or "nothing"
    below = [*folder.glob("*/saved_model.pb"), *folder.glob("*/*/saved_model.pb")]
    hint = "name the folder that contains saved_model.pb, or the file of another model"
    raise ModelError(
        f"{folder} is not a SavedModel: saved_model.pb is missing (found {found})",
        hint=f"name the folder that contains it: {min(below).parent}" if below else hint,
    )


def _checkpoint(path: Path) -> ModelError:
    return ModelError(
        f"{path} is a checkpoint, weights without the network",
        hint="export the model with its signature, tf.saved_model.save or model.save; or give its graph: model: "
        "{graph: GRAPH.pb, checkpoint: NAME}",
    )


def _content(path: Path) -> _Content | None:
    """None if there is no such file, or it cannot be read: the code that reads it next reports why."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            head = file.read(_HEAD)
        names = frozenset(_names(path)) if head.startswith(b"PK\x03\x04") else frozenset()
    except (OSError, ValueError):
        return None
    return _Content(head=head, names=names)


def _names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            found = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return []
    tops = {name.partition("/")[0] for name in found}
    # PyTorch's archives have all members in one folder.
    return [name.partition("/")[2] for name in found] if len(tops) == 1 and len(found) > 1 else found


def library_of(path: Path) -> str:
    """The library that wrote the file of decision trees at `path`, by its first bytes; "" if none that is known did.

    As worker_program/from_trees/reading.py. Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(512)
    begins = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"PK"):
        return "scikit-learn"
    if head.startswith(b"\x1f\x8b") or begins.startswith(b"<"):
        return TMVA
    if begins.startswith(b"{"):
        return "XGBoost"
    return "LightGBM" if begins.startswith((b"tree\n", b"tree\r\n")) else ""
