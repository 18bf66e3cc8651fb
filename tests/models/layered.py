"""SavedModels of many small networks each, one per output, with TensorFlow's answers. Runs in a toolchain's Python.

    python layered.py FOLDER

writes FOLDER/NAME for each model, and FOLDER/NAME/answers.npz: for each of the batches of `batches`, `BATCH/in` and
`BATCH/out/OUTPUT`. The operations of an output stand in the scope of its name.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # oneDNN does not take empty products

import numpy as np
import tensorflow as tf

ACTIVATIONS = {
    "relu": tf.nn.relu,
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "tanh": tf.tanh,
    "sigmoid": tf.sigmoid,
    "softplus": tf.nn.softplus,
    "swish": tf.nn.silu,
    "gelu_erf": tf.nn.gelu,
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "relu6": tf.nn.relu6,
    "leaky": tf.nn.leaky_relu,
    "leaky_maximum": lambda x: tf.maximum(x, 0.1 * x),
    "leaky_greater": lambda x: tf.where(x > 0, x, 3 * x),
    "leaky_less": lambda x: tf.where(x < 0, x * -0.5, x),
    "leaky_otherwise": lambda x: tf.where(x > 1, x, 0.5 * x),
    "steep_maximum": lambda x: tf.maximum(x, 2 * x),
    "clip": lambda x: tf.clip_by_value(x, -1, 2),
    "clip_operation": lambda x: tf.raw_ops.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=0.5),
    "relu_maximum": lambda x: tf.maximum(x, 0),
    "relu_limited": lambda x: tf.maximum(tf.minimum(tf.nn.relu(x), 1.5), 0),  # as Keras has it
    "one_bound": lambda x: tf.minimum(x, 1),
    "hard_sigmoid": lambda x: tf.nn.relu6(x + 3) / 6,
    "hard_sigmoid_clipped": lambda x: tf.clip_by_value(0.2 * x + 0.5, 0, 1),
    "hard_swish": lambda x: x * (tf.nn.relu6(x + 3) / 6),
    "hard_swish_last": lambda x: x * tf.nn.relu6(x + 3) / 6,
    "hard_swish_times": lambda x: (tf.nn.relu6(x + 3) * (1 / 6)) * x,
    "gelu_erfc": lambda x: 0.5 * x * tf.math.erfc(-x * np.float32(np.sqrt(0.5))),
}
_SEEDS = iter(range(10_000))


def noise(*shape, scale=0.5):
    return (np.random.default_rng(next(_SEEDS)).standard_normal(shape) * scale).astype("float32")


def constant(*shape):
    return tf.constant(noise(*shape))


def linear(x, units):
    """A dense layer without activation. At least as many weights as the choice of layers wants."""
    return tf.matmul(x, constant(x.shape[-1], units)) + constant(units)


def normalized(x):
    """Batch normalization as Keras has it for vectors, when a model is used."""
    size = x.shape[-1]
    variance = tf.constant(np.abs(noise(size)) + 0.5)
    return tf.nn.batch_normalization(x, constant(size), variance, constant(size), constant(size), 1e-3)


def fused_normalized(x):
    """Batch normalization as Keras has it for images."""
    size = x.shape[-1]
    variance = tf.constant(np.abs(noise(size)) + 0.5)
    parts = (constant(size), constant(size), constant(size), variance)
    return tf.compat.v1.nn.fused_batch_norm(x, *parts, is_training=False)[0]


def convolution(x, filters, size=3, padding="VALID", groups=1, **options):
    kernel = constant(size, size, x.shape[-1] // groups, filters)
    return tf.nn.bias_add(tf.nn.conv2d(x, kernel, options.pop("strides", 1), padding, **options), constant(filters))


def depthwise(x, multiplier, padding="VALID", strides=1):
    kernel = constant(3, 3, x.shape[-1], multiplier)
    return tf.nn.depthwise_conv2d(x, kernel, [1, strides, strides, 1], padding)


def flat(x):
    return tf.reshape(x, [-1, int(np.prod(x.shape[1:]))])


class Outputs(dict):
    """Outputs by name; `outputs[name] = function` computes one in a scope of its name."""

    def add(self, name, make):
        with tf.name_scope(name):
            self[name] = tf.identity(make())


def dense(x):
    outputs = Outputs()
    outputs.add("no_bias", lambda: tf.matmul(x, constant(24, 16)))
    outputs.add("bias_add", lambda: tf.nn.bias_add(tf.matmul(x, constant(24, 16)), constant(16)))
    outputs.add("bias_first", lambda: constant(16) + tf.matmul(x, constant(24, 16)))
    outputs.add("bias_subtracted", lambda: tf.matmul(x, constant(24, 17)) - constant(17))
    outputs.add("subtracted_from", lambda: constant(17) - tf.matmul(x, constant(24, 17)))
    outputs.add("transposed", lambda: tf.matmul(x, constant(19, 24), transpose_b=True))
    outputs.add("scalar_bias", lambda: tf.nn.relu(2 * tf.matmul(x, constant(24, 16)) + 0.5))
    for name, activation in ACTIVATIONS.items():
        outputs.add(f"to_{name}", lambda activation=activation: activation(linear(x, 20)))
    outputs.add("softmax", lambda: tf.nn.softmax(linear(x, 11)))
    outputs.add("norm_before", lambda: linear(normalized(x), 16))
    outputs.add("norm_behind", lambda: normalized(tf.nn.relu(linear(x, 16))))
    outputs.add("norm_of_sums", lambda: tf.nn.relu(normalized(linear(x, 16))))
    outputs.add("norm_between", lambda: linear(normalized(tf.nn.elu(linear(x, 16))), 18))
    outputs.add("norm_of_sums_between", lambda: linear(normalized(linear(x, 16)), 18))
    outputs.add("no_activation_between", lambda: linear(linear(x, 16), 18))
    outputs.add("input_normalized", lambda: linear((x - tf.constant(noise(24) + 3000)) * constant(24), 16))
    outputs.add("input_centred", lambda: linear(x - 3000.0, 16))
    outputs.add("chain", lambda: tf.nn.softmax(linear(tf.tanh(linear(tf.nn.relu(linear(x, 33)), 17)), 12)))
    outputs.add("apart", lambda: linear(tf.sin(linear(tf.nn.relu(linear(x, 17)), 18)), 19))
    return outputs


def items(x):
    """On several items a row: tensors of rank 3."""
    outputs = Outputs()
    outputs.add("each_item", lambda: tf.nn.relu(linear(x, 16)))
    outputs.add("softmax_of_items", lambda: tf.nn.softmax(linear(x, 10)))
    outputs.add("norm_then_flat", lambda: linear(flat(normalized(tf.nn.relu(linear(x, 16)))), 8))
    outputs.add("flat_then_norm", lambda: linear(normalized(flat(tf.nn.relu(linear(x, 16)))), 8))
    outputs.add("folded_rows", lambda: tf.reshape(tf.nn.relu(linear(tf.reshape(x, [-1, 24]), 16)), [-1, 64]))
    outputs.add("einsum", lambda: tf.einsum("bij,jk->bik", x, constant(24, 16)))
    outputs.add("einsum_any", lambda: tf.nn.relu(tf.einsum("...j,jk->...k", x, constant(24, 16)) + constant(16)))
    outputs.add("einsum_heads", lambda: tf.einsum("abc,ecd->abde", x, constant(3, 24, 7)) + constant(7, 3))
    outputs.add("einsum_of_heads", lambda: tf.einsum("abcd,dce->abe", heads(x), constant(8, 3, 16)))
    outputs.add("einsum_between", lambda: tf.einsum("bij,ik->bkj", x, constant(4, 16)))
    outputs.add("einsum_sum", lambda: tf.einsum("bij,jk->bk", x, constant(24, 16)))
    outputs.add("einsum_turned", lambda: tf.einsum("bij,jk->bki", x, constant(24, 16)))
    outputs.add("einsum_of_one", lambda: tf.einsum("bij->bji", x))
    outputs.add("einsum_of_rows", lambda: tf.einsum("bij,bkj->bik", x, x))
    outputs.add("tensordot", lambda: tensordot(x, 16))
    outputs.add("tensordot_twice", lambda: tensordot(tensordot(x, 17), 16))
    outputs.add("bias_of_heads", lambda: heads(tf.matmul(x, constant(24, 24))) + constant(3, 8))
    outputs.add("bias_of_items", lambda: tf.matmul(x, constant(24, 16)) + constant(4, 16))
    outputs.add("turned_between", lambda: tf.transpose(tf.matmul(x, constant(24, 16)), [0, 2, 1]) + constant(16, 4))
    outputs.add("residual_heads", lambda: tf.nn.relu(heads(x) + heads(linear(x, 24))))
    outputs.add("sum_over_items", lambda: linear(tf.reduce_sum(tf.nn.relu(linear(x, 16)), 1), 18))
    outputs.add("product_of_rows", lambda: tf.matmul(x, x, transpose_b=True))
    outputs.add("softmax_of_products", lambda: tf.nn.softmax(tf.matmul(x, x, transpose_b=True)))
    outputs.add("conv1d", lambda: tf.nn.conv1d(x, constant(2, 24, 16), 1, "VALID") + constant(16))
    outputs.add("conv1d_padded", lambda: tf.nn.relu(tf.nn.conv1d(x, constant(3, 24, 16), 1, "SAME")))
    outputs.add("loop", lambda: looped(x))
    return outputs


def tensordot(x, units):
    """As Keras 2 has a dense layer. It asks for the shape of x."""
    return tf.nn.relu(tf.nn.bias_add(tf.tensordot(x, constant(x.shape[-1], units), 1), constant(units)))


def heads(x):
    return tf.reshape(x, [-1, 4, 3, 8])


def looped(x):
    weights = constant(24, 24)
    return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, weights))), (0, x[:, 0]))[1]


def images(x):
    outputs = Outputs()
    outputs.add("valid", lambda: tf.nn.elu(convolution(x, 10)))
    outputs.add("same", lambda: tf.nn.relu(convolution(x, 10, padding="SAME")))
    outputs.add("strides", lambda: convolution(x, 10, padding="SAME", strides=2))
    outputs.add("uneven_strides", lambda: convolution(x, 10, padding="SAME", strides=[1, 3, 2, 1]))
    outputs.add("dilated", lambda: convolution(x, 10, dilations=[1, 2, 3, 1]))
    outputs.add("explicit", lambda: convolution(x, 10, padding=[[0, 0], [2, 1], [0, 3], [0, 0]]))
    outputs.add("one_by_one", lambda: tf.nn.selu(convolution(x, 48, size=1)))
    outputs.add("grouped", lambda: grouped(x))
    outputs.add("depthwise", lambda: tf.nn.relu(depthwise(x, 1) + constant(6)))
    outputs.add("depthwise_more", lambda: depthwise(x, 2, padding="SAME", strides=2) + constant(12))
    outputs.add("norm_behind", lambda: tf.nn.relu(fused_normalized(convolution(x, 10, padding="SAME"))))
    outputs.add("norm_before_valid", lambda: convolution(fused_normalized(tf.nn.relu(convolution(x, 8))), 10))
    outputs.add("norm_before_same", lambda: convolution(fused_normalized(tf.nn.relu(convolution(x, 8))), 10, 3, "SAME"))
    outputs.add("norm_before_stride", lambda: convolution(fused_normalized(tf.sin(x)), 10, 3, "SAME", strides=2))
    outputs.add("norm_before_depthwise", lambda: depthwise(fused_normalized(tf.nn.relu(convolution(x, 8))), 2))
    outputs.add("norm_before_groups", lambda: grouped(fused_normalized(tf.nn.relu(convolution(x, 6, size=1)))))
    outputs.add("norm_of_input", lambda: convolution(fused_normalized(x), 10))
    outputs.add("flat_norm_dense", lambda: linear(normalized(flat(tf.nn.relu(convolution(x, 4)))), 9))
    outputs.add("norm_flat_dense", lambda: linear(flat(fused_normalized(tf.nn.relu(convolution(x, 4)))), 9))
    outputs.add("max_pool", lambda: tf.nn.max_pool2d(tf.nn.relu(convolution(x, 8)), 2, 2, "VALID"))
    outputs.add("max_pool_same", lambda: tf.nn.max_pool2d(tf.nn.relu(convolution(x, 8)), 3, 2, "SAME"))
    outputs.add("average_pool", lambda: tf.nn.avg_pool2d(tf.nn.relu(convolution(x, 8)), 2, 2, "VALID"))
    outputs.add("average_pool_same", lambda: tf.nn.avg_pool2d(tf.nn.relu(convolution(x, 8)), 3, 2, "SAME"))
    outputs.add("global_average", lambda: linear(tf.reduce_mean(tf.nn.relu(convolution(x, 20)), [1, 2]), 15))
    outputs.add("network", lambda: network(x))
    outputs.add("leaky_pool", lambda: tf.nn.max_pool2d(tf.nn.leaky_relu(convolution(x, 8)), 2, 2, "VALID"))
    outputs.add("clipped_pool", lambda: tf.nn.max_pool2d(tf.nn.relu6(convolution(x, 8)), 2, 2, "VALID"))
    outputs.add("residual", lambda: residual_images(x))
    outputs.add("residual_pool", lambda: residual_pool(x))
    outputs.add("padded_before", lambda: convolution(tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]]), 10))
    return outputs


def residual_images(x):
    """As ResNet has it: two convolutions beside nothing, then two beside a projection, then the mean and a product."""
    x = tf.nn.relu(convolution(x, 8, padding="SAME"))
    x = tf.nn.relu(x + convolution(tf.nn.relu(convolution(x, 8, padding="SAME")), 8, padding="SAME"))
    x = tf.nn.relu(x + fused_normalized(convolution(x, 8, padding="SAME")))
    return linear(tf.reduce_mean(x, [1, 2]), 15)


def residual_pool(x):
    """The pooling reads what is added too, so that its convolution must leave the whole of the image."""
    x = convolution(x, 8)
    return x + tf.nn.max_pool2d(x, 3, 1, "SAME")


def grouped(x):
    return convolution(x, 12, groups=3)


def network(x):
    x = tf.nn.max_pool2d(tf.nn.relu(convolution(x, 8)), 2, 2, "VALID")
    return tf.nn.softmax(linear(tf.nn.relu(linear(flat(tf.nn.elu(convolution(x, 9, size=2))), 16)), 3))


def structure(x):
    outputs = Outputs()
    outputs.add("inner", lambda: tf.nn.relu(linear(x, 24)))
    outputs.add("outer", lambda: tf.nn.relu(linear(outputs["inner"], 24)))
    outputs.add("same_output", lambda: outputs["outer"])
    outputs.add("residual", lambda: residual(x))
    outputs.add("residual_of_input", lambda: tf.nn.elu(linear(tf.nn.relu(linear(x, 18)), 24) + x))
    outputs.add("residual_blocks", lambda: residual_blocks(x))
    outputs.add("residual_inside", lambda: residual_inside(x))
    outputs.add("residual_used_again", lambda: residual_used_again(x))
    outputs.add("residual_of_output", lambda: outputs["inner"] + linear(outputs["inner"], 24))
    outputs.add("sum_of_two", lambda: tf.tanh(linear(x, 16)) + tf.tanh(linear(x, 17))[:, 1:])
    outputs.add("sum_of_sizes", lambda: linear(x, 1) + linear(x, 16))
    outputs.add("ends_reshaped", lambda: tf.reshape(tf.nn.relu(linear(x, 16)), [-1, 2, 8]))
    shared = constant(24, 24)
    outputs.add("weights_twice", lambda: tf.matmul(tf.tanh(tf.matmul(x, shared)), shared))
    outputs.add("branches", lambda: tf.concat([linear(tf.nn.relu(linear(x, size)), 16) for size in (16, 17)], 1))
    outputs.add("no_inputs", lambda: tf.matmul(x[:, :0], constant(0, 16)) + constant(16))
    outputs.add("no_outputs", lambda: tf.reduce_sum(linear(x, 0), 1))
    outputs.add("control", lambda: controlled(x))
    outputs.add("double", lambda: tf.cast(tf.matmul(tf.cast(x, "float64"), noise(24, 16).astype("float64")), "float32"))
    outputs.add("half", lambda: tf.cast(tf.matmul(tf.cast(x, "float16"), noise(24, 16).astype("float16")), "float32"))
    outputs.add("computed_weights", lambda: tf.matmul(x, tf.transpose(constant(16, 24)) * 2 + 1))
    outputs.add("small", lambda: linear(linear(x, 2), 2))
    outputs.add("shape_used", lambda: shape_used(x))
    outputs.add("swish_used_again", lambda: swish_used_again(x))
    outputs.add("norm_for_two", lambda: norm_for_two(x))
    outputs.add("gelu_used_again", lambda: gelu_used_again(x))
    return outputs


def residual(x):
    x = tf.nn.relu(linear(x, 24))
    return tf.nn.relu(x + linear(tf.nn.relu(linear(x, 24)), 24))


def residual_blocks(x):
    x = tf.nn.relu(linear(x, 33))
    for _ in range(3):
        x = x + linear(tf.nn.relu(linear(x, 20)), 33)
    return linear(x, 5)


def residual_inside(x):
    """One connection around another one, which is around a normalization."""
    x = tf.nn.relu(linear(x, 17))
    inner = tf.tanh(linear(x, 19))
    return linear(x + linear(inner + linear(normalized(inner), 19), 17), 18)


def residual_used_again(x):
    """What is added twice, and used by nothing else that is added."""
    x = tf.nn.relu(linear(x, 17))
    y = x + linear(x, 17)
    return x + linear(tf.nn.relu(y), 17)


def shape_used(x):
    """Something outside asks for the shape of what lies inside of a chain."""
    inner = tf.nn.relu(linear(x, 17))
    return tf.reshape(tf.abs(linear(inner, 18)), [tf.shape(inner)[0], 3, 6])


def swish_used_again(x):
    sums = linear(x, 16)
    return sums * tf.sigmoid(sums) + sums


def gelu_used_again(x):
    """Its inner sum is an output too, so that the form is not closed."""
    sums = linear(x, 16)
    inner = 1 + tf.math.erf(sums / np.sqrt(2))
    return 0.5 * sums * inner + inner


def norm_for_two(x):
    x = normalized(tf.nn.relu(linear(x, 16)))
    return linear(x, 17) + linear(x, 17)


def controlled(x):
    with tf.control_dependencies([tf.debugging.assert_less(tf.shape(x)[0], 1000)]):
        first = tf.nn.relu(linear(x, 16))
    with tf.control_dependencies([first]):
        return linear(tf.nn.relu(linear(x, 17)), 18)


MODELS = {
    "dense": (dense, (24,)),
    "items": (items, (4, 24)),
    "images": (images, (9, 8, 6)),
    "structure": (structure, (24,)),
}
UNUSED = "unused"
"""Of each model: an input that nothing uses."""


def batches(shape):
    """Inputs by name. In `broken` each row has one value of its own that is no number, or not finite."""
    random = np.random.default_rng(5)
    usual = {f"rows{rows}": random.standard_normal((rows, *shape)).astype("float32") for rows in (1, 3, 5)}
    broken = random.standard_normal((5, *shape)).astype("float32")
    for row, value in zip(broken, (np.nan, np.inf, -np.inf, 1e30, 1e-40), strict=True):
        row.reshape(-1)[7] = value
    return usual | {"broken": broken, "far": usual["rows5"] * np.float32(1e-2) + np.float32(3000)}


def write(name, folder):
    make, shape = MODELS[name]
    module = tf.Module()
    specs = {"x": tf.TensorSpec([None, *shape], tf.float32), UNUSED: tf.TensorSpec([None, 2], tf.float32)}
    module.body = tf.function(lambda x, unused: dict(make(x)))  # noqa: ARG005 (the name is the input's)
    function = module.body.get_concrete_function(**specs)
    tf.saved_model.save(module, folder, signatures=function)
    answers = {}
    for batch, values in batches(shape).items():
        answers[f"{batch}/in"] = values
        unused = np.zeros((len(values), 2), "float32")
        results = function(tf.constant(values), tf.constant(unused))
        answers |= {f"{batch}/out/{output}": value.numpy() for output, value in results.items()}
    np.savez(os.path.join(folder, "answers.npz"), **answers)


if __name__ == "__main__":
    # What is computed is the graph as it stands: TensorFlow's optimizer makes operations that its CPU code does not have.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    for model in MODELS:
        write(model, os.path.join(sys.argv[1], model))
