"""The form of a spec file: pydantic models of the YAML, which also give its JSON Schema.

Only the parser and the schema use these classes. Defaults are defined on the types of `types.py`.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
)

from tfaot_pkg.forms.fields import Reference
from tfaot_pkg.forms.form import DISTINCT, FILLED, Form, between, checked
from tfaot_pkg.spec import rules
from tfaot_pkg.spec.types import Compilation, ModelInfo, PackageOptions, Validation
from tfaot_pkg.spec.values import (
    HEX,
    MAX_ITEMS,
    MAX_ITERATIONS,
    MAX_SAMPLES,
    MAX_SEED,
    BatchSize,
    Constants,
    FilePath,
    FilledLine,
    Flags,
    Iterations,
    Line,
    Missing,
    Number,
    Ranges,
    Shape,
    SignatureName,
    Subdir,
    TensorNames,
    Text,
    Truth,
    VariableNames,
    as_choice,
    as_pattern,
    as_scalar,
    below_one,
    evaluated,
    few,
    list_of,
    one_architecture,
)
from tfaot_pkg.targets import TARGETS


class SignatureForm(Form):
    """One of several signatures of the package."""

    serving_key: FilledLine | None = Field(
        None, description="Its key in the SavedModel, or the name of a function there (by default: the same name)."
    )
    inputs: TensorNames | None = Field(None, description="All of its inputs in their order, as in model.inputs.")
    outputs: TensorNames | None = Field(None, description="All of its outputs in their order, as in model.outputs.")


class ModelForm(Form):
    """The model and its description."""

    name: Annotated[str, checked(rules.name_fault), as_pattern(rules.NAME_PATTERN)] = Field(
        description="The model's name: the C++ class is tfaot_model::NAME, the package tfaot-model-NAME with - for _.",
        examples=["digits"],
    )
    # A number is allowed in the schema, because 1.10 without quotes is one for YAML; its text is used.
    version: Annotated[
        str, checked(rules.version_fault), as_pattern(rules.VERSION_PATTERN, types=("string", "number"))
    ] = Field(description="Version of the package.", examples=["1.0.0"])
    saved_model: FilePath | None = Field(
        None,
        description="Folder of the SavedModel, relative to the root of the source (by default: to this file).",
        examples=["./saved_model"],
    )
    keras: FilePath | None = Field(
        None,
        description="File of a Keras model (.keras or .h5), instead of saved_model; without signatures and tags.",
        examples=["./tagger.keras"],
    )
    answers: Annotated[str, checked(rules.answers_fault), as_choice("call", "predict")] | None = Field(
        None,
        description="With keras: whose numbers the package gives if Keras computes a layer in another way in a graph. "
        "call: those of model(x), and other files are rejected; predict: those of model.predict(x).",
    )
    onnx: FilePath | None = Field(
        None,
        description="File of an ONNX model (.onnx), or a folder that holds it and its external data, instead of "
        "saved_model; answers are compared with ONNX Runtime's.",
        examples=["./tagger.onnx"],
    )
    torch: FilePath | None = Field(
        None,
        description="File that `python -m tfaot_pkg.export` wrote (.pt2 or .onnx), instead of saved_model; "
        "answers are compared with ONNX Runtime's, and with those of PyTorch in the file.",
        examples=["./tagger.pt2"],
    )
    jax: FilePath | None = Field(
        None,
        description="Artifact of jax.export (.jax), instead of saved_model; answers are compared with JAX's.",
        examples=["./tagger.jax"],
    )
    mlir: FilePath | None = Field(
        None,
        description="MLIR module, instead of saved_model: StableHLO as text or bytecode, compared with "
        "the answers of JAX's XLA, or functions of the TensorFlow dialect as text.",
        examples=["./tagger.mlir"],
    )
    trees: FilePath | None = Field(
        None,
        description="File of decision trees, instead of saved_model: XGBoost's (JSON, UBJSON), LightGBM's (text), "
        "scikit-learn's (skops) or TMVA's (.weights.xml); answers are compared with the library's.",
        examples=["./model.json"],
    )
    graph: FilePath | None = Field(
        None,
        description="File of a graph (GraphDef .pb or .pbtxt, or .meta), instead of saved_model; inputs and "
        "outputs then choose its tensors (by default: placeholders, and tensors that no node uses).",
        examples=["./frozen.pb"],
    )
    config: FilePath | None = Field(
        None,
        description="With graph: file of a tf2xla Config (.pbtxt or .pb), whose feeds and fetches are the inputs and "
        "outputs.",
        examples=["./tagger.config.pbtxt"],
    )
    checkpoint: FilePath | None = Field(
        None,
        description="With graph: checkpoint of its variables, by the common prefix of its files.",
        examples=["./model.ckpt-1000"],
    )
    serving_key: FilledLine | None = Field(
        None, description="Key of the signature to compile, or the name of a function that was saved without one."
    )
    signatures: dict[SignatureName, SignatureForm] | None = Field(
        None,
        description="Several signatures in one package, by their names in it: each has the class "
        "tfaot_model::NAME_SIGNATURE, and they share weights. In shapes, constants and validation.inputs, names of "
        "inputs and outputs begin with the signature's: encode/x.",
        examples=[{"encode": {}, "decode": {"serving_key": "decode_image", "outputs": {"output_0": "image"}}}],
    )
    tags: Annotated[list[FilledLine], list_of("strings"), FILLED] | None = Field(
        None, description="Tags of the graph inside the SavedModel."
    )
    author: Line | None = Field(None, description="Author of the model.")
    description: Text | None = Field(None, description="What the model is for.")
    license: Line | None = Field(None, description="Licence of the model, best as SPDX expression.", examples=["MIT"])
    homepage: Annotated[str, checked(rules.homepage_fault), as_pattern(r"(https?://.+)?")] | None = Field(
        None, description="Web page of the model."
    )
    training_data: Text | None = Field(None, description="What the model was trained on.")
    limits: Text | None = Field(None, description="What the model is not for, and where its answers are poor.")
    keywords: Annotated[list[FilledLine], list_of("words"), DISTINCT, AfterValidator(few)] | None = Field(
        None, description="Words by which people search for the model.", examples=[["muon", "trigger"]]
    )
    card: Annotated[str, checked(rules.card_fault)] | None = Field(
        None,
        description="Model card in Markdown, which the package's page shows, or the path of a file, FILE.md, from the "
        "spec's folder. HTML in it is text; no images.",
        examples=["card.md"],
    )
    shapes: dict[str, Shape] | None = Field(
        None,
        description="Full shapes by input name, null or `batch` for the batch axis: fixes unknown axes. An axis "
        "`n <= 128` or `8 <= n <= 128` has any size in this range, chosen by each call; write `n` for other axes of "
        "the same size.",
        examples=[{"sequence": [None, 20, 4]}, {"particles": ["batch", "n <= 128", 4]}],
    )
    inputs: TensorNames | None = Field(
        None,
        description="All inputs of the signature in the order of their positions (by default: in that of their names). "
        "`old: new` renames one; shapes, validation.inputs and the package then have the new name.",
        examples=[["signal", "background"]],
    )
    outputs: TensorNames | None = Field(
        None, description="All outputs of the signature, as inputs.", examples=[{"output_0": "score"}]
    )
    constants: Constants | None = Field(
        None,
        description="Values of inputs, or of placeholders of a graph, that are constants of the package.",
        examples=[{"is_training": False, "keep_prob": 1.0}],
    )
    feeds: Annotated[list[FilledLine], list_of("names"), DISTINCT, AfterValidator(few)] | None = Field(
        None,
        description="Constants or variables of the model, by the names of their nodes, that are inputs instead: each "
        "call supplies them.",
        examples=[["dense/kernel"]],
    )
    seed: FilledLine | None = Field(
        None,
        description="Name of a new input (int64[2]): the seed of the model's random numbers, instead of a state. "
        "Operations with seeds of their own give the numbers of their first call.",
        examples=["seed"],
    )
    counts: dict[FilledLine, FilledLine] | None = Field(
        None,
        description="Outputs whose number of rows depends on values (tf.where, tf.boolean_mask, tf.unique), each with "
        "the name of a new output for the number of valid rows. All other rows are zero.",
        examples=[{"hits": "hits_count"}],
    )


class SourceForm(Form):
    """Where the model's files come from: a folder, an archive or a git commit."""

    path: FilePath | None = Field(None, description="Local folder, relative to this file.")
    url: str | None = Field(None, description="Archive at an https:// or file:// URL.")
    sha256: (
        Annotated[str, checked(rules.digest_fault), as_pattern(HEX + "{64}", types=("string", "integer"))] | None
    ) = Field(None, description="SHA-256 digest of the archive.")
    git: str | None = Field(None, description="URL of a git repository.")
    revision: (
        Annotated[str, checked(rules.revision_fault), as_pattern(HEX + "{40}", types=("string", "integer"))] | None
    ) = Field(None, description="Full id of the git commit (40 hexadecimal digits).")
    subdir: Subdir | None = Field(None, description="Folder inside the source that is its root.")


class VariablesForm(Form):
    """Variables of the model that stay variables."""

    read: VariableNames | None = Field(
        None,
        description="Names of variables that callers may set, and the signature only reads; * matches any text.",
        examples=[["learning_rate"]],
    )
    update: VariableNames | None = Field(
        None,
        description="Names of those that the signature changes, all of them; * matches any text.",
        examples=[["*"]],
    )


class OperationForm(Form):
    """An operation that the author of the model supplies."""

    source: FilePath = Field(
        description="C++ file that defines the function of that name (tfaot/operation.h), in the model's source.",
        examples=["smooth.cpp"],
    )
    reference: FilePath = Field(
        description="Python file that defines the same function of NumPy arrays, in the model's source.",
        examples=["smooth.py"],
    )


class CompilationForm(Form):
    """How the model is compiled."""

    batch_sizes: Annotated[list[BatchSize], list_of("integers"), FILLED, AfterValidator(few)] = Field(
        description="Batch sizes to compile; others are composed of these. If the model is a program, which takes "
        "any size: those to validate and measure.",
        examples=[[1, 2, 4]],
        json_schema_extra={"minItems": 1, "maxItems": MAX_ITEMS},
    )
    namespace: Annotated[str, checked(rules.namespace_fault), as_pattern(rules.NAMESPACE_PATTERN)] | None = Field(
        None, description="C++ namespace of the generated class."
    )
    tf_xla_flags: Flags | None = Field(None, description="TF_XLA_FLAGS for the step from TensorFlow to XLA.")
    xla_flags: Flags | None = Field(
        None, description="XLA_FLAGS for XLA's optimizer.", examples=[["--xla_cpu_enable_fast_math=true"]]
    )
    tensorflow: Annotated[str, checked(rules.tensorflow_fault), as_pattern(rules.TENSORFLOW_PATTERN)] | None = Field(
        None, description="TensorFlow release that compiles the model."
    )
    targets: (
        Annotated[
            list[Annotated[str, checked(rules.target_fault), as_choice(*TARGETS)]],
            list_of("target names"),
            FILLED,
            DISTINCT,
            one_architecture("build one package for each"),
        ]
        | None
    ) = Field(None, description="Kinds of CPU to compile for; the library uses the best one that the machine supports.")
    weights: Annotated[str, checked(rules.weights_fault), as_choice("shared", "embedded")] | None = Field(
        None,
        description="shared: one copy of the weights in the library; embedded: one in each object.",
    )
    kernels: Annotated[str, checked(rules.kernels_fault), as_choice("auto", "none")] | None = Field(
        None,
        description="auto: a model that becomes a program calls the kernel library; none: with engine auto, the model "
        "is XLA's code.",
    )
    engine: Annotated[str, checked(rules.engine_fault), as_choice("auto", "program", "xla")] | None = Field(
        None,
        description="program: our own compiler makes one function for any number of rows of the whole model, and the "
        "build fails if it cannot; xla: XLA compiles the model for each batch size; auto: a program if the model "
        "can become one and the spec has no settings for XLA.",
    )
    max_iterations: (
        Annotated[
            int,
            BeforeValidator(evaluated),
            between(0, MAX_ITERATIONS, " (values of all iterations are kept in memory)"),
            as_scalar("integer", minimum=0, maximum=MAX_ITERATIONS),
        ]
        | None
    ) = Field(
        None,
        description="Maximum number of iterations of each loop; 0 for no limit. Gradients through loops whose number "
        "of iterations depends on values need it.",
        examples=[100],
    )
    variables: VariablesForm | None = Field(
        None,
        description="Variables that stay variables: the class has a state that steps carry over. By default all of "
        "them are constants.",
    )
    operations: dict[Annotated[str, checked(rules.operation_fault)], OperationForm] | None = Field(
        None,
        description="Operations that the model names and the author supplies: C++, and a Python reference, by name.",
        examples=[{"smooth": {"source": "smooth.cpp", "reference": "smooth.py"}}],
    )


class TreesForm(Form):
    """How the author calls a model of decision trees, as far as its file does not say it."""

    iterations: Iterations | None = Field(
        None,
        description="Iterations of training that are computed: best, those up to the best one that early stopping "
        "found; all; or a number (by default: best if a class of XGBoost for scikit-learn wrote the file, else all).",
        examples=["best", 120],
    )
    missing: Missing | None = Field(
        None,
        description="Number that counts as missing beside NaN, as `missing` of XGBoost's classes and of DMatrix, which "
        "files do not contain; .nan if there is none.",
        examples=[-999.0],
    )
    categories: Annotated[str, checked(rules.categories_fault), as_choice("values", "codes")] | None = Field(
        None,
        description="What x contains in columns of categories of a data frame whose values are in the file: values, "
        "as the frame has them (of texts their positions in the list of info.json); or codes, all of them positions "
        "(by default: values).",
    )
    dtype: Annotated[str, checked(rules.float_fault), as_choice("float32", "float64")] | None = Field(
        None,
        description="Type of x (by default: the one that the library compares in, float64 for LightGBM and "
        "HistGradientBoosting, float32 for others).",
    )


class ValidationForm(Form):
    """How the library's answers are compared with TensorFlow's before a package is made."""

    seed: (
        Annotated[
            int, BeforeValidator(evaluated), between(0, MAX_SEED), as_scalar("integer", minimum=0, maximum=MAX_SEED)
        ]
        | None
    ) = Field(None, description="Seed of random inputs.")
    inputs: FilePath | None = Field(None, description=".npz file with one array per input, relative to this file.")
    samples: (
        Annotated[
            int,
            BeforeValidator(evaluated),
            between(1, MAX_SAMPLES),
            as_scalar("integer", minimum=1, maximum=MAX_SAMPLES),
        ]
        | None
    ) = Field(None, description="Number of random rows.")
    rtol: Annotated[Number, AfterValidator(below_one), as_scalar("number", minimum=0, exclusiveMaximum=1)] | None = (
        Field(None, description="Relative tolerance.")
    )
    atol: Number | None = Field(None, description="Absolute tolerance.")
    classes: (
        Annotated[
            list[Annotated[str, checked(rules.class_fault), as_choice(*rules.INPUT_CLASSES)]],
            list_of("classes of inputs"),
            DISTINCT,
        ]
        | None
    ) = Field(None, description="Classes of inputs that are tried as well, beside the given or random ones.")
    ranges: Ranges | None = Field(
        None,
        description="Least and largest number of an input, for random values: a number, or a symbol of model.shapes, "
        "as in `v - 1`. By default those of indices, lengths and divisors are found in the model.",
        examples=[{"edge_index": [0, "v - 1"], "mass": [0.5, 2]}],
    )


class PackageForm(Form):
    """What the package holds beside libraries and headers."""

    tools: Truth | None = Field(
        None, description="Put the programs bin/NAME_test and bin/NAME_benchmark into the package."
    )
    objects: Truth | None = Field(
        None, description="Put an object file per batch size into the package, for builds that link objects."
    )
    cmssw: Truth | None = Field(
        None, description="Put the headers NAME_bsN.h and NAME.h of cms-tfaot's packages beside model.h."
    )
    source: Truth | None = Field(
        None, description="Put sources of the library into the package, which build without this tool."
    )
    profile: Truth | None = Field(
        None,
        description="Let the library write a trace of its steps to the file in TFAOT_PROFILE; not for publishing.",
    )
    glibc: (
        Annotated[str, checked(rules.glibc_fault), as_pattern(rules.GLIBC_PATTERN, types=("string", "number"))] | None
    ) = Field(None, description="Newest glibc that a published shared library or program may need.", examples=["2.28"])


class SpecForm(Form):
    """One model, to be made into one package. A superset of the aot_config.yaml of cms-tfaot."""

    model: ModelForm
    source: SourceForm | None = None
    trees: TreesForm | None = None
    compilation: CompilationForm
    validation: ValidationForm | None = None
    package: PackageForm | None = None


SCHEMA_ID = "https://tfaot-pkg.invalid/schema/spec-1.json"
"""The schema's identifier. Nothing is served there: editors use a file."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: dict[str, type] = {
    "ModelForm": ModelInfo,
    "CompilationForm": Compilation,
    "ValidationForm": Validation,
    "PackageForm": PackageOptions,
}
_TITLES = {
    "SignatureForm": "Signature",
    "ModelForm": "Model",
    "SourceForm": "Source",
    "TreesForm": "Trees",
    "VariablesForm": "Variables",
    "OperationForm": "Operation",
    "CompilationForm": "Compilation",
    "ValidationForm": "Validation",
    "PackageForm": "Package",
}


def modeline(schema: str) -> str:
    """The comment that makes editors check a spec with the schema in the file or at the URL `schema`."""
    return f"# yaml-language-server: $schema={schema}"


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of spec files."""
    schema = SpecForm.model_json_schema(mode="validation")
    forms = schema.pop("$defs")
    for name, form in forms.items():
        form["title"] = _TITLES[name]
        _tidy(form["properties"])
        # Defaults come from the types that apply them, so that the schema cannot state different ones.
        _add_defaults(form, _TYPES.get(name))
    forms["SourceForm"] |= _source_rules()
    _tidy(schema["properties"])
    schema["properties"]["source"]["anyOf"].insert(0, {"type": "string", "description": "Local folder."})
    schema["title"] = "tfaot-pkg spec"
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **schema, "$defs": forms}


REFERENCE = Reference(schema=json_schema, page="docs/reference/spec.md", command="tfaot-pkg schema")


def _tidy(properties: dict[str, Any]) -> None:
    """Drop what pydantic adds: titles made from names, and null as default."""
    for value in properties.values():
        value.pop("title", None)
        value.pop("default", None)


def _add_defaults(form: dict[str, Any], kind: type | None) -> None:
    for field in fields(kind) if kind else ():
        if field.default is not MISSING and field.name in form["properties"]:
            default = field.default
            form["properties"][field.name]["default"] = list(default) if isinstance(default, tuple) else default


def _source_rules() -> dict[str, Any]:
    def given(*keys: str) -> dict[str, Any]:
        # null stands for "not given" everywhere in a spec.
        return {"required": list(keys), "properties": {key: {"not": {"type": "null"}} for key in keys}}

    return {"oneOf": [given("path"), given("url", "sha256"), given("url", "revision"), given("git", "revision")]}
