"""A build that is worse than the published one: found the first time, told, and kept back if the policy says so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.nightly.nights import Seen, coordinator, home_of, stub, stub_decision
from tests.nightly.reports import THIS_CPU, comparison
from tests.nightly.stub_build import line_of
from tests.nightly.test_coordinator import Registry, kinds
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.documents import plain, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.nightly.compare import Comparer, Times, base_of, turns_here
from tfaot_pkg.nightly.history import History
from tfaot_pkg.nightly.outcome import Attempt
from tfaot_pkg.nightly.regression import kept_back, worse_in
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.run import FAILED
from tfaot_pkg.nightly.state import State
from tfaot_pkg.nightly.types import Comparison, Decision, Figures, Policy, Regression
from tfaot_pkg.pipeline.publish import Release
from tfaot_pkg.registry.archive import pack
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry, parse_index
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.folder import FolderRegistry

SOURCE = Path(__file__).resolve().parents[1] / "verify" / "chain.cpp"
TARGET = "x86-64-v2"


def release_of(folder: Path, decision: Decision, *defined: str) -> Release:
    """A package whose library is chain.cpp with these macros."""
    name = f"tfaot-model-{decision.task.model}"
    tree = folder / decision.release
    (tree / "lib").mkdir(parents=True)
    flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{resources.headers()}"]
    library = tree / "lib" / f"lib{name}.so"
    subprocess.run(["g++", *flags, *(f"-D{each}" for each in defined), SOURCE, "-o", library], check=True)
    archive = folder / f"{decision.release}.tar.gz"
    with archive.open("xb") as file:
        digest = pack(tree, file).digest
    line = {**line_of(plain(decision), b""), "targets": [TARGET], "tree": digest}
    (one,) = parse_index(write({**line, "blobs": {"prefix": plain(BlobRef.of(archive))}}), "test", name)
    assert one.entry is not None
    return Release(entry=one.entry, blobs={PREFIX: archive})


@dataclass(frozen=True)
class Place:
    """A registry with the first build of a model, and the result of a second one."""

    root: Path
    decision: Decision
    turns: Times

    @property
    def results(self) -> Results:
        return State(root=self.root / "state").results

    @property
    def comparer(self) -> Comparer:
        return Comparer(registry=self.root / "registry", turns=self.turns, cpu=THIS_CPU)

    def night(self, regression: Regression, **fields: object) -> tuple[dict[str, str], int, Seen, Registry]:
        publisher, seen = Registry(), Seen()
        made = coordinator(
            self.root, home_of(self.root), program=stub(0), publisher=publisher, watch=seen,
            policy=Policy(regression=regression),
        )  # fmt: skip
        made = replace(made, comparer=self.comparer, **fields)  # type: ignore[arg-type]
        night = made.run(lambda: [self.decision])
        return kinds(night.outcomes), night.exit_code, seen, publisher


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Times:
    folder = tmp_path_factory.mktemp("turns")
    return turns_here(Folders(cache=folder, data=folder), Silent(), patience=0.5)


@pytest.fixture
def place(tmp_path: Path, turns: Times) -> Callable[..., Place]:
    def make(before: Sequence[str], now: Sequence[str]) -> Place:
        first, second = stub_decision("digits"), stub_decision("digits", number=2)
        old = release_of(tmp_path, first, *before)
        FolderRegistry.create(tmp_path / "registry").publish(old.entry, old.blobs)
        attempt = Attempt(kind="verified", night="", figures=Figures(library_size=1, build_time=1, error=0))
        made = Place(tmp_path, second, turns)
        made.results.put(second.key, attempt, release_of(tmp_path, second, *now))
        return made

    return make


@pytest.mark.slow
def test_a_planted_slow_down_is_told_the_first_time_and_kept_back_if_the_policy_says_so(
    place: Callable[..., Place],
) -> None:
    made = place(["WORK=700"], ["WORK=1000"])
    told, code, seen, publisher = made.night(Regression(speed=1.2))
    assert (told, code, publisher.published) == ({"digits": "worse"}, FAILED, [])
    (found,) = seen.compared_
    assert found.turns is not None
    (speed,) = found.turns.speeds
    assert (speed.kind, found.base) == ("slower", "1.0.0+tf2.17.1.b1") and 1.3 < speed.ratio < 1.6
    (worse,) = worse_in(found)
    assert worse.metric == "speed" and seen.outcomes[0].error.startswith("compared with 1.0.0+tf2.17.1.b1: latency")
    # Allowed, or accepted by name, it is published, and told all the same.
    told, code, seen, publisher = made.night(Regression())
    assert (told, code, publisher.published) == ({"digits": "published"}, 0, ["digits"])
    assert [each.turns is not None for each in seen.compared_] == [True]
    assert made.night(Regression(speed=1.2), accept="dig*")[0] == {"digits": "published"}


@pytest.mark.slow
def test_other_answers_are_measured_and_may_be_refused(place: Callable[..., Place]) -> None:
    made = place(["FACTOR=2"], ["FACTOR=2.0001f"])
    found = made.comparer.exact(made.decision, made.results)
    assert found is not None and found.apart is not None
    assert found.apart.relative == pytest.approx(5e-5, rel=1e-2)
    assert [each.what for each in found.reasons] == ["never built"]
    told, code, _, _ = made.night(Regression(answers="refuse"))
    assert (told, code) == ({"digits": "worse"}, FAILED)


@pytest.mark.slow
def test_the_same_code_is_no_news(place: Callable[..., Place]) -> None:
    made = place(["WORK=700"], ["WORK=700"])
    told, _, seen, _ = made.night(Regression(speed=1.05, size=1.0, answers="refuse"))
    assert told == {"digits": "published"}
    (found,) = seen.compared_
    assert found.apart is None and not worse_in(found) and found.size[0] == found.size[1]


def entry_of(version: str, *, key: str = "", **fields: object) -> RegistryEntry:
    line = {
        **line_of(plain(stub_decision("digits")), b""),
        "version": version,
        "key": sha256_bytes((key or version).encode()),
    }
    (one,) = parse_index(write({**line, **fields}), "test", str(line["name"]))
    assert one.entry is not None
    return one.entry


def test_a_build_is_compared_with_what_its_users_had_before() -> None:
    task, entries = stub_decision("digits").task, [
        entry_of(each) for each in ("0.9.0+tf2.17.1.b4", "1.0.0+tf2.17.1.b9", "1.0.0+tf2.17.1.b10", "1.0.0+tf2.21.0.b1")
    ]  # fmt: skip

    def base(version: str, among: Sequence[RegistryEntry] = entries) -> str:
        found = base_of(task, entry_of(version, key="new"), among)
        return "" if found is None else found.version

    assert base("1.0.0+tf2.17.1.b11") == "1.0.0+tf2.17.1.b10"
    assert base("1.0.0+tf2.17.1.b10") == "1.0.0+tf2.17.1.b9"
    assert base("1.0.0+tf2.17.1.b1", entries[:1]) == "0.9.0+tf2.17.1.b4"
    assert base("0.9.0+tf2.17.1.b4") == ""


@pytest.mark.parametrize(
    ("found", "limits", "kept"),
    [
        ({"ratio": 1.3}, {"speed": 1.2}, True),
        ({"ratio": 1.3}, {"speed": 1.4}, False),
        ({"ratio": 1.3}, {"size": 1.0}, False),
        ({"size": (1000, 1001)}, {"size": 1.0}, True),
        ({"size": (1000, 1100)}, {"size": 1.1}, False),
        ({"memory": (0, 64)}, {"memory": 2}, True),
        ({"error": (1e-7, 3e-7)}, {"error": 2}, True),
        ({"error": (3e-7, 1e-7)}, {"error": 1}, False),
    ],
)
def test_the_policy_may_gate_on_each_figure(found: dict[str, object], limits: dict[str, float], kept: bool) -> None:
    made: Comparison = comparison(stub_decision("digits").task, base="b0", **found)  # type: ignore[arg-type]
    assert bool(kept_back(made, Regression(**limits))) is kept  # type: ignore[arg-type]


def test_packages_that_did_not_change_are_timed_again_on_a_schedule(tmp_path: Path) -> None:
    history = History(root=tmp_path)
    decisions = [replace(stub_decision(f"model{number}"), action="up to date") for number in range(6)]
    times = ("", "2026-10-01", "2026-09-01", "2026-11-20", "2026-11-19", "2026-11-18")
    for one, day in zip(decisions, times, strict=True):
        if day:
            history.compare(f"{day}.1", replace(comparison(one.task, time=f"{day}T00:00:00Z"), key=one.key))
    comparer = Comparer(
        registry=tmp_path / "registry", turns=lambda *_: pytest.fail("nothing is timed here"), cpu=THIS_CPU,
        retime_days=3, now=lambda: datetime(2026, 11, 21, tzinfo=timezone.utc),
    )  # fmt: skip
    # Six packages in three nights: two each, those first that were never timed on this CPU, then the oldest.
    assert [one.task.model for one in comparer.due(decisions, history)] == ["model0", "model2"]
    other = replace(comparer, cpu=replace(THIS_CPU, microcode="0x2c"), retime_days=1)
    assert len(other.due(decisions, history)) == 6
    assert replace(comparer, retime_days=None).due(decisions, history) == ()
