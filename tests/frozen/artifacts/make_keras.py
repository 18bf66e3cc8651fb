"""Write keras/BACKEND.keras, a net that Keras 3.6 saved with that backend, and beside it inputs and the backend's answers.

KERAS_BACKEND=jax ENVIRONMENT/bin/python make_keras.py     (jax 0.5.3, torch 2.13)
"""

from pathlib import Path

import keras
import numpy as np
from keras import layers


def main():
    keras.utils.set_random_seed(7)
    random, backend = np.random.default_rng(3), keras.backend.backend()
    hits, image = keras.Input((6, 3), name="hits"), keras.Input((8, 8, 2), name="image")
    steps = layers.Bidirectional(layers.LSTM(5))(hits)
    seen = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3, padding="same", activation="gelu")(image))
    both = layers.LayerNormalization()(layers.BatchNormalization()(layers.Concatenate()([steps, seen])))
    net = keras.Model([hits, image], layers.Dense(3, activation="softmax", name="kind")(both))
    for weight in net.weights:  # statistics and biases too: zeros would hide faults
        if "seed" not in weight.path:
            values = random.uniform(-0.5, 0.5, weight.shape)
            weight.assign(np.abs(values) + 0.5 if "variance" in weight.path else values)
    file = Path(__file__).parent / "keras" / f"{backend}.keras"
    net.save(file)
    given = {"hits": random.normal(size=(4, 6, 3)), "image": random.normal(size=(4, 8, 8, 2))}
    given = {name: values.astype(np.float32) for name, values in given.items()}
    np.savez_compressed(f"{file}.inputs.npz", **given)
    np.savez_compressed(f"{file}.answers.npz", kind=keras.ops.convert_to_numpy(net(list(given.values()))))


if __name__ == "__main__":
    main()
