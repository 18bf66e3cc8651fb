"""Packages of networks in fixed point, as the command line makes them without a network, and their answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.commands import run_command
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.runtime.loader import load

_AT_ONCE = 1000


def tool(home: Path, folder: Path, *words: str | Path, code: int = 0) -> str:
    """What the command prints, on its standard error if it fails."""
    environment = {**os.environ, "TFAOT_HOME": str(home), "https_proxy": "http://127.0.0.1:9"}
    done = run_command(words, cwd=folder, env=environment)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def answers_of_package(
    home: Path, folder: Path, model: str, *, oracle: str, rows: Mapping[str, Array], exact: bool = True
) -> dict[str, Array]:
    """The answers to `rows` ("in/x") of the package of `model` ("KEY: FILE" of a spec), by output.

    It is verified against `oracle`, and with `exact` to the bit.
    """
    tool(home, folder, "init", model.partition(": ")[2], "-o", "spec.yaml")
    spec = (folder / "spec.yaml").read_text()
    assert model in spec
    if exact:
        spec = spec.replace("rtol: 1.0e-04", "rtol: 0").replace("atol: 1.0e-05", "atol: 0")
        assert "rtol: 0\n" in spec and "atol: 0\n" in spec
        (folder / "spec.yaml").write_text(spec)
    fewer = ["--target", "x86-64-v3", "--batch-size", "1", "--batch-size", "4"]
    assert f"verified against {oracle}" in tool(home, folder, "build", "spec.yaml", "-o", "prefix", *fewer)
    package, x = load(folder / "prefix"), rows["in/x"]
    parts = [package(x=x[start : start + _AT_ONCE]) for start in range(0, len(x), _AT_ONCE)]
    return {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
