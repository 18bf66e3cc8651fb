"""Make SavedModels with several signatures, and what TensorFlow computes with them: below FOLDER.

    TOOLCHAIN/bin/python signature_models.py FOLDER

`coder`: signatures that share weights; `bare`: the same functions, saved without signatures. In coder.npz: inputs and
outputs as "encode/x".
`meeting`: rows of one signature depend on one another. `shared`: two signatures read one
placeholder.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

ROWS, WIDE, NARROW = 37, 64, 16
X = tf.TensorSpec([None, WIDE], tf.float32, name="x")
Z = tf.TensorSpec([None, NARROW], tf.float32, name="z")


class Coder(tf.Module):
    def __init__(self):
        random = np.random.default_rng(0)
        self.kernel = tf.Variable(random.standard_normal((WIDE, NARROW), np.float32) / 8, name="kernel")
        self.bias = tf.Variable(random.standard_normal(NARROW, np.float32), name="bias")

    @tf.function(input_signature=[X])
    def encode(self, x):
        return {"z": tf.nn.relu(x @ self.kernel + self.bias)}

    @tf.function(input_signature=[Z, tf.TensorSpec([], tf.float32, name="gain")])
    def decode(self, z, gain):
        return {"output_0": gain * tf.linalg.matmul(z, self.kernel, transpose_b=True)}

    @tf.function(input_signature=[X])
    def score(self, x):
        return {"y": tf.reduce_sum(tf.tanh(x @ self.kernel + self.bias), axis=1)}

    @tf.function(input_signature=[X])
    def centred(self, x):
        return {"y": x - tf.reduce_mean(x, axis=0)}


def main(folder):
    module = Coder()
    several = {"encode": module.encode, "decode_it": module.decode, "score": module.score}
    tf.saved_model.save(module, f"{folder}/coder", signatures=several)
    tf.saved_model.save(module, f"{folder}/bare")
    tf.saved_model.save(module, f"{folder}/meeting", signatures={"encode": module.encode, "centred": module.centred})
    random = np.random.default_rng(1)
    x, z, gain = (
        random.standard_normal((ROWS, WIDE), np.float32),
        random.random((ROWS, NARROW), np.float32),
        np.float32(2),
    )
    np.savez(
        f"{folder}/coder.npz",
        **{"encode/x": x, "decode/z": z, "decode/gain": gain},
        **{
            "encode/z": module.encode(x)["z"],
            "decode/image": module.decode(z, gain)["output_0"],
            "score/y": module.score(x)["y"],
        },
    )
    shared(f"{folder}/shared")


def shared(folder):
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        made = {
            name: v1.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"y": y})
            for name, y in (("twice", x * 2.0), ("half", x / 2.0))
        }
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=made)
        builder.save()


if __name__ == "__main__":
    main(sys.argv[1])
