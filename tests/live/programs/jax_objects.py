"""A function of JAX, and modules of Flax and Equinox."""

from __future__ import annotations

import time

import equinox
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import tfaot_pkg

draw = np.random.default_rng(0)
x, scale = draw.normal(size=(6, 5)).astype("float32"), draw.normal(size=(6, 5)).astype("float32")
weights = draw.normal(size=(5, 3)).astype("float32")


def scores(rows, factor):
    return {"score": jax.nn.softmax((rows * factor) @ weights), "sum": rows.sum(1)}


class Small(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, features):
        return flax.linen.Dense(2)(jax.nn.relu(flax.linen.Dense(8)(features)))


RESULT = {}


def judge(name, model, theirs, *arrays):
    found = list(model(*arrays).values())
    RESULT[name] = [
        max(float(abs(a - np.asarray(b)).max()) for a, b in zip(found, theirs, strict=True)),
        model.report.verdict,
    ]


model = tfaot_pkg.compile(scores, (x, scale))
start = time.perf_counter()
tfaot_pkg.compile(scores, (x, scale))
again = time.perf_counter() - start
judge("function", model, [scores(x, scale)[each.name] for each in model.signature.outputs], x, scale)
linen = Small()
variables = linen.init(jax.random.key(0), x)
judge("linen", tfaot_pkg.compile(linen, x, variables=variables), [linen.apply(variables, x)], x)
net = nnx.Linear(5, 2, rngs=nnx.Rngs(0))
judge("nnx", tfaot_pkg.compile(net, x), [net(jnp.asarray(x))], x)
mlp = equinox.nn.MLP(5, 2, 8, 1, key=jax.random.key(1))
judge("equinox", tfaot_pkg.compile(mlp, x), [jax.vmap(mlp)(x)], x)
RESULT["again"] = again
