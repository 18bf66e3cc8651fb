"""Make the model of this example: a GRU that smooths the readings of four sensors, frame by frame.

    TOOLCHAIN/bin/python make_model.py FOLDER

Writes the SavedModel FOLDER/tracker, 200 frames to FOLDER/frames.txt, and to FOLDER/expected.txt what TensorFlow gives
if it gets all of them as one sequence. Any Python with TensorFlow 2.17 or newer will do.
"""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

FRAMES = 200
layers = tf.keras.layers


def network(frames, **options):
    parts = [layers.Input(batch_shape=(1, frames, 4)), layers.GRU(16, **options), layers.Dense(2)]
    return tf.keras.Sequential(parts)


class Tracker(tf.Module):
    def __init__(self):
        self.network = network(1, stateful=True)
        self.kept = [each.value for each in self.network.variables]

    @tf.function(input_signature=[tf.TensorSpec([1, 1, 4], tf.float32, name="frame")])
    def step(self, frame):
        return {"position": self.network(frame)}


def main(folder):
    tf.keras.utils.set_random_seed(1)
    tracker, whole = Tracker(), network(FRAMES, return_sequences=True)
    whole.set_weights(tracker.network.get_weights()[: len(whole.get_weights())])
    tf.saved_model.save(tracker, str(folder / "tracker"), signatures=tracker.step)
    frames = np.random.default_rng(1).standard_normal((FRAMES, 4)).astype(np.float32)
    np.savetxt(folder / "frames.txt", frames, fmt="%.9g")
    np.savetxt(folder / "expected.txt", whole(frames[None]).numpy()[0], fmt="%.9g")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
