"""Random models, several in one graph: as the worker lists them, and what TensorFlow computes for them.

    TOOLCHAIN/bin/python draws.py KIND SEED COUNT FOLDER WORKER_PROGRAM
    TOOLCHAIN/bin/python draws.py onnx FOLDER WORKER_PROGRAM     of the files that drawn_onnx.py wrote

FOLDER/N has `frozen.json` and `weights.bin` of a graph with one output for each of its models, and `answers.npz`:
`in_NAME`, and for each output `got_OUTPUT_ROWS`, `real_OUTPUT` and `moved_OUTPUT`, of all rows in float64, and with
inputs that differ by a rounding. FOLDER/models.json: {"texts": {output: operations}, "refused": {text: reason},
"broken": {text: traceback}}.
"""

import importlib
import json
import os
import shutil
import sys
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import tensorflow as tf

TOGETHER = 25
BATCHES = (1, 2, 5, 17)


class Draw:
    def __init__(self, inputs, folder):
        self.inputs, self.folder, self.groups = inputs, folder, 0
        self.found = {"texts": {}, "refused": {}, "broken": {}}

    def write(self, models):
        """`models` as one graph, or as several: a graph of which the worker refuses something is halved."""
        from messages.requests import ModelFault

        out = os.path.join(self.folder, str(self.groups))
        self.groups += 1
        try:
            fault = self._freeze(models, out)
        except ModelFault as error:
            fault = f"{error.message}"
        except Exception:  # noqa: BLE001 (whatever it is, the test reports it)
            if len(models) == 1:
                self.found["broken"][models[0][1].text] = traceback.format_exc()[-2000:]
                shutil.rmtree(out, ignore_errors=True)
                return
            fault = "broken"
        if not fault:
            self._answer(models, out)
            return
        shutil.rmtree(out, ignore_errors=True)
        if len(models) == 1:
            self.found["refused"][models[0][1].text] = fault
            return
        half = len(models) // 2
        self.write(models[:half])
        self.write(models[half:])

    def _freeze(self, models, out):
        saved = os.path.join(out, "model")
        module = tf.Module()
        module.nets = [getattr(model, "net", None) for _, model in models]
        specs = [tf.TensorSpec([None, *v.shape[1:]], v.dtype, name=n) for n, v in self.inputs.items()]

        def serve(*values):
            return {f"y{number}": tf.identity(model.run(list(values), tf.float32)[0]) for number, model in models}

        module.serve = tf.function(serve, input_signature=specs, autograph=False)
        tf.saved_model.save(module, saved, signatures=module.serve)
        return _frozen(saved, out)

    def _answer(self, models, out):
        arrays = {f"in_{name}": value for name, value in self.inputs.items()}
        moved = [_moved(value) for value in self.inputs.values()]
        for number, model in models:
            for rows in BATCHES:
                arrays[f"got_y{number}_{rows}"] = _results(model, [v[:rows] for v in self.inputs.values()], tf.float32)
            arrays[f"real_y{number}"] = _results(model, list(self.inputs.values()), tf.float64)
            arrays[f"moved_y{number}"] = _results(model, moved, tf.float64)
            self.found["texts"][f"y{number}"] = model.text
        np.savez(os.path.join(out, "answers.npz"), **arrays)


def _frozen(saved, out):
    """Write the listing of a SavedModel; why a part of it is left to XLA, or ""."""
    import freeze
    from messages import graph, wire

    chosen = graph.Chosen(folder=saved, tags=("serve",), signature="serving_default", shapes={}, inputs=(), outputs=())
    asked = graph.Freeze(model=chosen, weights="shared", threshold=1024, out=out, constants=True)
    frozen = freeze.freeze(asked, lambda *_: None)
    if frozen.model.segments:
        return f"left to XLA: {frozen.model.segments[0].reason}"
    with open(os.path.join(out, "frozen.json"), "w") as file:
        file.write(wire.encoded(frozen))
    return ""


def _moved(value):
    if value.dtype.kind != "f":
        return value
    signs = np.where(np.random.default_rng(5).random(value.shape) < 0.5, -1, 1)
    return (value.astype(np.float64) * (1 + signs * 2.0**-22)).astype(
        np.float64 if value.dtype == np.float64 else np.float32
    )


def _results(model, values, real):
    return model.run([tf.constant(each) for each in values], real)[0].numpy()


def of_onnx(folder, worker_program):
    """What drawn_onnx.py wrote: a file that is refused counts as all of its models."""
    sys.path.insert(0, worker_program)
    from from_onnx import building
    from from_onnx.graphs import GRAPH, TENSORS
    from messages.requests import ModelFault

    with open(os.path.join(folder, "index.json")) as file:
        index = json.load(file)
    found = {"texts": {}, "refused": index["refused"], "broken": index["broken"]}
    for number, (place, texts) in enumerate(index["groups"]):
        with open(os.path.join(place, GRAPH), encoding="utf-8") as file:
            document = json.load(file)
        with np.load(os.path.join(place, TENSORS)) as file:
            arrays = {name: building._array(file[name], document["dtypes"].get(name)) for name in file.files}
        out = os.path.join(folder, str(number))
        module = tf.Module()
        module.serve = building.function_of(document, arrays)
        try:
            tf.saved_model.save(module, os.path.join(out, "model"), signatures=module.serve)
            fault = _frozen(os.path.join(out, "model"), out)
        except ModelFault as error:
            fault = error.message
        except Exception:  # noqa: BLE001 (whatever it is, the test reports it)
            found["broken"][" ".join(texts)] = traceback.format_exc()[-2000:]
            continue
        if fault:
            found["refused"].update(dict.fromkeys(texts.values(), fault))
            continue
        shutil.copy(os.path.join(place, "data.npz"), os.path.join(out, "answers.npz"))
        found["texts"].update(texts)
    with open(os.path.join(folder, "models.json"), "w") as file:
        json.dump(found, file)


def main(kind, seed, count, folder, worker_program):
    sys.path.insert(0, worker_program)
    maker = importlib.import_module(f"drawn_{kind}")
    random = np.random.default_rng(int(seed))
    draw = Draw(maker.inputs(random, BATCHES[-1]), folder)
    models = [(number, maker.drawn(random)) for number in range(int(count))]
    for start in range(0, len(models), TOGETHER):
        draw.write(models[start : start + TOGETHER])
    with open(os.path.join(folder, "models.json"), "w") as file:
        json.dump(draw.found, file)


if __name__ == "__main__":
    of_onnx(*sys.argv[2:]) if sys.argv[1] == "onnx" else main(*sys.argv[1:])
