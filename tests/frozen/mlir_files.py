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
SHORT = jnp.asarray(WIDE, jnp.bfloat16)
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


def composed(x):
    """What JAX writes as composite operations, which call functions of the module."""
    values, places = jax.lax.top_k(x, 4)
    again, _ = jax.lax.top_k(values, 2)
    return {
        "values": values, "places": places, "again": again, "normal": jax.scipy.stats.norm.cdf(x),
        "inverse": jax.lax.erf_inv(jnp.tanh(x)), "sorted": x[:, jnp.argsort(jnp.asarray(WIDE[0]))],
    }  # fmt: skip


def spectra(x):
    """Transforms of lengths with small divisors, of primes, along several axes, and complex constants."""
    square, long = x.reshape(-1, 4, 4), jnp.concatenate([x, x * x, -x], 1)
    found = {
        "whole": jnp.fft.fft(x), "prime": jnp.fft.fft(long[:, :37]), "large_prime": jnp.fft.ifft(x, n=1031)[:, ::50],
        "long": jnp.fft.ifft(long * (1 + 2j)), "half": jnp.fft.rfft(x), "odd": jnp.fft.rfft(x[:, :15]), "plane": jnp.fft.fft2(square),
        "half_plane": jnp.fft.rfft2(square), "first": jnp.fft.fft(square, axis=1),
    }  # fmt: skip
    real = {
        "back": jnp.fft.irfft(found["half"] * (1 - 1j)), "odd_back": jnp.fft.irfft(found["odd"], n=15),
        "plane_back": jnp.fft.irfft2(found["half_plane"]),
    }  # fmt: skip
    return real | {f"{name}_{part}": take(each) / 4 for name, each in found.items() for part, take in PARTS.items()}


PARTS = {"re": jnp.real, "im": jnp.imag}


def rows_of(x):
    """Small functions of jax.numpy, jax.lax and jax.scipy, at an unknown number of rows."""
    lax, special, positive = jax.lax, jax.scipy.special, jnp.abs(x) + 0.5
    steps, ends = jnp.arange(5.0), jnp.zeros((x.shape[0], 5))
    return {
        "sort": jnp.sort(x), "argsort": jnp.argsort(x), "lexsort": jnp.lexsort((x, -x)), "median": jnp.median(x, -1),
        "quantile": jnp.quantile(x, 0.3, axis=-1), "argmax": jnp.argmax(x, -1), "cumsum": jnp.cumsum(x, -1),
        "cumprod": jnp.cumprod(x, -1), "cummax": lax.cummax(x, axis=1), "cumlogsumexp": lax.cumlogsumexp(x, axis=1),
        "searchsorted": jnp.searchsorted(steps, x), "digitize": jnp.digitize(x, steps),
        "interp": jnp.interp(x, steps, steps**2), "polyval": jnp.polyval(steps, x), "digamma": lax.digamma(positive),
        "lgamma": lax.lgamma(positive), "gammainc": special.gammainc(positive, positive),
        "betainc": special.betainc(positive, 2.0, jax.nn.sigmoid(x)), "bessel": special.i0e(x) + special.i1e(x),
        "zeta": special.zeta(positive + 2, 1.5), "polygamma": special.polygamma(1, positive),
        "expi": special.expi(positive), "ndtri": special.ndtri(jax.nn.sigmoid(x)), "entr": special.entr(positive),
        "logsumexp": special.logsumexp(x, axis=-1), "scatter_add": ends.at[:, jnp.array([0, 1, 1, 4])].add(x[:, :4]),
        "scatter_set": x.at[:, 2:4].set(0.0), "segments": jax.ops.segment_sum(x.T, jnp.arange(16) // 4, 4).T,
        "loop": lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * 1.1, c[1] + 1), (x, 0))[0],
        "values": lax.while_loop(lambda c: jnp.max(jnp.abs(c)) > 0.5, lambda c: c * 0.5, x),
        "fori": lax.fori_loop(0, 4, lambda i, c: c + i * jnp.sin(c), x),
        "scan": lax.scan(lambda c, v: (c * 0.9 + v, c), jnp.zeros(x.shape[0]), x.T)[1].T,
        "associative": lax.associative_scan(jnp.add, x, axis=1),
        "cond": lax.cond(jnp.sum(x) > 0, lambda v: v * 2, lambda v: v - 1, x),
        "switch": lax.switch(2, [jnp.sin, jnp.cos, jnp.tan], x), "slice": lax.dynamic_slice_in_dim(x, 3, 3, 1),
        "taken": jnp.take_along_axis(x, jnp.argsort(x)[:, :3], -1),
        "rows_slices": jax.vmap(lambda row: lax.dynamic_slice_in_dim(row, jnp.argmax(row), 3))(x),
        "counted": jax.vmap(lambda row: jnp.bincount(row, length=5))(jnp.clip(x, 0, 4).astype(jnp.int32)),
        "update": lax.dynamic_update_slice_in_dim(x, x[:, :2] * 0, 3, 1), "roll": jnp.roll(x, 2, -1),
        "noise": x + jax.random.normal(jax.random.key(3), (16,)), "one_hot": jax.nn.one_hot(jnp.argmax(x, -1), 16),
        "rows": x + jax.random.uniform(jax.random.key(3), x.shape), "drawn": jax.random.categorical(jax.random.key(1), x),
        "convolved": jax.vmap(lambda row: jnp.convolve(row, jnp.ones(3), mode="same"))(x), "clip": jnp.clip(x, -1, 1),
        "windows": lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 2), "SAME"),
        "resized": jax.image.resize(x.reshape(-1, 4, 4), (x.shape[0], 6, 6), "bilinear"),
        "cubic": jax.image.resize(x.reshape(-1, 4, 4), (x.shape[0], 3, 3), "cubic"),
        "power": jnp.linalg.matrix_power(x.reshape(-1, 4, 4), 3), "norm": jnp.linalg.norm(x, axis=1),
        "rounded": lax.reduce_precision(x, 8, 7), "short": (x.astype(SHORT.dtype)[:, :, None] * SHORT).astype(x.dtype),
        "bits": lax.population_count(lax.bitcast_convert_type(x, jnp.int32)), "next": lax.nextafter(x, x + 1),
        "phase": jnp.abs(jnp.exp(1j * x)) + jnp.angle(x + 1j), "order": x[jnp.argsort(x[:, 0])], "mean": x - x.mean(0),
        "attention": jax.nn.dot_product_attention(*[x.reshape(-1, 4, 2, 2)] * 3), "unit": jax.nn.silu(jax.nn.relu6(x)),
    }  # fmt: skip


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
        "composed": (composed, (rows,), {}, ["cpu"]),
        "spectra": (spectra, (rows,), {}, ["cpu"]),
        "rows_of": (rows_of, (rows,), {}, ["cpu"]),
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
    answers = jax.jit(function)(*given[0], **given[1])
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
    write("approximate.jax", lambda x: jax.lax.approx_max_k(x, 2), ["cpu"])


CHECKS = [export.DisabledSafetyCheck.custom_call(name) for name in ("lapack_spotrf_ffi", "ApproxTopK")]


def main():
    folder = sys.argv[1]
    for name, case in cases().items():
        save(folder, name, *case)
    refused(folder)


if __name__ == "__main__":
    main()
