"""Data frames of pandas and polars by the names of their columns, and tensors of JAX without copies."""

from __future__ import annotations

import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl

import tfaot_pkg
from tfaot_pkg.runtime.given import shared

model = tfaot_pkg.compile(sys.argv[1], quiet=True)
draw = np.random.default_rng(0)
jet, tracks = (draw.normal(size=size).astype("float32") for size in ((7, 4), (7, 12, 6)))
expected = model(jet=jet, tracks=tracks)["p"]
names = ["pt", "eta", "phi", "mass"]
of_jax = jnp.asarray(jet)

RESULT = {
    "pandas": bool((model(jet=pd.DataFrame(jet, columns=names), tracks=tracks)["p"] == expected).all()),
    "polars": bool((model(jet=pl.DataFrame(jet, schema=names), tracks=tracks)["p"] == expected).all()),
    "jax": bool((model(jet=of_jax, tracks=jnp.asarray(tracks))["p"] == expected).all()),
    "no copy": shared("m", "x", of_jax).ctypes.data == of_jax.unsafe_buffer_pointer(),
}
for name, wrong in {
    "columns": lambda: model(jet=pd.DataFrame(jet[:, :3]), tracks=tracks),
    "alone": lambda: model(pd.DataFrame(jet, columns=names)),
    "texts": lambda: model(jet=pd.DataFrame(jet, columns=names).assign(pt="a"), tracks=tracks),
}.items():
    try:
        wrong()
    except tfaot_pkg.RunError as error:
        RESULT[name] = str(error)
