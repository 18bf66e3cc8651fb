"""Headers of CMSDIST's tools, which have ours in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import WARNINGS
from tests.package.test_every_compiler import PRELUDE
from tfaot_pkg.cmsdist.compiling import our_headers, standalone
from tfaot_pkg.ground.process import run

pytestmark = pytest.mark.slow


@pytest.mark.sweep("clang++")
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_all_headers_in_one_file_compile_after_macros_and_all_headers_of_c(
    compiler: str, tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    require_program(compiler)
    (tmp_path / "prelude.h").write_text(PRELUDE)
    for name in ("tfaot/tfaot.h", "tfaot/cmssw_wrapper.h"):
        text = standalone(f"#include <{name}>\n", our_headers())
        assert "\n#include <tfaot/" not in text
        (tmp_path / "one.cpp").write_text(f'#include "prelude.h"\n{text}')
        run([compiler, "-std=c++17", *WARNINGS, "-fsyntax-only", tmp_path / "one.cpp"])
