"""What is not published, whoever built it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.package.conftest import SIGNATURE, make_spec
from tests.registry.conftest import write_tree
from tests.registry.tiny import tiny_files, tiny_libraries
from tests.wording import reported
from tfaot_pkg.analysis.rows import INDEPENDENT
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.pipeline.publish import release_of

NAME = "tfaot-model-digits"
SYSTEM = "extern int system(const char *);\nstatic __attribute__((used)) int f(void) { return system(0); }\n"
EXP = "extern double exp(double);\nstatic __attribute__((used)) double f(double x) { return exp(x); }\n"


def build_of(root: Path, code: str, *options: str, glibc: str = "2.99") -> Any:
    """As much of a build as is looked at before anything is packed."""
    static, shared = tiny_libraries("digits", "1.0", code, *options)
    library = f"lib/lib{NAME}.so"
    write_tree(root, {**tiny_files("digits", "1.0"), f"lib/lib{NAME}.a": static, library: shared})
    tree = SimpleNamespace(
        root=root, package_name=NAME, version="1.0", shared_library=root / library, loaded=(root / library,)
    )
    spec = SimpleNamespace(package=SimpleNamespace(glibc=glibc))
    return SimpleNamespace(tree=tree, plan=SimpleNamespace(key="a" * 64, spec=spec))


def test_a_package_that_nobody_would_install_is_not_published(tmp_path: Path) -> None:
    with reported(TrustError):
        release_of(build_of(tmp_path, SYSTEM), BuildCache(root=tmp_path))


@pytest.mark.parametrize("text", ["# 1.0\n", "execute_process(COMMAND true)\n"])
def test_only_a_package_with_the_build_files_of_the_tool_is_published(tmp_path: Path, text: str) -> None:
    """Also if it was changed between its build and its publication, in the cache."""
    build = build_of(tmp_path, "")
    (tmp_path / f"lib/cmake/{NAME}/{NAME}Config.cmake").write_text(text)
    made = make_spec("digits", version="1.0")
    build.plan.spec = replace(made, compilation=replace(made.compilation, targets=()))
    build.plan.toolchain = SimpleNamespace(toolchain=SimpleNamespace(name="tensorflow 2.17.1"))
    build.frozen, build.engine = (
        SimpleNamespace(rows=INDEPENDENT, signature=SIGNATURE),
        SimpleNamespace(is_program=True),
    )
    build.library, build.gains = None, ()
    with nullcontext() if text.startswith("#") else reported(TrustError):
        assert release_of(build, BuildCache(root=tmp_path / "builds")).entry.name == NAME


def test_a_library_above_the_floor_is_not_published(tmp_path: Path) -> None:
    with reported(RegistryError):
        build = build_of(tmp_path, EXP, "-Wl,--no-as-needed", "-lm", glibc="2.1")
        release_of(build, BuildCache(root=tmp_path))
