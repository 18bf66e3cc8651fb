"""The answers of hls4ml's emulator: C++ of the network with AP types, which g++ compiles, and hls4ml calls."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from from_hls4ml.archive import CONFIG, MODEL, Archive, opened, written
from messages import elements
from messages.requests import ModelFault, Reference, one_line

if TYPE_CHECKING:
    from framework_types import Array


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_QUANTIZERS, _XNOR = "hls4ml.model.quantizers.", "hls4ml.model.types.XnorPrecisionType"
loaded: dict[str, Any] = {}
"""The last network that was requested: to compile it takes many seconds, and one validation asks for it many times."""


class Hls4mlModel:
    """The network in `request.folder`, a file. All its numbers are integers: answers are steps."""

    is_continuous = False
    rejections: tuple[type[Exception], ...] = ()

    def __init__(self, request: Reference) -> None:
        from importlib.metadata import version

        self.version = version("hls4ml")
        if loaded.get("file") != request.folder:
            loaded.clear()
            loaded.update(model=_compiled(opened(request.folder)), file=request.folder)
        self._model = loaded["model"]
        self._feeds, self._fetches = request.feeds, request.fetches
        self.dtypes = dict.fromkeys(self._feeds, "float32")
        self.operations = sorted({f"hls4ml.{type(each).__name__}" for each in self._model.get_layers()})

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        names = {key: name for name, key in self._feeds.items()}
        given = [np.ascontiguousarray(feeds[names[key]], np.float32) for key in self._ends("inputs")]
        rows = len(given[0])
        made = self._model.predict(given[0] if len(given) == 1 else given)
        outputs = self._model.get_output_variables()
        # hls4ml drops the axis of one row, and the list of one output.
        results = made if isinstance(made, list) else [made]
        shaped = {
            key: np.asarray(values, np.float32).reshape(rows, *each.shape)
            for key, values, each in zip(self._ends("outputs"), results, outputs, strict=True)
        }
        return {name: elements.numbers(shaped[key], "float32") for name, key in self._fetches.items()}

    def _ends(self, which: str) -> list[str]:
        """The names of results at one end, in hls4ml's order, as reading.py has them."""
        model = self._model
        return [model.graph[name].outputs[0] if name in model.graph else name for name in getattr(model, which)]


def _compiled(archive: Archive) -> Any:
    """Raises ModelFault."""
    if shutil.which("g++") is None:
        raise ModelFault(
            "hls4ml's emulator, whose answers count, needs g++, which is not on the PATH", "install g++ (GCC)"
        )
    folder = tempfile.mkdtemp(prefix="hls4ml.")
    path = os.path.join(folder, "network.fml")
    written(_checked(archive, os.path.join(folder, "project")), path)
    from hls4ml.utils.serialization import deserialize_model

    try:
        model = deserialize_model(path, output_dir=folder)
    except Exception as error:  # hls4ml raises what Python does for attributes that it does not expect
        raise ModelFault(
            f"hls4ml cannot read the file: {type(error).__name__}: {one_line(error)}",
            "write it again with hls4ml.utils.serialization.serialize_model",
        ) from error
    # The sandbox lets no file become a program, or get another time: a shell reads the script that hls4ml would start.
    model.config.backend.compile = _built
    # hls4ml 1.3.0 writes weights that are powers of two with `np.product`, which NumPy 2 has no more.
    with mock.patch("os.chmod"), mock.patch("shutil.copystat"), mock.patch.object(np, "product", np.prod, create=True):
        try:
            model.compile()
        except Exception as error:  # hls4ml raises Exception itself
            raise ModelFault(
                f"hls4ml's emulator cannot be compiled: {one_line(error)}",
                "the log has the compiler's messages; `compile()` of hls4ml must work with the file",
            ) from error
    return model


def _built(model: Any) -> str:
    """Compile the project that hls4ml wrote; the path of its library."""
    folder, name = model.config.get_output_dir(), model.config.get_project_name()
    ended = subprocess.run(["/bin/bash", "build_lib.sh"], cwd=folder, stdout=sys.stderr, check=False)
    if ended.returncode:
        raise OSError(f"its compiler ended with {ended.returncode}")
    return f"{folder}/firmware/{name}-{model.config.get_config_value('Stamp')}.so"


def _checked(archive: Archive, project: str) -> Archive:
    """The archive with a project's folder of ours, and with classes of hls4ml alone."""
    model, config = _readable(archive.document(MODEL)), archive.document(CONFIG)
    for each in (model, config):
        for name in _classes(each):
            # The reader of hls4ml would make an object of any class of any module.
            if re.fullmatch(r"hls4ml(\.\w+)+", name) is None:
                raise ModelFault(f"the file names the class {name[:80]!r}, which is none of hls4ml", "write it again")
    settings = config.get("config")
    if not isinstance(settings, dict) or _NAME.fullmatch(str(settings.get("ProjectName", ""))) is None:
        raise ModelFault("the file has no name of a project", "write it again")
    # Its own folder may be anywhere, and data of its test bench are not read.
    settings.update(OutputDir=project, InputData=None, OutputPredictions=None)
    changed = {MODEL: model, CONFIG: config}
    return Archive({**archive.members, **{name: json.dumps(each).encode() for name, each in changed.items()}})


def _readable(document: Any) -> Any:
    """What hls4ml 1.3.0 reads of what it wrote: types of one bit without arguments, and no quantizers.

    What quantizers made of weights is in the file, and those of QKeras would need QKeras and TensorFlow.
    """
    if isinstance(document, list):
        return [_readable(each) for each in document]
    if not isinstance(document, dict):
        return document
    name = str(document.get("class_name")) if "state" in document else ""
    if name.startswith(_QUANTIZERS):
        return None
    made = {key: _readable(each) for key, each in document.items()}
    return {**made, "state": {}} if name == _XNOR else made


def _classes(document: object) -> Iterator[str]:
    if isinstance(document, dict):
        if "state" in document and "class_name" in document:
            yield str(document["class_name"])
        for each in document.values():
            yield from _classes(each)
    elif isinstance(document, list):
        for each in document:
            yield from _classes(each)
