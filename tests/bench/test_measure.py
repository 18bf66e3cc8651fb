"""Taking turns: real processes that speak the protocol (engine.py), and what becomes of one that fails."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.measure.bench import serving
from tfaot_pkg.measure.bench.measure import Rates, Schedule, Taken, measure
from tfaot_pkg.measure.bench.results import free_core
from tfaot_pkg.measure.bench.serving import Program, native_program
from tfaot_pkg.measure.bench_program.messages import Memory

pytestmark = pytest.mark.slow

ENGINE = Path(__file__).with_name("engine.py")
SCHEDULE = Schedule(batch_sizes=(1, 4), rounds=3, core=free_core())

Measure = Callable[..., tuple[dict[str, Taken], dict[str, Rates]]]


@pytest.fixture
def engine(tmp_path: Path) -> Callable[..., Program]:
    def made(name: str, *words: str) -> Program:
        journal = str(tmp_path / "journal")
        arguments = ("{}", journal, name, *(words or ("1000",)))
        return Program(program=ENGINE, python=Path(sys.executable), arguments=arguments)

    return made


@pytest.fixture
def measured(tmp_path: Path, engine: Callable[..., Program]) -> Measure:
    def run(**programs: Program) -> tuple[dict[str, Taken], dict[str, Rates]]:
        with Silent().step("measure") as step:
            return measure(
                programs, {"x86-64-v3": engine("limits")}, [1000, 2000], ["float32", "int8"], SCHEDULE,
                answers=tmp_path, logs=tmp_path / "logs", step=step,
            )  # fmt: skip

    return run


def _turns(tmp_path: Path) -> list[str]:
    """`NAME SIZE` of every slice that was timed in turns, in order."""
    lines = [line.split() for line in (tmp_path / "journal").read_text().splitlines()]
    return [f"{name} {words[1]}" for name, *words in lines if words[0] == "time" and words[3] == str(SCHEDULE.slice)]


def test_engines_take_turns_and_another_one_begins_each_round(
    measured: Measure, engine: Callable[..., Program], tmp_path: Path
) -> None:
    measured(a=engine("a"), b=engine("b"))
    assert _turns(tmp_path) == [
        *("a 1", "b 1", "a 4", "b 4"),
        *("b 1", "a 1", "b 4", "a 4"),
        *("a 1", "b 1", "a 4", "b 4"),
    ]


def test_each_engine_is_pinned_to_the_one_core(
    measured: Measure, engine: Callable[..., Program], tmp_path: Path
) -> None:
    measured(a=engine("a"))
    lines = (tmp_path / "journal").read_text().splitlines()
    assert lines and all(line.endswith(f"core [{SCHEDULE.core}]") for line in lines)


def test_times_memory_answers_and_limits_are_kept(
    measured: Measure, engine: Callable[..., Program], tmp_path: Path
) -> None:
    taken, rates = measured(a=engine("a", "2000"))
    assert taken["a"].times == {1: [[2000.0] * 3] * 3, 4: [[8000.0] * 3] * 3}
    assert taken["a"].first_inference == 5.0 and taken["a"].memory == Memory(empty=100, peak=300)
    assert [(tmp_path / f"a-{size}.bin").stat().st_size for size in (1, 4)] == [4, 16]
    limits = rates["x86-64-v3"]
    assert {each: len(found) for each, found in limits.multiply_adds.items()} == {"float32": 6, "int8": 6}
    assert {size: len(found) for size, found in limits.reads.items()} == {
        1000: 3,
        2000: 3,
    }


@pytest.mark.sweep("error-*", "*-time", night=10)
@pytest.mark.parametrize("operation", ["start", "time", "answers", "memory"])
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("error", "no such operation"),
        ("exit", "exit code 7): it is broken"),
        ("garbage", "an answer that cannot be read"),
        ("other", "an answer that cannot be read"),
    ],
)
def test_an_engine_that_fails_is_left_out_and_says_why(
    measured: Measure, engine: Callable[..., Program], fault: str, says: str, operation: str
) -> None:
    taken, _ = measured(bad=engine("bad", "1000", fault, operation), good=engine("good"))
    assert says in taken["bad"].failure
    assert not taken["good"].failure and len(taken["good"].times[4]) == SCHEDULE.rounds


def test_an_engine_that_hangs_is_given_up(
    measured: Measure, engine: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_TIMEOUT", 1.0)
    taken, _ = measured(bad=engine("bad", "1000", "hang", "answers"), good=engine("good"))
    assert taken["bad"].failure == "no answer within 1 s" and not taken["good"].failure


def test_a_program_that_is_not_there_is_a_reason(measured: Measure, tmp_path: Path) -> None:
    taken, _ = measured(gone=native_program(tmp_path / "gone"))
    assert "cannot start" in taken["gone"].failure


def test_no_process_is_left(measured: Measure, engine: Callable[..., Program], tmp_path: Path) -> None:
    measured(a=engine("a"))
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        assert str(tmp_path).encode() not in words
