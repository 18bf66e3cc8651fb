"""Whether a library is slower than another one: both take turns on one core, and the ratio of their times decides.

A time of another day, or of another process, says little: the same code of 20 ns took 20 or 24 ns, by where it lay in
memory, and twice as long beside other programs. So both libraries are loaded into one process, which measures them
alternately (templates/tools/latency.cc), and whatever disturbs one disturbs the other. A process gives one ratio for
each target and batch size, the median of the ratios of its rounds; several processes give the places in memory at
random, with the libraries in both orders. The figure is the median of their ratios.

With the threshold b(t) = 1.05 + 1 ns / t for a library of t ns, a set of processes says "slower" if the median of its
ratios is above b, and no more than one in six is nearer to 1 than halfway. A second set must say the same. Sets whose
ratios scatter so much that they decide nothing are repeated, and in the end the verdict is "noisy".
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from tfaot_pkg.ground.cpu import Busy, Cpu, pinned, this_cpu
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.verify.latency import MAD_TO_SIGMA, TimedUnit, Timer

SpeedKind = Literal["slower", "faster", "the same", "noisy"]

PROCESSES = 6
"""Processes of a set: of one, the place in memory alone makes up to 20 % (benchmarks/turns.py)."""
SETS = 4
"""Sets at most, also if others disturb them all."""
_LEAST, _LEAST_NS = 0.05, 1.0
_MOST_LOAD = 0.25
_LOOK, PATIENCE = 0.5, 30.0
"""Seconds of a look at the load before a set, and how long a busy core is waited for."""

Unit = tuple[str, int]
"""Target and batch size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A library beside the one before it, for one target and batch size: median times of a run in nanoseconds.

    `ratio` is above 1 if it is slower: not the ratio of both times, but the median of those that were taken in turns.
    `spread` is the standard deviation of the processes' ratios, from their median absolute deviation.
    """

    target: str
    batch_size: int
    before: float
    after: float
    ratio: float
    spread: float
    kind: SpeedKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What was measured on `cpu`. `load` is the share of the core that other programs used, from 0 to 1."""

    speeds: tuple[Speed, ...]
    cpu: Cpu
    load: float
    processes: int

    @property
    def slower(self) -> tuple[Speed, ...]:
        return tuple(each for each in self.speeds if each.kind == "slower")

    @property
    def noisy(self) -> tuple[Speed, ...]:
        return tuple(each for each in self.speeds if each.kind == "noisy")


def threshold(nanoseconds: float) -> float:
    """The ratio from which on a library of that many ns is told to be slower."""
    return 1.0 + _LEAST + _LEAST_NS / nanoseconds


def kind_of(ratios: Sequence[float], nanoseconds: float) -> SpeedKind:
    """What one set of processes says."""
    middle, bound = median(ratios), threshold(nanoseconds)
    halfway = 1.0 + (bound - 1.0) / 2
    few = len(ratios) // PROCESSES
    if middle > bound or middle < 1.0 / bound:
        inside = (
            sum(each < halfway for each in ratios) if middle > bound else sum(each > 1 / halfway for each in ratios)
        )
        return ("slower" if middle > bound else "faster") if inside <= few else "noisy"
    # What scatters like this could hide a change that matters.
    return "the same" if _spread(ratios) < bound - 1.0 else "noisy"


@dataclass(slots=True)
class _Found:
    """The ratios and times of one unit, and what the sets of processes said."""

    ratios: list[float]
    times: list[tuple[float, float]]
    said: list[SpeedKind]

    @property
    def kind(self) -> SpeedKind | None:
        """The verdict; None if another set has to say more."""
        if "the same" in self.said:  # so has one of them, and a change shows in all
            return "the same"
        return next((kind for kind in ("slower", "faster") if self.said.count(kind) >= 2), None)


def in_turns(
    before: Path,
    after: Path,
    clock: Timer,
    units: Sequence[Unit],
    *,
    patience: float = PATIENCE,
    sleep: Callable[[float], None] = time.sleep,
) -> Turns:
    """Compare the library `after` with `before` for `units`, which this machine must be able to run.

    Keeps one core busy, for a second and more. Waits up to `patience` seconds for it if others use it. Raises
    ValidationError if one does not run.
    """
    with _copies(before, after) as pair, pinned() as core:
        start = Busy.now(core)
        found = _measured(clock, pair, units, lambda: _await_idle(core, patience, sleep))
        load = Busy.now(core).others_since(start)
    return Turns(
        speeds=tuple(_speed(unit, each) for unit, each in found.items()),
        cpu=this_cpu(),
        load=round(load, 3),
        processes=max((len(each.ratios) for each in found.values()), default=0),
    )


def _measured(
    clock: Timer, pair: tuple[Path, Path], units: Sequence[Unit], begin: Callable[[], None]
) -> Mapping[Unit, _Found]:
    found = {unit: _Found([], [], []) for unit in units}
    left = list(units)
    for _ in range(SETS):
        begin()
        for number in range(PROCESSES):
            for unit, (ratio, times) in _process(clock, pair, left, swapped=number % 2 == 1).items():
                found[unit].ratios.append(ratio)
                found[unit].times.append(times)
        for unit in left:
            each = found[unit]
            each.said.append(kind_of(each.ratios[-PROCESSES:], median(old for old, _ in each.times)))
        left = [unit for unit in left if found[unit].kind is None]
        if not left:
            break
    return found


def _process(
    clock: Timer, pair: tuple[Path, Path], units: Sequence[Unit], *, swapped: bool
) -> dict[Unit, tuple[float, tuple[float, float]]]:
    """The median ratio of the rounds of one process, and both median times."""
    words = [f"{target}:{size}" for target, size in units]
    times = clock.times(dict.fromkeys(reversed(pair) if swapped else pair, words))
    found = {}
    for target, size in units:
        old, new = (times[TimedUnit(library=each, target=target, batch_size=size)] for each in pair)
        ratio = median(b / a for a, b in zip(old, new, strict=True))
        found[target, size] = (ratio, (median(old), median(new)))
    return found


def _speed(unit: Unit, found: _Found) -> Speed:
    target, size = unit
    return Speed(
        target=target,
        batch_size=size,
        before=round(median(old for old, _ in found.times), 2),
        after=round(median(new for _, new in found.times), 2),
        ratio=round(median(found.ratios), 4),
        spread=round(_spread(found.ratios), 4),
        kind=found.kind or "noisy",
    )


def _spread(ratios: Sequence[float]) -> float:
    middle = median(ratios)
    return MAD_TO_SIGMA * median(abs(each - middle) for each in ratios)


def _await_idle(core: int, patience: float, sleep: Callable[[float], None]) -> None:
    """Wait until others use little of `core`; not for ever, because turns stand a lot."""
    waited = 0.0
    while waited < patience:
        before = Busy.now(core)
        sleep(_LOOK)
        waited += _LOOK
        if Busy.now(core).others_since(before) <= _MOST_LOAD:
            return


@contextmanager
def _copies(before: Path, after: Path) -> Iterator[tuple[Path, Path]]:
    """Both libraries under paths of the same length; if they are one file, it is loaded twice all the same."""
    with temporary_folder(prefix="tfaot-turns-") as scratch:
        places = (scratch / "a.so", scratch / "b.so")
        for source, place in zip((before, after), places, strict=True):
            shutil.copyfile(source, place)
        yield places
