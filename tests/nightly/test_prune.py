"""What goes from the state folder, and what a night, a plan and a report still find there afterwards."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.commands import invoked
from tests.nightly.nights import Seen, coordinator, home_of, stub, stub_decision
from tests.nightly.plans import DAY, SPEC, Lab
from tests.nightly.reports import FIRST, add_night, outcome, summary, task
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, StorageError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.nightly.prune import Pruned, prune
from tfaot_pkg.nightly.report.report import read_report
from tfaot_pkg.nightly.run import FAILED, NightRun
from tfaot_pkg.nightly.state import State
from tfaot_pkg.nightly.types import Decision, Outcome, Policy
from tfaot_pkg.registry.folder import FolderRegistry

MONDAY = date(2026, 11, 16)


class Place:
    """Nights whose builds only sleep, with a real registry."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, State(root=root / "state")
        self.watch = Seen()

    def night(self, day: int, *decisions: Decision, max_failures: float = 1.0) -> NightRun:
        self.watch = Seen()
        return coordinator(
            self.root, home_of(self.root), program=stub(0), watch=self.watch, today=MONDAY + timedelta(days=day),
            policy=Policy(max_failures=max_failures),
        ).run(lambda: decisions)  # fmt: skip

    def prune(self, keep: int, *, dry_run: bool = False) -> Pruned:
        return prune(self.state, keep, FolderRegistry.find(self.root / "registry"), dry_run=dry_run)

    @property
    def nights(self) -> list[str]:
        return [night.name for night in self.state.nights()]

    @property
    def results(self) -> set[str]:
        return {path.name.partition(".")[0] for path in self.root.glob("state/results/??/*")}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_last_nights_stay_with_what_was_built_in_them_and_the_history_of_all(place: Place) -> None:
    builds = [stub_decision("one", number=number) for number in (1, 2, 3)]
    broken = [stub_decision("broken", number=number) for number in (1, 2, 3)]
    for day in range(3):
        place.night(day, builds[day], broken[day])
    history = list(place.state.history.builds())
    hidden = [place.root / "state" / name / ".cut.x.part" for name in ("nights", f"results/{builds[0].key[:2]}")]
    for folder in hidden:
        folder.mkdir()
        (folder / "file").write_bytes(b"x" * 1000)

    before = files(place.root)
    said_before = place.prune(2, dry_run=True)
    assert files(place.root) == before
    done = place.prune(2)
    assert (done.nights, done.kept) == (("2026-11-16.1",), ("2026-11-17.1", "2026-11-18.1"))
    assert done.results == tuple(sorted((builds[0].key, broken[0].key)))
    assert (said_before.nights, said_before.results, said_before.size) == (done.nights, done.results, done.size)
    assert done.size > 2000
    assert place.nights == list(done.kept)
    assert place.results == {one.key for one in (*builds[1:], *broken[1:])}
    assert not any(folder.exists() for folder in hidden)
    assert all(list(folder.iterdir()) for folder in place.root.glob("state/results/??"))
    assert list(place.state.history.builds()) == history
    assert place.prune(2).nights == place.prune(5).nights == ()
    report = read_report(place.state, place.state.nights()[-1])
    (still,) = report.failed
    assert (still.change.kind, still.change.since) == ("still failing", "2026-11-16")


class Interrupted(Exception):
    """Stands for whatever cuts a night off."""


def test_a_night_that_was_cut_off_stays_beside_the_last_one_and_is_taken_up(place: Place) -> None:
    class Cutting(Seen):
        def outcome(self, outcome: Outcome) -> None:
            raise Interrupted

    for day in range(2):
        place.night(day, stub_decision("one", number=day + 1))
    waiting = stub_decision("two")
    with pytest.raises(Interrupted):
        coordinator(place.root, home_of(place.root), program=stub(0), watch=Cutting()).run(lambda: [waiting])
    assert place.prune(1).kept == ("2026-11-17.1", "2026-11-21.1")
    assert waiting.key in place.results
    again = place.night(9, waiting)
    assert (again.night.name, again.counts) == ("2026-11-21.1", {"published": 1})


def test_what_was_verified_and_withheld_is_published_without_another_build(place: Place) -> None:
    place.night(0, stub_decision("fine"), stub_decision("breaks"))
    decisions = (stub_decision("fine", number=2), stub_decision("breaks", number=2))
    assert place.night(1, *decisions, max_failures=0.1).gate.withheld
    place.prune(1)
    done = place.night(2, *decisions)
    assert done.counts == {"published": 1, "build failed": 1}
    assert place.watch.stored_ == [1]


def test_beside_a_night_that_runs_there_is_only_a_dry_run(place: Place) -> None:
    place.night(0, stub_decision("one"))
    place.night(1)
    with place.state.lock():
        with reported(StorageError):
            place.prune(1)
        assert place.prune(1, dry_run=True).nights == ("2026-11-16.1",)
    assert len(place.nights) == 2


def test_where_anything_cannot_be_read_nothing_is_removed(place: Place) -> None:
    for day in range(2):
        place.night(day, stub_decision("one", number=day + 1))
    plan = place.state.nights()[-1].folder / "plan.json"
    content = plan.read_bytes()
    plan.write_bytes(b"{half")
    before = files(place.root)
    with reported(StorageError):
        place.prune(1)
    assert files(place.root) == before
    plan.write_bytes(content)
    (index,) = (path for path in place.root.glob("registry/index/**/*") if path.is_file())
    index.write_bytes(b"nonsense\n")
    before = files(place.root)
    with pytest.raises(RegistryError):
        place.prune(1)
    assert files(place.root) == before


def test_without_any_night_nothing_is_made(place: Place) -> None:
    assert plain(place.prune(1)) == {"nights": [], "results": [], "kept": [], "size": 0, "dry_run": False}
    assert not place.state.root.exists()


# --- plans ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The models a and b, published."""
    lab = Lab(tmp_path)
    for name in "ab":
        lab.model(name)
    lab.define()
    lab.night(lab.plan())
    return lab


def cut(lab: Lab) -> None:
    """Have another night, and keep that one only."""
    night = lab.state.new_night(lab.plan(), DAY + timedelta(days=9))
    night.end(summary(night))
    registry = FolderRegistry.open(lab.root / "registry")
    assert len(prune(lab.state, 1, registry).kept) == 1


def test_a_plan_knows_from_what_was_built_in_nights_that_are_gone(lab: Lab) -> None:
    for _ in range(2):
        cut(lab)
    lab.model("a", SPEC.replace("[1, 4]", "[1, 8]"))
    (change,) = (one for one in lab.plan() if one.action == "build")
    assert list(map(str, change.reasons)) == ["spec: compilation.batch_sizes (spec.yaml:5): [1, 4] -> [1, 8]"]


def test_what_packages_were_made_from_is_kept_of_their_newest_builds_only(lab: Lab) -> None:
    cut(lab)
    kept = (lab.state.root / "inputs.jsonl").read_text().splitlines()
    lab.model("a", SPEC.replace("[1, 4]", "[1, 8]"))
    lab.night([one for one in lab.plan() if one.action == "build"])
    cut(lab)
    now = (lab.state.root / "inputs.jsonl").read_text().splitlines()
    assert (len(kept), len(now), len(set(kept) & set(now))) == (2, 2, 1)


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    """A definition with four nights."""
    (tmp_path / "spec.yaml").write_text("nonsense\n")
    state = State(root=tmp_path / "nightly-state")
    for day in range(4):
        add_night(state, FIRST + timedelta(days=day), [outcome(task("one"))], tasks=[task("one")])
    path = tmp_path / "registry.yaml"
    path.write_text("registry: registry\nmodels:\n  - spec: spec.yaml\n")
    return path


def tfaot(*words: str | Path) -> tuple[int, str, str]:
    done = invoked(["nightly", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_says_what_goes_before_it_goes(definition: Path) -> None:
    code, out, _ = tfaot("prune", definition, "--keep", "1", "--dry-run")
    assert code == 0
    assert out.startswith("would be removed: 3 nights (2026-10-20.1 to 2026-10-22.1) and 0 results, ")
    assert out.endswith("; 1 night kept\n")
    code, out, _ = tfaot("prune", definition, "--keep", "3", "--json")
    assert {**json.loads(out), "size": 0} == {
        "nights": ["2026-10-20.1"], "results": [], "kept": ["2026-10-21.1", "2026-10-22.1", "2026-10-23.1"],
        "size": 0, "dry_run": False,
    }  # fmt: skip


def test_how_many_stay_is_said_by_the_policy_or_by_an_option(definition: Path) -> None:
    code, _, error = tfaot("prune", definition)
    assert code == 2 and "--keep N, or policy.keep_nights" in " ".join(error.split())
    definition.write_text(definition.read_text() + "policy: {keep_nights: 2}\n")
    assert tfaot("prune", definition)[1].startswith("removed: 2 nights (2026-10-20.1 to 2026-10-21.1) ")
    assert tfaot("prune", definition, "--keep", "1")[1].startswith("removed: 1 night (2026-10-22.1) ")


def test_a_night_is_followed_by_what_the_policy_says(definition: Path) -> None:
    definition.write_text(definition.read_text() + "toolchains: [2.17.1]\npolicy: {keep_nights: 2}\n")
    code, out, _ = tfaot("run", definition, "--no-dask")
    assert code == FAILED, "its spec cannot be read"
    assert out.splitlines()[-1].startswith("removed: 3 nights (2026-10-20.1 to 2026-10-22.1) ")
    assert len(State(root=definition.parent / "nightly-state").nights()) == 2
