"""find_package, build and run, with real CMake and Ninja."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from tests.package.conftest import HERE, cmake
from tfaot_pkg.ground.process import CommandFailed, run

pytestmark = pytest.mark.slow

EXPECTED = "affine 21, steep 31\n"


def needed_libraries(program: Path) -> set[str]:
    with program.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        return {str(getattr(tag, "needed")) for tag in section.iter_tags("DT_NEEDED")}  # noqa: B009 (made at run time)


@pytest.fixture(scope="module")
def consumer(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of the consumer, against a moved copy of the prefix in a path with blanks."""
    root = tmp_path_factory.mktemp("a path with blanks (1)")
    shutil.copytree(prefix, root / "before")
    moved = (root / "before").rename(root / "moved prefix")
    build = root / "build"
    cmake("-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={moved}", "-DBUILD_SHARED_LIBS=ON",
          "-DCMAKE_CXX_STANDARD=17", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-Wall -Werror")  # fmt: skip
    cmake("--build", build, "-j", "2")
    return build


@pytest.mark.parametrize(("kind", "shared"), [("static", False), ("shared", True), ("default", True)])
def test_two_models_work_in_one_program(consumer: Path, kind: str, shared: bool) -> None:
    program = consumer / f"consumer-{kind}"
    assert run([program]).stdout == EXPECTED
    models = {"libtfaot-model-affine.so.0123456789ab", "libtfaot-model-steep.so.0123456789ab"}
    assert models & needed_libraries(program) == (models if shared else set())


def find(prefix: Path, folder: Path, calls: str, *options: str) -> str:
    """What a project prints that needs no compiler."""
    folder.mkdir(exist_ok=True)
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.19)\nproject(finder LANGUAGES NONE)\n{calls}\n"
    )
    return cmake("-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}", *options)


@pytest.mark.parametrize(
    ("components", "linked"), [("cmssw", "static"), ("shared;cmssw", "shared"), ("cmssw;static", "static")]
)
def test_headers_under_cmssws_names_are_a_component(components: str, linked: str, prefix: Path, tmp_path: Path) -> None:
    calls = (
        f"find_package(tfaot-model-affine REQUIRED COMPONENTS {components})\n"
        "get_target_property(model tfaot-model-affine::tfaot-model-affine INTERFACE_LINK_LIBRARIES)\n"
        "get_target_property(folder tfaot-model-affine::cmssw INTERFACE_INCLUDE_DIRECTORIES)\n"
        'message(STATUS "${model} ${folder}")'
    )
    printed = find(prefix, tmp_path / "project", calls)
    assert f"tfaot-model-affine::{linked} {prefix}/include/tfaot/cmssw" in printed
    assert (prefix / "include/tfaot/cmssw/PhysicsTools/TensorFlowAOT/interface/Model.h").is_file()


VERSIONS = {
    "": True,
    "1": True,
    "1.1": True,
    "1.2.0": True,
    "1.2.0;EXACT": True,
    "1.1;EXACT": False,
    "1.2.1": False,
    "1.3": False,
    "0.9": False,
    "2": False,
    "1.0...<2": True,
    "0.5...1.2.0": True,
    "0.5...<1.2": False,
    "2...3": False,
}


def test_a_request_finds_its_major_version_up_to_the_packages_own(prefix: Path, tmp_path: Path) -> None:
    calls = []
    for number, request in enumerate(VERSIONS):
        arguments = request.replace(";", " ")
        calls += [
            "unset(tfaot-model-affine_DIR CACHE)",
            f"find_package(tfaot-model-affine {arguments} QUIET)",
            f'message(STATUS "request {number}: ${{tfaot-model-affine_FOUND}}")',
        ]
    printed = find(prefix, tmp_path / "project", "\n".join(calls))
    found = [f"request {number}: {'1' if good else '0'}" in printed.replace("TRUE", "1").replace("FALSE", "0")
             for number, good in enumerate(VERSIONS.values())]  # fmt: skip
    assert dict(zip(VERSIONS, found, strict=True)) == dict.fromkeys(VERSIONS, True), printed


def test_a_version_that_does_not_fit_is_named(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as failure:
        find(prefix, tmp_path / "project", "find_package(tfaot-model-affine 2.0 REQUIRED)")
    assert "tfaot-model-affineConfig.cmake, version: 1.2.0" in failure.value.output


DEFAULT = """
find_package(tfaot-model-affine REQUIRED {components})
get_target_property(libraries tfaot-model-affine::tfaot-model-affine INTERFACE_LINK_LIBRARIES)
message(STATUS "default: ${{libraries}}")
"""


@pytest.mark.parametrize(
    ("components", "option", "expected"),
    [
        ("", "", "static"),
        ("", "-DBUILD_SHARED_LIBS=ON", "shared"),
        ("", "-DBUILD_SHARED_LIBS=OFF", "static"),
        ("", "-Dtfaot-model-affine_SHARED_LIBS=ON", "shared"),
        ("COMPONENTS shared", "", "shared"),
        ("COMPONENTS static", "-DBUILD_SHARED_LIBS=ON", "static"),
        ("COMPONENTS static shared", "-DBUILD_SHARED_LIBS=ON", "shared"),
    ],
)
def test_the_main_target_stands_for_the_library_that_was_asked_for(
    components: str, option: str, expected: str, prefix: Path, tmp_path: Path
) -> None:
    options = [option] if option else []
    printed = find(prefix, tmp_path / "project", DEFAULT.format(components=components), *options)
    assert f"default: tfaot-model-affine::{expected}\n" in printed


def test_an_unknown_component_is_named(prefix: Path, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as failure:
        find(prefix, tmp_path / "project", "find_package(tfaot-model-affine REQUIRED COMPONENTS static rust)")
    assert "tfaot-model-affine has no component 'rust'" in " ".join(failure.value.output.split())


def test_a_library_that_was_removed_is_a_missing_component(prefix: Path, tmp_path: Path) -> None:
    shutil.copytree(prefix, tmp_path / "prefix")
    (tmp_path / "prefix/lib/libtfaot-model-affine.a").unlink()
    calls = (
        "find_package(tfaot-model-affine QUIET COMPONENTS static)\n"
        'message(STATUS "static: ${tfaot-model-affine_FOUND}")\n'
        "find_package(tfaot-model-affine QUIET OPTIONAL_COMPONENTS static)\n"
        'message(STATUS "optional: ${tfaot-model-affine_FOUND}")\n'
        "get_target_property(libraries tfaot-model-affine::tfaot-model-affine INTERFACE_LINK_LIBRARIES)\n"
        'message(STATUS "default: ${libraries}")\n'
    )
    printed = find(tmp_path / "prefix", tmp_path / "project", calls)
    assert "static: 0\n" in printed
    assert "optional: 1\n" in printed
    assert "default: tfaot-model-affine::shared\n" in printed


def test_another_processor_is_refused(prefix: Path, tmp_path: Path) -> None:
    calls = "set(CMAKE_SYSTEM_PROCESSOR riscv64)\nfind_package(tfaot-model-affine REQUIRED)"
    with pytest.raises(CommandFailed) as failure:
        find(prefix, tmp_path / "project", calls)
    assert "version: 1.2.0 (x86_64)" in failure.value.output


C_PROJECT = """
cmake_minimum_required(VERSION 3.15)
project(c LANGUAGES {languages})
find_package(tfaot-model-affine REQUIRED)
add_executable(c main.c)
target_link_libraries(c PRIVATE tfaot-model-affine::tfaot-model-affine)
"""
C_PROGRAM = """
#include <tfaot/c_api.h>
#include <stdio.h>
const tfaot_model_table* tfaot_model_affine_0123456789ab(void);
int main(void) { puts(tfaot_model_affine_0123456789ab()->info->name); return 0; }
"""


@pytest.mark.parametrize(("languages", "shared"), [("C", "OFF"), ("C CXX", "OFF"), ("C", "ON")])
def test_a_c_program_links(languages: str, shared: str, prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(C_PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(C_PROJECT.format(languages=languages))
    cmake("-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DBUILD_SHARED_LIBS={shared}")
    cmake("--build", tmp_path / "build")
    assert run([tmp_path / "build/c"]).stdout == "affine\n"


def test_a_library_folder_that_is_a_link_leads_to_the_prefix(prefix: Path, tmp_path: Path) -> None:
    """As /lib, a link to /usr/lib, which CMake looks through as well."""
    shutil.copytree(prefix, tmp_path / "system" / "usr")
    (tmp_path / "system" / "lib").symlink_to("usr/lib")
    calls = (
        "find_package(tfaot-model-affine REQUIRED)\n"
        "get_target_property(folder tfaot-model-affine::static INTERFACE_INCLUDE_DIRECTORIES)\n"
        'message(STATUS "${folder}")'
    )
    printed = find(tmp_path / "system", tmp_path / "project", calls)
    assert f"{tmp_path}/system/usr/include" in printed
