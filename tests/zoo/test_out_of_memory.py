"""Models without memory: a status of the call, nothing left behind, and right answers when there is memory again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native.conftest import compile_c
from tests.zoo.cases import BY_NAME, NEWEST_VERSION
from tests.zoo.conftest import Build
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

INSTANCE = 3  # allocations of any instance: itself, its workspaces, the scratch memory of one


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "tensorflow", "inner"),
    [
        ("sorting", DEFAULT_VERSION, 3),
        ("dense", DEFAULT_VERSION, 0),
        ("dense", NEWEST_VERSION, 2),
        ("conv_kinds", NEWEST_VERSION, 2),
    ],
)
def test_every_allocation_may_fail(name: str, tensorflow: str, inner: int, build: Build, tmp_path: Path) -> None:
    """`inner`: how many allocations at least are those of XLA's runtime and generated code."""
    library = build(BY_NAME[name], tensorflow=tensorflow).library
    program = compile_c("out_of_memory", tmp_path / "program")
    assert int(run([program, library.shared, "7"]).stdout) >= INSTANCE + inner
    linked: list[str | Path] = [f"-DENTRY={library.symbol}", library.static, "-lm"]
    static = compile_c("out_of_memory", tmp_path / "static", *linked)
    assert int(run([static, "-", "7"]).stdout) >= INSTANCE + inner
