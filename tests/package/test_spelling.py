"""A package of a model whose name has `_`: its own names have `-`, and its users' former spelling leads there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import WARNINGS, cmake
from tests.package.test_pkgconfig import pkg_config
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.name import spellings
from tfaot_pkg.package.tree import PackageTree

__all__ = ["pkg_config"]

pytestmark = pytest.mark.slow

NEW, OLD = "tfaot-model-jet-tagger", "tfaot-model-jet_tagger"

PROGRAM = """
#include <{first}/model.h>
#include <{second}/model.h>
#include <cstdio>
int main() {{
  tfaot_model::jet_tagger model;
  const float bias[] = {{1, 1, 1}}, x[] = {{10, 20, 30}};
  float y[3];
  std::int64_t label[1];
  model.run(1, bias, x, label, y);
  std::printf("%g\\n", static_cast<double>(y[0]));
}}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.19)
project(consumer LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 17)
{calls}
add_executable(program main.cpp)
target_link_libraries(program PRIVATE {targets})
"""


@pytest.fixture(scope="module")
def tagger(make_tree: Callable[..., PackageTree], tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("tagger")
    make_tree(prefix, "jet_tagger")
    return prefix


def test_all_files_are_named_after_the_package(tagger: Path) -> None:
    files = {path.relative_to(tagger).as_posix() for path in tagger.rglob("*") if path.is_file()}
    former = {path for path in files if OLD in path}
    assert former == {
        f"include/{OLD}/model.h",
        f"include/{OLD}/entry.h",
        f"lib/cmake/{OLD}/{OLD}Config.cmake",
        f"lib/cmake/{OLD}/{OLD}ConfigVersion.cmake",
        f"lib/pkgconfig/{OLD}.pc",
    }
    assert all(path.startswith("include/tfaot/") or any(stem in path for stem in spellings(NEW)) for path in files)
    assert {f"include/{NEW}/model.h", f"lib/lib{NEW}.a", f"etc/scram.d/{NEW}.xml", f"share/{NEW}/info.json"} <= files
    assert f'name="{NEW}"' in (tagger / "etc/scram.d" / f"{NEW}.xml").read_text()


@pytest.mark.parametrize(
    ("calls", "targets"),
    [
        (f"find_package({NEW} 1.2 REQUIRED)", f"{NEW}::{NEW}"),
        (f"find_package({OLD} 1.2 REQUIRED)", f"{OLD}::{OLD}"),
        (f"find_package({OLD} 1.2 REQUIRED COMPONENTS shared)", f"{OLD}::shared"),
        (f"find_package({NEW} REQUIRED)\nfind_package({OLD} REQUIRED)", f"{OLD}::{OLD} {NEW}::{NEW}"),
    ],
)
def test_cmake_finds_it_by_either_name(calls: str, targets: str, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(PROGRAM.format(first=NEW, second=OLD))
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(calls=calls, targets=targets))
    cmake(
        "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tagger}", f"-DCMAKE_BUILD_RPATH={tagger}/lib"
    )
    cmake("--build", tmp_path / "build")
    assert run([tmp_path / "build" / "program"]).stdout == "21\n"


@pytest.mark.parametrize("request_", ["2.0", "1.3"])
def test_a_version_that_does_not_fit_is_refused_by_either_name(request_: str, tagger: Path, tmp_path: Path) -> None:
    calls = "\n".join(
        f'find_package({name} {request_} QUIET)\nmessage("found: ${{{name}_FOUND}}")' for name in (NEW, OLD)
    )
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.19)\nproject(finder LANGUAGES NONE)\n{calls}\n"
    )
    printed = cmake("-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tagger}", "--log-level=NOTICE")
    assert "found: 1" not in printed and "found: TRUE" not in printed


@pytest.mark.parametrize("name", [NEW, OLD])
def test_pkg_config_finds_it_by_either_name(
    name: str, tagger: Path, tmp_path: Path, pkg_config: Callable[..., list[str]]
) -> None:
    (tmp_path / "main.cpp").write_text(PROGRAM.format(first=OLD, second=NEW))
    flags = pkg_config(tagger, "--cflags", "--libs", name)
    assert f"-l{NEW}" in flags
    run(
        [
            "g++",
            "-std=c++17",
            *WARNINGS,
            tmp_path / "main.cpp",
            *flags,
            f"-Wl,-rpath,{tagger}/lib",
            "-o",
            tmp_path / "p",
        ]
    )
    assert run([tmp_path / "p"]).stdout == "21\n"
