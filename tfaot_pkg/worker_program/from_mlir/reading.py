"""Read artifacts of jax.export and StableHLO modules of any origin, as text or bytecode, and write them for TensorFlow.

JAX's MLIR reads all versions of StableHLO and writes older ones. Calls are inlined, and large constants become
arguments, so that they are weights of the model instead of a part of its code.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING

from from_mlir import batching, dialect, loading, modules, transforms
from messages.requests import ModelFault, one_line
from messages.sources import ReadMlir, SourceModel
from modules import KNOWN_CALLS

if TYPE_CHECKING:
    from framework_types import Report
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects.func import FuncOp
    from messages.sources import SourceTensor


_WEIGHTS_FROM = 256
"""Constants of at least this many elements count as weights, as in specialize.py."""
_NEWEST_CONVENTION = 9
"""The newest calling convention of jax.export that is written: version 10 differs only for several devices."""
_OLDEST_MINOR = 1
"""StableHLO 1.1, which TensorFlow 2.17.1 reads, the oldest toolchain."""
_EXPANSION = "stablehlo-compatibility-expander{target=1.0.0}"
_MOST_INLINED = 20_000
"""Calls at most: functions that call one another twice each describe an exponential number of calls."""
_CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Operations that call a function of the module, and the attributes that name it."""
_WITHOUT_CALLS = "kernels of the model's author are such calls: do it by functions of jax.numpy and jax.lax"
_ADVICE = {
    "lapack": "JAX decomposes, inverts and solves matrices by LAPACK: do it in the program that calls the model, or by "
    "formulas, as of the determinant and inverse of small matrices",
    "ApproxTopK": "lax.top_k computes the same exactly",
}
"""What to do without calls whose names contain a word."""
_CONSTRAINT = re.compile(r"symbolic shape constraint (\w+) ([<>]=) (\d{1,9})\.")


def read(request: ReadMlir, report: Report) -> SourceModel:
    """The module of one function, without locations, for the version of StableHLO that the toolchain reads."""
    text = loading.text_of(request.path)
    if text is not None and dialect.is_dialect(text):
        return dialect.read(request.path, text, request.out)
    model = loading.loaded(request.path)
    with model.context:
        symbols = _limits(model.module)
    if request.out:
        _take_apart(model, request.out)
    return SourceModel(
        file=request.path,
        origin=model.origin,
        inputs=model.inputs,
        outputs=model.outputs,
        by_row=False,
        symbols=symbols,
    )


def _limits(module: ir.Module) -> dict[str, tuple[int, int]]:
    """The limits of symbols, from the assertions that JAX writes of its constraints: artifacts keep no others."""
    from jax._src.lib.mlir import ir

    found: dict[str, tuple[int, int]] = {}
    for each in loading.operations_in(module.operation):
        if each.name == "stablehlo.custom_call" and "error_message" in each.attributes:
            said = _CONSTRAINT.search(ir.StringAttr(each.attributes["error_message"]).value)
            if said:
                name, sign, number = said.groups()
                least, most = found.get(name, (1, 0))
                found[name] = (max(least, int(number)), most) if sign == ">=" else (least, int(number))
    return {name: limits for name, limits in found.items() if not limits[1] or limits[0] <= limits[1]}


def _take_apart(model: loading.Loaded, out: str) -> None:
    """Write the module and its large constants to the folder `out`."""
    from jax._src.lib.mlir import ir

    with model.context:
        _choose_platform(model)
        main = loading.main_of(model.module)
        transforms.replace(model.module, _inlined_in(model.module, main))
        _inlined_in(model.module, main)
        _refuse_calls(main)
        _keep_only(model.module, main)
        batching.expand(main)
        constants = _lifted(main, out)
        main.attributes["sym_name"] = ir.StringAttr.get("main")  # the name that TensorFlow looks for
        _write(model.module, os.path.join(out, modules.MODULE))
    kept = {place: _argument(tensor) for place, tensor in enumerate(model.inputs)}
    modules.write(
        out,
        modules.Description(
            calling_convention=min(model.calling_convention, _NEWEST_CONVENTION),
            arguments=(*(kept[place] for place in model.kept), *constants),
            unused=tuple(each for place, each in kept.items() if place not in model.kept),
            results=tuple(map(_argument, model.outputs)),
        ),
    )


def _argument(tensor: SourceTensor) -> modules.Argument:
    sizes = tuple(size if isinstance(size, int) else None for size in tensor.shape or ())
    return modules.Argument(name=tensor.name, dtype=tensor.dtype, shape=sizes, is_constant=False)


def _inlined_in(module: ir.Module, main: FuncOp) -> FuncOp:
    """`main` with all calls inlined, in any region and at any depth.

    A composite operation, as JAX writes `top_k` and `erf`, is a call of its decomposition.
    """
    from jax._src.lib.mlir import ir

    functions = {each.attributes["sym_name"].value: each for each in module.body.operations if each != main}
    waiting, count = [main.operation], 0
    while waiting:
        # A list, because inlining changes what is walked.
        for operation in list(loading.operations_in(waiting.pop())):
            called = _CALLS.get(operation.name)
            if called is None:
                continue
            count += 1
            callee = functions.get(ir.FlatSymbolRefAttr(operation.attributes[called]).value)
            if callee is None or count > _MOST_INLINED:
                raise ModelFault("the module calls a function that it does not have, or calls without an end")
            waiting += _inlined(operation, callee)
    return main


def _keep_only(module: ir.Module, main: FuncOp) -> None:
    """Remove all functions except `main` and those that its operations name (a window's reduction)."""
    kept = {
        name
        for each in loading.operations_in(main.operation)
        if "called_computations" in each.attributes
        for name in re.findall(r"@\"?([\w.$-]+)", str(each.attributes["called_computations"]))
    }
    for each in [each for each in module.body.operations if each != main]:
        if each.attributes["sym_name"].value not in kept:
            each.operation.erase()


def _refuse_calls(main: FuncOp) -> None:
    """ModelFault for calls of code that is not in the module, such as LAPACK's."""
    found = {
        each.attributes["call_target_name"].value
        for each in loading.operations_in(main.operation)
        if each.name == "stablehlo.custom_call"
    }
    if unknown := sorted(found - KNOWN_CALLS):
        raise ModelFault(
            f"the model calls code that is not in it: {', '.join(unknown)}",
            next((advice for part, advice in _ADVICE.items() if part in unknown[0]), _WITHOUT_CALLS),
        )


def _inlined(call: ir.Operation, callee: FuncOp) -> list[ir.Operation]:
    """The operations that replace `call`: those of a copy of `callee`."""
    body = callee.operation.clone().regions[0].blocks[0]
    for argument, value in zip(list(body.arguments), list(call.operands), strict=True):
        argument.replace_all_uses_with(value)
    *operations, last = [each.operation for each in body.operations]
    for each in operations:
        each.move_before(call)
    for result, value in zip(list(call.results), list(last.operands), strict=True):
        result.replace_all_uses_with(value)
    call.erase()
    return operations


def _choose_platform(model: loading.Loaded) -> None:
    """Replace the argument that chooses one of several platforms by the constant for CPUs."""
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import hlo

    main = loading.main_of(model.module)
    argument = loading.platform_argument(main)
    if argument is None:
        return
    block = main.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
        number = ir.IntegerAttr.get(argument.type.element_type, model.platforms.index("cpu"))
        constant = hlo.constant(ir.DenseElementsAttr.get_splat(argument.type, number))
    argument.replace_all_uses_with(constant)
    place = argument.arg_number
    block.erase_argument(place)
    _set_arguments(main, [each for at, each in enumerate(_attributes(main)) if at != place])


def _attributes(main: FuncOp) -> list[ir.Attribute]:
    """The attributes of each argument, as they were given."""
    return list(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else []


def _set_arguments(main: FuncOp, attributes: list[ir.Attribute]) -> None:
    """Set the type of `main` to that of its block's arguments, which have `attributes`."""
    from jax._src.lib.mlir import ir

    arguments = main.regions[0].blocks[0].arguments
    results = main.attributes["function_type"].value.results
    kind = ir.FunctionType.get([each.type for each in arguments], results)
    main.attributes["function_type"] = ir.TypeAttr.get(kind)
    if attributes:
        empty = ir.DictAttr.get({})
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes, *([empty] * (len(arguments) - len(attributes)))])


def _lifted(main: FuncOp, folder: str) -> list[modules.Argument]:
    """Replace large constants of `main` by arguments, one for equal constants, and write their values to files."""
    from jax._src.lib.mlir import ir

    block = main.regions[0].blocks[0]
    attributes = _attributes(main)
    found: list[modules.Argument] = []
    known: dict[ir.Attribute, ir.Value] = {}
    for operation in list(loading.operations_in(main.operation)):
        if operation.name != "stablehlo.constant" or not _is_large(operation):
            continue
        result, value = operation.results[0], operation.attributes["value"]
        # MLIR stores equal attributes once, so these are compared without reading their numbers.
        if value not in known:
            known[value] = block.add_argument(result.type, ir.Location.unknown())
            found.append(_written(value, f"constant_{len(found)}.bin", folder))
        result.replace_all_uses_with(known[value])
        operation.erase()
    _set_arguments(main, attributes)
    return found


def _written(value: ir.Attribute, name: str, folder: str) -> modules.Argument:
    from jax._src.lib.mlir import ir

    kind = ir.RankedTensorType(value.type)
    dtype = loading.dtype_of(kind.element_type)
    loading.write_values(os.path.join(folder, name), loading.values_of(value), dtype)
    return modules.Argument(name=name, dtype=dtype, shape=tuple(kind.shape), is_constant=True)


def _is_large(operation: ir.Operation) -> bool:
    from jax._src.lib.mlir import ir

    kind = ir.RankedTensorType(operation.results[0].type)
    # MLIR's bindings do not read complex numbers: they stay a part of the code.
    if math.prod(kind.shape) < _WEIGHTS_FROM or isinstance(kind.element_type, ir.ComplexType):
        return False
    return not operation.attributes["value"].is_splat


def _write(module: ir.Module, path: str) -> None:
    """Write portable bytecode of the oldest version that has all operations, so that most toolchains read it.

    Without locations: older readers do not know all of them.
    """
    from jax._src.lib.mlir import ir, passmanager
    from jax._src.lib.mlir.dialects import hlo

    hlo.register_stablehlo_passes()
    plain = ir.Module.parse(module.operation.get_asm(enable_debug_info=False))
    with plain.context:
        # Newer operations, as `tan`, by older ones.
        passmanager.PassManager.parse(f"builtin.module({_EXPANSION})").run(plain.operation)
        # Without this mark TensorFlow does not replace unknown sizes by those of a call.
        plain.operation.attributes["jax.uses_shape_polymorphism"] = ir.BoolAttr.get(True)
    newest = hlo.get_current_version()
    fault = ""
    for version in (*(f"1.{minor}.0" for minor in range(_OLDEST_MINOR, int(newest.split(".")[1]) + 1)), newest):
        try:
            content = hlo.serialize_portable_artifact(plain, version)
        except Exception as error:  # MLIR raises several kinds
            fault = one_line(error)
            continue
        with open(path, "wb") as file:
            file.write(content)
        return
    raise ModelFault(
        f"the model's StableHLO cannot be written as portable bytecode: {fault}",
        "remove what is not StableHLO from the module",
    )
