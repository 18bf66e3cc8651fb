"""`SavedModel`: the model of a spec as workers read it, whatever its files are."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tfaot_pkg.frozen.source_model import Original, read_source, source_shapes
from tfaot_pkg.source.tree import Snapshot, SourceTree
from tfaot_pkg.spec.types import ModelInfo
from tfaot_pkg.storage import storage_errors
from tfaot_pkg.toolchain.frontends import FRONTENDS
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.worker_program.messages.requests import ConvertKeras, Nothing, Rename
from tfaot_pkg.worker_program.messages.sources import BuildOnnx, SourceModel

_GRAPH = "saved_model.pb"
_CONVERTER = -1
"""The number of the worker that converts a file: code in the file must not run beside later requests."""


class SavedModel:
    """The SavedModel of `model`, a private copy of the files of `source` or what is made of them.

    Nothing is copied or converted before its first use: a build from the cache reads none of the model's files.
    """

    def __init__(self, model: ModelInfo, source: SourceTree, pool: WorkerPool) -> None:
        self._model = model
        self._snapshot = Snapshot(source, pool.given_folder)
        self._pool = pool
        self._made: Path | None = None
        self._source: SourceModel | None = None

    @property
    def folder(self) -> Path:
        """Its folder, which workers can read. Raises ModelError, SourceError, StorageError, ToolchainError."""
        if self._made is None:
            folder = self._converted()
            if self._model.input_keys or self._model.output_keys:
                self._rename(folder)
            self._made = folder
        return self._made

    @property
    def original(self) -> Original:
        """What gives the right answers: the file in the framework that it is from, or the SavedModel."""
        folder = self.folder
        if self._source is None:
            return Original.saved_model(self._model, folder)
        return Original.of(self._model, FRONTENDS[self._model.format], self._source)

    @contextmanager
    def named(self) -> Iterator[Path]:
        """`folder`; errors raised in the block name the user's files instead of the copy."""
        with self._snapshot.named():
            yield self.folder

    def described(self) -> SourceModel:
        """What the model's own framework says of its file; for formats of FRONTENDS. Converts nothing."""
        with self._snapshot.named() as path:
            return read_source(self._model.format, path, self._pool)

    def _converted(self) -> Path:
        match self._model.format:
            case "saved_model":
                return self._snapshot.model
            case "keras":
                return self._made_by(lambda out: ConvertKeras(file=str(self._snapshot.model), out=out))
            case "onnx":
                graph = self._pool.new_folder("onnx")
                self._source = read_source(
                    "onnx", self._snapshot.model, self._pool, shapes=source_shapes(self._model), out=graph
                )
                given = self._pool.given_folder("onnx")
                self._pool.take(graph, given)
                return self._made_by(lambda out: BuildOnnx(graph=str(given), out=out))

    def _made_by(self, request: Callable[[str], object]) -> Path:
        """The folder that a worker of its own fills; it ends with this request."""
        made, folder = self._pool.new_folder("converted"), self._pool.given_folder("converted")
        converter = self._pool.get(number=_CONVERTER)
        try:
            converter.call(request(str(made)), Nothing)
        finally:
            converter.kill()
        self._pool.take(made, folder)
        return folder

    def _rename(self, folder: Path) -> None:
        """Give the signature in `folder`, which is a copy of ours, the names that the spec asks for."""
        made, model = self._pool.new_folder("renamed"), self._model
        request = Rename(
            folder=str(folder),
            tags=model.tags,
            signature=model.serving_key,
            inputs=dict(zip(model.input_keys, model.inputs, strict=False)),
            outputs=dict(zip(model.output_keys, model.outputs, strict=False)),
            out=str(made / _GRAPH),
        )
        self._pool.get().call(request, Nothing)
        taken = self._pool.given_folder("renamed")
        self._pool.take(made, taken)
        with storage_errors("rename inputs and outputs"):
            shutil.move(taken / _GRAPH, folder / _GRAPH)
