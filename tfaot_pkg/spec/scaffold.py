"""The text of a first spec, with comments, for an existing model. It reads and writes no files."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.spec.document import written
from tfaot_pkg.spec.expand import literal
from tfaot_pkg.spec.formats import FILE_FORMATS, LOWERED
from tfaot_pkg.spec.rules import cpp_identifiers
from tfaot_pkg.spec.types import DEFAULT_TENSORFLOW, Compilation, GraphFile, ModelInfo, SavedModelFiles, Validation
from tfaot_pkg.worker_program.messages.sources import CategoryColumn, TreesCall, TreesFacts

DEFAULT_BATCH_SIZES = (1, 2, 4, 8)

# Characters that JSON does not escape, and YAML rejects or reads as the end of a line.
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def scaffold(
    *,
    model: ModelInfo,
    signature: Signature,
    other_keys: Iterable[str] = (),
    defaulted: Iterable[str] = (),
    variables: Iterable[str] = (),
    unknown_ranks: Iterable[str] = (),
    batch_sizes: Iterable[int] = DEFAULT_BATCH_SIZES,
    origin: str = "",
    tensorflow: str = DEFAULT_TENSORFLOW,
    trees: TreesFacts | None = None,
    notes: Iterable[str] = (),
    update: Iterable[str] = (),
    remarks: Mapping[str, str] | None = None,
    fault: TfaotError | None = None,
) -> str:
    """The text of a spec that `load_spec` accepts, if name and version are valid.

    The files of `model` are relative to the folder of the spec file; its `shapes` are full shapes of inputs with
    unknown axes. `other_keys` are the SavedModel's other signatures. Of a graph, `defaulted` are placeholders with
    values of their own, and `variables` those that need a checkpoint. `unknown_ranks` are inputs whose number of axes
    the spec must say.
    `origin` says what made the model's file ("" for TensorFlow). `tensorflow` is the toolchain that has read the model.
    `trees` says how decision trees are called, `notes` what their file leaves open. `update` are variables that the
    signature changes. `remarks` are comments by field (shapes, constants, variables), `fault` says why the spec is not
    accepted as it is.
    """
    told = remarks or {}
    lines = [
        *_model_lines(model, sorted(other_keys), origin),
        *(_graph_lines(model, defaulted, variables) if model.files.format == "graph" else _name_lines(signature)),
        *_shape_lines(model, [*unknown_ranks], told.get("shapes", "")),
        *_constant_lines(model, told.get("constants", "")),
        *_fault_lines(fault, signature),
        "",
        *_signature_lines(signature),
        "",
        *([] if trees is None else _trees_lines(trees, signature, [*notes])),
        *_compilation_lines(tuple(batch_sizes), "" if model.files.format in LOWERED else tensorflow),
        *_variable_lines([*update], told.get("variables", "")),
        "",
        *_validation_lines(),
    ]
    return "\n".join(lines) + "\n"


def cpp_call(model: ModelInfo, signature: Signature) -> str:
    """How a C++ program calls the model; "" if lengths of inputs do not determine its sizes."""
    if not signature.determined_symbols().issuperset(each.name for each in model.symbols):
        return ""
    inputs, outputs = ([*cpp_identifiers(each.name for each in given).values()] for given in (
        signature.inputs, signature.outputs))  # fmt: skip
    results = ", ".join(f"results.{name}" for name in sorted(outputs))
    cpp_class = f"{Compilation(batch_sizes=()).namespace}::{model.name}"
    rows = "rows" if any(each.has_batch_axis for each in signature.tensors) else "1"
    return (
        f"const tfaot::Shared<{cpp_class}> model;  // one object for all threads\n"
        f"const auto results = model.run({rows}, {{{', '.join(sorted(inputs))}}});  // {results}"
    )


def _model_lines(model: ModelInfo, others: list[str], origin: str) -> list[str]:
    cpp_class = f"{Compilation(batch_sizes=()).namespace}::{model.name}"
    return [
        "model:",
        f"  # The package is {model.package_name}, the C++ class {cpp_class}.",
        f"  name: {_scalar(model.name)}",
        f"  version: {_quoted(model.version)}",
        *_files_lines(model, others, origin),
        '  author: ""',
        '  description: ""',
        "  # Licence of the model, as an SPDX expression such as MIT or CC-BY-4.0.",
        '  license: ""',
        '  homepage: ""',
        "  # For the package's page: what it was trained on, and what it is not for.",
        '  training_data: ""',
        '  limits: ""',
    ]


def _files_lines(model: ModelInfo, others: list[str], origin: str) -> list[str]:
    files = model.files
    if not isinstance(files, SavedModelFiles):
        what = FILE_FORMATS[files.format].title.partition(" ")[2]
        made = f" ({_comment(origin)})" if origin else ""
        beside = {} if not isinstance(files, GraphFile) else {"config": files.config, "checkpoint": files.checkpoint}
        return [
            f"  # The {what}, relative to this file{made}.",
            f"  {files.format}: {_scalar(files.path)}",
            *(f"  {key}: {_scalar(path)}" for key, path in beside.items() if path),
        ]
    also = f"; the SavedModel also has {', '.join(map(_quoted, others))}" if others else ""
    return [
        "  # Folder of the SavedModel, relative to this file.",
        f"  saved_model: {_scalar(files.path)}",
        f"  # Signature to compile{also}.",
        f"  serving_key: {_scalar(files.serving_key)}",
    ]


def _graph_lines(
    model: ModelInfo,
    defaulted: Iterable[str],
    variables: Iterable[str],
) -> list[str]:
    """Inputs and outputs of a graph. The user must review them: they are its placeholders, and nodes without users."""
    how = "  # Review: placeholders, and what no other node uses. `NODE: name` gives one another name."
    lines = [
        *([how] if model.inputs or model.outputs else []),
        *(["  inputs:", *[f"    - {_scalar(name)}" for name in model.inputs]] if model.inputs else []),
        *(["  outputs:", *[f"    - {_scalar(name)}" for name in model.outputs]] if model.outputs else []),
    ]
    if model.constants:
        lines += ["  # Review: placeholders that look like switches of training, with the values for inference."]
        lines += ["  constants:"]
        lines += [f"    {_scalar(name)}: {json.dumps(value)}" for name, value in written(model.constants).items()]
    if names := [*defaulted]:
        lines += [f"  # With values of their own, if neither inputs nor constants name them: {_listed(names)}."]
    if names := [*variables]:
        lines += [
            f"  # The graph is not frozen. Values of {_listed(names)}: the common prefix of the checkpoint's files,",
            "  # relative to this file; or `feeds: [VARIABLE]`, for those that each call supplies.",
            "  # checkpoint: ./model.ckpt",
        ]
    return lines


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return _comment(", ".join(names[:6]) + more)


def _name_lines(signature: Signature) -> list[str]:
    """Comments on how to rename outputs, if Keras made their names up."""
    made_up = [tensor.name for tensor in signature.outputs if re.fullmatch(r"output_\d+", tensor.name)]
    if not made_up:
        return []
    names = ", ".join(f"{name}: NAME" for name in made_up)
    return ["  # Names of your own for the outputs, in their order: results.NAME in C++.", f"  # outputs: {{{names}}}"]


def _constant_lines(model: ModelInfo, remark: str) -> list[str]:
    """Constants of inputs; those of graphs are among their placeholders."""
    if model.files.format == "graph" or not model.constants:
        return []
    values = [f"    {_scalar(name)}: {json.dumps(value)}" for name, value in written(model.constants).items()]
    return [*_wrapped(remark), "  constants:", *values]


def _fault_lines(fault: TfaotError | None, signature: Signature) -> list[str]:
    """Why the spec is not complete, and what to do."""
    if fault is None:
        return []
    lines = _wrapped(f"To fill in, or `tfaot-pkg check` refuses this spec: {fault.message}")
    if fault.hint:
        lines += _wrapped(f"What to do: {fault.hint}")
    few = [each for each in signature.inputs if not each.has_batch_axis and not each.axes and not each.dtype.is_inexact
           and math.prod(each.row_shape) <= _FEW]  # fmt: skip
    if few:
        shown = ", ".join(f"{_scalar(each.name)}: {'VALUE' if not each.shape else '[VALUE, ...]'}" for each in few)
        lines += _wrapped("If the shapes of outputs depend on the values of these inputs, give the values:")
        lines += [f"  # constants: {{{_comment(shown)}}}"]
    return lines


_FEW = 8
"""Elements of an input that may be a switch or a size."""


def _variable_lines(update: list[str], remark: str) -> list[str]:
    return [*_wrapped(remark), f"  variables: {{update: {json.dumps(update)}}}"] if update else []


def _wrapped(text: str) -> list[str]:
    """Comments within a block of the spec."""
    lines = (line for part in text.splitlines() for line in textwrap.wrap(_comment(part), 110))
    return [f"  # {line}" for line in lines]


def _shape_lines(model: ModelInfo, unknown_ranks: list[str], remark: str) -> list[str]:
    if unknown_ranks:
        listing = ", ".join(f"{_scalar(name)}: [null, SIZE]" for name in unknown_ranks)
        return [
            "  # The model leaves the number of axes open: write full shapes of these inputs, null for the batch axis.",
            f"  # shapes: {{{_comment(listing)}}}",
        ]
    if not model.shapes:
        return []
    comment = ["  # The model leaves axes of these inputs open: their full shapes, null for the batch axis."]
    if model.symbols:
        comment += [
            "  # Each call brings the sizes of axes with names, up to the maxima, which you choose; axes with one name",
            "  # have one size. A number in such a place fixes the size.",
        ]
    comment += _wrapped(remark)
    entries = [f"    {_scalar(name)}: {json.dumps(model.shape_document(name))}" for name in sorted(model.shapes)]
    return [*comment, "  shapes:", *entries]


def _signature_lines(signature: Signature) -> list[str]:
    """The interface as comments: N is the batch axis."""
    inputs = [f"#   in   {_comment(str(tensor))}" for tensor in signature.inputs]
    outputs = [f"#   out  {_comment(str(tensor))}" for tensor in signature.outputs]
    return ["# What the model takes and gives (N is the batch axis):", *inputs, *outputs]


def stated_call(trees: TreesFacts) -> TreesCall:
    """How decision trees are called, as a first spec states it: as they are without a word of the spec."""
    iterations = "all" if trees.iterations == trees.iterations_in_file else "best"
    return TreesCall(
        iterations=iterations if trees.iterations else "",
        missing=trees.missing,
        categories="values" if any(each.values for each in trees.categories) else "",
    )


def _trees_lines(trees: TreesFacts, signature: Signature, notes: list[str]) -> list[str]:
    """How the author calls decision trees: what the file says, for review."""
    lines, call = [f"  # Review: {_comment(note)}." for note in notes], stated_call(trees)
    if call.iterations:
        of = counted(trees.iterations_in_file, "iteration")
        lines += [f"  # Computed are {trees.iterations} of {of}: best, all, or a number."]
        lines += [f"  iterations: {call.iterations}"]
    if call.missing:
        missing = ".nan" if call.missing == "nan" else call.missing
        lines += [
            "  # The number that counts as missing beside NaN, such as -999.0; .nan: none.",
            f"  missing: {missing}",
        ]
    if call.categories:
        lines += ["  # x has values of categories, as data frames do (of texts their positions); or codes: positions."]
        lines += [f"  #   {_comment(_category_text(each))}" for each in trees.categories if each.values]
        lines += [f"  categories: {call.categories}"]
    if not lines:
        return []
    lines += [f"  # dtype: {tensor.dtype.value}  # of x" for tensor in signature.inputs]
    return ["# How the model is called: what its author writes in Python beside the file.", "trees:", *lines, ""]


def _category_text(column: CategoryColumn) -> str:
    shown = ", ".join(map(str, column.values[:8])) + (" ..." if len(column.values) > 8 else "")
    return f"{column.name or f'column {column.column}'}: {shown}"


def _compilation_lines(batch_sizes: tuple[int, ...], tensorflow: str) -> list[str]:
    """`tensorflow` is the toolchain, "" for a model that needs none."""
    defaults = Compilation(batch_sizes=batch_sizes)
    of_xla = [
        f"  # tensorflow: {tensorflow}" if tensorflow == defaults.tensorflow else f"  tensorflow: {tensorflow}",
        f"  # weights: {defaults.weights}  # or embedded: a copy in every object",
        f"  # kernels: {defaults.kernels}  # or none: all of the model is XLA's code",
        f"  # engine: {defaults.engine}  # or program, or xla: what compiles the model",
        "  # xla_flags: []",
        "  # tf_xla_flags: []",
    ]
    return [
        "compilation:",
        "  # Numbers of rows that are compiled and validated; calls may bring any other number too.",
        f"  batch_sizes: {json.dumps(list(batch_sizes))}",
        "  # Kinds of CPU to compile for; the library uses the best one that the machine supports.",
        f"  targets: [{', '.join(defaults.targets)}]",
        f"  # namespace: {defaults.namespace}",
        *(of_xla if tensorflow else []),
    ]


def _validation_lines() -> list[str]:
    defaults = Validation()
    return [
        "# The library must give the framework's answers on these inputs before a package is made of it.",
        "validation:",
        f"  seed: {defaults.seed}  # of random inputs; or `inputs: FILE.npz` with one array per input",
        f"  samples: {defaults.samples}",
        f"  rtol: {defaults.rtol:.1e}",
        f"  atol: {defaults.atol:.1e}",
    ]


def _quoted(text: str) -> str:
    """`text` as a double-quoted YAML scalar (JSON strings are such), with nothing that is read as an expression."""
    quoted = json.dumps(literal(text), ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _scalar(text: str) -> str:
    """`text` without quotes if every YAML reader takes it for a string, otherwise with quotes."""
    # Readers of YAML 1.1 take `no` and `on` for booleans.
    words = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    plain = re.fullmatch(r"[A-Za-z./][\w./-]*", text, re.ASCII) and text.lower() not in words and text.strip(".")
    return text if plain else _quoted(text)


def _comment(text: str) -> str:
    """`text` on one line, for a comment."""
    return text if text.isprintable() else ascii(text)
