"""The examples in C and with dlopen: strict compilers take them, and they give TensorFlow's answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import WARNINGS, cmake_build, environment
from tests.samples import NAMES, REPOSITORY, Published, Sample, recipe
from tests.wording import reported
from tfaot_pkg.ground.process import CommandFailed, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

EXAMPLES = REPOSITORY / "examples"
RequireProgram = Callable[[str], str]


def held_out(name: str) -> Path:
    return recipe(name) / "data" / "held-out.csv"


def accuracy(sample: Sample) -> str:
    share = 100 * np.mean(sample.answers["digit"] == sample.labels)
    return f"accuracy on {len(sample.labels)} held-out images: {share:.1f} %\n"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_example_in_c_is_strict_c11_and_as_accurate_as_tensorflow(
    compiler: str, published: Published, samples: Mapping[str, Sample], require_program: RequireProgram, tmp_path: Path
) -> None:
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{published.prefix}/include"]
    library = published.library("digits", "a")
    program = tmp_path / "accuracy"
    run([require_program(compiler), *strict, EXAMPLES / "c" / "main.c", library, "-lm", "-o", program])
    assert run([program, held_out("digits")], env=environment()).stdout == accuracy(samples["digits"])


def test_the_example_in_c_builds_with_cmake_in_a_project_without_cpp(
    moved: Path, samples: Mapping[str, Sample], tmp_path: Path
) -> None:
    build = cmake_build(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}", source=EXAMPLES / "c")
    assert run([build / "digits-accuracy", held_out("digits")], env=environment()).stdout == accuracy(samples["digits"])


@pytest.mark.parametrize(
    "text",
    ["", "1,2\n", "1," * 65 + "1\n"],
)
def test_the_example_in_c_refuses_what_is_no_table_of_images(text: str, published: Published, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(text)
    library = published.library("digits", "a")
    flags: list[str | Path] = [f"-I{published.prefix}/include", EXAMPLES / "c" / "main.c", library, "-lm"]
    run(["gcc", "-std=c11", *flags, "-o", tmp_path / "accuracy"])
    with reported(CommandFailed):
        run([tmp_path / "accuracy", tmp_path / "table.csv"])


@pytest.fixture(scope="module")
def score(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of examples/plugin, which is linked with no model."""
    options = [f"-DCMAKE_PREFIX_PATH={published.prefix}", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}"]
    return cmake_build(tmp_path_factory.mktemp("plugin"), *options, source=EXAMPLES / "plugin") / "score"


@pytest.mark.parametrize("names", [NAMES, NAMES[::-1]], ids=str)
def test_the_example_with_dlopen_scores_two_models_in_one_process_as_tensorflow_does(
    names: tuple[str, ...], score: Path, published: Published, samples: Mapping[str, Sample]
) -> None:
    arguments = [path for name in names for path in (published.library(name, "so"), held_out(name))]
    printed = run([score, *arguments], env=environment()).stdout
    expected = []
    for name in names:
        right = np.count_nonzero(samples[name].answers["probability"].argmax(axis=1) == samples[name].labels)
        expected.append(f"{name} 1.0.0: {right} of {len(samples[name].labels)} right")
    assert re.sub(r" \(x86-64-v\d\)", "", printed).splitlines() == expected


def test_the_example_with_dlopen_says_what_does_not_fit(score: Path, published: Published, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    wrong: list[list[Path]] = [
        [],
        [tmp_path / "text.so", held_out("wine")],
        [published.library("wine", "so"), held_out("digits")],
        [published.library("wine", "so"), tmp_path / "nothing.csv"],
    ]
    for arguments in wrong:
        with reported(CommandFailed):
            run([score, *arguments], env=environment())
