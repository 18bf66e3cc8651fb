"""tfaot_add_model: what is built, when it is built again, and what is said where it cannot be."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cmake.conftest import TOOLS, MakeProject, Project
from tests.commands import completed
from tfaot_pkg.ground.process import run

GENERATORS = ["Ninja", "Unix Makefiles"]
SPEC = """
model: {name: small, version: 1.0.0}
compilation: {batch_sizes: [4], targets: [x86-64-v2, x86-64-v3]}
validation: {samples: 4}
"""
PROGRAM = """
#include <cstdio>
#include <tfaot-model-NAME/model.h>
int main() {
  tfaot_model::NAME model;
  const float x[] = {0.1f, 0.2f, 0.3f, 0.4f};
  float y[3];
  model.run(1, x, y);
  std::printf("%.4f %.4f %.4f\\n", static_cast<double>(y[0]), static_cast<double>(y[1]), static_cast<double>(y[2]));
}
"""
# A model in a folder of its own, and a program in another one.
TOP = """
enable_testing()
add_subdirectory("sub folder")
add_executable(program main.cpp)
target_link_libraries(program PRIVATE dense)
"""
SUB = 'tfaot_add_model(NAME dense SPEC "the model/spec.yaml" TARGETS x86-64-v2 BATCH_SIZES 1 2)\n'


def dense(seed: int) -> str:
    """What the program prints, by NumPy: the weights of tests/models/make_models.py's `dense`."""
    random = np.random.default_rng(seed)
    first, second = (random.normal(size=shape).astype(np.float32) for shape in ((4, 64), (64, 3)))
    y = np.tanh(np.array([0.1, 0.2, 0.3, 0.4], np.float32) @ first) @ second
    return " ".join(f"{value:.4f}" for value in y) + "\n"


def one_model(project: MakeProject, home: Path, saved_model: Path) -> tuple[Project, Path]:
    """A project with the model `dense`, and the folder of its spec."""
    made = project("a project")
    made = replace(made, env={**made.env, "TFAOT_HOME": str(home)})
    model = made.source / "sub folder" / "the model"
    model.mkdir(parents=True)
    shutil.copytree(saved_model, model / "saved_model")
    (model / "spec.yaml").write_text(SPEC)
    (model.parent / "CMakeLists.txt").write_text(SUB)
    (made.source / "main.cpp").write_text(PROGRAM.replace("NAME", "dense"))
    made.write(TOP, languages="CXX")
    return made, model


def build(project: Project, *arguments: str, fails: bool = False) -> str:
    argv = [f"{TOOLS}/cmake", "--build", str(project.build), "-j8", *arguments]
    done = completed(argv, env=project.env, timeout=300)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def answer(project: Project) -> str:
    return run([project.build / "program"]).stdout


def touch(path: Path, project: Project) -> None:
    """Make `path` newer than all that was built: clocks of file systems are coarse."""
    newest = max(file.lstat().st_mtime_ns for file in project.build.rglob("*"))
    os.utime(path, ns=(newest + 1, newest + 1))


def write(path: Path, text: str, project: Project) -> None:
    path.write_text(text)
    touch(path, project)


def linked(project: Project) -> int:
    """When the program was linked."""
    return (project.build / "program").stat().st_mtime_ns


@pytest.mark.sweep(night=["Unix Makefiles"])
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("generator", GENERATORS)
def test_a_model_is_built_when_what_it_is_made_from_changes_and_only_then(
    generator: str, project: MakeProject, models: Mapping[str, Path], shared_home_folder: Path
) -> None:
    one, model = one_model(project, shared_home_folder, models["dense"])
    one.configure("-G", generator, "-DCMAKE_CXX_STANDARD=17", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror")
    assert one.calls() == 0
    build(one)
    assert (answer(one), one.calls()) == (dense(seed=1), 1)
    programs_work(one)

    time = linked(one)
    build(one)
    (model / "README").write_text("not read by the build")
    touch(model / "README", one)
    build(one)
    assert one.calls() == 1
    for count, read in enumerate(("spec.yaml", "saved_model/variables/variables.index"), 2):
        touch(model / read, one)
        build(one)
        build(one)
        assert (one.calls(), linked(one)) == (count, time), read  # the same comes out: nothing is linked again

    costs = '{"format": 1, "model": "small", "batch_costs": {"x86-64-v2": {"1": 100, "2": 150}}}'
    write(model / "spec.tune.json", costs, one)
    build(one)
    assert (one.calls(), linked(one) > time) == (4, True)
    (model / "spec.tune.json").unlink()
    build(one)
    build(one)
    assert one.calls() == 5

    write(model.parent / "CMakeLists.txt", SUB.replace("1 2", "1"), one)
    build(one)
    build(one)
    assert one.calls() == 6

    shutil.rmtree(model / "saved_model")
    shutil.copytree(models["dense_retrained"], model / "saved_model")
    touch(model / "saved_model", one)
    build(one)
    assert (answer(one), one.calls()) == (dense(seed=2), 7)


def programs_work(project: Project) -> None:
    """The model's test runs with CTest, its benchmark from the build's folder."""
    ctest: list[str | Path] = [f"{TOOLS}/ctest", "--test-dir", project.build, "--verbose"]
    said = run(ctest, env=dict(project.env)).stdout
    assert re.search(r"dense 1\.0\.0 \(tfaot-pkg \S+\): all 2 comparisons with the framework agree \(x86-64-v2", said)
    printed = run([project.build / "sub folder" / "dense_benchmark", "--json", "--seconds", "0"]).stdout
    assert [each["batch_size"] for each in json.loads(printed)["measurements"]] == [1, 2]


@pytest.mark.sweep(night=["Ninja"])
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("generator", GENERATORS)
def test_a_failed_build_says_why_and_leaves_no_library_and_works_once_mended(
    generator: str, project: MakeProject, models: Mapping[str, Path], shared_home_folder: Path
) -> None:
    one, model = one_model(project, shared_home_folder, models["dense"])
    one.configure("-G", generator)
    build(one)
    prefix = one.build / "sub folder" / "tfaot" / "dense"
    assert (prefix / "lib" / "libtfaot-model-dense.a").exists()

    write(model / "spec.yaml", SPEC.replace("batch_sizes", "batch_size"), one)
    for _ in range(2):
        said = build(one, fails=True)
        assert f"{model}/spec.yaml:3: compilation.batch_size: unknown key; did you mean batch_sizes?" in said
        assert not [*prefix.rglob("*.a"), *prefix.rglob("*.so"), *prefix.rglob("dense_test")]
    write(model / "spec.yaml", SPEC, one)
    build(one)
    assert answer(one) == dense(seed=1)

    build(one, "--target", "clean")
    assert not prefix.exists()
    build(one)
    assert answer(one) == dense(seed=1)
    calls = one.calls()
    build(one)
    assert one.calls() == calls


TWO = """
tfaot_add_model(NAME plain SPEC model/spec.yaml BATCH_SIZES 1 TARGETS x86-64-v2)
tfaot_add_model(NAME twice SPEC model/twice.yaml DEFINES key=twice)
foreach(model IN ITEMS plain twice)
  add_executable(${model}-program ${model}.cpp)
  target_link_libraries(${model}-program PRIVATE tfaot-model-${model}::tfaot-model-${model})
endforeach()
"""


@pytest.mark.sweep("Ninja")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("generator", GENERATORS)
def test_two_models_are_built_at_once_into_shared_libraries(
    generator: str, project: MakeProject, models: Mapping[str, Path], shared_home_folder: Path
) -> None:
    one, model = one_model(project, shared_home_folder, models["dense"])
    model = model.rename(one.source / "model")
    twice = SPEC.replace("1.0.0}", "1.0.0, serving_key: '{{ env.key }}'}").replace("[4]", "[1]")
    twice = twice.replace("[x86-64-v2, x86-64-v3]", "[x86-64-v2]")
    (model / "twice.yaml").write_text(twice)
    for name in ("plain", "twice"):
        (one.source / f"{name}.cpp").write_text(PROGRAM.replace("NAME", name))
    one.write(TWO, languages="CXX")
    one.configure("-G", generator, "-DBUILD_SHARED_LIBS=ON")
    build(one)
    assert one.calls() == 2
    single, double = (
        [float(word) for word in run([one.build / f"{name}-program"]).stdout.split()] for name in ("plain", "twice")
    )
    np.testing.assert_allclose(double, 2 * np.array(single), atol=2e-4)
    needed = run(["readelf", "-dW", one.build / "plain-program"]).stdout
    assert "libtfaot-model-plain.so" in needed
    build(one)
    assert one.calls() == 2


def plain(text: str) -> str:
    """Without the line breaks that CMake adds."""
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("SPEC spec.yaml", "tfaot_add_model() NAME is missing"),
        ("NAME simple", "tfaot_add_model(simple) SPEC is missing"),
        ("NAME simple SPEC", "unknown or empty arguments: SPEC"),
        ("NAME Simple SPEC spec.yaml", "Simple cannot name a model"),
        ("NAME simple-1 SPEC spec.yaml", "simple-1 cannot name a model"),
        ("NAME simple SPEC nowhere.yaml", "SPEC nowhere.yaml is no file ("),
        ("NAME simple SPEC .", "SPEC . is no file ("),
        ("NAME simple SPEC spec.yaml TARGET x86-64-v2", "unknown or empty arguments: TARGET;x86-64-v2"),
        ("NAME simple SPEC spec.yaml BATCH_SIZES 1 two", "BATCH_SIZES two is no number above 0"),
        ("NAME simple SPEC spec.yaml BATCH_SIZES 0", "BATCH_SIZES 0 is no number above 0"),
        ("NAME simple SPEC spec.yaml DEFINES tag", "DEFINES tag is not key=value"),
        ("NAME taken SPEC spec.yaml", "this project has a target taken already"),
    ],
)
def test_wrong_arguments_are_errors_of_cmake_that_say_what_to_write(
    arguments: str, message: str, project: MakeProject
) -> None:
    one = project("one")
    (one.source / "spec.yaml").write_text(SPEC)
    one.write(f"add_custom_target(taken)\ntfaot_add_model({arguments})")
    text = plain(one.configure(code=1).text)
    assert message in text
    assert "CMake Error" in text and "hint: " in text
    assert one.calls() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("TARGETS vax", "error: --target: unknown target"),
        ("BATCH_SIZES 70000", "error: --batch-size: must be at most 65536"),
    ],
)
def test_what_only_the_tool_knows_is_told_when_the_project_is_built(
    arguments: str, message: str, project: MakeProject
) -> None:
    one = project("one")
    (one.source / "spec.yaml").write_text(SPEC)
    one.write(f"tfaot_add_model(NAME simple SPEC spec.yaml {arguments})")
    one.configure("-G", "Ninja")
    assert message in build(one, fails=True)


LIBRARY = """
add_subdirectory("sub folder")
add_library(answers answers.cpp)
target_include_directories(answers PUBLIC "$<INSTALL_INTERFACE:include>")
set_target_properties(answers PROPERTIES INSTALL_RPATH "$ORIGIN" POSITION_INDEPENDENT_CODE ON)
target_link_libraries(answers PRIVATE dense)
tfaot_install_model(NAME dense)
install(TARGETS answers EXPORT answers-targets)
install(EXPORT answers-targets NAMESPACE answers:: DESTINATION lib/cmake/answers)
install(FILES answersConfig.cmake DESTINATION lib/cmake/answers)
"""
CONFIG = """
include(CMakeFindDependencyMacro)
find_dependency(tfaot-model-dense)
include("${CMAKE_CURRENT_LIST_DIR}/answers-targets.cmake")
"""
CONSUMER = """
cmake_minimum_required(VERSION 3.20)
project(consumer CXX)
find_package(answers REQUIRED)
add_executable(program main.cpp)
target_link_libraries(program PRIVATE answers::answers)
"""


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_a_library_that_links_a_model_is_installed_and_exported(
    project: MakeProject, shared_home: Path, models: Mapping[str, Path], tmp_path: Path
) -> None:
    made, _ = one_model(project, shared_home, models["dense"])
    body = PROGRAM.replace("NAME", "dense").replace("int main()", "void answer()")
    (made.source / "answers.cpp").write_text(body)
    (made.source / "answersConfig.cmake").write_text(CONFIG)
    made.write(LIBRARY, languages="CXX")
    consumer = tmp_path / "consumer"
    consumer.mkdir()
    (consumer / "CMakeLists.txt").write_text(CONSUMER)
    (consumer / "main.cpp").write_text("void answer();\nint main() { answer(); }\n")
    for shared in ("OFF", "ON"):
        assert made.configure(f"-DBUILD_SHARED_LIBS={shared}").code == 0
        build(made)
        prefix = tmp_path / f"prefix {shared}"
        run([f"{TOOLS}/cmake", "--install", made.build, "--prefix", prefix])
        assert not list(prefix.glob(".tfaot*"))
        folder = tmp_path / f"build-{shared}"
        options = [
            f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DBUILD_SHARED_LIBS={shared}",
            f"-DCMAKE_MAKE_PROGRAM={TOOLS}/ninja",
        ]
        run([f"{TOOLS}/cmake", "-G", "Ninja", "-S", consumer, "-B", folder, *options])
        run([f"{TOOLS}/cmake", "--build", folder])
        assert run([folder / "program"]).stdout == dense(seed=1)


def test_only_models_of_the_project_can_be_installed(project: MakeProject) -> None:
    made = project("a project")
    made.write("tfaot_install_model(NAME nosuch)\n", languages="CXX")
    assert "this project has no model nosuch" in made.configure(code=1).text
