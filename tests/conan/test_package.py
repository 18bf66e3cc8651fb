"""Packages are made by the real Conan, in a home of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conan.conftest import Packaged
from tests.wording import reported
from tfaot_pkg.errors import ConanError
from tfaot_pkg.ground.keys import files_below, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.targets import DEFAULT_TARGETS
from tfaot_pkg.pipeline.conan.package import ConanHome, ConanPackage, conan_argv, conan_environment, create, export_base
from tfaot_pkg.pipeline.conan.recipe import stage_recipe

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def package(affine: Packaged, home: ConanHome) -> ConanPackage:
    return create(affine.recipe, "1.2.0", home=home, prefix=affine.prefix, progress=Silent())


def conan(home: ConanHome, *arguments: str) -> str:
    return run(conan_argv(arguments), env=conan_environment(home.root)).stdout


def package_folder(home: ConanHome, package: ConanPackage, *, shared: bool) -> Path:
    binary = next(binary for binary in package.binaries if binary.shared is shared)
    reference = f"{package.reference}#{package.recipe_revision}:{binary.package_id}#{binary.package_revision}"
    return Path(conan(home, "cache", "path", reference).strip())


def test_a_built_prefix_becomes_a_static_and_a_shared_package(package: ConanPackage) -> None:
    assert package.reference == "tfaot-model-affine/1.2.0"
    assert re.fullmatch("[0-9a-f]{32}", package.recipe_revision)
    assert [binary.shared for binary in package.binaries] == [False, True]
    assert len({binary.package_id for binary in package.binaries}) == 2


@pytest.mark.parametrize("shared", [False, True])
def test_a_package_is_the_whole_prefix(affine: Packaged, package: ConanPackage, home: ConanHome, shared: bool) -> None:
    folder = package_folder(home, package, shared=shared)
    files = {path.relative_to(folder).as_posix() for path in files_below(folder)}
    whole = {path.relative_to(affine.prefix).as_posix() for path in files_below(affine.prefix)}
    kind = "lib/cmake/tfaot-model-affine/tfaot-model-affineKind.cmake"
    assert files - {"conaninfo.txt", "conanmanifest.txt"} == whole | {kind}
    assert (folder / kind).read_text() == f"set(tfaot-model-affine_SHARED_LIBS {'ON' if shared else 'OFF'})\n"
    assert run([folder / "bin" / "affine_test"]).stdout == "tested\n"


def test_the_package_id_does_not_depend_on_compiler_build_type_or_base(package: ConanPackage, home: ConanHome) -> None:
    listed = json.loads(conan(home, "list", f"{package.reference}:*", "--format=json"))["Local Cache"]
    revisions = next(iter(listed.values()))["revisions"]
    for binary in revisions[package.recipe_revision]["packages"].values():
        assert set(binary["info"]) == {"settings", "options"}
        assert set(binary["info"]["settings"]) == {"os", "arch"}


@pytest.mark.nightly
def test_making_the_same_package_again_gives_the_same_revisions(
    affine: Packaged, package: ConanPackage, home: ConanHome
) -> None:
    assert create(affine.recipe, "1.2.0", home=home, prefix=affine.prefix, progress=Silent()) == package


def test_nothing_is_written_into_the_recipe(make_model: Callable[..., Packaged], home: ConanHome) -> None:
    model = make_model("untouched")
    before = sha256_tree(model.recipe, files_below(model.recipe))
    create(model.recipe, "1.2.0", home=home, prefix=model.prefix, shared=[False], progress=Silent())
    assert sha256_tree(model.recipe, files_below(model.recipe)) == before


def test_the_recipe_builds_by_itself_with_the_command_that_the_conf_names(
    affine: Packaged, home: ConanHome, tmp_path: Path
) -> None:
    builder = tmp_path / "builder.py"
    builder.write_text(
        "import shutil, sys\n"
        "command, spec, option, prefix = sys.argv[1:]\n"
        "assert (command, option) == ('build', '-o') and open(spec).read().startswith('model:')\n"
        f"shutil.copytree({str(affine.prefix)!r}, prefix)\n"
    )
    with home.opened() as opened:
        export_base(opened)
    command = f"user.tfaot:command={[sys.executable, str(builder)]!r}"
    recipe = shutil.copytree(affine.recipe, tmp_path / "recipe")
    conan(home, "create", str(recipe), "-c", command)


def test_a_failing_build_command_fails_the_recipe_with_its_exit_code(
    affine: Packaged, home: ConanHome, tmp_path: Path
) -> None:
    recipe = shutil.copytree(affine.recipe, tmp_path / "recipe")
    command = f"user.tfaot:command={[sys.executable, '-c', 'raise SystemExit(12)']!r}"
    with home.opened() as opened:
        export_base(opened)
        with reported(ConanError, varies=r"(?<=method, line )\d+"):
            opened.conan("create", str(recipe), "-c", command)


def test_a_build_command_that_does_not_exist_is_named(affine: Packaged, home: ConanHome, tmp_path: Path) -> None:
    recipe = shutil.copytree(affine.recipe, tmp_path / "recipe")
    with home.opened() as opened:
        export_base(opened)
        with reported(ConanError, varies=r"(?<=method, line )\d+"):
            opened.conan("create", str(recipe), "-c", "user.tfaot:command=['/nowhere/tfaot-pkg']")


def test_a_library_for_another_architecture_is_packaged_without_being_run(
    affine: Packaged, package: ConanPackage, home: ConanHome
) -> None:
    other = "x86_64" if platform.machine() == "aarch64" else "aarch64"
    made = create(
        affine.recipe, "1.2.0", home=home, prefix=affine.prefix, shared=[False], architecture=other, progress=Silent()
    )
    assert made.recipe_revision == package.recipe_revision
    assert made.binaries[0].package_id not in {binary.package_id for binary in package.binaries}


def test_one_version_has_binaries_for_every_architecture(
    make_model: Callable[..., Packaged], home: ConanHome, tmp_path: Path
) -> None:
    """Conan takes the newest recipe of a version: with one for each architecture, only the last would be found."""
    model = make_model("everywhere")
    made = {}
    for arch, targets in (("x86_64", DEFAULT_TARGETS), ("aarch64", ("aarch64",))):
        spec = dataclasses.replace(model.spec, compilation=dataclasses.replace(model.spec.compilation, targets=targets))
        recipe = stage_recipe(spec, tmp_path / arch)
        made[arch] = create(
            recipe, "1.2.0", home=home, prefix=model.prefix, shared=[False], architecture=arch, progress=Silent()
        )
    assert len({one.recipe_revision for one in made.values()}) == 1
    for arch, setting in (("x86_64", "x86_64"), ("aarch64", "armv8")):
        words = ("--requires", "tfaot-model-everywhere/[>=1 <2]", "-s", f"arch={setting}", "--format", "json")
        graph = json.loads(conan(home, "install", *words, "--output-folder", str(tmp_path)))["graph"]["nodes"]
        (node,) = (one for one in graph.values() if one["name"] == "tfaot-model-everywhere")
        assert (node["binary"], node["package_id"]) == ("Cache", made[arch].binaries[0].package_id)


def test_what_a_recipe_builds_follows_from_the_architecture_of_conan(
    make_model: Callable[..., Packaged], home: ConanHome, tmp_path: Path
) -> None:
    model = make_model("somewhere")
    spec = dataclasses.replace(
        model.spec, compilation=dataclasses.replace(model.spec.compilation, targets=DEFAULT_TARGETS)
    )
    recipe = stage_recipe(spec, tmp_path / "recipe")
    program = tmp_path / "build"
    # In place of the tool: it keeps the spec, and copies what is built already.
    program.write_text(f'#!/bin/sh\ncp "$2" {tmp_path}/seen.yaml\nmkdir -p "$4"\ncp -R {model.prefix}/. "$4"\n')
    program.chmod(0o755)
    with home.opened() as opened:
        export_base(opened)
        for setting, targets in (("armv8", ["aarch64"]), ("x86_64", None)):
            opened.conan(
                "create", str(recipe), "-s", f"arch={setting}", "-tf", "", "-c", f"user.tfaot:command=['{program}']"
            )
            seen = yaml.safe_load((tmp_path / "seen.yaml").read_text())["compilation"]
            assert seen.get("targets") == targets


def test_a_missing_prefix_is_a_conan_error_with_its_log(affine: Packaged, home: ConanHome) -> None:
    with reported(ConanError, varies=r"(?<=method, line )\d+") as caught:
        create(affine.recipe, "1.2.0", home=home, prefix=Path("/nowhere"), shared=[False], progress=Silent())
    assert caught.value.log is not None and "there is no built package in" in caught.value.log.read_text()


@pytest.mark.release
def test_a_program_uses_packages_of_two_models_through_cmake_deps(
    package: ConanPackage, home: ConanHome, make_model: Callable[..., Packaged], tmp_path: Path
) -> None:
    steep = make_model("steep", slope=3)
    create(steep.recipe, "1.2.0", home=home, prefix=steep.prefix, progress=Silent())
    (tmp_path / "conanfile.txt").write_text(
        "[requires]\ntfaot-model-affine/[>=1 <2]\ntfaot-model-steep/[>=1 <2]\n[generators]\nCMakeDeps\nCMakeToolchain\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(two CXX)\n"
        "find_package(tfaot-model-affine CONFIG REQUIRED)\nfind_package(tfaot-model-steep CONFIG REQUIRED)\n"
        "add_executable(two main.cpp)\n"
        "target_link_libraries(two PRIVATE tfaot-model-affine::tfaot-model-affine tfaot-model-steep::tfaot-model-steep)\n"
        "foreach(kind static shared cmssw)\n"
        "  add_executable(${kind} main.cpp)\n"
        "  target_link_libraries(${kind} PRIVATE tfaot-model-affine::${kind} tfaot-model-steep::${kind})\n"
        "  get_target_property(libraries tfaot-model-affine::static INTERFACE_LINK_LIBRARIES)\n"
        "  get_target_property(features tfaot-model-affine::${kind} INTERFACE_COMPILE_FEATURES)\n"
        '  message(STATUS "${kind}: ${libraries} ${features}")\n'
        "endforeach()\n"
    )
    (tmp_path / "main.cpp").write_text(
        "#include <cstdio>\n#include <vector>\n"
        "#include <tfaot-model-affine/model.h>\n#include <tfaot-model-steep/model.h>\n"
        "template <class Model> float first() {\n"
        "  Model model;\n  std::vector<float> bias(3, 1), x(6, 5), y(6);\n  std::vector<std::int64_t> label(2);\n"
        "  model.run(2, bias, x, label, y);\n  return y[0];\n}\n"
        'int main() { std::printf("%g %g\\n", first<tfaot_model::affine>(), first<tfaot_model::steep>()); }\n'
    )
    environment = conan_environment(home.root)
    for shared in (False, True):
        build = tmp_path / f"build-{shared}"
        options = ["-o", f"*:shared={shared}", "-of", str(build)]
        conan(home, "install", str(tmp_path), *options)
        toolchain = f"-DCMAKE_TOOLCHAIN_FILE={build}/conan_toolchain.cmake"
        argv = ["cmake", "-S", str(tmp_path), "-B", str(build), "-GNinja", toolchain, "-DCMAKE_BUILD_TYPE=Release"]
        told = run(argv, env=environment).stdout
        assert "static: m cxx_std_17" in told
        assert "shared: m cxx_std_17" in told
        run(["cmake", "--build", build], env=environment)
        for program in ("two", "static", "shared", "cmssw"):
            script = f'. "{build}/conanrun.sh" && "{build}/{program}"'
            assert run(["bash", "-c", script], env=environment).stdout == "11 16\n"
        # The option decides what NAME::NAME is, in CMake and in other build systems.
        needed = run(["readelf", "-d", build / "two"]).stdout
        assert ("libtfaot-model-affine.so" in needed) is shared


def test_the_repository_is_a_conan_remote_by_itself(affine: Packaged, tmp_path: Path) -> None:
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "log")
    with home.opened():
        pass
    conan(home, "remote", "add", "checkout", str(REPOSITORY))
    info = json.loads(
        conan(home, "graph", "info", "--requires=tfaot-model-digits/[>=1 <2]", "--build=missing", "--format=json")
    )
    node = next(node for node in info["graph"]["nodes"].values() if node["name"] == "tfaot-model-digits")
    assert node["binary"] == "Build"
    assert [name.partition("/")[0] for name in node["python_requires"]] == ["tfaot-pkg"]
    assert os.listdir(REPOSITORY / "recipes" / "tfaot-pkg") == ["config.yml"]


def test_the_code_of_a_model_does_not_run_outside_of_the_sandbox(affine: Packaged, tmp_path: Path) -> None:
    recipe, marker = tmp_path / "recipe" / "all", tmp_path / "ran"
    shutil.copytree(affine.recipe, recipe)
    example = recipe / "test_package" / "example.cpp"
    text = example.read_text().replace("int main(", f'static const int ran = std::system("touch {marker}");\nint main(')
    example.write_text("#include <cstdlib>\n" + text)
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "conan.log")
    create(recipe, "1.2.0", home=home, prefix=affine.prefix, progress=Silent())
    assert "example" in (tmp_path / "conan.log").read_text()  # it was built
    assert not marker.exists()
