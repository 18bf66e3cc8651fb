"""Programs that take the sample models from Conan, and recipes that stand on their own."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import PROJECT, Check, cmake_build, environment
from tests.samples import REPOSITORY, Published, Sample, recipe
from tfaot_pkg.ground.process import Finished, run
from tfaot_pkg.pipeline.conan.package import ConanHome, conan_argv

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


@pytest.fixture
def publishers_home(published: Published, tmp_path: Path) -> Path:
    """The Conan home that `publish` filled. A copy: Conan writes into a home whatever it does there."""
    return published.copied(tmp_path).home / "data" / "conan"


def conan(home: Path, *arguments: str | Path, **variables: str) -> Finished:
    argv = conan_argv([str(argument) for argument in arguments])
    return run(argv, env=environment(CONAN_HOME=str(home), **variables), cwd=home, timeout=1200)


@pytest.mark.sweep(night=["True"])
@pytest.mark.parametrize("shared", [False, True])
def test_a_conanfile_with_version_ranges_gives_both_models(
    shared: bool, publishers_home: Path, check: Check, tmp_path: Path
) -> None:
    build = tmp_path / "a build folder"
    install: list[str | Path] = [
        "install",
        PROJECT,
        "-of",
        build,
        "-o",
        f"*:shared={shared}",
        "-s",
        "build_type=Release",
    ]
    conan(publishers_home, *install)
    options = [f"-DCMAKE_TOOLCHAIN_FILE={build}/conan_toolchain.cmake", "-DCMAKE_BUILD_TYPE=Release", "-DKINDS=default"]
    cmake_build(build, *options)
    script = '. "$1" && shift && exec "$@"'
    for standard in (17, 20):
        check(["bash", "-c", script, "bash", build / "conanrun.sh", build / f"default-{standard}"])


def test_one_binary_serves_every_compiler_and_build_type(publishers_home: Path) -> None:
    others = {
        "gcc": ["compiler=gcc", "compiler.version=13", "compiler.libcxx=libstdc++11", "compiler.cppstd=20", "build_type=Debug"],
        "clang": ["compiler=clang", "compiler.version=14", "compiler.libcxx=libc++", "compiler.cppstd=17", "build_type=Release"],
    }  # fmt: skip
    found = set()
    for settings in others.values():
        words = [word for setting in settings for word in ("-s", setting)]
        finished = conan(
            publishers_home, "graph", "info", "--requires=tfaot-model-digits/[>=1 <2]", "--format=json", *words
        )
        nodes = json.loads(finished.stdout)["graph"]["nodes"].values()
        node = next(node for node in nodes if node["name"] == "tfaot-model-digits")
        assert node["binary"] == "Cache"
        found.add(node["package_id"])
    assert len(found) == 1


@pytest.mark.sweep(night=["repository as a remote"])
@pytest.mark.parametrize("route", ["exported base", "repository as a remote"])
def test_conan_create_of_a_recipe_in_an_empty_home_builds_and_tests_the_model(
    route: str, published: Published, tmp_path: Path
) -> None:
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "log")
    with home.opened():
        pass  # no remotes
    if route == "exported base":
        conan(home.root, "export", REPOSITORY)
    else:
        conan(home.root, "remote", "add", "models", REPOSITORY)
    # A copy, as Conan writes the test's build into the recipe's folder.
    folder = shutil.copytree(recipe("wine"), tmp_path / "recipe", ignore=shutil.ignore_patterns("build"))
    variables = {"TFAOT_HOME": str(published.home), "PYTHONPATH": str(REPOSITORY)}
    finished = conan(home.root, "create", folder, **variables)
    printed = finished.stdout + finished.stderr
    for size in (1, 4):
        assert (
            f"wine 1.0.0 (x86-64-v3): batch size {size} runs" in printed
            or f"(x86-64-v2): batch size {size} runs" in printed
        )
    assert "tfaot-model-wine/1.0.0" in conan(home.root, "list", "tfaot-model-wine/*").stdout


@pytest.mark.nightly
def test_a_program_whose_model_conan_builds_prints_the_accuracy_of_tensorflow(
    published: Published, samples: Mapping[str, Sample], tmp_path: Path
) -> None:
    # Beside the files that the steps name, in a Conan home such as anybody's.
    for folder in ("examples", "recipes/tfaot-model-digits/all/data"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=shutil.ignore_patterns("build"))
    example = tmp_path / "examples" / "conan-consumer"
    steps = (
        "conan install . --build=missing",
        "cmake --preset conan-release",
        "cmake --build --preset conan-release",
        "build/Release/digits-accuracy ../../recipes/tfaot-model-digits/all/data/held-out.csv",
    )
    home = tmp_path / "conan"
    home.mkdir()
    conan(home, "profile", "detect")
    (home / "remotes.json").write_text('{"remotes": []}')
    conan(home, "remote", "add", "tfaot-models", REPOSITORY)
    variables = {"TFAOT_HOME": str(published.home), "PYTHONPATH": str(REPOSITORY), "CONAN_HOME": str(home)}
    printed = ""
    for step in steps:
        printed = run(shlex.split(step), env=environment(**variables), cwd=example, timeout=600).stdout
    sample = samples["digits"]
    share = 100 * np.mean(sample.answers["digit"] == sample.labels)
    assert printed == f"accuracy on {len(sample.labels)} held-out images: {share:.1f} %\n"
