"""Train a small network with JAX, export it, and print its scores for the points that main.cpp scores too.

    python export.py ring.jax

It needs jax and flatbuffers. The network learns which points lie between two circles.
"""

import sys

import jax
import jax.numpy as jnp
from jax import export

SIZES = (2, 16, 16, 1)
POINTS = [[0.0, 0.0], [1.0, 0.0], [0.0, -1.2], [2.0, 2.0], [-0.7, 0.7]]


def network(parameters, points):
    values = points
    for weights, bias in parameters[:-1]:
        values = jnp.tanh(values @ weights + bias)
    weights, bias = parameters[-1]
    return jax.nn.sigmoid(values @ weights + bias)[:, 0]


def loss(parameters, points, labels):
    scores = jnp.clip(network(parameters, points), 1e-6, 1 - 1e-6)
    return -jnp.mean(labels * jnp.log(scores) + (1 - labels) * jnp.log(1 - scores))


@jax.jit
def step(parameters, points, labels):
    return jax.tree.map(lambda value, slope: value - slope, parameters, jax.grad(loss)(parameters, points, labels))


def trained():
    keys = jax.random.split(jax.random.key(0), len(SIZES))
    parameters = [
        (jax.random.normal(key, (rows, columns)) / jnp.sqrt(rows), jnp.zeros(columns))
        for key, rows, columns in zip(keys[1:], SIZES[:-1], SIZES[1:], strict=True)
    ]
    points = jax.random.uniform(keys[0], (512, 2), minval=-2, maxval=2)
    radii = jnp.linalg.norm(points, axis=1)
    labels = jnp.where((radii > 0.6) & (radii < 1.4), 1.0, 0.0)
    for _ in range(500):
        parameters = step(parameters, points, labels)
    return parameters


def main():
    parameters = trained()
    predict = jax.jit(lambda points: {"score": network(parameters, points)})
    (batch,) = export.symbolic_shape("batch")
    exported = export.export(predict, platforms=["cpu"])(jax.ShapeDtypeStruct((batch, 2), jnp.float32))
    with open(sys.argv[1], "wb") as file:
        file.write(exported.serialize())
    for point, score in zip(POINTS, predict(jnp.array(POINTS))["score"], strict=True):
        sys.stdout.write(f"({point[0]:.1f}, {point[1]:.1f}): {float(score):.3f}\n")


if __name__ == "__main__":
    main()
