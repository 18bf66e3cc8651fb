"""Write tagger.fml: a network of Keras as hls4ml computes it on an FPGA (pip install hls4ml keras tensorflow-cpu).

Its weights are drawn, not trained: the example is about bits.
"""

import hls4ml
import keras
import numpy as np
from hls4ml.utils.serialization import serialize_model

network = keras.Sequential(
    [
        keras.layers.Input((16,), name="jet"),
        keras.layers.Dense(32, activation="relu", name="first"),
        keras.layers.Dense(16, activation="relu", name="second"),
        keras.layers.Dense(5, name="third"),
        keras.layers.Softmax(name="probabilities"),
    ]
)
random = np.random.default_rng(7)
network.set_weights([random.normal(size=each.shape) * 0.3 for each in network.get_weights()])

config = hls4ml.utils.config_from_keras_model(network, granularity="name", backend="Vitis")
for name in ("first", "second", "third"):
    config["LayerName"][name]["Precision"].update(weight="fixed<8,2>", bias="fixed<12,4>", result="fixed<14,6,RND,SAT>")
for name in ("first_relu", "second_relu"):
    config["LayerName"][name]["Precision"]["result"] = "ufixed<9,4,RND,SAT>"
config["LayerName"]["probabilities"]["Precision"]["result"] = "ufixed<12,0,RND,SAT>"

project = hls4ml.converters.convert_from_keras_model(
    network, hls_config=config, backend="Vitis", output_dir="project", project_name="tagger"
)
serialize_model(project, "tagger.fml")
