"""The kernel library for every target that this machine can run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernels.library import REPOSITORY, Kernels, compile_library
from tfaot_pkg.targets import TARGETS, lowest, runs_here

READY = os.environ.get("TFAOT_TEST_KERNELS")  # a library that the caller has built otherwise, for one target
RUNNABLE = [lowest("x86_64")] if READY else [target for target in TARGETS.values() if runs_here(target)]


@pytest.fixture(scope="session", params=RUNNABLE, ids=lambda target: target.name)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """The kernels of one target, by the system's C++ compiler. Arrays end at a forbidden page."""
    if READY:
        return Kernels(Path(READY))
    return Kernels(compile_library(REPOSITORY / "build" / "kernels", request.param, compiler="c++"))
