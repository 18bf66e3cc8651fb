"""Turns by timing workers: who may answer, and what a night does if nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.nightly.farm.conftest import Place
from tests.nightly.reports import comparison, task
from tests.wording import reported
from tfaot_pkg.errors import NetworkError, TfaotError, ValidationError
from tfaot_pkg.ground.documents import write
from tfaot_pkg.nightly.farm.identity import Identity, new_key
from tfaot_pkg.nightly.farm.timing import DONE, LEASE, WANTED, TimingWorker, TimingWorkers, Wanted
from tfaot_pkg.verify.turns import Turns, Unit

UNITS = [("x86-64-v3", 1), ("x86-64-v3", 16)]


def turns() -> Turns:
    found = comparison(task("a")).turns
    assert found is not None
    return found


@pytest.fixture
def libraries(tmp_path: Path) -> tuple[Path, Path]:
    places = (tmp_path / "old.so", tmp_path / "new.so")
    for place in places:
        place.write_bytes(place.name.encode())
    return places


def measured(before: Path, after: Path, units: Sequence[Unit]) -> Turns:
    assert (before.read_bytes(), after.read_bytes(), list(units)) == (b"old.so", b"new.so", UNITS)
    return turns()


def refused(*_: object) -> Turns:
    raise ValidationError("it does not run here")


Start = Callable[..., None]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts workers, which end with the test: then their clock runs. One may start only then, on a busy machine."""
    over, threads, ticks = Event(), list[Thread](), count()

    def begin(place: Place, identity: Identity, times: object = measured) -> None:
        worker = TimingWorker(
            store=place.store, identity=identity, times=times, idle=1.0, poll=0.05,  # type: ignore[arg-type]
            clock=lambda: float(next(ticks)) if over.is_set() else 0.0,
        )  # fmt: skip
        threads.append(Thread(target=worker.run, daemon=True))
        threads[-1].start()

    yield begin
    over.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def asker(place: Place, *known: Identity, **given: float) -> TimingWorkers:
    fields = {"wait": 30.0, "poll": 0.02, **given}
    return TimingWorkers(store=place.store, keys=[one.public for one in known], **fields)  # type: ignore[arg-type]


def test_a_worker_with_a_key_of_the_definition_takes_turns(
    place: Place, libraries: tuple[Path, Path], start: Start
) -> None:
    known = Identity.of("timing", new_key())
    start(place, known)
    assert asker(place, known)(*libraries, UNITS) == turns()
    # A worker that saw the question and came too late cleans up after itself.
    until = time.monotonic() + 30
    while place.store.cells() and time.monotonic() < until:
        time.sleep(0.05)
    assert not place.store.cells() and not place.store.blobs(), "nothing is left"


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_answers_of_others_do_not_count(place: Place, libraries: tuple[Path, Path], start: Start) -> None:
    known, other = (Identity.of("timing", new_key()) for _ in range(2))
    start(place, other)
    with reported(NetworkError):
        asker(place, known, wait=1.0)(*libraries, UNITS)


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_what_is_written_in_the_place_of_an_answer_holds_up_nobody(
    place: Place, libraries: tuple[Path, Path], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Identity.of("timing", new_key())
    store, create = place.store, place.store.create

    def first_junk(_: object, name: str, data: bytes) -> str | None:
        if name.startswith(LEASE):
            create(name.replace(LEASE, DONE), b"{}")
        return create(name, data)

    monkeypatch.setattr(type(store), "create", first_junk)
    start(place, known)
    assert asker(place, known)(*libraries, UNITS) == turns()


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_without_a_worker_a_night_waits_once(place: Place, libraries: tuple[Path, Path]) -> None:
    waited: list[float] = []
    asked = TimingWorkers(
        store=place.store, keys=["0" * 64], wait=100.0, clock=lambda: sum(waited), sleep=waited.append, poll=30.0
    )
    for _ in range(3):
        with pytest.raises(NetworkError, match="no timing worker came in 100 s"):
            asked(*libraries, UNITS)
    assert sum(waited) == 120.0


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_a_worker_says_why_it_could_not(place: Place, libraries: tuple[Path, Path], start: Start) -> None:
    known = Identity.of("timing", new_key())
    start(place, known, refused)
    with pytest.raises(TfaotError, match="it does not run here"):
        asker(place, known)(*libraries, UNITS)


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_turns_of_another_version_are_left_alone(place: Place) -> None:
    known, notes = Identity.of("timing", new_key()), list[str]()
    wanted = Wanted(tool="0" * 64, version="9", before="0" * 64, after="0" * 64, units=())
    place.store.create(f"{WANTED}1", write(wanted))
    worker = TimingWorker(store=place.store, identity=known, times=measured, idle=0.05, poll=0.02, note=notes.append)
    assert worker.run() == 0 and "tfaot-pkg 9" in notes[0]
    assert set(place.store.cells()) == {f"{WANTED}1"}
