"""The answers of QONNX's executor: a quantized network, node by node in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from from_onnx import interpreter
from from_onnx.fixed_point import use_one_domain
from from_onnx.graphs import QONNX
from from_onnx.reading import keys_of
from messages import elements
from messages.requests import Reference

if TYPE_CHECKING:
    from framework_types import Array, Session
    from messages import open_results
    from onnx import ModelProto


loaded: dict[str, Any] = {}
"""The last file that was requested: one validation asks for it many times."""
_MOST_SIZES = 64
"""The most sizes of inputs of which a model is kept."""


class QonnxModel:
    """Runs a file with `qonnx.core.onnx_exec.execute_onnx`, node by node in float32."""

    def __init__(self, request: Reference) -> None:
        from importlib.metadata import version

        from onnxruntime.capi import onnxruntime_pybind11_state as state

        self.version = version("qonnx")
        # Of all faults of the executor's own it raises Exception itself: they end the command.
        self.rejections = (state.Fail, state.InvalidArgument, state.RuntimeException, ValueError)
        self.not_walked = (interpreter.CannotWalk,)
        if loaded.get("file") != request.folder:
            loaded.clear()
            loaded.update(file=request.folder, model=_model(request.folder), sized={})
        model = loaded["model"]
        self.operations = sorted({_kind(node.domain, node.op_type) for node in model.graph.node})
        types = _types(model)
        keys = keys_of(types, "input")
        self._constants = {
            keys[name]: elements.given(values, types[keys[name]]) for name, values in request.constants.items()
        }
        self._feeds, self._fetches = request.feeds, request.fetches
        self.dtypes = {name: types[key] for name, key in self._feeds.items()}

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        return self._named(answers_of, feeds)

    def walk(
        self, feeds: dict[str, Array], *, double: bool, observe: Callable[[open_results.Node], None] | None
    ) -> dict[str, Array]:
        """As `run`, by ONNX's reference implementation (interpreter.py). Raises CannotWalk."""
        if "walk" not in loaded:
            model = type(loaded["model"])()
            model.CopyFrom(loaded["model"])
            loaded["walk"] = interpreter.Walk(model, _operators())
        walk = loaded["walk"]
        return self._named(lambda wanted, given: walk.run(wanted, given, double=double, observe=observe), feeds)

    def _named(
        self, run: Callable[[list[str], dict[str, Array]], list[Array]], feeds: dict[str, Array]
    ) -> dict[str, Array]:
        names = sorted(self._fetches)
        given = self._constants | {self._feeds[name]: values for name, values in feeds.items()}
        found = run([self._fetches[name] for name in names], given)
        return {name: elements.numbers(values, values.dtype.name) for name, values in zip(names, found, strict=True)}


def _model(file: str) -> ModelProto:
    import onnx

    model: ModelProto = onnx.load(file)
    use_one_domain(model)
    return model


def _types(model: ModelProto) -> dict[str, str]:
    import onnx

    initialized = {each.name for each in model.graph.initializer}
    return {
        each.name: onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type).name
        for each in model.graph.input
        if each.name not in initialized
    }


def _kind(domain: str, operator: str) -> str:
    return f"qonnx.{operator}" if domain == QONNX else f"ai.onnx.{operator}"


def answers_of(wanted: list[str], given: dict[str, Array]) -> list[Array]:
    """Values of the loaded model by name, as qonnx's executor computes them from `given`."""
    from qonnx.core import onnx_exec

    sizes = tuple(sorted((name, *values.shape) for name, values in given.items()))
    sized = loaded["sized"]
    if sizes not in sized:
        while len(sized) >= _MOST_SIZES:
            del sized[next(iter(sized))]
        sized[sizes] = _sized(loaded["model"], {name: values.shape for name, values in given.items()})
    onnx_exec.rt = _Sessions
    with np.errstate(all="ignore"):
        found = onnx_exec.execute_onnx(sized[sizes], given)
    return [np.asarray(found[name]) for name in wanted]


class _Sessions:
    """ONNX Runtime for the executor, which makes a session of each node whenever this is run: they are kept.

    One thread each, as there are many of them; no sum within a node is divided among threads.
    """

    _kept: Mapping[bytes, Session] = {}

    @classmethod
    def InferenceSession(cls, model: bytes) -> Session:  # noqa: N802 (ONNX Runtime's name)
        import onnxruntime

        if model not in cls._kept:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 3
            made = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            cls._kept = dict([*cls._kept.items(), (model, made)][-_MOST_SESSIONS:])
        return cls._kept[model]


_MOST_SESSIONS = 1 << 10


def _sized(model: ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """The model with sizes for all of its values, which the executor asks for."""
    from qonnx.core.modelwrapper import ModelWrapper
    from qonnx.transformation.fold_constants import FoldConstants
    from qonnx.transformation.general import RemoveStaticGraphInputs
    from qonnx.transformation.infer_shapes import InferShapes

    copy = type(model)()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for value in (*copy.graph.input, *copy.graph.output):
        if value.name in shapes:
            value.type.tensor_type.ClearField("shape")
            for size in shapes[value.name]:
                value.type.tensor_type.shape.dim.add().dim_value = size
        elif all(value.name != each.name for each in copy.graph.initializer):
            value.type.tensor_type.ClearField("shape")
    made = ModelWrapper(copy).transform(RemoveStaticGraphInputs()).transform(InferShapes())
    if not made.check_all_tensor_shapes_specified():
        # Shapes that the graph computes: those of reshapes.
        kept = sorted({node.op_type for node in copy.graph.node if node.domain == QONNX})
        made = made.transform(FoldConstants(exclude_op_types=kept)).transform(InferShapes())
    return made


def _operators() -> list[type]:
    """QONNX's operators for the reference implementation of the ONNX package, in float64, too."""
    from onnx.reference.op_run import OpRun
    from qonnx.custom_op.general.bipolar_quant import binary_quant
    from qonnx.custom_op.general.intquant import int_quant
    from qonnx.custom_op.general.trunc import trunc_v1, trunc_v2

    def quantized(x: Array, *given: Any, signed: int = 1, narrow: int = 1, rounding_mode: str = "ROUND") -> Array:
        return np.asarray(int_quant(x, *given, signed, narrow, rounding_mode), x.dtype)

    class Quant(OpRun):  # type: ignore[misc]  # its class has no types in tools/stubs
        op_domain = QONNX

        def _run(self, *given: Array, **attributes: Any) -> tuple[Array]:
            return (quantized(*given, **attributes),)

    class IntQuant(OpRun):  # type: ignore[misc]
        op_domain = QONNX

        def _run(self, *given: Array, **attributes: Any) -> tuple[Array]:
            return (quantized(*given, **attributes),)

    class BipolarQuant(OpRun):  # type: ignore[misc]
        op_domain = QONNX

        def _run(self, x: Array, scale: Array) -> tuple[Array]:
            return (np.asarray(binary_quant(x, scale), x.dtype),)

    class Trunc(OpRun):  # type: ignore[misc]
        op_domain = QONNX

        def _run(self, *given: Array, narrow: int = 0, signed: int = 1, rounding_mode: str = "FLOOR") -> tuple[Array]:
            x = given[0]
            if len(given) == 5:
                return (np.asarray(trunc_v1(*given, rounding_mode), x.dtype),)
            return (np.asarray(trunc_v2(*given[:4], narrow, signed, *given[4:], rounding_mode), x.dtype),)

    return [Quant, IntQuant, BipolarQuant, Trunc]
