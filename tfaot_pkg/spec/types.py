"""`ModelSpec`: a checked spec with all defaults filled in, the input of the pipeline."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from tfaot_pkg.signature import Symbol
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL, Format
from tfaot_pkg.spec.rules import INPUT_CLASSES, package_name
from tfaot_pkg.targets import DEFAULT_TARGETS
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.sources import TreesCall


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedCode:
    """By target and batch size: XLA flags in addition to the spec's."""

    xla_flags: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)

    def flags(self, target: str, batch_size: int) -> tuple[str, ...]:
        return self.xla_flags.get(target, {}).get(batch_size, ())


# Repeated here: toolchain/definition.py is in a layer above, which this module must not import.
DEFAULT_TENSORFLOW = "2.17.1"
DEFAULT_SAVED_MODEL = "saved_model"


Weights = Literal["shared", "embedded"]
Kernels = Literal["auto", "none"]
Engine = Literal["auto", "program", "xla"]
Answers = Literal["call", "predict"]

# Signed URLs of object stores have such parameters; the digest identifies the archive without them.
_SECRET_PARAMETER = re.compile("token|key|sig|secret|pass|auth|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFiles:
    """An operation that the author supplies: its C++ source, and the Python file of its reference on NumPy arrays.

    Paths are in the source of the model, as those of ModelInfo.
    """

    source: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One of several signatures of a package: `serving_key` is that of the SavedModel, the others as in ModelInfo."""

    name: str
    serving_key: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    input_keys: tuple[str, ...] = ()
    output_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """The model and its description.

    `saved_model`, or the field of FILE_FORMATS that is not empty, is relative to the root of the source,
    with `/`, and does not lead out of it; only a SavedModel has signatures and tags. `answers` says whose numbers count
    if Keras gives others in `model(x)` and `model.predict(x)`. Beside a graph, `config` is the
    file of a tf2xla Config, `checkpoint` the common prefix of a checkpoint's files; "" for none. `constants` are the
    values of inputs or placeholders that the package does not have as inputs; `feeds` are constants or variables that
    it has as inputs. `seed` is the input that determines the model's random numbers; "" for none. `counts` are the
    outputs whose number of rows depends on values, by their names in the model, each with the name of the output that
    holds the number. `card` is Markdown.

    `shapes` gives full shapes by input name, None for the batch axis: it fixes axes that the model leaves unknown.
    `axes` names the symbols of these axes, as Tensor.axes does, and `shapes` holds the maxima of `symbols`. `inputs`
    and `outputs` list all tensors of the signature in their order; empty for the order of their names. Of a graph
    without `config` they choose its tensors. If some are renamed, `input_keys` and `output_keys` have the model's own
    names. `operations` are those that the author supplies (`compilation.operations`), whose files are in the source.

    `call` says how decision trees are called (the spec's `trees`).

    If there are `signatures`, sorted by name, workers join them to one, `serving_key` (worker_program/saved_model.py).
    """

    name: str
    version: str
    saved_model: str = DEFAULT_SAVED_MODEL
    keras: str = ""
    answers: Answers = "call"
    onnx: str = ""
    torch: str = ""
    jax: str = ""
    mlir: str = ""
    trees: str = ""
    graph: str = ""
    config: str = ""
    checkpoint: str = ""
    serving_key: str = "serving_default"
    tags: tuple[str, ...] = ("serve",)
    author: str = ""
    description: str = ""
    license: str = ""
    homepage: str = ""
    training_data: str = ""
    limits: str = ""
    card: str = ""
    keywords: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    symbols: tuple[Symbol, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    input_keys: tuple[str, ...] = ()
    output_keys: tuple[str, ...] = ()
    constants: Mapping[str, Values] = field(default_factory=dict)
    feeds: tuple[str, ...] = ()
    seed: str = ""
    counts: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, OperationFiles] = field(default_factory=dict)
    call: TreesCall = field(default_factory=TreesCall)
    signatures: tuple[Signature, ...] = field(default_factory=tuple)

    @property
    def package_name(self) -> str:
        return package_name(self.name)

    @property
    def format(self) -> Format:
        """The field that names the model's files."""
        return next((field for field in FILE_FORMATS if getattr(self, field)), SAVED_MODEL)

    @property
    def files(self) -> str:
        """The folder or file of the model, in its source."""
        files: str = getattr(self, self.format)
        return files

    @property
    def all_files(self) -> tuple[str, ...]:
        """`files`, and those beside it; a checkpoint by the common prefix of its files."""
        return (self.files, *self.files_beside.values())

    @property
    def files_beside(self) -> Mapping[str, str]:
        """The other files of the model in its source, by the fields that name them."""
        own = {f"model.{name}": path for name in ("config", "checkpoint") if (path := getattr(self, name))}
        return own | {
            f"compilation.operations.{name}.{kind}": path
            for name, files in self.operations.items()
            for kind, path in (("source", files.source), ("reference", files.reference))
        }

    def shape_document(self, name: str) -> list[int | str | None]:
        """The shape of an input as a spec has it, each symbol with its range."""
        shown = {symbol.name: str(symbol) for symbol in self.symbols}
        axes = self.axes.get(name) or ("",) * len(self.shapes[name])
        return [shown.get(symbol, size) for symbol, size in zip(axes, self.shapes[name], strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSource:
    """A folder of this machine; `path` is absolute."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSource:
    """An archive at an `https://` or `file://` URL; `sha256` has 64 lower-case hexadecimal digits.

    `subdir` is the folder in it that is the root of the source ("" for the archive itself).
    """

    url: str
    sha256: str
    subdir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    """One commit of a git repository; `revision` is its full id, 40 lower-case hexadecimal digits."""

    url: str
    revision: str
    subdir: str = ""


Source = FolderSource | ArchiveSource | GitSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The variables that stay variables: names, or patterns with *, ? and [.

    Those under `update` are changed by the signature, those under `read` only by callers.
    """

    read: tuple[str, ...] = ()
    update: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.read or self.update)


NO_VARIABLES = Variables()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """How the model is compiled.

    `batch_sizes` is sorted without repetitions; `targets` holds names of `tfaot_pkg.targets.TARGETS`, all of one
    architecture, lowest level first; flags are single words that start with `--`. `engine` says whether the model
    becomes a program (compiler/); `kernels: none` leaves it to XLA if `engine` does not say. Loops end after
    `max_iterations` iterations; 0 for none.
    """

    batch_sizes: tuple[int, ...]
    namespace: str = "tfaot_model"
    tf_xla_flags: tuple[str, ...] = ()
    xla_flags: tuple[str, ...] = ()
    tensorflow: str = DEFAULT_TENSORFLOW
    targets: tuple[str, ...] = DEFAULT_TARGETS
    weights: Weights = "shared"
    kernels: Kernels = "auto"
    engine: Engine = "auto"
    variables: Variables = field(default_factory=Variables)
    max_iterations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A number, plus the size of `symbol` if there is one."""

    number: float
    symbol: str = ""

    def at(self, sizes: Mapping[str, int]) -> float:
        return self.number + (sizes[self.symbol] if self.symbol else 0)

    @property
    def written(self) -> float | str:
        """As a spec has it."""
        if not self.symbol:
            return self.number
        return f"{self.symbol} {'-' if self.number < 0 else '+'} {abs(self.number):g}" if self.number else self.symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """How the library's answers are compared with TensorFlow's: `|ours - theirs| <= atol + rtol * |theirs|`.

    `inputs` is a `.npz` file (absolute path) with one array per input; without it, `samples` rows are drawn from a
    generator with the seed `seed`. `classes` are the additional INPUT_CLASSES. `ranges` are the least and largest
    numbers of inputs, by name, for all that is drawn.
    """

    seed: int = 0
    inputs: Path | None = None
    samples: int = 64
    rtol: float = 1e-4
    atol: float = 1e-5
    classes: tuple[str, ...] = INPUT_CLASSES
    ranges: Mapping[str, tuple[Limit, Limit]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageOptions:
    """What the package holds beside libraries and headers.

    `tools`: the programs `bin/NAME_test` and `bin/NAME_benchmark`. `objects`: the code of each batch size as an object
    file of its own, for builds that link objects. `cmssw`: the headers `NAME_bsN.h` and `NAME.h`,
    as cms-tfaot makes them. `source`: sources of the library that build without this tool.
    `profile`: code that writes a trace of its steps if the environment variable TFAOT_PROFILE names a file; such a
    package cannot be published.
    `glibc`: the newest glibc that a published shared library or program may need.
    """

    tools: bool = False
    objects: bool = False
    cmssw: bool = False
    source: bool = False
    profile: bool = False
    glibc: str = "2.28"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Measurements of one model, from the file beside its spec (spec/tuning.py).

    `toolchains` says how code is made, by TensorFlow release, because flags differ between releases. `batch_costs` are
    nanoseconds of one run, by target and batch size; these may differ from the spec's. `machine` describes the machine
    of the measurements. `has_layers` says that the file chooses layers for the kernel library, which has no effect.
    """

    model: str
    machine: Mapping[str, str] = field(default_factory=dict)
    toolchains: Mapping[str, TunedCode] = field(default_factory=dict)
    batch_costs: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    has_layers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """One model, to be made into one package.

    `path` is the absolute path of the spec file, `defines` the values of `env.*` that its expressions used, which the
    package's provenance records. `tuning` is None if there is no tuning file beside the spec, `card_file` is where the
    text of the model card was read, if not in the spec.
    """

    path: Path
    model: ModelInfo
    source: Source
    compilation: Compilation
    validation: Validation = field(default_factory=Validation)
    package: PackageOptions = field(default_factory=PackageOptions)
    defines: Mapping[str, str] = field(default_factory=dict)
    tuning: Tuning | None = None
    card_file: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the spec are relative to."""
        return self.path.parent


def spec_document(spec: ModelSpec) -> dict[str, object]:
    """`spec` as JSON values in the form of a spec file, with all defaults.

    It contains no absolute path: a path outside the spec's folder is reduced to its last name, so that keys and
    packages do not depend on the place of a checkout. Files must be identified by their digests in addition.
    """
    model, compilation, validation = spec.model, spec.compilation, spec.validation
    return {
        "model": {
            "name": model.name,
            "version": model.version,
            **_files_document(model),
            "author": model.author,
            "description": model.description,
            "license": model.license,
            "homepage": model.homepage,
            **card_document(model),
            "shapes": {name: model.shape_document(name) for name in sorted(model.shapes)},
            "inputs": _names_document(model.inputs, model.input_keys),
            "outputs": _names_document(model.outputs, model.output_keys),
            # Fields that came later are left out if there are none: keys of models without them stay as they were.
            **({"constants": constants_document(model)} if model.constants else {}),
            **({"feeds": list(model.feeds)} if model.feeds else {}),
            **({"seed": model.seed} if model.seed else {}),
            **({"counts": dict(sorted(model.counts.items()))} if model.counts else {}),
        },
        "source": _source_document(spec.source, spec.folder),
        **({"trees": call_document(model.call)} if model.call else {}),
        "compilation": {
            "batch_sizes": list(compilation.batch_sizes),
            "namespace": compilation.namespace,
            "tf_xla_flags": list(compilation.tf_xla_flags),
            "xla_flags": list(compilation.xla_flags),
            "tensorflow": compilation.tensorflow,
            "targets": list(compilation.targets),
            "weights": compilation.weights,
            "kernels": compilation.kernels,
            "engine": compilation.engine,
            # Left out as above.
            **({"max_iterations": compilation.max_iterations} if compilation.max_iterations else {}),
            **({"variables": _variables_document(compilation.variables)} if compilation.variables else {}),
            **({"operations": operations_document(model)} if model.operations else {}),
        },
        "validation": _validation_document(validation, spec.folder),
        "package": asdict(spec.package),
    }


def card_document(model: ModelInfo) -> dict[str, object]:
    """The parts of the model card that there are."""
    texts = {"training_data": model.training_data, "limits": model.limits, "card": model.card}
    parts: dict[str, object] = {name: text for name, text in texts.items() if text}
    return {**parts, **({"keywords": list(model.keywords)} if model.keywords else {})}


def call_document(call: TreesCall) -> dict[str, object]:
    """The calls of decision trees as a spec has them."""
    found: dict[str, object] = {name: value for name, value in asdict(call).items() if value}
    if call.iterations.isdigit():
        found["iterations"] = int(call.iterations)
    if call.missing not in ("", "nan"):
        found["missing"] = float(call.missing)
    return found


def _variables_document(variables: Variables) -> dict[str, list[str]]:
    return {"read": list(variables.read), "update": list(variables.update)}


def operations_document(model: ModelInfo) -> dict[str, dict[str, str]]:
    """The operations as a spec has them."""
    return {
        name: {"source": files.source, "reference": files.reference} for name, files in sorted(model.operations.items())
    }


def _names_document(names: tuple[str, ...], keys: tuple[str, ...]) -> list[str | dict[str, str]]:
    """The names as a spec has them, with the model's own where they are others."""
    pairs = zip(keys or names, names, strict=True)
    return [name if key == name else {key: name} for key, name in pairs]


def constants_document(model: ModelInfo) -> dict[str, object]:
    """The constants as a spec has them: numbers, or lists of them."""
    return {name: _nested(values.shape, values.values) for name, values in sorted(model.constants.items())}


def _nested(shape: tuple[int, ...], values: Sequence[object]) -> object:
    if not shape:
        return values[0]
    size = len(values) // shape[0] if shape[0] else 0
    return [_nested(shape[1:], values[place * size : (place + 1) * size]) for place in range(shape[0])]


def _files_document(model: ModelInfo) -> dict[str, object]:
    if model.format in FILE_FORMATS:
        beside = {name: path for name in ("config", "checkpoint") if (path := getattr(model, name))}
        answers = {"answers": model.answers} if model.answers != "call" else {}
        return {model.format: model.files, **beside, **answers}
    if model.signatures:
        signatures = {each.name: _signature_document(each) for each in model.signatures}
        return {"saved_model": model.saved_model, "signatures": signatures, "tags": list(model.tags)}
    return {"saved_model": model.saved_model, "serving_key": model.serving_key, "tags": list(model.tags)}


def _signature_document(signature: Signature) -> dict[str, object]:
    return {
        "serving_key": signature.serving_key,
        "inputs": _names_document(signature.inputs, signature.input_keys),
        "outputs": _names_document(signature.outputs, signature.output_keys),
    }


def _source_document(source: Source, folder: Path) -> dict[str, object]:
    match source:
        case FolderSource():
            return {"path": _portable_path(source.path, folder)}
        case ArchiveSource():
            return {"url": _portable_url(source.url), "sha256": source.sha256, "subdir": source.subdir}
        case GitSource():
            return {"git": _portable_url(source.url), "revision": source.revision, "subdir": source.subdir}


def _validation_document(validation: Validation, folder: Path) -> dict[str, object]:
    tolerance: dict[str, object] = {
        "rtol": validation.rtol,
        "atol": validation.atol,
        "classes": list(validation.classes),
        **({"ranges": ranges_document(validation)} if validation.ranges else {}),
    }
    if validation.inputs is not None:
        return {"inputs": _portable_path(validation.inputs, folder), **tolerance}
    return {"seed": validation.seed, "samples": validation.samples, **tolerance}


def ranges_document(validation: Validation) -> dict[str, list[float | str]]:
    """The ranges as a spec has them."""
    return {name: [limit.written for limit in limits] for name, limits in sorted(validation.ranges.items())}


def _portable_path(path: Path, folder: Path) -> str:
    relative = Path(os.path.relpath(path, folder))
    # A path above the folder would name folders of this machine, and packages must not differ by them.
    return path.name if ".." in relative.parts else relative.as_posix()


def _portable_url(url: str) -> str:
    """`url` without folders of this machine and without tokens. The parser rejects passwords."""
    parts = urlsplit(url)
    # The folders of a file are those of this machine; its digest identifies the archive.
    if parts.scheme == "file":
        return f"file:///{Path(parts.path).name}"
    query = [(name, value) for name, value in parse_qsl(parts.query) if not _SECRET_PARAMETER.search(name)]
    return parts._replace(query=urlencode(query)).geturl() if parts.query else url
