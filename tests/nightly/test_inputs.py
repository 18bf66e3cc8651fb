"""What planning remembers: nothing is read twice, and no change is missed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nightly.plans import SPEC, Lab, said
from tfaot_pkg.ground.keys import sha256_bytes, sha256_file
from tfaot_pkg.nightly import inputs
from tfaot_pkg.nightly.inputs import PlanCache

HOUR = 3600 * 10**9


def later() -> int:
    """A clock that is an hour ahead: what was just written has not changed for long."""
    return time.time_ns() + HOUR


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files whose content was digested."""
    names: list[str] = []
    digest = sha256_file

    def counted(path: Path) -> str:
        names.append(path.name)
        return digest(path)

    monkeypatch.setattr(inputs, "sha256_file", counted)
    return names


def test_a_file_is_digested_once(tmp_path: Path, read: list[str]) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    known = PlanCache(clock=later)
    assert known.digest(file) == known.digest(file) == sha256_bytes(b"1")
    known.write(tmp_path / "cache.json", whole=True)
    assert PlanCache.read(tmp_path / "cache.json").digest(file) == sha256_bytes(b"1")
    assert read == ["a"]


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    known, before = PlanCache(clock=later), file.stat()
    known.digest(file)
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # until the kernel's clock has gone on
        file.write_text("2")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert known.digest(file) == sha256_bytes(b"2")


def test_another_file_of_the_same_size_and_time_in_its_place_is_seen(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for path, text in ((first, "1"), (second, "2")):
        path.write_text(text)
        os.utime(path, ns=(HOUR, HOUR))
    known = PlanCache(clock=later)
    known.digest(first)
    os.replace(second, first)
    assert known.digest(first) == sha256_bytes(b"2")


def test_changes_within_one_tick_of_the_file_systems_clock_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "_stamp", _coarse(inputs._stamp))
    file, known, stamps = tmp_path / "a", PlanCache(), set()
    file.write_bytes(b"")
    for number in range(300):
        content = f"{number:06}".encode()
        with file.open("r+b") as open_file:
            open_file.write(content)
        stamps.add(inputs._stamp(file))
        assert known.digest(file) == sha256_bytes(content)
    assert len(stamps) < 30, "too few changes had the same time: this test has shown nothing"


def _coarse(stamp: Callable[[Path], tuple[int, ...]]) -> Callable[[Path], tuple[int, ...]]:
    """A file system whose clock counts seconds."""

    def coarse(path: Path) -> tuple[int, ...]:
        modified, changed, *others = stamp(path)
        return (modified // 10**9 * 10**9, changed // 10**9 * 10**9, *others)

    return coarse


def test_a_file_from_the_future_is_digested_each_time(tmp_path: Path, read: list[str]) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    os.utime(file, ns=(0, time.time_ns() + 10 * HOUR))
    known = PlanCache(clock=later)
    known.digest(file)
    known.digest(file)
    assert read == ["a", "a"]


def test_an_unchanged_place_is_planned_without_reading_a_model(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    lab.define()
    lab.model("a")
    monkeypatch.setattr(inputs.PlanCache, "__init__", _with_clock(inputs.PlanCache.__init__))
    lab.night(lab.plan())
    lab.plan()
    read.clear()
    loaded: list[Path] = []
    monkeypatch.setattr(inputs, "load_spec", loaded.append)
    assert [one.action for one in lab.plan()] == ["up to date"]
    assert (read, loaded) == ([], [])


def _with_clock(made: object) -> object:
    def init(self: PlanCache, *arguments: object, **fields: object) -> None:
        made(self, *arguments, **{"clock": later, **fields})  # type: ignore[operator]

    return init


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"made by": 1}', b'{"digests": {}}'])
def test_damage_costs_time_only(tmp_path: Path, damage: bytes) -> None:
    lab = Lab(tmp_path)
    lab.define()
    lab.model("a")
    lab.night(lab.plan())
    lab.plan_cache.write_bytes(damage)
    assert [one.action for one in lab.plan()] == ["up to date"]


def test_what_other_code_has_parsed_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    lab.define()
    lab.model("a")
    lab.plan()
    assert PlanCache.read(lab.plan_cache).specs
    monkeypatch.setattr(inputs, "code_digest", lambda *_: "other")
    assert not PlanCache.read(lab.plan_cache).specs


def test_what_is_gone_is_forgotten_but_not_by_a_plan_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs.PlanCache, "__init__", _with_clock(inputs.PlanCache.__init__))
    lab = Lab(tmp_path)
    lab.define()
    spec = lab.model("a")
    lab.model("b")

    def known() -> set[str]:
        """The files whose digests are remembered, by the names of their models."""
        return {Path(path).relative_to(tmp_path / "models").parts[0] for path in PlanCache.read(lab.plan_cache).digests}

    lab.plan()
    lab.plan(model="b")
    graph = str(spec.parent / "saved_model" / "saved_model.pb")
    assert graph in PlanCache.read(lab.plan_cache).digests and known() == {"a", "b"}
    spec.unlink()
    lab.plan()
    assert known() == {"b"}


def test_a_spec_that_changes_back_and_forth_is_always_the_one_on_disk(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.define()
    for sizes in ("[1]", "[2]", "[1]"):
        lab.model("a", SPEC.replace("[1, 4]", sizes))
        (decision,) = lab.plan()
        assert decision.inputs["spec.compilation.batch_sizes"] == sizes
    assert said(lab.plan())[0][1] == "build"


def test_nothing_is_remembered_in_the_state_folder_which_builders_can_write_to(tmp_path: Path) -> None:
    """A spec that is remembered decides what is signed."""
    lab = Lab(tmp_path)
    lab.define()
    lab.model("a")
    lab.plan()
    assert PlanCache.read(lab.plan_cache).specs
    assert not lab.state.root.exists()
