"""Runs ONNX files with ONNX Runtime, on one thread. Only with `jit` it rewrites the graph for speed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from from_onnx import interpreter
from from_onnx.authored_nodes import CutSession, nodes_of
from from_onnx.borders import as_numbers
from from_onnx.reading import keys_of
from from_onnx.sessions import session
from from_onnx.unsigned import make_unsigned
from messages import elements
from messages.requests import Reference

if TYPE_CHECKING:
    from framework_types import Array, Session
    from messages import open_results
    from onnx import ModelProto


_loaded: dict[str, Any] = {}
"""The last file that was requested, and its session: one validation asks for it many times."""


_NAMES = {"tensor(float)": "float32", "tensor(double)": "float64"}
"""Types whose names differ from NumPy's."""


class OnnxModel:
    def __init__(self, request: Reference) -> None:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        self.version = onnxruntime.__version__
        self.rejections = (
            # It raises these for inputs that a model rejects; its other exceptions are faults of the model or ours.
            state.Fail, state.InvalidArgument, state.RuntimeException, ValueError,
        )  # fmt: skip
        self.not_walked = (interpreter.CannotWalk,)
        if _loaded.get("file") != request.folder:
            _loaded.clear()
            _loaded["session"] = _session_of(request, fusing=False)
            _loaded["operations"] = _operations(request.folder)
            _loaded["file"] = request.folder
        if request.jit and "fused" not in _loaded:
            _loaded["fused"] = _session_of(request, fusing=True)
        self._session = _loaded["fused" if request.jit else "session"]
        self._feeds, self._fetches = request.feeds, request.fetches
        self._batched = request.batched
        self._rows_of = frozenset(request.stacked) - set(request.counted)
        self._file, self._authored = request.folder, bool(request.operations)
        types = self._session.types if request.operations else _types(self._session)
        keys = keys_of(types, "input")
        self._constants = {
            keys[name]: elements.given(values, types[keys[name]]) for name, values in request.constants.items()
        }
        self.dtypes = {name: types[key] for name, key in self._feeds.items()}
        self.operations = _loaded["operations"]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        return self._named(self._session.run, feeds)

    def walk(
        self, feeds: dict[str, Array], *, double: bool, observe: Callable[[open_results.Node], None] | None
    ) -> dict[str, Array]:
        """As `run`, node by node (interpreter.py). Raises CannotWalk."""
        if self._authored:
            raise interpreter.CannotWalk("operators of the model's author")
        if "walk" not in _loaded:
            import onnx

            model = onnx.load(self._file)
            as_numbers(model)
            _loaded["walk"] = interpreter.Walk(model)
        walk = _loaded["walk"]
        return self._named(lambda wanted, given: walk.run(wanted, given, double=double, observe=observe), feeds)

    def _named(
        self, run: Callable[[list[str], dict[str, Array]], list[Array]], feeds: dict[str, Array]
    ) -> dict[str, Array]:
        names = sorted(self._fetches)
        given = self._constants | {self._feeds[name]: values for name, values in feeds.items()}
        found = run([self._fetches[name] for name in names], given)
        is_one_row = any(len(feeds[name]) == 1 for name in self._batched)
        return {
            name: _with_rows(numbers) if is_one_row and name in self._rows_of else numbers
            for name, values in zip(names, found, strict=True)
            for numbers in [elements.numbers(values, values.dtype.name)]
        }


def _with_rows(answer: Array) -> Array:
    """The `answer` for one row with its first axis, which a Squeeze without axes leaves out."""
    return answer if answer.ndim and len(answer) == 1 else answer[None]


def _types(session: Session) -> dict[str, str]:
    # The name of a type is in parentheses: `tensor(int64)`.
    return {each.name: _NAMES.get(each.type, each.type[7:-1]) for each in session.get_inputs()}


def _session_of(request: Reference, *, fusing: bool) -> Any:
    return _cut(request, fusing=fusing) if request.operations else _whole(request.folder, fusing=fusing)


def _cut(request: Reference, *, fusing: bool) -> CutSession:
    import onnx

    model = onnx.load(request.folder)
    _change(model)
    return CutSession(model, request.operations, partial(session, fusing=fusing))


def _whole(file: str, *, fusing: bool) -> Session:
    """A session of the file, with numbers instead of strings and maps, which answers of a library cannot be."""
    import onnx

    model = onnx.load(file, load_external_data=False)
    before = model.SerializeToString()
    _change(model)
    after = model.SerializeToString()
    return session(file, fusing=fusing) if before == after else session(after, beside=file, fusing=fusing)


def _change(model: ModelProto) -> None:
    as_numbers(model)
    make_unsigned(model)
    _sort(model)


def _sort(model: ModelProto) -> None:
    """Make each TopK with `sorted=0`, whose order the standard leaves open, give its elements in order."""
    for node in nodes_of(model):
        for attribute in node.attribute if node.op_type == "TopK" else ():
            if attribute.name == "sorted":
                attribute.i = 1


def _operations(file: str) -> list[str]:
    """The kinds of nodes, also as `ai.onnx.NAME`: TensorFlow has operations of the same names."""
    import onnx

    found = {node.op_type for node in nodes_of(onnx.load(file, load_external_data=False))}
    return sorted(found | {f"ai.onnx.{name}" for name in found})
