"""Export functions of JAX, with inputs and JAX's answers to them beside each; and files that must be refused.

JAX/bin/python mlir_files.py FOLDER
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

RANDOM = np.random.default_rng(7)
WIDE = RANDOM.normal(size=(16, 16)).astype(np.float32) / 4
NARROW = RANDOM.normal(size=(16, 5)).astype(np.float32)
TABLE = RANDOM.normal(size=(300, 4)).astype(np.float32)


@jax.jit
def layer(x):
    return jnp.tanh(x @ WIDE)


def mlp(features):
    return {"score": jax.nn.softmax(jax.nn.gelu(features @ WIDE) @ NARROW), "norm": jnp.linalg.norm(features, axis=1)}


def shared(x):
    """One function with weights, called twice."""
    return layer(layer(x)) @ NARROW


def recurrent(inputs, *, start):
    """A loop whose body reads weights."""

    def step(state, x):
        state = jnp.tanh(x @ WIDE + state @ WIDE.T)
        return state, state[:, :2]

    state, steps = jax.lax.scan(step, start, jnp.swapaxes(inputs["in"], 0, 1))
    return {"class": state, "steps": jnp.swapaxes(steps, 0, 1)}


def looked_up(codes, flags, unused):
    return jnp.where(flags[:, None], jnp.asarray(TABLE)[codes], 0), codes.astype(jnp.int8) + 1


def struct(shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def cases():
    """Name -> (function, positional arguments, keywords, platforms)."""
    (b,) = export.symbolic_shape("b")
    rows = struct((b, 16))
    ranged = export.symbolic_shape("b, n", constraints=["n >= 2", "n <= 40"])
    return {
        "mlp": (mlp, (rows,), {}, ["cpu"]),
        "platforms": (mlp, (rows,), {}, ["cuda", "cpu"]),
        "shared": (shared, (rows,), {}, ["cpu"]),
        "recurrent": (recurrent, ({"in": struct((b, 6, 16))},), {"start": rows}, ["cpu"]),
        "looked_up": (
            looked_up, (struct((b,), np.int32), struct((b,), np.bool_), struct((b, 3))), {}, ["cpu"],
        ),
        "fixed": (mlp, (struct((3, 16)),), {}, ["cpu"]),
        "ranged": (lambda x: x.sum(1), (struct(ranged),), {}, ["cpu"]),
    }  # fmt: skip


def values(spec):
    shape = tuple(size if isinstance(size, int) else 3 for size in spec.shape)
    if spec.dtype == np.bool_:
        return RANDOM.uniform(size=shape) < 0.5
    if spec.dtype == np.int32:
        return RANDOM.integers(0, 300, size=shape).astype(np.int32)
    return RANDOM.normal(size=shape).astype(spec.dtype)


def save(folder, name, function, arguments, keywords, platforms):
    exported = export.export(jax.jit(function), platforms=platforms)(*arguments, **keywords)
    with open(os.path.join(folder, f"{name}.jax"), "wb") as file:
        file.write(exported.serialize())
    if platforms == ["cpu"]:
        with open(os.path.join(folder, f"{name}.mlir"), "w") as file:
            file.write(exported.mlir_module())
        with open(os.path.join(folder, f"{name}.mlirbc"), "wb") as file:
            file.write(exported.mlir_module_serialized)
    given = jax.tree_util.tree_map(values, (arguments, keywords))
    answers = function(*given[0], **given[1])
    for kind, tree in (("inputs", given), ("answers", answers)):
        leaves = {f"{place}": np.asarray(leaf) for place, leaf in enumerate(jax.tree_util.tree_leaves(tree))}
        np.savez(os.path.join(folder, f"{name}.{kind}.npz"), **leaves)


def refused(folder):
    def write(name, function, platforms):
        exported = export.export(jax.jit(function), platforms=platforms, disabled_checks=CHECKS)(struct((4, 4)))
        with open(os.path.join(folder, name), "wb") as file:
            file.write(exported.serialize())

    write("tpu.jax", jnp.tanh, ["tpu"])
    write("call.jax", jnp.linalg.cholesky, ["cpu"])


CHECKS = [export.DisabledSafetyCheck.custom_call("lapack_spotrf_ffi")]


def main():
    folder = sys.argv[1]
    for name, case in cases().items():
        save(folder, name, *case)
    refused(folder)


if __name__ == "__main__":
    main()
