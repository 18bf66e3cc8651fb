"""Write the SavedModel of a Keras file: its inference, with the names that its author gave."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras_modes
import saved_model
import tensorflow as tf
from keras_code import EXPORT, require_known_code
from messages.conversions import ConvertKeras
from messages.requests import ModelFault, Nothing, one_line
from wiring import distinct

if TYPE_CHECKING:
    from framework_types import Keras, KerasLayer, KerasModel, Report


_NOT_READ = "but received 0 variables during loading"
_SHARED = "Keras does not find weights that a nested model shares with another in its own file: save it as .h5"
_NEWER = "choose a newer toolchain (compilation.tensorflow in a spec, else --tensorflow)"
_KINDS = {b"PK\x03\x04": ".keras", b"\x89HDF": ".h5"}
"""Keras decides by the name of a file: these first bytes tell which suffix it must have."""


def convert(request: ConvertKeras, report: Report) -> Nothing:
    """Load the file, without Python code stored in it, and export one signature."""
    keras, model = _loaded(request.file)
    if request.answers == "call":
        _require_one_answer(keras, model)
    given, answers = _border(keras, model)
    # TensorFlow sorts the keys of dictionaries, here and below.
    feeds = tf.nest.flatten(given)
    inputs = _names(given, [feed.name for feed in feeds])
    # Argument names must be valid in Python; names of inputs need not be.
    specs = [tf.TensorSpec(feed.shape, tf.as_dtype(feed.dtype), name=f"input_{i}") for i, feed in enumerate(feeds)]
    names = _names(answers, _layers_of_outputs(model))

    @tf.function(input_signature=specs, autograph=False)
    def serve(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        results = model(tf.nest.pack_sequence_as(given, values), training=False)
        return dict(zip(names, tf.nest.flatten(results), strict=True))

    module = tf.Module()
    module.variables_of_model = list(model.variables)  # tf.Module does not search Keras's layers for variables
    # The same holds for the lookup tables of its layers.
    module.tables_of_model = [each.lookup_table for each in _layers(model) if getattr(each, "lookup_table", None)]
    module.serve = serve
    try:
        tf.saved_model.save(module, request.out, signatures=serve)
    except (AssertionError, ValueError, TypeError, tf.errors.OpError) as error:
        raise ModelFault(f"the Keras model cannot be exported: {one_line(error)}", EXPORT) from error
    _rename_inputs(request.out, inputs)
    return Nothing()


def _require_one_answer(keras: Keras, model: KerasModel) -> None:
    """Raise ModelFault if a layer gives other numbers in a graph than eagerly: a SavedModel has those of the graph."""
    if found := keras_modes.differing(keras, _layers(model)):
        raise ModelFault(
            f"Keras {keras.__version__} computes the model in two ways: {found}",
            "choose a toolchain whose Keras does not (compilation.tensorflow: 2.18.1 or newer; a layer that was saved "
            "with an integer dtype must be made anew, with dtype='float32'), or say that you want the numbers of "
            "model.predict: `model: {answers: predict}`",
            newer=True,
        )


def _layers(model: KerasModel) -> Iterator[KerasLayer]:
    for each in model.layers:
        yield each
        if hasattr(each, "layers"):  # a model in a model
            yield from _layers(each)


def _rename_inputs(folder: str, names: list[str]) -> None:
    model = saved_model.read(folder)
    for graph in model.meta_graphs:
        infos = graph.signature_def["serving_default"].inputs
        # A function that does not use an input has no such argument.
        kept = {name: infos[f"input_{i}"].SerializeToString() for i, name in enumerate(names) if f"input_{i}" in infos}
        infos.clear()
        for name, info in kept.items():
            infos[name].ParseFromString(info)
    with open(os.path.join(folder, "saved_model.pb"), "wb") as file:
        file.write(model.SerializeToString())


def _loaded(path: str) -> tuple[Keras, KerasModel]:
    """The model, read by the Keras that wrote it: Keras 3 refuses or changes layers of Keras 2."""
    kind = _kind(path)
    config, written_by = _config(path, kind), _version(path, kind)
    keras = _keras_for(written_by)
    try:
        require_known_code(config, keras)
        # Not compiled: losses and optimizers have no part in inference, and may be classes of the author's.
        model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except ModelFault:
        raise
    except Exception as error:  # a file is a program of layers: any of them may raise anything
        newer = _is_newer(written_by, keras.__version__)
        raise ModelFault(
            f"Keras {keras.__version__} cannot load {path}: {one_line(error)}",
            _hint(error, written_by, newer=newer),
            newer=newer,
        ) from error
    # A model whose layers alone know their inputs, such as a class of the author's.
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise ModelFault(f"the Keras model in {path} does not say what its inputs are", EXPORT)
    return keras, model


def _keras_for(written_by: str) -> Keras:
    """The module of Keras 2 or 3, whichever wrote the file. Keras 1 did not write its version."""
    name = "keras" if re.match(r"[3-9]|\d\d", written_by) else "tf_keras"
    sys.modules.pop("keras", None)  # the worker program blocks its import by TensorFlow (__main__.py)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModelFault(
            f"Keras {written_by or '1'} wrote the file, and this TensorFlow has no {name}: {one_line(error)}",
            "install tf-keras of TensorFlow's release there, or use the toolchain that this tool makes",
        ) from error


def _hint(error: Exception, written_by: str, *, newer: bool) -> str:
    """A hint for a file that does not load."""
    if _NOT_READ in str(error):
        return f"{_SHARED}, or {EXPORT}"
    return f"Keras {written_by} wrote it: {_NEWER}, or {EXPORT}" if newer else EXPORT


def _is_newer(written_by: str, ours: str) -> bool:
    numbers = [[int(part) for part in re.findall(r"\d+", text)[:2]] for text in (written_by, ours)]
    return numbers[0] > numbers[1]


def _version(path: str, kind: str) -> str:
    """The version of Keras that wrote the file; "" if the file does not state it."""
    import h5py

    try:
        if kind == ".keras":
            with zipfile.ZipFile(path) as archive:
                return str(json.loads(archive.read("metadata.json"))["keras_version"])[:20]
        with h5py.File(path, "r") as file:
            return str(file.attrs["keras_version"])[:20]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, zipfile.BadZipFile):
        return ""


def _kind(path: str) -> str:
    """`.keras` or `.h5`; ModelFault if the file is neither, or has the other's suffix."""
    if not os.path.isfile(path):
        raise ModelFault(
            f"{path} is not a file", "model.keras names a .keras or .h5 file; a folder may be a saved_model"
        )
    with open(path, "rb") as file:
        kind = _KINDS.get(file.read(4))
    if kind is None:
        raise ModelFault(
            f"{path} is neither a .keras nor an .h5 file", "save the model again: model.save('NAME.keras')"
        )
    if not path.endswith((kind, ".hdf5" if kind == ".h5" else kind)):
        raise ModelFault(f"{path} is a {kind} file by its content", f"rename it to end with {kind}")
    return kind


def _config(path: str, kind: str) -> Any:
    """The model's configuration as JSON values; ModelFault if there is none."""
    import h5py

    try:
        if kind == ".keras":
            with zipfile.ZipFile(path) as archive:
                _require_plain_weights(path, archive.namelist())
                config = json.loads(archive.read("config.json"))
            # Keras does not read it of a model that is not compiled: it may name the author's losses.
            config.pop("compile_config", None)
            return config
        with h5py.File(path, "r") as file:
            return json.loads(file.attrs["model_config"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile) as error:
        raise ModelFault(
            f"{path} is damaged, or contains weights without a model: {one_line(error)}",
            "save the whole model: model.save('NAME.keras')",
        ) from error


def _require_plain_weights(path: str, names: list[str]) -> None:
    """Raise ModelFault for NumPy's archives, which Keras reads with pickle: loading one may run code."""
    if unsafe := [name for name in names if name.endswith((".npz", ".npy"))]:
        raise ModelFault(
            f"{path} has weights in a form that may hold Python code, {unsafe[0]!r:.100}",
            "save the model again: model.save('NAME.keras')",
        )


def _border(keras: Keras, model: KerasModel) -> tuple[Any, Any]:
    """Inputs and outputs as the model is called with them; a Sequential has one of each."""
    if isinstance(model, keras.Sequential):
        return model.inputs[0], model.outputs[0]
    return model.input, model.output


def _layers_of_outputs(model: KerasModel) -> list[str]:
    """The layer of each output."""
    return list(getattr(model, "output_names", None) or [model.layers[-1].name])


def _names(structure: Any, names: list[str]) -> list[str]:
    """A name for each tensor of `structure`, in TensorFlow's order: its key in a dictionary, or the one in `names`."""
    if isinstance(structure, dict) and not any(tf.nest.is_nested(value) for value in structure.values()):
        return sorted(structure)
    return distinct(names)
