"""tfaot_require: what is fetched, when, and what is said where it cannot be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cmake.conftest import REPOSITORY, TOOLS, MakeProject, Project, add_model
from tests.commands import completed
from tests.consumers.conftest import cmake_build, environment
from tests.samples import Published, recipe, tfaot
from tfaot_pkg import __version__
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = pytest.mark.slow

PROGRAM = """
#include <tfaot-model-affine/model.h>
#include <cstdio>
int main() {
  tfaot_model::affine model;
  const float bias[] = {1, 1, 1}, x[] = {10, 20, 30};
  float y[3];
  std::int64_t label[1];
  model.run(1, bias, x, label, y);
  std::printf("%g\\n", static_cast<double>(y[0]));
}
"""
SHOW = 'message(STATUS "found ${tfaot-model-affine_VERSION} in ${tfaot-model-affine_DIR}")'


def require(registry: FolderRegistry, more: str = "VERSION 1.0") -> str:
    return f'tfaot_require(tfaot-model-affine {more} REGISTRY "{registry.root}")\n{SHOW}'


def plain(text: str) -> str:
    """Without the line breaks that CMake adds."""
    return re.sub(r"\s+", " ", text)


def build_and_run(project: Project) -> str:
    argv = [f"{TOOLS}/cmake", "--build", str(project.build)]
    completed(argv, env=project.env, timeout=100).check_returncode()
    return run([project.build / "program"]).stdout


@pytest.mark.sweep("Ninja")
@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_a_required_model_is_fetched_once_verified_and_linked(
    generator: str, registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    one = project("one")
    (one.source / "main.cpp").write_text(PROGRAM)
    link = "add_executable(program main.cpp)\ntarget_link_libraries(program tfaot-model-affine::tfaot-model-affine)"
    one.write(f"{require(registry)}\nfind_package(tfaot-model-affine REQUIRED)\n{link}", languages="CXX")
    shown = one.configure("-G", generator, "-DCMAKE_CXX_STANDARD=17").text
    assert "tfaot-model-affine 1.2.0: installed" in shown
    assert f"found 1.2.0 in {one.build}/tfaot-packages/lib/cmake/tfaot-model-affine" in shown
    assert build_and_run(one) == "21\n"
    tfaot(tmp_path, "verify-install", one.build / "tfaot-packages")

    again = one.configure().text
    assert one.calls() == 1 and "installed" not in again
    (one.source / "CMakeLists.txt").touch()  # the generated build configures anew by itself
    assert build_and_run(one) == "21\n"
    assert one.calls() == 1


@pytest.mark.nightly
def test_a_newer_version_comes_with_an_update_and_only_then(
    registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    one = project("one")
    one.write(require(registry))
    one.configure()
    add_model(registry, tmp_path, "affine", "1.3.0", 3)
    add_model(registry, tmp_path, "affine", "2.0.0", 4)
    assert "found 1.2.0" in one.configure().text
    assert "found 1.3.0" in one.configure("-DTFAOT_UPDATE=ON").text
    assert "found 1.3.0" in one.configure().text
    assert one.calls() == 2
    one.write(require(registry, 'VERSION ">=1,<3"'))
    assert "found 2.0.0" in one.configure().text
    one.write(require(registry, "VERSION 1.2 COMPONENTS shared TARGETS x86-64-v2 x86-64-v3 TOOLCHAIN <2.20"))
    assert "found 1.3.0" in one.configure().text
    assert "--target x86-64-v2 --target x86-64-v3 --toolchain <2.20" in one.counter.read_text()


@pytest.mark.nightly
def test_what_was_removed_from_the_prefix_is_fetched_again(registry: FolderRegistry, project: MakeProject) -> None:
    one = project("one")
    one.write(require(registry))
    one.configure()
    shutil.rmtree(one.build / "tfaot-packages")
    assert "found 1.2.0" in one.configure().text
    assert one.calls() == 2


def test_a_lock_file_decides_and_its_change_configures_anew(
    registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    one = project("one")
    lock = one.source / "tfaot.lock"

    def lock_version(version: str) -> None:
        tfaot(tmp_path, "resolve", f"affine@{version}", "--registry", registry.root, "--lock", lock)

    lock_version("1.2.0")
    add_model(registry, tmp_path, "affine", "1.3.0", 3)
    one.write(f"tfaot_require(tfaot-model-affine VERSION 1.0 LOCK tfaot.lock)\n{SHOW}")
    assert "found 1.2.0" in one.configure("-G", "Ninja").text
    lock_version("1.3.0")
    done = subprocess.run(
        [f"{TOOLS}/cmake", "--build", str(one.build)], env=dict(one.env), capture_output=True, text=True, check=True
    )
    assert "found 1.3.0" in done.stdout
    tree = registry.entries("affine")[-1].tree
    lock.write_text(lock.read_text().replace(tree, "0" * 64))
    failed = one.configure(code=1)
    assert "tfaot-pkg failed (18)" in failed.text and "is not what was locked" in plain(failed.text)


@pytest.mark.sweep(
    "tfaot-model-affine VERSION 3-*", "tfaot-model-affine WITH more-*", "tfaot-model-affine LOCK missing.lock-*"
)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tfaot-model-affine VERSION 3", "tfaot-pkg failed (16)"),
        ("tfaot-model-nothing", "there is no package tfaot-model-nothing"),
        ("tfaot-model-affine VERSION new", "VERSION new is neither a version nor a range"),
        ("affine", "that is not the name of a package"),
        ("tfaot-model-affine WITH more", "unknown or empty arguments: WITH;more"),
        ("tfaot-model-affine LOCK a.lock TARGETS x86-64-v2", "TARGETS and TOOLCHAIN do not go with LOCK"),
        ("tfaot-model-affine LOCK missing.lock", "there is no lock file"),
        ("tfaot-model-affine TARGETS aarch64", "has no code for aarch64"),
        ("tfaot-model-affine COMPONENTS dynamic", "has no component 'dynamic'"),
    ],
)
def test_what_cannot_be_had_is_an_error_of_cmake_that_says_why(
    arguments: str, message: str, registry: FolderRegistry, project: MakeProject
) -> None:
    one = project("one")
    one.write(f'tfaot_require({arguments} REGISTRY "{registry.root}")')
    text = plain(one.configure(code=1).text)
    assert message in text
    assert "CMake Error" in text and "hint: " in text


def test_an_unknown_registry_is_named_with_the_command_that_failed(project: MakeProject) -> None:
    one = project("one")
    one.write("tfaot_require(tfaot-model-affine REGISTRY ./nowhere)")
    text = plain(one.configure(code=1).text)
    assert "nowhere" in text and "tfaot-pkg registry add" in text, text
    assert f"to repeat it: cd '{one.source}' && '{one.source}/tool' 'install' '--prefix'" in text


def test_a_tampered_package_does_not_configure(registry: FolderRegistry, project: MakeProject) -> None:
    (blob,) = [path for path in (registry.root / "blobs").rglob("*") if path.is_file()]
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    one = project("one")
    one.write(require(registry))
    assert "tfaot-pkg failed (18)" in one.configure(code=1).text
    assert not (one.build / "tfaot-packages").exists()


@pytest.mark.nightly
def test_parts_of_a_project_share_one_version_or_it_is_an_error(
    registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    add_model(registry, tmp_path, "affine", "2.0.0", 4)
    one = project("one")
    (one.source / "part").mkdir()
    part = one.source / "part" / "CMakeLists.txt"
    one.write(f"{require(registry, 'VERSION 1.1')}\nadd_subdirectory(part)")
    part.write_text(require(registry, "VERSION 1.0"))
    one.configure()
    assert one.calls() == 1
    part.write_text(require(registry, "VERSION 2"))
    text = plain(one.configure(code=1).text)
    assert f"version 1.2.0 was fetched for {one.source}, and VERSION 2 is required" in text
    part.write_text(require(registry, 'VERSION ">=1"'))
    assert f"it was required with other arguments in {one.source}" in plain(one.configure(code=1).text)


@pytest.mark.nightly
def test_another_copy_that_was_found_earlier_does_not_win(
    registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    tfaot(tmp_path, "install", "affine", "--registry", registry.root, "--prefix", tmp_path / "other")
    one = project("one")
    one.write(f"find_package(tfaot-model-affine REQUIRED)\n{require(registry)}")
    assert f"in {one.build}/tfaot-packages/" in one.configure(f"-DCMAKE_PREFIX_PATH={tmp_path}/other").text


@pytest.mark.sweep(night=["True"])
@pytest.mark.parametrize("shared", [False, True])
def test_two_projects_are_configured_at_the_same_time(
    shared: bool, registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    add_model(registry, tmp_path, "steep", "1.0.0", 3)
    both = [project("one"), project("two")]
    options = [f"-DTFAOT_PREFIX={tmp_path}/prefix"] if shared else []
    with ExitStack() as stack:  # no process outlives a test that fails
        running = []
        for one in both:
            one.write(f'{require(registry)}\ntfaot_require(tfaot-model-steep REGISTRY "{registry.root}")')
            started = subprocess.Popen(one.argv(*options), env=dict(one.env), stdout=subprocess.PIPE, text=True)
            running.append(stack.enter_context(started))
        for process in running:
            out, _ = process.communicate(timeout=100)
            assert process.returncode == 0, out
            assert "found 1.2.0" in out
    for prefix in {tmp_path / "prefix"} if shared else {one.build / "tfaot-packages" for one in both}:
        assert "ok" in tfaot(tmp_path, "verify-install", prefix)


# --- finding the tool -----------------------------------------------------------------------------------------------


def installed(root: Path) -> Path:
    """The tool's CMake package as a wheel lays it out, with a program; the folder of the package."""
    package = root / "lib" / "python3.11" / "site-packages" / "tfaot_pkg"
    shutil.copytree(resources.cmake_package(), package / "cmake")
    shutil.copy(REPOSITORY / "tfaot_pkg" / "_version.py", package)
    (root / "bin").mkdir()
    program = root / "bin" / "tfaot-pkg"
    program.write_text(f'#!/bin/sh\necho beside >&2\nexec "{sys.executable}" -m tfaot_pkg "$@"\n')
    program.chmod(0o755)
    return package / "cmake"


def test_the_program_beside_the_package_is_used_before_one_on_the_path(
    registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    folder = installed(tmp_path / "an environment")
    one = project("one")
    one.write(require(registry))
    other = tmp_path / "bin"
    other.mkdir()
    (other / "tfaot-pkg").write_text("#!/bin/sh\nexit 1\n")
    (other / "tfaot-pkg").chmod(0o755)
    argv = [f"{TOOLS}/cmake", "-S", str(one.source), "-B", str(one.build), f"-Dtfaot-pkg_DIR={folder}"]
    env = {**one.env, "PATH": f"{other}{os.pathsep}{one.env['PATH']}"}
    assert "found 1.2.0" in run(argv, env=env).stdout
    (tmp_path / "an environment" / "bin" / "tfaot-pkg").unlink()
    shutil.rmtree(one.build)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert "tfaot-pkg failed (1)" in done.stderr
    (other / "tfaot-pkg").unlink()
    shutil.rmtree(one.build)
    done = subprocess.run(argv, env={**env, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert "the program tfaot-pkg was found neither beside this package" in plain(done.stderr)


@pytest.mark.parametrize(("version", "good"), [("", True), ("0.1", True), (__version__, True), ("99", False)])
def test_the_cmake_package_knows_the_tool_s_version(version: str, good: bool, project: MakeProject) -> None:
    one = project("one")
    one.write("")
    text = (one.source / "CMakeLists.txt").read_text().replace("tfaot-pkg REQUIRED", f"tfaot-pkg {version} REQUIRED")
    (one.source / "CMakeLists.txt").write_text(text + 'message(STATUS "tool ${tfaot-pkg_VERSION}")')
    shown = one.configure(code=0 if good else 1).text
    assert f"tool {__version__}" in shown if good else f"version: {__version__}" in shown


def test_cmake_dir_prints_the_folder_of_the_package(tmp_path: Path) -> None:
    folder = Path(tfaot(tmp_path, "cmake-dir").strip())
    assert (folder / "tfaot-pkg-config.cmake").is_file()


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(1200)
def test_the_example_prints_the_accuracy_of_the_sample_model(published: Published, tmp_path: Path) -> None:
    source = REPOSITORY / "examples" / "cmake-require"
    env = environment(PYTHONPATH=str(REPOSITORY), TFAOT_HOME=str(tmp_path / "home"))
    options = [
        f"-Dtfaot-pkg_DIR={resources.cmake_package()}",
        f"-DTFAOT_PKG_COMMAND={sys.executable};-m;tfaot_pkg",
        f"-DMODELS={published.registry}",
    ]
    build = cmake_build(tmp_path / "build", *options, env=env, source=source)
    printed = run([build / "digits-accuracy", recipe("digits") / "data" / "held-out.csv"], env=environment()).stdout
    assert printed == "accuracy on 360 held-out images: 99.2 %\n"


@pytest.mark.sweep(night=["tfaot-model-jet_tagger"])
@pytest.mark.parametrize("name", ["tfaot-model-jet-tagger", "tfaot-model-jet_tagger"])
def test_either_spelling_of_a_name_finds_a_package(
    name: str, registry: FolderRegistry, project: MakeProject, tmp_path: Path
) -> None:
    """Packages that were published under the former spelling are in tests/registry/test_spelling.py."""
    add_model(registry, tmp_path, "jet_tagger", "1.2.0", 2)
    header = f"<{name}/model.h>"
    one = project("one")
    program = PROGRAM.replace("<tfaot-model-affine/model.h>", header).replace("affine", "jet_tagger")
    (one.source / "main.cpp").write_text(program)
    call = f'tfaot_require({name} VERSION 1.0 REGISTRY "{registry.root}")'
    link = f"add_executable(program main.cpp)\ntarget_link_libraries(program {name}::{name})"
    show = f'message(STATUS "found ${{{name}_VERSION}}")'
    one.write(f"{call}\n{call}\n{show}\n{link}", languages="CXX")
    assert "found 1.2.0" in one.configure("-DCMAKE_CXX_STANDARD=17").text
    assert build_and_run(one) == "21\n"
    one.configure()
    assert one.calls() == 1
