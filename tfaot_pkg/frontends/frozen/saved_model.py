"""`SavedModel`: the model of a spec in the form that workers read, for any format of its files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tfaot_pkg.frontends.frozen.source_model import Original, read_source, source_shapes
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS
from tfaot_pkg.frontends.toolchain.references import References
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.spec.source.tree import Snapshot, SourceTree
from tfaot_pkg.spec.types import (
    NO_VARIABLES,
    FrameworkFile,
    GraphFile,
    KerasFile,
    ModelInfo,
    SavedModelFiles,
    Signature,
    Variables,
)
from tfaot_pkg.worker_program.messages.conversions import (
    ConvertGraph,
    ConvertKeras,
    Expose,
    GraphFiles,
    Join,
    JoinedSignature,
    Lift,
    Lifted,
    Pin,
    Rename,
    StateTensor,
)
from tfaot_pkg.worker_program.messages.requests import Nothing
from tfaot_pkg.worker_program.messages.sources import BuildMlir, SourceModel

_GRAPH, _VALUES = "saved_model.pb", "values.bin"
# For references of operations (Python functions of the model's author), which may not end.
_CONVERTER = -1
"""The number of the worker that converts a file: code in the file must not run beside later requests."""


class SavedModel:
    """The SavedModel of `model`: a private copy of the files of `source`, or the result of their conversion.

    Without TensorFlow there is none: `folder` has the parts that the front-end wrote, for the host.
    The `variables` that stay variables are inputs and outputs of it (worker_program/lifting.py).

    Nothing is copied or converted before its first use: a build that finds everything in the cache reads no file of the
    model.
    """

    def __init__(
        self, model: ModelInfo, source: SourceTree, pool: WorkerPool, variables: Variables = NO_VARIABLES
    ) -> None:
        self._model = model
        self._variables = variables
        self._snapshot = Snapshot(source, pool.given_folder)
        self._pool = pool
        self._made: Path | None = None
        self._source: SourceModel | None = None
        self._parts: Path | None = None
        self._drawing: Path | None = None
        self._lifted: tuple[tuple[StateTensor, ...], Path | None] = ((), None)

    @property
    def folder(self) -> Path:
        """Its folder, which workers can read. Raises ModelError, SourceError, StorageError, ToolchainError."""
        # Set after all steps succeeded: a second use must not see half of the changes.
        if self._made is None:
            folder = self._converted()
            if self._pool.environment.toolchain.has_tensorflow:
                self._change(folder)
                if self._variables:
                    self._lifted = self._lift(folder)
            self._made = folder
        return self._made

    @property
    def drawing(self) -> Path | None:
        """The SavedModel before its seed became an input, with its own names; None without `model.seed`."""
        _ = self.folder
        return self._drawing

    @property
    def original(self) -> Original:
        """The model that answers are compared with: the file in its own framework, or the SavedModel."""
        folder = self.folder
        # Without a front-end, or with one that has no answers of its own, TensorFlow's answers count.
        if self._source is None or not self._source.has_answers:
            origin = "" if self._source is None else self._source.origin
            return replace(Original.saved_model(self._model, folder), origin=origin)
        found = Original.of(self._model, FRONTENDS[self._model.files.format], self._source, self._parts)
        return replace(found, operations=self._supplied())

    @property
    def state(self) -> tuple[tuple[StateTensor, ...], Path | None]:
        """The variables that are inputs and outputs of it, and the file of their trained values, if there are any.

        Raises what `folder` raises.
        """
        _ = self.folder
        return self._lifted

    @contextmanager
    def named(self) -> Iterator[Path]:
        """`folder`; errors raised in the block name the user's files instead of the copy."""
        with self._snapshot.named():
            yield self.folder

    def described(self) -> SourceModel:
        """The framework's description of the model's file, for formats of FRONTENDS. Converts nothing."""
        with self._snapshot.named() as path:
            return read_source(self._model.files.format, path, self._pool, call=self._model.call)

    def parts(self) -> Path:
        """The folder with the files that a front-end makes of the model's file. Raises as `folder`."""
        with self._snapshot.named():
            return Path(self._read())

    @contextmanager
    def reading(self) -> Iterator[None]:
        """As `named`, for a block that reads the files themselves."""
        with self._snapshot.named():
            yield

    def operations(self) -> dict[str, tuple[Path, Path]]:
        """The copies of source and reference of each operation that the author supplies. Raises as `folder`."""
        _ = self._snapshot.model
        return {
            name: (self._snapshot.beside(files.source), self._snapshot.beside(files.reference))
            for name, files in self._model.operations.items()
        }

    def _supplied(self) -> tuple[str, ...]:
        """The names of these operations; from here on, workers may ask for results of their references."""
        files = {name: reference for name, (_, reference) in self.operations().items()}
        References(self._pool, files)
        return tuple(files)

    def graph_files(self) -> GraphFiles:
        """The copies of a graph's files. Raises SourceError, StorageError."""
        files, graph = self._model.files, self._snapshot.model
        assert isinstance(files, GraphFile)
        config, checkpoint = (
            str(self._snapshot.beside(place)) if place else "" for place in (files.config, files.checkpoint)
        )
        return GraphFiles(graph=str(graph), config=config, checkpoint=checkpoint)

    def _converted(self) -> Path:
        if not self._pool.environment.toolchain.has_tensorflow:
            return Path(self._read())
        match self._model.files:
            # The snapshot is a private copy already, so `_change` may change it.
            case SavedModelFiles():
                return self._snapshot.model
            case KerasFile(answers=answers):
                file = str(self._snapshot.model)
                return self._made_by(lambda out: ConvertKeras(file=file, out=out, answers=answers))
            case GraphFile():
                return self._made_by(self._from_graph)
            case FrameworkFile(format="jax" | "mlir"):
                parts = self._read()
                return self._made_by(lambda out: BuildMlir(parts=parts, out=out))
            case FrameworkFile():
                raise AssertionError(f"{self._model.files.format} takes no TensorFlow")

    def _read(self) -> str:
        """The folder with the files that a front-end made from the model's file."""
        # Two folders: workers can write to the first until they end, so results are copied to the second.
        made, given = self._pool.new_folder("read"), self._pool.given_folder("read")
        self._source = read_source(
            self._model.files.format,
            self._snapshot.model,
            self._pool,
            shapes=source_shapes(self._model),
            out=made,
            operations=tuple(self._model.operations),
            constants=self._model.constants,
            call=self._model.call,
        )
        self._pool.take(made, given)
        # If the file was unpacked from an archive, the copy of it counts.
        if Path(self._source.file).parent == made:
            self._source = replace(self._source, file=str(given / Path(self._source.file).name))
        self._parts = given
        return str(given)

    def _made_by(self, request: Callable[[str], object]) -> Path:
        """The folder that a worker fills. The worker is started for this request, and ends with it."""
        made, folder = self._pool.new_folder("converted"), self._pool.given_folder("converted")
        converter = self._pool.get(number=_CONVERTER)
        try:
            converter.call(request(str(made)), Nothing)
        finally:
            converter.kill()
        self._pool.take(made, folder)
        return folder

    def _from_graph(self, out: str) -> ConvertGraph:
        model = self._model
        keys = dict(zip(model.inputs, model.input_keys or model.inputs, strict=True))
        return ConvertGraph(
            files=self.graph_files(),
            tags=model.tags,
            signature=model.serving_key,
            # Inputs that are exposed later (feeds) are not tensors at which the graph is cut.
            inputs=tuple(key for key in keys.values() if key not in model.feeds),
            outputs=model.output_keys or model.outputs,
            shapes={keys.get(name, name): shape for name, shape in model.shapes.items()},
            constants=model.constants,
            feeds=model.feeds,
            out=out,
        )

    def _change(self, folder: Path) -> None:
        """Give the signature in `folder`, which is our copy, the inputs and outputs that the spec asks for."""
        model = self._model
        tags, signature = model.tags, model.serving_key
        # In this order: constants and feeds may name inputs of the joined signature, so renaming comes last.
        if model.signatures:
            made = self._pool.new_folder("joined")
            parts = tuple(map(_joined, model.signatures))
            out = str(made / _GRAPH)
            self._replace(Join(folder=str(folder), tags=tags, signature=signature, parts=parts, out=out), made, folder)
        # The converters of graphs and ONNX files set constants themselves (`constants` of their requests).
        if model.constants and model.files.format not in ("graph", "onnx", "qonnx"):
            made = self._pool.new_folder("pinned")
            out, constants = str(made / _GRAPH), model.constants
            pin = Pin(folder=str(folder), tags=tags, signature=signature, constants=constants, out=out)
            self._replace(pin, made, folder)
        if model.seed:
            # Before the seed is exposed: distributions are compared with those of this model.
            self._drawing = self._pool.given_folder("drawing")
            self._expose(folder, self._drawing, keeps_state=True)
        if model.feeds or model.seed or model.counts:
            self._expose(folder, folder)
        if model.input_keys or model.output_keys:
            made = self._pool.new_folder("renamed")
            rename = Rename(
                folder=str(folder),
                tags=tags,
                signature=signature,
                inputs=dict(zip(model.input_keys, model.inputs, strict=False)),
                outputs=dict(zip(model.output_keys, model.outputs, strict=False)),
                out=str(made / _GRAPH),
            )
            self._replace(rename, made, folder)

    def _expose(self, folder: Path, target: Path, *, keeps_state: bool = False) -> None:
        model, made = self._model, self._pool.new_folder("exposed")
        expose = Expose(
            folder=str(folder), tags=model.tags, signature=model.serving_key, feeds=model.feeds, seed=model.seed,
            counts=model.counts, out=str(made / _GRAPH), keeps_state=keeps_state,
        )  # fmt: skip
        self._replace(expose, made, target)

    def _replace(self, request: Join | Pin | Expose | Rename, made: Path, folder: Path) -> None:
        """Replace the graph file in `folder` by the one that `request` writes to `made`."""
        self._pool.get().call(request, Nothing)
        taken = self._pool.given_folder(made.name)
        self._pool.take(made, taken)
        with storage_errors("change the model's border"):
            shutil.move(taken / _GRAPH, folder / _GRAPH)

    def _lift(self, folder: Path) -> tuple[tuple[StateTensor, ...], Path]:
        """Turn the variables that the spec names into inputs and outputs of the signature in `folder`."""
        made, model = self._pool.new_folder("lifted"), self._model
        request = Lift(
            folder=str(folder),
            tags=model.tags,
            signature=model.serving_key,
            read=self._variables.read,
            update=self._variables.update,
            out=str(made / _GRAPH),
            values=str(made / _VALUES),
        )
        lifted = self._pool.get().call(request, Lifted)
        # Copied to where the worker cannot write before the host reads it: the values become part of the library.
        taken = self._pool.given_folder("lifted")
        self._pool.take(made, taken)
        with storage_errors("keep the variables"):
            shutil.move(taken / _GRAPH, folder / _GRAPH)
        return lifted.state, taken / _VALUES


def _joined(signature: Signature) -> JoinedSignature:
    return JoinedSignature(
        name=signature.name,
        key=signature.serving_key,
        inputs=dict(zip(signature.input_keys or signature.inputs, signature.inputs, strict=True)),
        outputs=dict(zip(signature.output_keys or signature.outputs, signature.outputs, strict=True)),
    )
