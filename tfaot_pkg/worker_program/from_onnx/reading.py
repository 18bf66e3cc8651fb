"""Read an ONNX file, check it, and write its graph in a form that needs no ONNX to be read (graphs.py)."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from from_onnx import exported, fixed_point
from from_onnx.authored_nodes import has_foreign, nodes_of, nodes_within, require_outside
from from_onnx.borders import as_numbers
from from_onnx.graphs import GRAPH, NATIVE, OLDEST, TENSORS
from from_onnx.sessions import session
from from_onnx.writing import Writer
from inlined import require_finite
from messages import elements
from messages.requests import ModelFault, one_line
from messages.sources import ReadOnnx, SourceModel, SourceTensor
from wiring import free, parameter

if TYPE_CHECKING:
    from framework_types import Report
    from messages.conversions import Values
    from onnx import GraphProto, ModelProto, NodeProto, TensorShapeProto, ValueInfoProto


_EXPORT = "export the model again, and check it: python -c \"import onnx; onnx.checker.check_model('FILE.onnx')\""


_DTYPES = frozenset("float16 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split())


def read(request: ReadOnnx, report: Report) -> SourceModel:
    """Describe inputs and outputs of the file; write its graph, with functions expanded, to `request.out`.

    Without that folder, for a first spec, ONNX Runtime alone checks that it can run the graph.
    """
    file = _file_in(request.path)
    content = exported.model_in(file)
    # Later steps and ONNX Runtime read files: the model leaves its archive.
    if content is not None and request.out:
        file = os.path.join(request.out, exported.MODEL)
        with open(file, "wb") as stream:
            stream.write(content)
    model = _loaded(file, content, request.qonnx)
    about = exported.about(model)
    if not request.qonnx:
        fixed_point.require_none(model, request.operations)
    labels = as_numbers(model)
    require_outside(model, request.operations)
    opset = _opset(model)
    _give_constants(model, request.constants)
    initialized = {tensor.name for tensor in model.graph.initializer}
    # Files of IR version 3 list their initializers as inputs.
    inputs = [value for value in model.graph.input if value.name not in initialized]
    keys = keys_of(inputs, "input"), keys_of(model.graph.output, "output")
    names_first = not request.shapes and _are_no_rows(inputs)
    by_row = _give_shapes(inputs, keys[0], request.shapes)
    by_row = by_row or _quantizes_rows(model, keys[0], request.shapes, names_first)
    names = [f"in/{each.name}" for each in inputs] + [f"out/{each.name}" for each in model.graph.output]
    answered_by = exported.write_answers(model, about, names, request.out)
    found = SourceModel(
        file=file,
        origin=_origin(model, about.framework, opset, labels, request.qonnx),
        inputs=tuple(_tensor(name, value, names_first) for name, value in keys[0].items()),
        outputs=tuple(_tensor(name, value, names_first) for name, value in keys[1].items()),
        by_row=by_row,
        symbols=about.symbols,
        answered_by=answered_by,
        notes=about.notes,
    )
    if request.out:
        axes = {name: _axes(keys[0][name]) for name in request.shapes}
        _write(model, found, axes, request.out)
    elif not has_foreign(model):
        session(file if content is None else content, rewriting=False)
    return found


def _file_in(path: str) -> str:
    if not os.path.isdir(path):
        return path
    files = sorted(name for name in os.listdir(path) if name.endswith(".onnx"))
    if len(files) != 1:
        raise ModelFault(
            f"the folder {path} must contain one .onnx file, and contains {', '.join(files) or 'none'}",
            "name the file itself: model: {onnx: FILE.onnx}",
        )
    return os.path.join(path, files[0])


def _loaded(file: str, content: bytes | None, is_qonnx: bool) -> ModelProto:
    """The model with all of its tensors; ModelFault if the file is not valid ONNX."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        if content is None:
            model = onnx.load(file, load_external_data=False)
        else:
            model = onnx.load_from_string(content)
    except (DecodeError, OSError, ValueError) as error:
        raise ModelFault(f"{file} is damaged, or no ONNX file: {one_line(error)}", _EXPORT) from error
    if not model.graph.output:
        raise ModelFault(f"{file} is damaged, or no ONNX file: it has no outputs", _EXPORT)
    if is_qonnx:  # before the check: its own `cleanup` renames the domain of nodes alone
        fixed_point.use_one_domain(model)
    require_finite("the model", _calls(model))
    try:
        _sort(model.graph)
        _require_external_data(model, os.path.dirname(file))
        onnx.load_external_data_for_model(model, os.path.dirname(file))
        with _output_shapes(model):
            onnx.checker.check_model(model)
    # KeyError: an element type that ONNX does not have.
    except (onnx.checker.ValidationError, OSError, ValueError, KeyError) as error:
        raise ModelFault(f"{file} is not valid ONNX: {one_line(error)}", _EXPORT) from error
    result: ModelProto = model
    return result


def _calls(model: ModelProto) -> dict[str, tuple[int, list[str]]]:
    """The number of nodes of each function and the functions that they call, once per call; "" is the graph."""
    keys = [(each.domain, each.name, each.overload) for each in model.functions]
    names = {key: ".".join(filter(None, key)) for key in keys}
    bodies = [
        ("", model.graph.node),
        *((names[key], each.node) for key, each in zip(keys, model.functions, strict=True)),
    ]
    found = {}
    for name, body in bodies:
        kinds = [(each.domain, each.op_type, each.overload) for each in nodes_within(body)]
        found[name] = len(kinds), [names[kind] for kind in kinds if kind in names]
    return found


def _sort(graph: GraphProto) -> None:
    """Put nodes behind those whose values they read, as ONNX's own check asks and ONNX Runtime does not.

    Its converter to float16 appends the casts of inputs. Nodes of a cycle stay where they are: the check names them.
    """
    made = {name for node in graph.node for name in node.output}
    order: list[NodeProto] = []
    waiting = list(graph.node)
    known: set[str] = set()
    while waiting:
        later: list[NodeProto] = []
        for node in waiting:
            if _reads(node) & made <= known:
                order.append(node)
                known.update(node.output)
            else:
                later.append(node)
        if len(later) == len(waiting):
            return
        waiting = later
    if order != list(graph.node):
        del graph.node[:]
        graph.node.extend(order)


def _reads(node: NodeProto) -> set[str]:
    """The names that a node reads, also in graphs within it."""
    inner = [each for attribute in node.attribute if attribute.HasField("g") for each in attribute.g.node]
    return {name for name in node.input if name}.union(*map(_reads, inner))


@contextlib.contextmanager
def _output_shapes(model: ModelProto) -> Iterator[None]:
    """Give all outputs types and shapes: ONNX Runtime runs files without them, which ONNX's own check rejects.

    Within the block, a shape that cannot be inferred is that of a scalar; after it, it is missing again.
    """
    import onnx

    missing = [each for each in model.graph.output if not each.type.tensor_type.HasField("shape")]
    missing = [each for each in missing if each.type.WhichOneof("value") in (None, "tensor_type")]
    if missing:
        with contextlib.suppress(onnx.shape_inference.InferenceError):
            types = {each.name: each.type for each in onnx.shape_inference.infer_shapes(model).graph.output}
            for each in missing:
                each.type.CopyFrom(types[each.name])
    unknown = [each.type.tensor_type for each in missing if not each.type.tensor_type.HasField("shape")]
    for kind in unknown:
        kind.shape.SetInParent()
    yield
    for kind in unknown:
        kind.ClearField("shape")


def _require_external_data(model: ModelProto, folder: str) -> None:
    """ModelFault for external data that is missing, or outside of the model's folder."""
    from onnx import external_data_helper as external

    for tensor in external._get_all_tensors(model):  # noqa: SLF001 (ONNX has no public list of tensors in attributes)
        if not external.uses_external_data(tensor):
            continue
        place = external.ExternalDataInfo(tensor).location
        # Links are resolved first: a link must not lead out of the folder, either.
        path = os.path.realpath(os.path.join(folder, place))
        if not path.startswith(os.path.realpath(folder) + os.sep):
            raise ModelFault(
                f"the tensor {tensor.name!r} lies in {place!r}, outside of the model's folder", "put its file beside it"
            )
        if not os.path.isfile(path):
            raise ModelFault(
                f"the values of the tensor {tensor.name!r} are not in the file, but in {place!r}, which was not found",
                "put the .onnx file and its data into a folder of their own, and name this: model: {onnx: FOLDER}",
            )


def _opset(model: ModelProto) -> int:
    import onnx

    # Files without ONNX's own domain have only operators of others, and no opset to check.
    opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ModelFault(
            f"the file has ONNX opset {opset}; the newest supported one is {newest}",
            "export the model with an older one",
        )
    if opset and opset < OLDEST:
        raise ModelFault(
            f"the file has ONNX opset {opset}; the oldest supported one is {OLDEST}",
            f"convert it: onnx.version_converter.convert_version(model, {OLDEST + 6})",
        )
    return opset


def _origin(model: ModelProto, framework: str, opset: int, labels: list[list[str]], is_qonnx: bool) -> str:
    if framework:
        return f"{framework}, ONNX opset {opset}"
    producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    text = f"{'QONNX' if is_qonnx else 'ONNX'}, opset {opset}" + (f", producer {producer}" if producer else "")
    text += "".join(f", labels from 0 on: {', '.join(each)}" for each in labels)
    # Terminals and pages show this text, which a file may fill with any characters.
    return re.sub(r"[^\x20-\x7e]", "?", text)[:200]


def _give_constants(model: ModelProto, constants: Mapping[str, Values]) -> None:
    """Add initializers with these values for the inputs that `constants` names, which are then no inputs."""
    import onnx

    initialized = {tensor.name for tensor in model.graph.initializer}
    keys = keys_of([value for value in model.graph.input if value.name not in initialized], "input")
    for name, values in constants.items():
        if name not in keys:
            raise ModelFault(
                f"model.constants names {name!r}, but the model has no such input", f"the inputs are: {', '.join(keys)}"
            )
        kind = keys[name].type.tensor_type
        sizes = [_fixed(axis) for axis in kind.shape.dim]
        if kind.HasField("shape") and (
            len(sizes) != len(values.shape) or any(a not in (None, b) for a, b in zip(sizes, values.shape, strict=True))
        ):
            raise ModelFault(
                f"model.constants: the value of {name!r} has the shape {list(values.shape)}, its input {sizes}",
                "give a number, or lists of numbers, as the input has axes",
            )
        array = elements.given(values, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, keys[name].name))


Named = TypeVar("Named", bound="str | ValueInfoProto")


def keys_of(values: Iterable[Named], kind: str) -> dict[str, Named]:
    """Names that are valid in C++ -> the items of `values`: names, or objects with a `name`."""
    found: dict[str, Named] = {}
    taken: set[str] = set()
    for value in values:
        theirs = value if isinstance(value, str) else value.name
        # TensorFlow appends `:0` to names of tensors, which means nothing to users.
        name = re.sub(r"[^A-Za-z0-9_]+", "_", re.sub(r":\d+$", "", theirs)).strip("_")
        if not re.match(r"[A-Za-z]", name):
            name = f"{kind}_{name}".strip("_")
        found[free(parameter(name), taken)] = value
    return found


def _give_shapes(
    inputs: list[ValueInfoProto], keys: Mapping[str, ValueInfoProto], shapes: Mapping[str, tuple[int | str | None, ...]]
) -> bool:
    """Write the spec's `shapes` into the model; return whether one makes an axis of size 1 in the file the batch."""
    by_row = False
    if unknown := sorted(set(shapes) - set(keys)):
        raise ModelFault(
            f"the model has no input {unknown[0]!r}; it has: {', '.join(keys)}", "correct model.shapes in the spec"
        )
    for name, shape in shapes.items():
        value = keys[name]
        axes = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and len(axes) != len(shape):
            raise ModelFault(
                f"the input {name!r} has {len(axes)} axes, and its shape {len(shape)}",
                "give the size of each axis in model.shapes",
            )
        while len(axes) < len(shape):
            axes.add()
        for place, (axis, size) in enumerate(zip(axes, shape, strict=True)):
            fixed = _fixed(axis)
            if fixed is not None and size is None and fixed == 1:
                by_row = True
            elif fixed is not None and size != fixed:
                raise ModelFault(
                    f"axis {place} of the input {name!r} has {fixed} elements in the file, and {size or 'batch'} in "
                    "model.shapes",
                    "export the model with a dynamic axis",
                )
            if isinstance(size, int):
                axis.dim_value = size
            else:
                axis.dim_param = "batch" if size is None else size
    return by_row


_OF_RANGES = frozenset({"DynamicQuantizeLSTM", "DynamicQuantizeLinear", "DynamicQuantizeMatMul"})
"""Operators that choose scales by the range of their inputs."""


def _quantizes_rows(
    model: ModelProto,
    keys: Mapping[str, ValueInfoProto],
    shapes: Mapping[str, tuple[int | str | None, ...]],
    names_first: bool,
) -> bool:
    """Whether each row is quantized as one alone: scales of a whole batch would let rows depend on one another."""
    return _has_batch(keys, shapes, names_first) and any(node.op_type in _OF_RANGES for node in nodes_of(model))


def _has_batch(
    keys: Mapping[str, ValueInfoProto], shapes: Mapping[str, tuple[int | str | None, ...]], names_first: bool
) -> bool:
    """Whether the first axis of an input is the batch."""
    for name, value in keys.items():
        axes = value.type.tensor_type.shape.dim
        if name in shapes:
            if shapes[name][:1] == (None,):
                return True
        elif axes and _fixed(axes[0]) is None and not names_first:
            return True
    return False


def _are_no_rows(inputs: list[ValueInfoProto]) -> bool:
    """Whether first axes without a size are no batch, as in graphs with nodes in rows and edges in columns ([2, n]).

    Signs are an input whose first axis is fixed and another one is not, and a symbol that is the first axis of one
    input and a later axis of another.
    """
    axes = [list(value.type.tensor_type.shape.dim) for value in inputs]
    opens = [[_fixed(axis) is None for axis in each] for each in axes]
    if not any(each[:1] == [True] for each in opens):
        return False
    firsts = {each[0].dim_param for each in axes if each} - {""}
    later = {axis.dim_param for each in axes for axis in each[1:]}
    return bool(firsts & later) or any(each[:1] == [False] and any(each[1:]) for each in opens)


def _tensor(name: str, value: ValueInfoProto, names_first: bool) -> SourceTensor:
    import onnx

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise ModelFault(
            f"{value.name!r} is a {(kind or 'value of no type').removesuffix('_type')}, which libraries do not support",
            "export the model with tensors as inputs and outputs",
        )
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else "float32"
    if dtype not in _DTYPES:
        kind = "text" if dtype == "object" else dtype
        raise ModelFault(
            f"{value.name!r} has the element type {kind}, which libraries do not support as input or output",
            "remove it from the model's inputs and outputs, or replace strings by numbers in the model"
            if kind == "text"
            else "cast it in the model to float32",
        )
    shape = (
        tuple(_size(axis, place, names_first) for place, axis in enumerate(tensor.shape.dim))
        if tensor.HasField("shape")
        else None
    )
    rows = tensor.shape.dim[0].dim_param if shape and shape[0] is None else ""
    return SourceTensor(name=name, key=value.name, dtype=dtype, shape=shape, rows=rows)


def _fixed(axis: TensorShapeProto.Dimension) -> int | None:
    """The size of an axis; None for an open one, which exporters also write as -1 or 0."""
    return axis.dim_value if axis.HasField("dim_value") and axis.dim_value > 0 else None


def _size(axis: TensorShapeProto.Dimension, place: int, names_first: bool) -> int | str | None:
    if (size := _fixed(axis)) is not None:
        return size
    # The first axis, if it has no size, is the batch.
    if place == 0:
        return (axis.dim_param or "n") if names_first else None
    return axis.dim_param or None


def _axes(value: ValueInfoProto) -> list[int | str | None]:
    """The sizes of an input to which the spec gave a shape: numbers, and names of symbols and of the batch."""
    return [_fixed(axis) or axis.dim_param or None for axis in value.type.tensor_type.shape.dim]


def _write(model: ModelProto, found: SourceModel, axes: Mapping[str, list[int | str | None]], folder: str) -> None:
    # Types and shapes of inner values in a file may be wrong, and exporters leave the sizes of their example there.
    del model.graph.value_info[:]
    # Inferred again after expansion: the definitions of operators depend on types, and add values.
    model = _inferred(_expanded(_inferred(model)))
    writer = Writer()
    graph = writer.graph(model.graph)
    document = {
        "opsets": {each.domain or "ai.onnx": each.version for each in model.opset_import},
        "inputs": [
            {
                "name": each.name,
                "key": each.key,
                "dtype": each.dtype,
                "shape": _known(each.shape),
                "axes": axes.get(each.name, None if each.shape is None else list(each.shape)),
            }
            for each in found.inputs
        ],
        "outputs": [{"name": each.name, "key": each.key} for each in found.outputs],
        "by_row": found.by_row,
        "dtypes": writer.dtypes,
        "graph": graph,
    }
    with open(os.path.join(folder, GRAPH), "w", encoding="utf-8") as file:
        json.dump(document, file)
    writer.save(os.path.join(folder, TENSORS))


def _inferred(model: ModelProto) -> ModelProto:
    """`model` with the types and shapes of its values, as far as ONNX can tell."""
    import onnx

    try:
        result: ModelProto = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return result
    except (onnx.shape_inference.InferenceError, ValueError) as error:
        raise ModelFault(f"the shapes in the file contradict one another: {one_line(error)}", _EXPORT) from error


def _expanded(model: ModelProto) -> ModelProto:
    """`model` with its functions, and operators that ONNX defines by others, expanded into NATIVE operators."""
    from onnx import inliner

    # Excluded from inlining: table.py has functions for these, which give faster code than the definitions.
    native = [("", name) for name in NATIVE]
    model = _with_types(model)
    try:
        result: ModelProto = inliner.inline_selected_functions(
            model, native, exclude=True, inline_schema_functions=True
        )
        return result
    except (RuntimeError, ValueError) as error:
        raise ModelFault(f"the functions in the file cannot be expanded: {one_line(error)}", _EXPORT) from error


def _with_types(model: ModelProto) -> ModelProto:
    """`model` with types of initializers and defaults of attributes, which the inliner does not look up itself."""
    import onnx

    for node in model.graph.node:
        _give_defaults(model, node)
    # It looks up the types of omitted inputs too, whose name is empty.
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("", onnx.TensorProto.FLOAT, None))
    known = {value.name for value in (*model.graph.input, *model.graph.value_info)}
    for tensor in model.graph.initializer:
        if tensor.name not in known:
            model.graph.value_info.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    return model


def _give_defaults(model: ModelProto, node: NodeProto) -> None:
    import onnx

    if node.domain not in ("", "ai.onnx") or node.op_type in NATIVE:
        return
    try:
        schema = onnx.defs.get_schema(node.op_type, _opset(model), "")
    except onnx.defs.SchemaError:
        return
    given = {each.name for each in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def _known(shape: Sequence[int | str | None] | None) -> list[int | None] | None:
    return None if shape is None else [size if isinstance(size, int) else None for size in shape]
