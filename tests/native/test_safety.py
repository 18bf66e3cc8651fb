"""What a program can rely on while it runs: memory, threads, forks, wrong calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.native.conftest import HERE, MOST_GROWTH, VALGRIND, Answers, check_answers
from tests.samples import NAMES, Published, Sample
from tests.sanitizers import CATCH_RACES, run_sanitized
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

Program = Callable[[str], Path]
RequireProgram = Callable[[str], str]


@pytest.mark.sweep("wine--")
@pytest.mark.parametrize("target", ["-", "x86-64-v2"])
@pytest.mark.parametrize("name", NAMES)
def test_valgrind_sees_neither_errors_nor_leaks(
    name: str, target: str, answers: Answers, require_program: RequireProgram, tmp_path: Path
) -> None:
    valgrind = [require_program("valgrind"), *VALGRIND]
    assert answers.check(name, tmp_path, target=target, under=valgrind).stderr == ""


@pytest.mark.parametrize("name", NAMES)
def test_wrong_calls_get_a_message_and_harm_nothing(
    name: str,
    published: Published,
    samples: Mapping[str, Sample],
    inputs: Mapping[str, Path],
    program: Program,
    tmp_path: Path,
) -> None:
    printed = run([program("messages"), published.library(name, "so"), inputs[name], tmp_path]).stdout
    assert printed.splitlines() == [
        f"model {name}: the library has no code for target nosuchcpu",
        f"model {name}: no place for an instance was given",
        f"model {name}, batch size 0: a batch has at least one row",
        f"model {name}, batch size 1: a null pointer among inputs or outputs",
    ]
    check_answers(tmp_path, samples[name], ["aligned"])


def test_loading_and_unloading_a_thousand_times_takes_no_more_memory(
    published: Published, inputs: Mapping[str, Path], program: Program, tmp_path: Path
) -> None:
    argv: list[str | Path] = [program("reload"), published.library("digits", "so"), inputs["digits"], tmp_path, "1000"]
    early, late = map(int, run(argv).stdout.split())
    assert late - early <= MOST_GROWTH


def test_an_instance_survives_a_fork(
    published: Published, samples: Mapping[str, Sample], inputs: Mapping[str, Path], program: Program, tmp_path: Path
) -> None:
    parent, child = tmp_path / "parent", tmp_path / "child"
    parent.mkdir()
    child.mkdir()
    run([program("fork"), published.library("digits", "so"), inputs["digits"], parent, child])
    for outputs in (parent, child):
        check_answers(outputs, samples["digits"], ["aligned", "misaligned"])


@pytest.mark.sweep("clang++")
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_an_instance_per_thread_gives_right_answers_and_no_race(
    compiler: str,
    published: Published,
    samples: Mapping[str, Sample],
    inputs: Mapping[str, Path],
    require_sanitizers: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """The program cpp/threads.cpp with ThreadSanitizer, linked with both static libraries."""
    require_sanitizers(compiler)
    program = tmp_path / "threads"
    libraries = [published.library(name, "a") for name in NAMES]
    run([compiler, "-std=c++17", "-O1", "-g", *CATCH_RACES, "-Wall", "-Wextra", "-Werror", f"-I{published.prefix}/include",
         HERE / "cpp" / "threads.cpp", *libraries, "-pthread", "-o", program])  # fmt: skip
    answers = samples["digits"].answers["probability"], samples["wine"].answers["probability"]
    for name, values in zip(NAMES, answers, strict=True):
        (tmp_path / f"{name}.bin").write_bytes(values.tobytes())
    finished = run_sanitized([program, inputs["digits"], inputs["wine"], tmp_path])
    assert finished.stdout == "wrong: 0\n"
    assert finished.stderr == ""


def test_two_threads_in_one_instance_get_right_answers_or_none(
    published: Published, inputs: Mapping[str, Path], tmp_path: Path
) -> None:
    """20,000 calls and more of each thread, until some were refused: through the C ABI, and composed batches in C++."""
    program = tmp_path / "busy"
    run(["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{published.prefix}/include",
         HERE / "cpp" / "busy.cpp", published.library("digits", "a"), "-pthread", "-o", program])  # fmt: skip
    printed = run([program, inputs["digits"]], timeout=600).stdout
    assert printed.splitlines() == ["C: 0 wrong, some refused", "C++: 0 wrong, some refused"]
