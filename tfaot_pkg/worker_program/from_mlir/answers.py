"""JAX's own answers: artifacts of jax.export are called, other modules compiled for the sizes of each batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from from_mlir import loading
from messages import elements
from messages.requests import Reference

if TYPE_CHECKING:
    from framework_types import Array
    from jax._src.lib.mlir import ir


_loaded: dict[str, Any] = {}
"""The last model that was requested: one validation asks for it many times."""


class JaxModel:
    """The model in `request.folder`, a file."""

    def __init__(self, request: Reference) -> None:
        import jax

        self.version = jax.__version__
        # Without it JAX would convert float64 inputs to float32. Exported functions keep the types that they have.
        jax.config.update("jax_enable_x64", True)
        self.rejections = (ValueError, TypeError, jax.errors.JaxRuntimeError)
        if _loaded.get("file") != request.folder:
            _loaded.clear()
            _loaded["model"] = loading.loaded(request.folder)
            _loaded["compiled"] = {}
            _loaded["file"] = request.folder
        self._model, self._compiled = _loaded["model"], _loaded["compiled"]
        self._feeds = {key: name for name, key in request.feeds.items()}
        self._fetches = request.fetches
        self.dtypes = {self._feeds[tensor.key]: tensor.dtype for tensor in self._model.inputs}
        self._constants = {
            tensor.key: elements.given(request.constants[tensor.name], tensor.dtype)
            for tensor in self._model.inputs
            if tensor.name in request.constants
        }
        self.operations = _operations(self._model.module)

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        held = self._constants | {key: feeds[name] for key, name in self._feeds.items() if name in feeds}
        # bfloat16 is held as uint16, which has its bits.
        given = [held[tensor.key].view(loading.numpy_type(tensor.dtype)) for tensor in self._model.inputs]
        found = [np.asarray(each) for each in self._call(given)]
        return {
            name: elements.numbers(found[int(key)], found[int(key)].dtype.name) for name, key in self._fetches.items()
        }

    def _call(self, given: list[Array]) -> list[Any]:
        import jax

        exported = self._model.exported
        if exported is None:
            shapes = tuple(values.shape for values in given)
            # Other sizes are another program for XLA: each is compiled once.
            if shapes not in self._compiled:
                self._compiled[shapes] = _compiled(self._model, given)
            results: list[Any] = self._compiled[shapes](given)
            return results
        positional, keywords = jax.tree_util.tree_unflatten(exported.in_tree, given)
        leaves: list[Any] = jax.tree_util.tree_leaves(exported.call(*positional, **keywords))
        return leaves


def _operations(module: ir.Module) -> list[str]:
    """The names of all operations of StableHLO in it; of conversions only if one makes integers of other numbers."""
    every = loading.operations_in(module.operation)
    return sorted({each.name for each in every if each.name != "stablehlo.convert" or _rounds(each)})


def _rounds(conversion: ir.Operation) -> bool:
    """Whether it leaves numbers out of range open. Others do not, nor does one to i1, which says whether it is zero."""
    from jax._src.lib.mlir import ir

    before, after = (ir.ShapedType(each.type).element_type for each in (*conversion.operands, *conversion.results))
    return isinstance(after, ir.IntegerType) and after.width > 1 and not isinstance(before, ir.IntegerType)


def _compiled(model: loading.Loaded, given: list[Array]) -> Callable[[list[Array]], list[Any]]:
    """A function from arrays to arrays: the module with the shapes of `given`, compiled by XLA for CPUs."""
    import jax
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir, passmanager
    from jax._src.lib.mlir.dialects import hlo

    hlo.register_stablehlo_passes()
    with model.context, ir.Location.unknown():
        # A copy, because the passes change it, and the next sizes need it as it was.
        module = ir.Module.parse(model.module.operation.get_asm(enable_debug_info=False))
        main = loading.main_of(module)
        main.attributes["sym_name"] = ir.StringAttr.get("main")
        kinds = [
            ir.RankedTensorType.get(values.shape, ir.RankedTensorType(argument.type).element_type)
            for values, argument in zip(given, main.regions[0].blocks[0].arguments, strict=True)
        ]
        # The sizes of this batch become types of arguments here; the call below infers all other types from them.
        passes = f"builtin.module(stablehlo-refine-arguments{{types={','.join(map(str, kinds))}}})"
        passmanager.PassManager.parse(passes).run(module.operation)
        code = mlir.module_to_bytecode(mlir.refine_polymorphic_shapes(module))
    # JAX has no public function that compiles a module, so its internal ones do: its version is pinned (decision 049).
    client = jax.devices("cpu")[0].client
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
    executable = client.compile_and_load(code, devices, options)

    def run(arrays: list[Array]) -> list[Any]:
        found = executable.execute_sharded([jax.device_put(each, client.local_devices()[0]) for each in arrays])
        # One array for each device, of which there is one.
        return [each[0] for each in found.disassemble_into_single_device_arrays()]

    return run
