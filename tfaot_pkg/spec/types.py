"""`ModelSpec`: a checked spec with all defaults filled in, the input of the pipeline, and the only place that says what
a spec contains.

Each key of the file is declared once, on the field that holds its value: `Annotated[type, Setting(...)] = default`. The
reader and the JSON Schema (form.py), the reference page, and the written form (document.py) are made of these
declarations. They name types of `values.py`, which needs pydantic, so only form.py evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from tfaot_pkg.ground.signature import Symbol
from tfaot_pkg.ground.targets import DEFAULT_TARGETS
from tfaot_pkg.spec.formats import LOWERED, Format
from tfaot_pkg.spec.rules import INPUT_CLASSES, Limit, package_name
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.sources import TreesCall

if TYPE_CHECKING:
    from tfaot_pkg.spec import values as v


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of a spec file, which the field's docstring explains, and the type of `values.py` that reads it.

    Without `read`, the field's own type says how: true or false, one of a Literal's words, or the section of another
    type; with `by`, that type is the one of the keys of a mapping to such sections. The key is the field's name unless
    `key` is another. `section` is the file's section if it is not that of the field's type. `schema` is added to the
    JSON Schema. A key that came `later` than the first release is not in the written form of a spec without it, so
    that such specs keep their package's key. A field without default is a required key.
    """

    read: Any = None
    by: Any = None
    key: str = ""
    section: str = ""
    examples: tuple[Any, ...] = ()
    schema: Mapping[str, Any] | None = None
    later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedCode:
    """By target and batch size: XLA flags in addition to the spec's."""

    xla_flags: Mapping[str, Mapping[int, tuple[str, ...]]] = field(default_factory=dict)

    def flags(self, target: str, batch_size: int) -> tuple[str, ...]:
        return self.xla_flags.get(target, {}).get(batch_size, ())


# Repeated here: frontends/toolchain/definition.py is in a layer above, which this module must not import.
DEFAULT_TENSORFLOW = "2.17.1"
DEFAULT_SAVED_MODEL = "saved_model"
DEFAULT_SIGNATURE = "serving_default"
DEFAULT_TAGS = ("serve",)


Weights = Literal["shared", "embedded"]
Kernels = Literal["auto", "none"]
Engine = Literal["auto", "program", "xla"]
Answers = Literal["call", "predict"]
Compute = Literal["float32", "bfloat16", "float32x3", "float32x6", "int8"]
StoredWeights = Literal["float32", "bfloat16", "int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFiles:
    """An operation that the author of the model supplies.

    Paths are in the source of the model.
    """

    source: Annotated[str, Setting(v.FilePath, examples=("smooth.cpp",))]
    """C++ file that defines the function of that name (tfaot/operation.h), in the model's source."""
    reference: Annotated[str, Setting(v.FilePath, examples=("smooth.py",))]
    """Python file that defines the same function of NumPy arrays, in the model's source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One of several signatures of the package.

    If inputs or outputs are renamed, `input_keys` or `output_keys` have the SavedModel's own names.
    """

    name: str
    serving_key: Annotated[str, Setting(v.FilledLine)] = ""
    """Its key in the SavedModel, or the name of a function there (by default: the same name)."""
    inputs: Annotated[tuple[str, ...], Setting(v.TensorNames)] = ()
    """All of its inputs in their order, as in model.inputs."""
    outputs: Annotated[tuple[str, ...], Setting(v.TensorNames)] = ()
    """All of its outputs in their order, as in model.outputs."""
    input_keys: tuple[str, ...] = ()
    output_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedModelFiles:
    """A SavedModel's folder. If there are `signatures`, sorted by name, workers join them to one, `serving_key`
    (worker_program/saved_model.py).
    """

    format: ClassVar[Format] = "saved_model"
    path: Annotated[str, Setting(v.FilePath, key="saved_model", examples=("./saved_model",))] = DEFAULT_SAVED_MODEL
    """Folder of the SavedModel, relative to the root of the source (by default: to this file)."""
    serving_key: Annotated[str, Setting(v.FilledLine)] = DEFAULT_SIGNATURE
    """Key of the signature to compile, or the name of a function that was saved without one."""
    signatures: Annotated[
        tuple[Signature, ...],
        Setting(
            by=v.SignatureName,
            examples=({"encode": {}, "decode": {"serving_key": "decode_image", "outputs": {"output_0": "image"}}},),
        ),
    ] = ()
    """Several signatures in one package, by their names in it: each has the class tfaot_model::NAME_SIGNATURE, and they
    share weights. In shapes, constants and validation.inputs, names of inputs and outputs begin with the signature's:
    encode/x.
    """
    tags: Annotated[tuple[str, ...], Setting(v.Tags)] = DEFAULT_TAGS
    """Tags of the graph inside the SavedModel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KerasFile:
    """A file of Keras. `answers` says whose numbers count if model(x) and model.predict(x) give
    different ones.
    """

    format: ClassVar[Format] = "keras"
    path: str
    answers: Annotated[Answers, Setting(later=True)] = "call"
    """With keras: whose numbers the package gives if Keras computes a layer in another way in a graph. call: those of
    model(x), and other files are rejected; predict: those of model.predict(x).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkFile:
    """A file that a front-end reads: of ONNX, QONNX, hls4ml, conifer, PyTorch, JAX or MLIR, or of decision trees."""

    format: Literal["onnx", "qonnx", "hls4ml", "conifer", "aten", "torch", "jax", "mlir", "trees"]
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFile:
    """A file of a graph. `config` is the file of a tf2xla Config, `checkpoint` the common prefix of a checkpoint's
    files; "" for none.
    """

    format: ClassVar[Format] = "graph"
    path: str
    config: Annotated[str, Setting(v.FilePath, examples=("./tagger.config.pbtxt",), later=True)] = ""
    """With graph: file of a tf2xla Config (.pbtxt or .pb), whose feeds and fetches are the inputs and outputs."""
    checkpoint: Annotated[str, Setting(v.FilePath, examples=("./model.ckpt-1000",), later=True)] = ""
    """With graph: checkpoint of its variables, by the common prefix of its files."""


ModelFiles = SavedModelFiles | KerasFile | FrameworkFile | GraphFile
"""The files of a model. Paths are relative to the root of the source, with `/`, and do not lead out of it. A key for
each of FILE_FORMATS, which says what it means, names the `path` of another format than a SavedModel."""

FILE_TYPES: Mapping[Format, Any] = {"saved_model": SavedModelFiles, "keras": KerasFile, "graph": GraphFile}
"""The types of formats with keys of their own."""


def files_of(kind: Format, path: str, **more: Any) -> ModelFiles:
    """The folder or file `path` of that format, with values of further fields of its type."""
    if kind in FILE_TYPES:
        files: ModelFiles = FILE_TYPES[kind](path=path, **more)
        return files
    return FrameworkFile(format=kind, path=path)  # type: ignore[arg-type]  # all others are its formats


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """How the author calls a model of decision trees, as far as its file does not say it.

    The values are those of TreesCall, which workers read.
    """

    iterations: Annotated[str, Setting(v.Iterations, examples=("best", 120))] = ""
    """Iterations of training that are computed: best, those up to the best one that early stopping found; all; or a
    number (by default: best if a class of XGBoost for scikit-learn wrote the file, else all).
    """
    missing: Annotated[str, Setting(v.Missing, examples=(-999.0,))] = ""
    """Number that counts as missing beside NaN, as `missing` of XGBoost's classes and of DMatrix, which files do not
    contain; .nan if there is none.
    """
    categories: Annotated[Literal["values", "codes"] | None, Setting()] = None
    """What x contains in columns of categories of a data frame whose values are in the file: values, as the frame has
    them (of texts their positions in the list of info.json); or codes, all of them positions (by default: values).
    """
    dtype: Annotated[Literal["float32", "float64"] | None, Setting()] = None
    """Type of x (by default: the one that the library compares in, float64 for LightGBM and HistGradientBoosting,
    float32 for others).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """The model and its description.

    `files` has one of the types of ModelFiles. `shapes` gives full shapes by input name, None for the batch axis: it
    fixes axes that the model leaves unknown. `axes` names the symbols of these axes, as Tensor.axes does, and `shapes`
    holds the maxima of `symbols`. `inputs` and `outputs` list all tensors of the signature in their order; empty for
    the order of their names. If some are renamed, `input_keys` and `output_keys` have the model's own names. `counts`
    are by outputs' names in the model. `call` says how decision trees are called.
    """

    name: Annotated[str, Setting(v.ModelName, examples=("digits",))]
    """The model's name: the C++ class is tfaot_model::NAME, unless compilation.namespace or class_name say otherwise;
    the package is tfaot-model-NAME with - for _.
    """
    version: Annotated[str, Setting(v.Version, examples=("1.0.0",))]
    """Version of the package."""
    files: ModelFiles = field(default_factory=SavedModelFiles)
    author: Annotated[str, Setting(v.Line)] = ""
    """Author of the model."""
    description: Annotated[str, Setting(v.Text)] = ""
    """What the model is for."""
    license: Annotated[str, Setting(v.Line, examples=("MIT",))] = ""
    """Licence of the model, best as SPDX expression."""
    homepage: Annotated[str, Setting(v.Homepage)] = ""
    """Web page of the model."""
    training_data: Annotated[str, Setting(v.Text, later=True)] = ""
    """What the model was trained on."""
    limits: Annotated[str, Setting(v.Text, later=True)] = ""
    """What the model is not for, and where its answers are poor."""
    keywords: Annotated[tuple[str, ...], Setting(v.Keywords, examples=(["muon", "trigger"],), later=True)] = ()
    """Words by which people search for the model."""
    card: Annotated[str, Setting(v.Card, examples=("card.md",), later=True)] = ""
    """Model card in Markdown, which the package's page shows, or the path of a file, FILE.md, from the spec's folder.
    HTML in it is text; no images.
    """
    shapes: Annotated[
        Mapping[str, tuple[int | None, ...]],
        Setting(v.Shapes, examples=({"sequence": [None, 20, 4]}, {"particles": ["batch", "n <= 128", 4]})),
    ] = field(default_factory=dict)
    """Full shapes by input name, null or `batch` for the batch axis: fixes unknown axes. An axis `n <= 128` or `8 <= n
    <= 128` has any size in this range, chosen by each call; write `n` for other axes of the same size.
    """
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    symbols: tuple[Symbol, ...] = ()
    inputs: Annotated[tuple[str, ...], Setting(v.TensorNames, examples=(["signal", "background"],))] = ()
    """All inputs of the signature in the order of their positions (by default: in that of their names). `old: new`
    renames one; shapes, validation.inputs and the package then have the new name.
    """
    outputs: Annotated[tuple[str, ...], Setting(v.TensorNames, examples=({"output_0": "score"},))] = ()
    """All outputs of the signature, as inputs."""
    input_keys: tuple[str, ...] = ()
    output_keys: tuple[str, ...] = ()
    constants: Annotated[
        Mapping[str, Values], Setting(v.Constants, examples=({"is_training": False, "keep_prob": 1.0},), later=True)
    ] = field(default_factory=dict)
    """Values of inputs, or of placeholders of a graph, that are constants of the package."""
    feeds: Annotated[tuple[str, ...], Setting(v.Feeds, examples=(["dense/kernel"],), later=True)] = ()
    """Constants or variables of the model, by the names of their nodes, that are inputs instead: each call supplies
    them.
    """
    seed: Annotated[str, Setting(v.FilledLine, examples=("seed",), later=True)] = ""
    """Name of a new input (int64[2]): the seed of the model's random numbers, instead of a state. Operations with seeds
    of their own give the numbers of their first call.
    """
    counts: Annotated[Mapping[str, str], Setting(v.Counts, examples=({"hits": "hits_count"},), later=True)] = field(
        default_factory=dict
    )
    """Outputs whose number of rows depends on values (tf.where, tf.boolean_mask, tf.unique), each with the name of a
    new output for the number of valid rows. All other rows are zero.
    """
    operations: Annotated[
        Mapping[str, OperationFiles],
        Setting(
            by=v.OperationName,
            section="compilation",
            examples=({"smooth": {"source": "smooth.cpp", "reference": "smooth.py"}},),
            later=True,
        ),
    ] = field(default_factory=dict)
    """Operations that the model names and the author supplies: C++, and a Python reference, by name."""
    call: TreesCall = field(default_factory=TreesCall)

    @property
    def package_name(self) -> str:
        return package_name(self.name)

    @property
    def serving_key(self) -> str:
        """The signature's key, in the SavedModel that the model is or becomes."""
        return self.files.serving_key if isinstance(self.files, SavedModelFiles) else DEFAULT_SIGNATURE

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of that SavedModel."""
        return self.files.tags if isinstance(self.files, SavedModelFiles) else DEFAULT_TAGS

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures of the package, if the spec names several."""
        return self.files.signatures if isinstance(self.files, SavedModelFiles) else ()

    @property
    def all_files(self) -> tuple[str, ...]:
        """The model's folder or file, and the files beside it; a checkpoint by the common prefix of its files."""
        return (self.files.path, *self.files_beside.values())

    @property
    def files_beside(self) -> Mapping[str, str]:
        """The other files of the model in its source, by the keys that name them."""
        graph = self.files if isinstance(self.files, GraphFile) else None
        own = {"model.config": graph.config, "model.checkpoint": graph.checkpoint} if graph else {}
        return {key: path for key, path in own.items() if path} | {
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

    path: Annotated[Path, Setting(v.FilePath)]
    """Local folder, relative to this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSource:
    """An archive at an `https://` or `file://` URL; `sha256` has 64 lower-case hexadecimal digits.

    `subdir` is "" for the archive itself.
    """

    url: Annotated[str, Setting(str)]
    """Archive at an https:// or file:// URL."""
    sha256: Annotated[str, Setting(v.Sha256)]
    """SHA-256 digest of the archive."""
    subdir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    """One commit of a git repository; `revision` is in lower case."""

    url: Annotated[str, Setting(str, key="git")]
    """URL of a git repository."""
    revision: Annotated[str, Setting(v.Revision)]
    """Full id of the git commit (40 hexadecimal digits)."""
    subdir: Annotated[str, Setting(v.Subdir)] = ""
    """Folder inside the source that is its root."""


Source = FolderSource | ArchiveSource | GitSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """Variables of the model that stay variables.

    Names, or patterns with *, ? and [, sorted. Those under `update` are changed by the signature, those under `read`
    only by callers.
    """

    read: Annotated[tuple[str, ...], Setting(v.VariableNames, examples=(["learning_rate"],))] = ()
    """Names of variables that callers may set, and the signature only reads; * matches any text."""
    update: Annotated[tuple[str, ...], Setting(v.VariableNames, examples=(["*"],))] = ()
    """Names of those that the signature changes, all of them; * matches any text."""

    def __bool__(self) -> bool:
        return bool(self.read or self.update)


NO_VARIABLES = Variables()


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How exactly layers compute. Whatever is less than float32 needs bars in validation.accuracy."""

    compute: Annotated[Compute, Setting()] = "float32"
    """float32, or bfloat16: dense layers, convolutions with constant weights and large products of attention multiply
    numbers of 8 significant bits, and add in float32, with the same bits on all CPUs. Weights take half of the memory.
    float32x3 and float32x6: each product is the sum of three or six of bfloat16, of numbers with 16 or 24 significant
    bits; faster than float32 on CPUs with AMX alone. int8: they multiply bytes, whose scales are found on the rows of
    calibration; layers that cost too much stay float32.
    """
    calibration: Annotated[Path | None, Setting(v.FilePath, examples=("rows.npz",))] = None
    """With int8: .npz file with one array per input, typical rows of the model, relative to this file."""

    weights: Annotated[StoredWeights, Setting()] = "float32"
    """How memory has the weights of dense layers with at least 262,144 of them, which multiply in float32: float32,
    bfloat16 (half of the memory), or int8 with a scale for each output (a quarter). A single row, which reads each
    weight once, is the faster for it.
    """

    @property
    def is_reduced(self) -> bool:
        return (self.compute, self.weights) != ("float32", "float32")

    @property
    def name(self) -> str:
        """As reports have it (ground/reduced.py)."""
        return self.compute if self.weights == "float32" else f"{self.weights} weights"


FULL = Precision()

INPUTS_KEY, LABELS_KEY = "validation.inputs", "validation.labels"
CALIBRATION_KEY = "compilation.precision.calibration"
"""The keys of files of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """How the model is compiled.

    `batch_sizes` is sorted without repetitions; `targets` holds names of `tfaot_pkg.ground.targets.TARGETS`, all of one
    architecture, lowest level first; flags are single words that start with `--`.
    """

    batch_sizes: Annotated[
        tuple[int, ...], Setting(v.BatchSizes, examples=([1, 2, 4],), schema={"minItems": 1, "maxItems": v.MAX_ITEMS})
    ]
    """Batch sizes to compile; others are composed of these. If the model is a program, which takes any size: those to
    validate and measure.
    """
    namespace: Annotated[str, Setting(v.Namespace)] = "tfaot_model"
    """C++ namespace of the generated class."""
    class_name: Annotated[str, Setting(v.ClassName, examples=("MatMulComp",), later=True)] = ""
    """Name of the generated C++ class, which may have capitals. By default it is model.name."""
    tf_xla_flags: Annotated[tuple[str, ...], Setting(v.Flags)] = ()
    """TF_XLA_FLAGS for the step from TensorFlow to XLA."""
    xla_flags: Annotated[tuple[str, ...], Setting(v.Flags, examples=(["--xla_cpu_enable_fast_math=true"],))] = ()
    """XLA_FLAGS for XLA's optimizer."""
    tensorflow: Annotated[str, Setting(v.TensorFlow)] = DEFAULT_TENSORFLOW
    """TensorFlow release that compiles the model. Ignored for ONNX, PyTorch and decision trees, which need none."""
    targets: Annotated[tuple[str, ...], Setting(v.Targets)] = DEFAULT_TARGETS
    """Kinds of CPU to compile for; the library uses the best one that the machine supports."""
    weights: Annotated[Weights, Setting()] = "shared"
    """shared: one copy of the weights in the library; embedded: one in each object."""
    kernels: Annotated[Kernels, Setting()] = "auto"
    """auto: a model that becomes a program calls the kernel library; none: with engine auto, the model is XLA's code.
    """
    engine: Annotated[Engine, Setting()] = "auto"
    """program: our own compiler makes one function for any number of rows of the whole model, and the build fails if it
    cannot; xla: XLA compiles the model for each batch size; auto: a program if the model can become one and the spec
    has no settings for XLA.
    """
    max_iterations: Annotated[int, Setting(v.MaxIterations, examples=(100,), later=True)] = 0
    """Maximum number of iterations of each loop; 0 for no limit. Gradients through loops whose number of iterations
    depends on values need it.
    """
    variables: Annotated[Variables, Setting(later=True)] = NO_VARIABLES
    """Variables that stay variables: the class has a state that steps carry over. By default all of them are constants.
    """
    precision: Annotated[Precision, Setting(later=True)] = FULL
    """How exactly layers compute; by default in float32. Whatever is less needs validation.accuracy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """How far an output may be off the framework's answers in float32. None is no bar.

    Errors are absolute, over all elements of the main inputs. `quantile` has them by the texts of quantiles.
    """

    largest: Annotated[float | None, Setting(v.Number, examples=(0.05,))] = None
    """The largest error of an element."""
    mean: Annotated[float | None, Setting(v.Number, examples=(0.001,))] = None
    """The mean error of all elements."""
    quantile: Annotated[Mapping[str, float], Setting(v.Quantiles, examples=({"0.999": 0.01},))] = field(
        default_factory=dict
    )
    """Quantiles of the errors, each with its bar: 0.999 is for the error that 99.9 % of the elements do not exceed."""
    argmax: Annotated[float | None, Setting(v.Share, examples=(0.999,))] = None
    """The least share of vectors along the last axis whose largest element is at the framework's place; of integers,
    the least share of equal elements.
    """
    accuracy: Annotated[float | None, Setting(v.Share, examples=(0.002,))] = None
    """On labelled rows (validation.labels): the largest loss of accuracy, the share of rows whose largest element is
    at their label. This and the following are losses against the framework's answers in float32.
    """
    auc: Annotated[float | None, Setting(v.Share, examples=(0.001,))] = None
    """The largest loss of the area under the ROC curve; of more than two classes, of the mean over the classes."""
    rejection: Annotated[Mapping[str, float], Setting(v.Quantiles, examples=({"0.5": 0.02},))] = field(
        default_factory=dict
    )
    """By signal efficiency, the largest relative loss of background rejection: {0.5: 0.02} lets 1 / (background
    efficiency) at a signal efficiency of 50 % be 2 % smaller.
    """
    efficiency: Annotated[Mapping[str, float], Setting(v.Quantiles, examples=({"0.01": 0.005},))] = field(
        default_factory=dict
    )
    """By background efficiency, the largest loss of signal efficiency."""

    @property
    def has_tasks(self) -> bool:
        """Whether a bar needs labelled rows."""
        return bool(self.rejection or self.efficiency) or self.accuracy is not None or self.auc is not None

    def __bool__(self) -> bool:
        errors = (self.largest, self.mean, self.argmax)
        return bool(self.quantile) or self.has_tasks or any(each is not None for each in errors)


ALL = "all"
"""The key of validation.accuracy for outputs without bars of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """How the library's answers are compared with TensorFlow's before a package is made.

    They agree if `|ours - theirs| <= atol + rtol * |theirs|`. `inputs` is an absolute path; without it, `samples` rows
    are drawn from a generator with the seed `seed`.
    """

    seed: Annotated[int, Setting(v.Seed)] = 0
    """Seed of random inputs."""
    inputs: Annotated[Path | None, Setting(v.FilePath)] = None
    """.npz file with one array per input, relative to this file."""
    labels: Annotated[Path | None, Setting(v.FilePath, examples=("labels.npz",), later=True)] = None
    """.npz file with the labels of the rows of inputs, as integers: an array for each output that has scores, under its
    name. The report has accuracy and AUC of its answers; bars are in accuracy.
    """
    samples: Annotated[int, Setting(v.Samples)] = 64
    """Number of random rows; fewer of models whose rows take long."""
    rtol: Annotated[float, Setting(v.Rtol)] = 1e-4
    """Relative tolerance."""
    atol: Annotated[float, Setting(v.Number)] = 1e-5
    """Absolute tolerance."""
    classes: Annotated[tuple[str, ...], Setting(v.Classes)] = INPUT_CLASSES
    """Classes of inputs that are tried as well, beside the given or random ones."""
    ranges: Annotated[
        Mapping[str, tuple[Limit, Limit]],
        Setting(v.Ranges, examples=({"edge_index": [0, "v - 1"], "mass": [0.5, 2]},), later=True),
    ] = field(default_factory=dict)
    """Least and largest number of an input, for random values: a number, or a symbol of model.shapes, as in `v - 1`. By
    default those of indices, lengths and divisors are found in the model.
    """
    accuracy: Annotated[
        Mapping[str, Bars],
        Setting(by=v.FilledLine, examples=({"all": {"largest": 0.05, "argmax": 0.999}},), later=True),
    ] = field(default_factory=dict)
    """Bars for the errors of outputs, by their names; all is for outputs that are not named. The build fails with the
    figures if one does not hold. With compilation.precision, they stand for the tolerance.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageOptions:
    """What the package holds beside libraries and headers."""

    tools: Annotated[bool, Setting()] = False
    """Put the programs bin/NAME_test and bin/NAME_benchmark into the package."""
    objects: Annotated[bool, Setting()] = False
    """Put an object file per batch size into the package, for builds that link objects."""
    cmssw: Annotated[bool, Setting()] = False
    """Put the headers NAME_bsN.h and NAME.h of cms-tfaot's packages beside model.h."""
    source: Annotated[bool, Setting()] = False
    """Put sources of the library into the package, which build without this tool."""
    profile: Annotated[bool, Setting()] = False
    """Let the library write a trace of its steps to the file in TFAOT_PROFILE; not for publishing."""
    glibc: Annotated[str, Setting(v.Glibc, examples=("2.28",))] = "2.28"
    """Newest glibc that a published shared library or program may need."""


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
    """One model, to be made into one package. A superset of the aot_config.yaml of cms-tfaot.

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
    def class_name(self) -> str:
        """The name of the generated C++ class, without its namespace."""
        return self.compilation.class_name or self.model.name

    @property
    def cpp_class(self) -> str:
        """The generated C++ class, with its namespace."""
        return f"{self.compilation.namespace}::{self.class_name}"

    def class_of(self, signature: str) -> str:
        """The name of the C++ class of one of several signatures, without its namespace."""
        return f"{self.class_name}_{signature}"

    @property
    def is_lowered(self) -> bool:
        """Whether the model becomes a program without TensorFlow."""
        return self.model.files.format in LOWERED

    @property
    def data_files(self) -> Mapping[str, Path]:
        """The files of rows that a build reads, by the keys that name them."""
        files = {
            INPUTS_KEY: self.validation.inputs,
            LABELS_KEY: self.validation.labels,
            CALIBRATION_KEY: self.compilation.precision.calibration,
        }
        return {key: path for key, path in files.items() if path is not None}

    @property
    def folder(self) -> Path:
        """The folder that relative paths of the spec are relative to."""
        return self.path.parent
