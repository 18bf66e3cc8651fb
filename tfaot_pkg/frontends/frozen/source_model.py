"""A model in its own framework: the framework's report about the file, and the request for its answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.frontends.frozen.aten_file import MODULE, described
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, Frontend
from tfaot_pkg.frontends.toolchain.worker import TENSORFLOW, Worker, WorkerPool, from_worker, unreadable
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.spec.formats import Format
from tfaot_pkg.spec.recognition import TMVA, library_of
from tfaot_pkg.spec.types import ModelInfo
from tfaot_pkg.worker_program.messages import graph as messages
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.requests import Counted, Reference
from tfaot_pkg.worker_program.messages.sources import (
    ReadConifer,
    ReadHls4ml,
    ReadMlir,
    ReadOnnx,
    ReadTrees,
    Sizes,
    SourceModel,
    SourceTensor,
    TreesCall,
    TreesFacts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The model that a package's answers are compared with.

    `path` is a SavedModel's folder or the file for `frontend`, which is None for TensorFlow. `feeds` and `fetches` are
    the framework's names of inputs and outputs by ours. `origin` names the software that wrote the file ("" if
    unknown). With `by_row` the framework computes one row at a time. `constants` are the values of inputs that never
    change, by the file's names. `answers` is a file of inputs and outputs that were stored when the model was exported,
    and `answered_by` the framework and version that computed them; None if the model's file has none. `library` is the
    framework's name, "" for `frontend`'s. `operations` are those that it lacks; their references run elsewhere.
    `counts` are those of `model.counts`, outputs that this tool adds. `notes` say what its file leaves open.
    `stored` is the file with all answers, if no framework can be asked.
    Of decision trees, `call` is the spec's, `trees` what is computed, and `rows` the file of rows at which their
    answers change.
    """

    path: Path
    tags: tuple[str, ...]
    signature: str
    frontend: Frontend | None = None
    origin: str = ""
    feeds: Mapping[str, str] = field(default_factory=dict)
    fetches: Mapping[str, str] = field(default_factory=dict)
    by_row: bool = False
    constants: Mapping[str, Values] = field(default_factory=dict)
    answered_by: str = ""
    answers: Path | None = None
    library: str = ""
    operations: tuple[str, ...] = ()
    counts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    call: TreesCall = field(default_factory=TreesCall)
    trees: TreesFacts | None = None
    rows: Path | None = None
    stored: Path | None = None

    @classmethod
    def saved_model(cls, model: ModelInfo, folder: Path) -> Original:
        return cls(path=folder, tags=model.tags, signature=model.serving_key)

    @classmethod
    def of(cls, model: ModelInfo, frontend: Frontend, source: SourceModel, parts: Path | None = None) -> Original:
        """The model of `source`; `parts` is the folder of the files made from its file."""
        # By the package's names, which the spec may have changed; the framework knows the file's names only.
        inputs = _ours(model.input_keys, model.inputs)
        outputs = _ours(model.output_keys, model.outputs)
        return cls(
            path=Path(source.file),
            tags=(),
            signature="",
            frontend=frontend,
            origin=source.origin,
            feeds={inputs.get(each.name, each.name): each.key for each in source.inputs},
            fetches={outputs.get(each.name, each.name): each.key for each in source.outputs},
            by_row=source.by_row,
            constants=model.constants,
            answered_by=source.answered_by,
            answers=parts / ANSWERS if source.answered_by and parts else None,
            library=source.library,
            counts={outputs.get(name, name): outputs.get(count, count) for name, count in model.counts.items()},
            notes=source.notes,
            call=model.call,
            trees=source.trees,
            rows=parts / ROWS if source.trees is not None and parts else None,
            stored=parts / MODULE if frontend.framework == "aten" and parts else None,
        )

    @property
    def name(self) -> str:
        """The framework's name, for sentences."""
        return TENSORFLOW if self.frontend is None else self.library or self.frontend.reference

    def require_version(self, told: str, tensorflow: str) -> str:
        """The framework's version as a worker `told` it, if the environment's lock file has it for this framework.

        Or one that `origin` states, or none, of formulas that no library computes (TMVA's). `tensorflow` is the
        toolchain's. Raises ToolchainError.
        """
        if self.frontend is None:
            known = {tensorflow}
        elif self.name == TMVA:
            known = {"", *self.origin.split()}
        else:
            known = set(self.frontend.versions_of(self.name))
        if told not in known:
            raise unreadable(engine=self.name)
        return told

    def worker(self, pool: WorkerPool) -> Worker:
        """A worker that computes its answers."""
        return pool.get(frontend=self.frontend)

    def reference(self, *, inputs: Path, out: Path, batch_sizes: tuple[int, ...], signature: Signature) -> Reference:
        """The request for its answers (worker_program/reference.py); `signature` is that of the package."""
        framework = "tensorflow" if self.frontend is None else self.frontend.framework
        assert framework != "aten", "nobody can be asked: see verify/stored.py"
        return Reference(
            folder=str(self.path),
            tags=self.tags,
            signature=self.signature,
            inputs=str(inputs),
            out=str(out),
            batch_sizes=batch_sizes,
            batched=tuple(tensor.name for tensor in signature.inputs if tensor.has_batch_axis),
            stacked=tuple(tensor.name for tensor in signature.outputs if tensor.has_batch_axis),
            framework=framework,
            feeds=self.feeds,
            fetches=self.fetches,
            by_row=self.by_row,
            operations=self.operations,
            constants=self.constants,
            counted=self.counted(signature),
            call=self.call,
        )

    def counted(self, signature: Signature) -> dict[str, Counted]:
        """The outputs whose number of rows depends on values, by name; `signature` is that of the package."""
        return {
            each.name: _counted(each, self.counts[each.name], signature)
            for each in signature.outputs
            if each.name in self.counts
        }


def _counted(output: Tensor, count: str, signature: Signature) -> Counted:
    """The number of rows of `output`, if the output `count` says how many of them hold values."""
    # As many as an input that has the same batch or the same symbol, or a fixed number.
    symbol = output.axes[0] if output.axes else ""
    for each in signature.inputs:
        if output.has_batch_axis and each.has_batch_axis:
            return Counted(count=count, rows=0, like=each.name)
        if symbol and symbol in each.axes:
            return Counted(count=count, rows=0, like=each.name, axis=each.axes.index(symbol))
    return Counted(count=count, rows=output.shape[0] or 0)


def _ours(keys: tuple[str, ...], names: tuple[str, ...]) -> dict[str, str]:
    # There are no keys if the spec renames nothing (ModelInfo).
    return dict(zip(keys, names, strict=False))


def source_shapes(model: ModelInfo) -> dict[str, Sizes]:
    """The spec's shapes, with the names of symbols, by the file's names of inputs."""
    theirs = dict(zip(model.inputs, model.input_keys, strict=False))
    return {
        theirs.get(name, name): tuple(
            symbol or size for symbol, size in zip(model.axes.get(name) or ("",) * len(shape), shape, strict=True)
        )
        for name, shape in model.shapes.items()
    }


_Request = Callable[[str, Mapping[str, Sizes], str, tuple[str, ...], Mapping[str, Values], TreesCall], object]

_REQUESTS: Mapping[Format, _Request] = {
    # Files of PyTorch contain the ONNX form that tfaot_pkg/export wrote (decision 054).
    **dict.fromkeys(
        ("onnx", "torch"),
        lambda path, shapes, out, operations, constants, _: ReadOnnx(
            path=path, shapes=shapes, out=out, operations=operations, constants=constants
        ),
    ),
    "qonnx": lambda path, shapes, out, _, constants, __: ReadOnnx(
        path=path, shapes=shapes, out=out, qonnx=True, constants=constants
    ),
    "hls4ml": lambda path, _, out, *__: ReadHls4ml(path=path, out=out),
    "conifer": lambda path, _, out, *__: ReadConifer(path=path, out=out),
    "jax": lambda path, _, out, *__: ReadMlir(path=path, out=out),
    "mlir": lambda path, _, out, *__: ReadMlir(path=path, out=out),
    "trees": lambda path, _, out, *more: ReadTrees(path=path, out=out, call=more[-1]),
}


def read_source(
    wanted: Format,
    path: Path,
    pool: WorkerPool,
    *,
    shapes: Mapping[str, Sizes] | None = None,
    out: Path | None = None,
    operations: tuple[str, ...] = (),
    constants: Mapping[str, Values] | None = None,
    call: TreesCall | None = None,
) -> SourceModel:
    """The framework's description of the file at `path`; its graph is written to the folder `out`, if there is one.

    `shapes` are those of inputs that the spec sets, `constants` values of inputs; `call` is that of decision
    trees. Raises ModelError, ToolchainError.
    """
    if wanted == "aten":  # JSON and the bytes of arrays, which no framework reads
        return described(path, out)
    place = "" if out is None else str(out)
    request = _REQUESTS[wanted](str(path), shapes or {}, place, operations, constants or {}, call or TreesCall())
    found = pool.get(frontend=FRONTENDS[wanted]).call(request, SourceModel)
    with from_worker():
        require_known(found, FRONTENDS[wanted], path, out)
    return found


def require_known(found: SourceModel, frontend: Frontend, path: Path, out: Path | None) -> None:
    """Raise ValueError if a worker names another file than the one at `path`, or frameworks that it cannot know.

    Its words stand in signed reports, and the file that it names gives the answers that packages are compared with.
    """
    file, several = Path(found.file), len(frontend.engines) > 1
    # A file of a folder that was named, or one that was unpacked to `out`; plain names only, which lead nowhere else.
    below = [path / file.name, *([] if out is None else [out / file.name])]
    _require(file == path or (file in below and file.name != ".."), "another file")
    _require(found.library in frontend.engines if several else not found.library, "a library that it does not have")
    _require((found.trees is not None) == several, "facts of trees")
    _require(found.trees is None or found.trees.library == found.library, "two libraries")
    _require(not several or library_of(path) == found.library, "a library that did not write the file")
    _require(not found.answered_by or _is_exporter(found.answered_by, frontend), "answers of no exporter")
    _require(found.has_answers or frontend.framework == "jax", "no answers")


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(f"a worker tells of {what}")


def _is_exporter(told: str, frontend: Frontend) -> bool:
    """Whether `told` is "PyTorch VERSION" (tfaot_pkg/export)."""
    return frontend.framework == "onnx" and re.fullmatch(r"PyTorch [\w.+]{1,40}", told, re.ASCII) is not None


ANSWERS, ROWS = "answers.npz", "rows.npz"
"""See worker_program/from_onnx/exported.py and from_trees/rows.py."""

_MOST = 128
"""The maximum that a first spec proposes for an axis without a size. Only the user knows the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedShapes:
    """Shapes of inputs with axes of unknown size, as fields of ModelInfo."""

    shapes: Mapping[str, tuple[int | None, ...]]
    axes: Mapping[str, tuple[str, ...]]
    symbols: tuple[Symbol, ...]


def with_names_of_axes(found: messages.Interface) -> SourceModel:
    """A signature of TensorFlow, whose axes have no names, with a name for each axis without a size.

    Axes at the same position of several inputs get the same name: that is right for more models than different names.
    If the first axis of an input is fixed and another one is not, as of edges ([2, n]) beside nodes, none is a batch.
    """
    shapes = [each.shape for each in found.inputs if each.shape]
    are_rows = not any(shape[0] is not None and None in shape for shape in shapes)
    places = {place for shape in shapes for place, size in enumerate(shape) if size is None and (place or not are_rows)}
    names = {place: "n" if len(places) == 1 else f"n{place}" for place in places}

    def named(tensors: tuple[messages.Tensor, ...], names: Mapping[int, str]) -> tuple[SourceTensor, ...]:
        shapes = [
            None
            if each.shape is None
            else tuple(names.get(i) if size is None else size for i, size in enumerate(each.shape))
            for each in tensors
        ]
        return tuple(
            SourceTensor(name=each.name, key=each.name, dtype=each.dtype, shape=shape)
            for each, shape in zip(tensors, shapes, strict=True)
        )

    return SourceModel(
        file="", origin="", inputs=named(found.inputs, names), outputs=named(found.outputs, {}), by_row=False
    )


def proposed_shapes(source: SourceModel) -> ProposedShapes:
    """Symbols for the axes of inputs that have no size in the file, with the file's names."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    axes: dict[str, tuple[str, ...]] = {}
    names: dict[str, str] = {}
    for tensor in source.inputs:
        # The first axis without a size and a name is the batch, which needs no symbol.
        found = tuple(
            _symbol(size, names, f"{tensor.name} {place}")
            if not isinstance(size, int) and (place or size is not None)
            else ""
            for place, size in enumerate(tensor.shape or ())
        )
        if any(found):
            axes[tensor.name] = found
            shapes[tensor.name] = tuple(
                _MOST if symbol else size if isinstance(size, int) else None
                for symbol, size in zip(found, tensor.shape or (), strict=True)
            )
    limits = {names[key]: found for key, found in source.symbols.items() if key in names}
    symbols = tuple(
        # Without a maximum in the file, one that is above its minimum.
        Symbol(name=name, minimum=least, maximum=most or max(_MOST, 2 * least))
        for name in sorted(set(names.values()))
        for least, most in [limits.get(name, (1, _MOST))]
    )
    largest = {symbol.name: symbol.maximum for symbol in symbols}
    shapes = {
        name: tuple(largest.get(symbol, size) for symbol, size in zip(axes[name], shape, strict=True))
        for name, shape in shapes.items()
    }
    return ProposedShapes(shapes=shapes, axes=axes, symbols=symbols)


def _symbol(size: str | None, names: dict[str, str], place: str) -> str:
    """The name of the symbol for an axis that the file calls `size`, or that has only its `place`."""
    # Axes with the same name in the file are one symbol; an axis without a name equals no other one.
    key = size if size is not None else place
    if key not in names:
        names[key] = symbol_name(size or "n", names.values())
    return names[key]


def symbol_name(like: str, taken: Iterable[str]) -> str:
    """A name of a symbol after `like` that none of `taken` has."""
    # Specs allow names of 32 characters (spec/rules.py): this leaves room for `n_` and a number.
    wanted = re.sub(r"^[^A-Za-z]+", "", re.sub(r"\W+", "_", like, flags=re.ASCII))[:24] or "n"
    # `batch` names the batch in a spec's shapes, and this is another axis.
    wanted = "n_batch" if wanted == "batch" else wanted
    others, number, unique = {*taken}, 1, wanted
    while unique in others:
        number += 1
        unique = f"{wanted}{number}"
    return unique


def proposed_signature(source: SourceModel, proposed: ProposedShapes) -> Signature:
    """The signature for the comments of a first spec. Raises ValueError for dtypes that libraries do not have."""

    def tensors(found: tuple[SourceTensor, ...]) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(
                name=each.name,
                dtype=DType(each.dtype),
                shape=proposed.shapes.get(
                    each.name, tuple(size if isinstance(size, int) else None for size in each.shape or ())
                ),
                axes=proposed.axes.get(each.name, ()),
            )
            for each in sorted(found, key=lambda each: each.name)
        )

    return Signature(inputs=tensors(source.inputs), outputs=tensors(source.outputs))
