"""Load an artifact of jax.export, or a StableHLO module as text or bytecode: its module, and its names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from messages.requests import ModelFault, one_line
from messages.sources import SourceTensor
from wiring import distinct, parameter

if TYPE_CHECKING:
    import numpy.typing as npt
    from framework_types import Array
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects.func import FuncOp


_BYTECODE = b"ML\xefR"
"""The first bytes of MLIR's bytecode."""
_HEXADECIMAL = re.compile(r'^dense<"0x([0-9A-F]+)">')
_PLATFORM_INDEX = '"_platform_index"'
_GIVEN_NAME = re.compile(r'^loc\("([^"]+)"')
_FUNCTION = re.compile(r"^([ \t]*)func(?=[ \t]+(?:public[ \t]+|private[ \t]+|nested[ \t]+)?@)", re.MULTILINE)
_BRACKETS = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|->|([()\[\]{}<>])')
"""Texts, comments and arrows are none."""
_MOST_NESTED = 256
"""MLIR's parser has one call for each bracket, and ends the process where its stack does."""
_MADE_UP = re.compile(r"arg\d*|\d+")
"""Names of arguments that MLIR generates."""


@dataclass(frozen=True)
class Loaded:
    """`module` of MLIR in `context`; `kept` are the positions among `inputs` of those that its main function takes.

    `exported` is JAX's own form of the model; None if the file is a StableHLO module.
    """

    context: ir.Context
    module: ir.Module
    exported: Any
    origin: str
    platforms: tuple[str, ...]
    calling_convention: int
    inputs: tuple[SourceTensor, ...]
    outputs: tuple[SourceTensor, ...]
    kept: tuple[int, ...]


def loaded(path: str) -> Loaded:
    """The model in the file; ModelFault if it cannot be read, or is for several devices or for others than CPUs."""
    with open(path, "rb") as file:
        content = file.read()
    text = text_of(path)
    if text is None and not content.startswith(_BYTECODE):
        return _artifact(path, content)
    return _module(path, content, text)


def functions_of(module: ir.Module) -> list[FuncOp]:
    return [each for each in module.body.operations if each.operation.name == "func.func"]


def operations_in(operation: ir.Operation) -> Iterator[ir.Operation]:
    """`operation` and those in its regions, at any depth."""
    waiting = [operation]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [inner.operation for region in each.regions for block in region.blocks for inner in block.operations]


def main_of(module: ir.Module) -> FuncOp:
    """The function that is called; ModelFault if there is none."""
    functions = functions_of(module)
    named = [each for each in functions if each.attributes["sym_name"].value == "main"]
    public = [each for each in functions if _visibility(each) != "private"]
    found = named or (public if len(public) == 1 else [])
    if not found:
        names = ", ".join(each.attributes["sym_name"].value for each in public) or "none"
        raise ModelFault(
            f"the module has no function named main, and not one public function: {names}", "name the function @main"
        )
    return found[0]


def text_of(path: str) -> str | None:
    """The text of a module, as it has been written since 2022; None if the file is binary or has no function.

    Raises ModelFault if it is nested too deeply.
    """
    with open(path, "rb") as file:
        try:
            text = file.read().decode()
        except UnicodeDecodeError:
            return None
    if max(_depths(text), default=0) > _MOST_NESTED:
        raise ModelFault(
            f"{os.path.basename(path)} is nested deeper than {_MOST_NESTED} brackets", "export the model again"
        )
    # Before, functions were of no dialect; `return` and `call` within them are still written without one.
    return _FUNCTION.sub(r"\1func.func", text) if "func" in text else None


def _depths(text: str) -> Iterator[int]:
    """How many brackets are open behind each bracket."""
    depth = 0
    for found in _BRACKETS.finditer(text):
        if found[1]:
            depth += 1 if found[1] in "([{<" else -1
            yield depth


def values_of(value: ir.Attribute) -> Array:
    """The numbers of a dense attribute. MLIR's bindings do not read all types of floats: the text has their bytes."""
    try:
        return np.array(value)
    except TypeError:
        kind = value.type
        found = _HEXADECIMAL.search(str(value))
        if found is None:  # few enough to be written one by one
            raise ModelFault(f"constants of the type {kind} cannot be read", "use float32 for them") from None
        return np.frombuffer(bytes.fromhex(found[1]), numpy_type(dtype_of(kind.element_type))).reshape(kind.shape)


def write_values(path: str, array: npt.ArrayLike, dtype: str) -> None:
    """Write a constant, row-major. MLIR gives bfloat16 as numbers of another type, which are converted."""
    with open(path, "wb") as file:
        file.write(np.ascontiguousarray(array).astype(numpy_type(dtype)).tobytes())


def numpy_type(dtype: str) -> npt.DTypeLike:
    import ml_dtypes

    return getattr(ml_dtypes, dtype) if dtype == "bfloat16" else np.dtype(dtype)


def _visibility(function: FuncOp) -> str:
    attributes = function.attributes
    return attributes["sym_visibility"].value if "sym_visibility" in attributes else "public"


def _artifact(path: str, content: bytes) -> Loaded:
    import jax
    from jax import export

    try:
        exported = export.deserialize(bytearray(content))
    except Exception as error:  # flatbuffers and JAX raise many types for damaged files
        raise ModelFault(
            f"{path} is not an artifact of jax.export that JAX {jax.__version__} can read: {one_line(error)}",
            "write it with jax.export.export(...)(...).serialize(), with this or an older JAX",
        ) from error
    # JAX lowers some functions differently for each platform.
    if "cpu" not in exported.platforms:
        raise ModelFault(
            f"{path} was exported for {', '.join(exported.platforms)}, not for CPUs",
            "export it for them: jax.export.export(function, platforms=['cpu'])",
        )
    if exported.nr_devices != 1:
        raise ModelFault(f"{path} was exported for {exported.nr_devices} devices", "export it for one")
    if exported.ordered_effects or exported.unordered_effects:
        raise ModelFault(f"{path} has effects, such as prints or calls of Python", "export it without them")
    context, module = _parsed(path, exported.mlir_module_serialized)
    inputs = _input_names(exported, module)
    outputs = unique([_path_name(each, "output") for each in _paths(exported.out_tree)])
    return Loaded(
        context=context,
        module=module,
        exported=exported,
        origin=f"jax.export, calling convention {exported.calling_convention_version}",
        platforms=tuple(exported.platforms),
        calling_convention=exported.calling_convention_version,
        inputs=tuple(map(_tensor, inputs, exported.in_avals, range(len(inputs)))),
        outputs=tuple(map(_tensor, outputs, exported.out_avals, range(len(outputs)))),
        kept=tuple(exported.module_kept_var_idx),
    )


def _input_names(exported: Any, module: ir.Module) -> list[str]:
    """Keys of dictionaries, names of keywords, or the names of parameters, which the module keeps as locations."""
    given = dict(zip(exported.module_kept_var_idx, _parameters(module), strict=True))
    names = []
    for place, path in enumerate(_paths(exported.in_tree)):
        keys = [_key(step) for step in path[1:]]
        is_keyword = _key(path[0]) == "1"
        inner = keys if is_keyword else keys[1:]
        word = [key for key in inner if not key.isdigit()]
        names.append("_".join(word) if word else given.get(place) or f"input_{place}")
    return unique(names)


def _parameters(module: ir.Module) -> list[str]:
    """The names of the exported function's parameters, "" for unknown ones."""
    main = main_of(module)
    # The parameters of the exported function have names; arguments that calling conventions add before them have none.
    count = sum(not _is_platform(main, each) for each in _arguments(main))
    # With symbols for sizes, main computes these and calls the exported function: its parameters follow the symbols.
    wrapped = [each for each in module.body.operations if _is_wrapped(each)]
    arguments = _arguments(wrapped[0] if wrapped else main)
    return [_given_name(each) for each in arguments[len(arguments) - count :]]


def _is_wrapped(function: FuncOp) -> bool:
    return str(function.attributes["sym_name"]) == '"_wrapped_jax_export_main"'


def _paths(tree: Any) -> list[Any]:
    """The path of each leaf, as JAX's keys."""
    import jax

    leaves = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [path for path, _ in jax.tree_util.tree_flatten_with_path(leaves)[0]]


def _key(step: Any) -> str:
    """`x` of ['x'] and .x, `0` of [0]."""
    return next(str(getattr(step, field)) for field in ("key", "idx", "name") if hasattr(step, field))


def _path_name(path: Any, what: str) -> str:
    keys = [_key(step) for step in path]
    if all(key.isdigit() for key in keys):
        return f"{what}_{'_'.join(keys) or 0}"
    first = next(place for place, key in enumerate(keys) if not key.isdigit())
    return "_".join(keys[first:])


def _module(path: str, content: bytes, text: str | None) -> Loaded:
    context, module = _parsed(path, content if text is None else text)
    main = main_of(module)
    kinds = main.attributes["function_type"].value
    arguments = _arguments(main)
    names = _parameters(module)
    if text is not None and len(written := written_names(text)) == len(arguments):
        names = [mine or given for mine, given in zip(written, names, strict=True)]
    inputs = unique([name or f"input_{place}" for place, name in enumerate(names)])
    results = [_result_name(main, place) or f"output_{place}" for place in range(len(kinds.results))]
    return Loaded(
        context=context,
        module=module,
        exported=None,
        origin="StableHLO",
        platforms=("cpu",),
        # That of XlaCallModule: reading.py says why not a newer one.
        calling_convention=9,
        inputs=tuple(map(_typed, inputs, kinds.inputs, range(len(inputs)))),
        outputs=tuple(map(_typed, unique(results), kinds.results, range(len(results)))),
        kept=tuple(range(len(inputs))),
    )


def _parsed(path: str, content: bytes | str) -> tuple[ir.Context, ir.Module]:
    """A context and the module in it, from an artifact, bytecode or text."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    context = mlir.make_ir_context()
    try:
        with context:
            if isinstance(content, bytes):
                try:
                    return context, hlo.deserialize_portable_artifact(context, content)
                except Exception:  # bytecode of StableHLO itself, which is no portable artifact
                    return context, ir.Module.parse(content)
            return context, ir.Module.parse(content)
    except Exception as error:  # MLIR raises several kinds
        raise ModelFault(
            f"{path} is not StableHLO that can be read: {one_line(error)}",
            "write portable bytecode (stablehlo-translate --serialize), or text of StableHLO and no other dialects",
        ) from error


def _arguments(main: FuncOp) -> list[ir.BlockArgument]:
    return list(main.regions[0].blocks[0].arguments)


def _is_platform(main: FuncOp, argument: ir.BlockArgument) -> bool:
    if "arg_attrs" not in main.attributes:
        return False
    attributes = main.attributes["arg_attrs"][argument.arg_number]
    return "jax.global_constant" in attributes and str(attributes["jax.global_constant"]) == _PLATFORM_INDEX


def platform_argument(main: FuncOp) -> ir.BlockArgument | None:
    """The argument that takes the number of the platform; None if the module is for one platform."""
    return next((each for each in _arguments(main) if _is_platform(main, each)), None)


def _given_name(argument: ir.BlockArgument) -> str:
    """The name of a parameter in its location; "" if MLIR generated it, or if the location is a place in a file."""
    found = _GIVEN_NAME.match(str(argument.location))
    return "" if found is None or ":" in found[1] or _MADE_UP.fullmatch(found[1]) else found[1]


def written_names(text: str) -> list[str]:
    """The names of main's arguments in the text, which MLIR does not keep; "" for generated ones."""
    head = re.search(r"func\.func\s+(?:public\s+)?@\"?[\w$.-]+\"?\s*\(([^)]*)\)", text)
    names = re.findall(r"%([\w$.-]+)\s*:", head[1]) if head else []
    return ["" if _MADE_UP.fullmatch(name) else name for name in names]


def _result_name(main: FuncOp, place: int) -> str:
    """The name of a result in JAX's attributes: `a` of "result['a']" and "['a']"; "" if they have none."""
    if "res_attrs" not in main.attributes:
        return ""
    attributes = main.attributes["res_attrs"][place]
    if "jax.result_info" not in attributes:
        return ""
    keys = re.findall(r"\['([^']+)'\]", attributes["jax.result_info"].value)
    return "_".join(keys)


def unique(names: Sequence[str]) -> list[str]:
    """The names as TensorFlow accepts them, with a number appended to repeated ones."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "tensor"
        found.append(parameter(plain if plain[0].isalpha() else f"t_{plain}"))
    return distinct(found)


def _tensor(name: str, aval: Any, place: int) -> SourceTensor:
    sizes: list[int | str | None] = [size if isinstance(size, int) else str(size) for size in aval.shape]
    # A first axis without a fixed size is the batch.
    if sizes and isinstance(sizes[0], str):
        sizes[0] = None
    return SourceTensor(name=name, key=str(place), dtype=str(aval.dtype), shape=tuple(sizes))


_DTYPES = {
    "i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
    **{f"{sign}i{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def _typed(name: str, kind: ir.Type, place: int) -> SourceTensor:
    from jax._src.lib.mlir import ir

    if not isinstance(kind, ir.RankedTensorType):
        raise ModelFault(f"{name!r} of the module is {kind}, which a compiled model cannot have as input or output")
    tensor = ir.RankedTensorType(kind)
    sizes = [None if tensor.is_dynamic_dim(axis) else tensor.get_dim_size(axis) for axis in range(tensor.rank)]
    return SourceTensor(name=name, key=str(place), dtype=dtype_of(tensor.element_type), shape=tuple(sizes))


def dtype_of(element: ir.Type) -> str:
    """TensorFlow's name of a type of elements; MLIR's for others."""
    return _DTYPES.get(str(element), str(element))
