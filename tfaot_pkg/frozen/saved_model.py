"""`SavedModel`: the model of a spec as workers read it, whatever its files are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfaot_pkg.source.tree import Snapshot, SourceTree
from tfaot_pkg.spec.types import ModelInfo
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.worker_program.messages.requests import ConvertKeras, Nothing

_CONVERTER = -1
"""The number of the worker that reads a Keras file: code in the file must not run beside later requests."""


class SavedModel:
    """The SavedModel of `model`, a private copy of the files of `source` or what Keras makes of them.

    Nothing is copied or converted before its first use: a build from the cache reads none of the model's files.
    """

    def __init__(self, model: ModelInfo, source: SourceTree, pool: WorkerPool) -> None:
        self._format = model.format
        self._snapshot = Snapshot(source, pool.given_folder)
        self._pool = pool
        self._converted: Path | None = None

    @property
    def folder(self) -> Path:
        """Its folder, which workers can read. Raises ModelError, SourceError, StorageError, ToolchainError."""
        if self._format == "saved_model":
            return self._snapshot.model
        if self._converted is None:
            self._converted = self._from_keras()
        return self._converted

    @contextmanager
    def named(self) -> Iterator[Path]:
        """`folder`; errors raised in the block name the user's files instead of the copy."""
        with self._snapshot.named():
            yield self.folder

    def _from_keras(self) -> Path:
        made, folder = self._pool.new_folder("keras"), self._pool.given_folder("keras")
        converter = self._pool.get(number=_CONVERTER)
        try:
            converter.call(ConvertKeras(file=str(self._snapshot.model), out=str(made)), Nothing)
        finally:
            converter.kill()
        self._pool.take(made, folder)
        return folder
