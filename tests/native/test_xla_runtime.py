"""XLA's runtime parts compile for the levels that models are asked for, with an empty cache."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.native.xla_runtime import Parts
from tfaot_pkg.package.binary.elf import defined_symbols

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(300)]


@pytest.mark.nightly
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compiles for x86-64")
def test_convolutions_compile_for_the_highest_level(
    shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    parts = Parts(
        environment=ensure(DEFAULT_VERSION, folders=folders, progress=Silent()),
        compiler=find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None),
        cache=BuildCache(root=tmp_path / "builds"),
    )
    (part,) = (each for each in parts.environment.toolchain.parts if each.source == "classic/convolution.cc")
    code = parts.compiled(part, TARGETS["x86-64-v4"])
    assert "__xla_cpu_runtime_EigenSingleThreadedConv2DF32" in defined_symbols(code)
