"""Turns of two libraries find a planted slow-down of a few nanoseconds, and none where there is none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.verify.beside import beside
from tfaot_pkg.verify.latency import Timer, timer
from tfaot_pkg.verify.turns import Speed, Turns, in_turns, kind_of, threshold

SOURCE = Path(__file__).with_name("chain.cpp")
TARGET = "x86-64-v2"
Chain = Callable[..., Path]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Timer:
    compiler = find_compiler("x86_64", log=tmp_path_factory.mktemp("log") / "log", output=lambda _: None)
    return timer(compiler, BuildCache(root=tmp_path_factory.mktemp("timer")))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Makes the library of chain.cpp with some work and factor."""
    folder = tmp_path_factory.mktemp("chains")

    def make(work: int, factor: str = "2") -> Path:
        library = folder / f"chain-{work}-{factor}.so"
        if not library.exists():
            defined = (f"-DWORK={work}", f"-DFACTOR={factor}")
            flags = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{resources.headers()}")
            subprocess.run(["g++", *flags, *defined, SOURCE, "-o", library], check=True)
        return library

    return make


WorkFor = Callable[[float], int]


@pytest.fixture(scope="module")
def work_for(chain: Chain, clock: Timer) -> WorkFor:
    return work_now(chain, clock)


def work_now(chain: Chain, clock: Timer) -> WorkFor:
    """Gives the work that takes about so many ns here and now: a call has a cost of its own."""
    speed = in_turns(chain(10), chain(400), clock, [(TARGET, 1)], patience=0).speeds[0]
    each = (speed.ratio - 1) * speed.before / 390
    return lambda nanoseconds: round(10 + (nanoseconds - speed.before) / each)


def turns(before: Path, after: Path, clock: Timer) -> Speed:
    made = in_turns(before, after, clock, [(TARGET, 1)], patience=0)
    assert 0 <= made.load <= 1 and made.cpu.model and made.cpu.flags
    return made.speeds[0]


@pytest.mark.slow
@pytest.mark.parametrize("nanoseconds", [20.0, 400.0])
@pytest.mark.parametrize("ratio", [2.0, 0.5])
def test_twice_and_half_the_time_are_told(
    nanoseconds: float, ratio: float, chain: Chain, clock: Timer, work_for: WorkFor
) -> None:
    """A change that no other program and no other speed of the core can hide: small ones are for an idle machine."""
    before, after = chain(work_for(nanoseconds)), chain(work_for(nanoseconds * ratio))
    kinds = list[str]()
    while len(kinds) < 4 and set(kinds) <= {"noisy"}:
        found = turns(before, after, clock)
        kinds.append(found.kind)
    assert kinds[-1] in ("slower" if ratio > 1 else "faster", "noisy")
    assert 0.7 < found.ratio / ratio < 1.4


@pytest.mark.release
@pytest.mark.parametrize(("nanoseconds", "slower"), [(20.0, 1.2), (400.0, 1.1)])
def test_a_small_slow_down_is_found_from_the_first_build_on_and_so_is_its_end(
    nanoseconds: float, slower: float, chain: Chain, clock: Timer
) -> None:
    for is_slower in (True, False):
        made = _slowed(nanoseconds, slower if is_slower else 1 / slower, chain, clock)
        (found,) = made.speeds
        # On a core that others keep busy it may be too noisy to tell, and says so.
        kind = "slower" if is_slower else "faster"
        assert found.kind == kind or (found.kind == "noisy" and made.load > 0.25), made
        assert found.ratio == pytest.approx(slower if is_slower else 1 / slower, abs=0.08)


def _slowed(nanoseconds: float, ratio: float, chain: Chain, clock: Timer) -> Turns:
    """Turns of two libraries, the faster of which takes about `nanoseconds`, and the second `ratio` times the first."""
    for _ in range(4):
        work_for, slower = work_now(chain, clock), max(ratio, 1 / ratio)
        fast, slow = chain(work_for(nanoseconds)), chain(work_for(nanoseconds * slower))
        before, after = (fast, slow) if ratio > 1 else (slow, fast)
        made = in_turns(before, after, clock, [(TARGET, 1)], patience=1)
        (found,) = made.speeds
        # The work was chosen at another speed of the core: what took 20 ns takes 12, of which 1.2 times is below the bound.
        if min(found.before, found.after) == pytest.approx(nanoseconds, rel=0.2):
            break
    return made


@pytest.mark.slow
@pytest.mark.parametrize("nanoseconds", [20.0, 400.0])
def test_the_same_library_twice_is_never_slower(
    nanoseconds: float, chain: Chain, clock: Timer, work_for: WorkFor
) -> None:
    library = chain(work_for(nanoseconds))
    assert {turns(library, library, clock).kind for _ in range(5)} <= {"the same", "noisy"}


@pytest.mark.release
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("nanoseconds", [20.0, 400.0])
def test_the_same_library_200_times_gives_no_alarm(
    nanoseconds: float, chain: Chain, clock: Timer, work_for: WorkFor
) -> None:
    library = chain(work_for(nanoseconds))
    assert "slower" not in {turns(library, library, clock).kind for _ in range(200)}


@pytest.mark.parametrize(
    ("ratios", "nanoseconds", "kind"),
    [
        ([1.2] * 6, 20, "slower"),
        ([1.2] * 5 + [1.0], 20, "slower"),
        ([1.2] * 4 + [1.0] * 2, 20, "noisy"),
        ([1.09] * 6, 20, "the same"),
        ([1.09] * 6, 400, "slower"),
        ([1.0, 1.3, 0.8, 1.1, 0.9, 1.0], 400, "noisy"),
        ([0.8] * 6, 20, "faster"),
        ([1.0] * 6, 20, "the same"),
    ],
)
def test_a_set_of_processes_must_agree(ratios: list[float], nanoseconds: float, kind: str) -> None:
    assert kind_of(ratios, nanoseconds) == kind


def test_the_threshold_is_5_percent_and_a_nanosecond() -> None:
    assert [threshold(ns) for ns in (20, 400)] == [pytest.approx(1.1), pytest.approx(1.0525)]


def test_answers_are_compared_bit_for_bit_and_by_how_much(chain: Chain) -> None:
    assert beside(chain(1), chain(1), TARGET).apart is None
    apart = beside(chain(1), chain(1, "2.0001f"), TARGET).apart
    assert apart is not None
    # Batches of 1, 3, 16 and 37 rows, 16 or 37 of them in all: each number is off by 5e-5 of it, but for zeros and NaN.
    assert apart.output == "y"
    assert apart.relative == pytest.approx(5e-5, rel=1e-2)
    assert 0 < apart.differing <= apart.elements


def test_a_library_that_does_not_run_is_not_compared(chain: Chain, tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF")
    with reported(ValidationError, varies=r"(?<=compared: ).*"):
        beside(chain(1), broken, TARGET)
