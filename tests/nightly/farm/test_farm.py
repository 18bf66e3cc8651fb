"""Nights whose workers share a store with the coordinator, and nothing else; what they build only sleeps (stub_build.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from tests.nightly.farm.conftest import Place
from tests.nightly.farm.farms import SHORT, Hand, night, no_files, wait_for, wait_until_seen, worker
from tests.nightly.farm.lies import LIES
from tests.nightly.nights import STUB, Seen, builds_below, ends, start_coordinator, stub, stub_decision
from tests.wording import reported
from tfaot_pkg._version import __version__
from tfaot_pkg.errors import NetworkError, StorageError
from tfaot_pkg.ground.documents import plain, read, write
from tfaot_pkg.nightly.farm.executor import PullExecutor
from tfaot_pkg.nightly.farm.identity import Identity, key_in, new_key, opened
from tfaot_pkg.nightly.farm.messages import FARM, LEASE, WORKER, Farm, Lease, Presence, Told
from tfaot_pkg.nightly.farm.store import put
from tfaot_pkg.nightly.farm.tool import tool_digest
from tfaot_pkg.nightly.outcome import Request
from tfaot_pkg.nightly.results import FAILED
from tfaot_pkg.nightly.types import Builders, Policy
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def published(root: Path) -> int:
    return len(FolderRegistry.open(root / "registry").names())


def test_workers_build_a_night_and_each_result_is_taken_once(tmp_path: Path, place: Place) -> None:
    """Two workers after each task: an offer has one lease."""
    decisions = [stub_decision(f"model{number}") for number in range(12)]
    watch = Seen()
    with ExitStack() as started:
        hands = [started.enter_context(worker(tmp_path, place, name, program=stub(0.5))) for name in ("one", "two")]
        names = {hand.name for hand in hands}
        done = night(tmp_path, place, watch=watch).run(lambda: decisions)
    assert done.counts == {"published": 12} and published(tmp_path) == 12
    assert Counter(one.attempts for one in done.outcomes) == {1: 12}
    assert {one.worker for one in watch.built_} == names, "both had some"
    assert place.store.blobs() == [], "nothing is left"


def test_a_killed_worker_costs_what_it_had_and_another_one_builds_that(tmp_path: Path, place: Place) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(3)]
    with worker(tmp_path, place, "victim", program=stub(600)) as victim, ExitStack() as later:

        def kill() -> None:
            victim.until("model")
            victim.process.kill()
            later.enter_context(worker(tmp_path, place, "other"))

        thread = Thread(target=kill)
        thread.start()
        done = night(tmp_path, place, lease=SHORT).run(lambda: decisions)
        thread.join()
    assert done.counts == {"published": 3}
    assert sorted(one.attempts for one in done.outcomes) == [1, 1, 2]


def test_a_frozen_worker_loses_its_lease_and_finds_out_when_it_wakes(tmp_path: Path, place: Place) -> None:
    decisions = [stub_decision("one")]
    watch = Seen()
    with worker(tmp_path, place, "frozen", program=stub(6)) as frozen, ExitStack() as later:

        def freeze() -> None:
            frozen.until("one@")
            wait_for(lambda: bool(builds_below(frozen.process.pid, STUB)))
            os.kill(frozen.process.pid, signal.SIGSTOP)
            later.enter_context(worker(tmp_path, place, "other"))

        thread = Thread(target=freeze)
        thread.start()
        done = night(tmp_path, place, watch=watch, lease=SHORT).run(lambda: decisions)
        thread.join()
        assert done.counts == {"published": 1} and done.outcomes[0].attempts == 2
        assert [one.worker.partition("-")[0] for one in watch.built_] == ["other"]
        os.kill(frozen.process.pid, signal.SIGCONT)
        assert frozen.until("lost the lease").endswith("another worker builds it")


def test_a_worker_that_wakes_kills_the_build_that_it_lost(tmp_path: Path, place: Place) -> None:
    decisions = [stub_decision("one")]
    with worker(tmp_path, place, "frozen", program=stub(600)) as frozen, ExitStack() as later:
        builds: list[tuple[int, int]] = []

        def freeze() -> None:
            frozen.until("one@")
            wait_for(lambda: bool(builds_below(frozen.process.pid, STUB)))
            builds.extend(builds_below(frozen.process.pid, STUB))
            os.kill(frozen.process.pid, signal.SIGSTOP)
            later.enter_context(worker(tmp_path, place, "other"))

        thread = Thread(target=freeze)
        thread.start()
        assert night(tmp_path, place, lease=SHORT).run(lambda: decisions).counts == {"published": 1}
        thread.join()
        os.kill(frozen.process.pid, signal.SIGCONT)
        frozen.until("lost the lease")
        assert all(ends(build) for build, _ in builds)


def test_a_worker_of_another_version_gets_nothing_and_is_named(tmp_path: Path, place: Place) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(4)]
    watch, notes = Seen(), list[str]()
    with worker(tmp_path, place, "old", tool="0" * 64) as old, ExitStack() as later:
        sound: list[Hand] = []

        def follow() -> None:
            old.end()
            sound.append(later.enter_context(worker(tmp_path, place, "new")))

        # The night lasts until the first has seen it.
        thread = Thread(target=follow)
        thread.start()
        done = night(tmp_path, place, watch=watch, notes=notes).run(lambda: decisions)
        thread.join()
        assert old.end() == 3
        assert old.said[-1].startswith("the night needs tfaot-pkg") and "this worker is" in old.said[-1]
        assert {one.worker for one in watch.built_} == {sound[0].name}
    assert done.counts == {"published": 4}
    why = json.loads((done.night.folder / "night.json").read_text())["excluded"]
    assert list(why) == [old.name]
    assert why[old.name].startswith(f"it is tfaot-pkg {__version__} (code 000000000000), the night needs tfaot-pkg")
    assert [old.name in note for note in notes if "gets no builds" in note] == [True]


@pytest.mark.sweep("replaced", "odd name", "larger than told", "blames the model")
@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_lying_worker_publishes_nothing_and_is_excluded(tmp_path: Path, lie: str) -> None:
    place = Place(url=str(tmp_path / "store"))
    decisions = [stub_decision(f"model{number}") for number in range(8)]
    watch = Seen()
    with (
        worker(tmp_path, place, "liar", lies=lie) as liar,
        worker(tmp_path, place, "honest", program=stub(0.4)) as honest,
    ):
        wait_until_seen(place, liar, honest)
        done = night(tmp_path, place, watch=watch, pause=0.2).run(lambda: decisions)
        assert done.counts == {"published": 8}
        assert {one.worker for one in watch.built_} == {honest.name}
        assert set(watch.excluded_) <= {liar.name}
    assert not list(tmp_path.rglob("evil"))
    assert not list(tmp_path.rglob(f"*{FAILED}")), "no model is remembered as broken"


def test_results_of_a_liar_alone_are_faults_of_the_machine(tmp_path: Path) -> None:
    place = Place(url=str(tmp_path / "store"))
    with worker(tmp_path, place, "liar", lies="replaced"):
        done = night(tmp_path, place, policy=Policy(timeout=60, retries=1)).run(lambda: [stub_decision("one")])
    (outcome,) = done.outcomes
    assert outcome.kind == "infrastructure failed" and outcome.error_class == "refused result"
    assert "has other content than its name says" in outcome.error and "the worker liar-" in outcome.error
    assert not (tmp_path / "state" / "results").exists() or not list((tmp_path / "state/results").rglob("result.json"))


def test_only_builders_of_the_definition_build(tmp_path: Path) -> None:
    """Also if another worker takes an offer without being asked."""
    place = Place(url=str(tmp_path / "store"))
    key = key_in(tmp_path / "key")
    public = Identity.of("any", key).public
    assert key_in(tmp_path / "key").private_bytes_raw() == key.private_bytes_raw()
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    watch = Seen()
    with (
        worker(tmp_path, place, "stranger") as stranger,
        worker(tmp_path, place, "own", key=str(tmp_path / "key")) as own,
    ):
        wait_for(lambda: len(place.store.cells()) == 2)
        decisions = [stub_decision(f"model{number}") for number in range(4)]
        done = night(tmp_path, place, watch=watch, builders=(public,)).run(lambda: decisions)
        assert {one.worker for one in watch.built_} == {own.name}
        assert watch.excluded_ == {stranger.name: "its key is not among the builders of the definition"}
    assert done.counts == {"published": 4}


TWO_OF_THREE = Policy(timeout=120, max_failures=0.5, builders=Builders(needed=2, most=3), worker_wait=3)


def test_two_of_three_builders_must_make_the_same_bytes_and_a_liar_is_named(tmp_path: Path) -> None:
    """Its results are sound by themselves: only another builder shows that they are not what was asked for."""
    place, notes, watch = Place(url=str(tmp_path / "store")), list[str](), Seen()
    decisions = [stub_decision(f"model{number}") for number in range(4)]
    with (
        worker(tmp_path, place, "liar", lies="other bytes") as liar,
        worker(tmp_path, place, "one", program=stub(0.2)) as one,
        worker(tmp_path, place, "two", program=stub(0.2)) as two,
    ):
        wait_for(lambda: len(place.store.cells()) == 3)
        honest, lying = sorted(each.name.rpartition("-")[2] for each in (one, two)), liar.name
        done = night(tmp_path, place, watch=watch, policy=TWO_OF_THREE, notes=notes).run(lambda: decisions)
    assert done.counts == {"published": 4}
    assert {attempt.builders for attempt in watch.built_} == {tuple(honest)}
    registry = FolderRegistry.open(tmp_path / "registry")
    for decision in decisions:
        (entry,) = registry.entries(f"tfaot-model-{decision.task.model}")
        assert registry.blob_file(entry.blobs["prefix"]).read_bytes() == decision.key.encode()
    told = [note for note in notes if lying in note]
    assert told and all("which others built: other bytes of the archive" in note for note in told)
    assert not (tmp_path / "state" / "candidates").exists() or not list((tmp_path / "state" / "candidates").iterdir())


def test_a_package_that_no_two_builders_make_alike_is_not_published(tmp_path: Path) -> None:
    """One key is one builder, however many workers have it."""
    place, policy = Place(url=str(tmp_path / "store")), replace(TWO_OF_THREE, builders=Builders(needed=2, most=2))
    with (
        worker(tmp_path, place, "liar", lies="other bytes", key=str(tmp_path / "evil")),
        worker(tmp_path, place, "twin", lies="other bytes", key=str(tmp_path / "evil")),
        worker(tmp_path, place, "one"),
    ):
        wait_for(lambda: len(place.store.cells()) == 3)
        done = night(tmp_path, place, policy=policy).run(lambda: [stub_decision("model")])
    (outcome,) = done.outcomes
    assert (outcome.kind, outcome.error_class) == ("not reproducible", "builders differ")
    assert "the archive" in outcome.error


def test_a_second_builder_is_waited_for_only_so_long(tmp_path: Path) -> None:
    place = Place(url=str(tmp_path / "store"))
    with worker(tmp_path, place, "one"):
        wait_for(lambda: len(place.store.cells()) == 1)
        policy = replace(TWO_OF_THREE, retries=0)
        done = night(tmp_path, place, policy=policy).run(lambda: [stub_decision("model")])
    (outcome,) = done.outcomes
    assert outcome.kind == "infrastructure failed" and "1 of 2 builders" in outcome.error


def test_a_broken_model_is_a_fault_of_the_model(tmp_path: Path, place: Place) -> None:
    with worker(tmp_path, place, "one"):
        done = night(tmp_path, place).run(lambda: [stub_decision("broken"), stub_decision("fine")])
    assert done.counts == {"build failed": 1, "published": 1}
    (broken,) = [one for one in done.outcomes if one.model == "broken"]
    assert (broken.error, broken.attempts) == ("it is broken", 1)
    assert "error: build failed: it is broken" in (done.night.folder / broken.log).read_text()


def test_two_workers_have_to_agree_that_a_model_is_at_fault(tmp_path: Path, place: Place) -> None:
    with worker(tmp_path, place, "one") as one, worker(tmp_path, place, "two") as two:
        wait_for(lambda: len(place.store.cells()) == 2)
        done = night(tmp_path, place).run(lambda: [stub_decision("broken")])
        for hand in (one, two):
            hand.process.terminate()
            hand.end()
            assert any(line.startswith("broken@") for line in hand.said), "both tried"
    assert done.counts == {"build failed": 1} and done.outcomes[0].attempts == 1
    again = night(tmp_path, place).run(lambda: [replace(stub_decision("broken"), action="failed before")])
    assert again.counts == {"build failed": 1}, "nobody is asked: there is no worker"


def test_a_broken_worker_is_told_from_the_models_and_named(tmp_path: Path, place: Place) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(20)]
    watch = Seen()
    with ExitStack() as started:
        broken = started.enter_context(worker(tmp_path, place, "broken", variables={"LANG": "broken"}))
        sound = [started.enter_context(worker(tmp_path, place, name, program=stub(0.3))) for name in ("one", "two")]
        wait_until_seen(place, broken, *sound)
        done = night(tmp_path, place, watch=watch, pause=0.5).run(lambda: decisions)
    assert done.counts == {"published": 20}
    assert list(watch.excluded_) == [broken.name]


def test_a_worker_drains_before_the_end_of_its_time(tmp_path: Path, place: Place) -> None:
    """A build may take 120 s, so that one with less time than that begins none."""
    decisions = [stub_decision("one")]
    with worker(tmp_path, place, "short", walltime=200.0) as short, ExitStack() as later:

        def follow() -> None:
            short.end()
            later.enter_context(worker(tmp_path, place, "long", walltime=400.0))

        # The night lasts until the first has seen it.
        thread = Thread(target=follow)
        thread.start()
        done = night(tmp_path, place).run(lambda: decisions)
        thread.join()
        assert short.end() == 0 and short.said[-2:] == ["no build fits into the time that is left", "results 0"]
    assert done.counts == {"published": 1}


def test_a_worker_that_is_told_to_end_gives_its_build_back_at_once(tmp_path: Path, place: Place) -> None:
    decisions = [stub_decision("one")]
    with worker(tmp_path, place, "ends", program=stub(600)) as ending, ExitStack() as later:

        def tell() -> None:
            ending.until("one@")
            wait_for(lambda: bool(builds_below(ending.process.pid, STUB)))
            (build, _), *_ = builds_below(ending.process.pid, STUB)
            later.enter_context(worker(tmp_path, place, "other"))
            ending.process.send_signal(signal.SIGTERM)
            ending.end()
            assert ends(build)

        thread = Thread(target=tell)
        thread.start()
        # With this lease a worker that says nothing would be waited for to the end of the test.
        done = night(tmp_path, place, lease=1000).run(lambda: decisions)
        thread.join()
        assert any(line.startswith("gave back") for line in ending.said)
    assert done.counts == {"published": 1} and done.outcomes[0].attempts == 1, "nobody failed"


def test_a_killed_coordinator_finds_what_its_workers_went_on_with(tmp_path: Path, place: Place) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([plain(stub_decision(f"model{number}")) for number in range(4)]))

    def start() -> subprocess.Popen[str]:
        return start_coordinator(tmp_path, tmp_path / "home", results=place.url, plan=str(plan), program=["stub"])

    with worker(tmp_path, place, "one", program=stub(3)) as one, worker(tmp_path, place, "two", program=stub(3)) as two:
        first = start()
        begun = [hand.until("model") for hand in (one, two)]
        first.kill()
        first.communicate()
        # Both end what they have, and find nobody who would take it; they may go on with what is still offered.
        wait_for(lambda: sum(b'\\"done\\"' in cell for cell in leases(place)) >= 2)
        second = start()
        printed = second.communicate()[0].splitlines()
        errors = (tmp_path / "stderr").read_text()[-2000:]
        assert (second.returncode, printed[-1], errors) == (0, "exit 0", errors)
        for hand in (one, two):
            hand.process.terminate()
            hand.end()
        built = [line for hand in (one, two) for line in hand.said if line.startswith("model")]
    assert len(built) == 4 and len(set(built)) == 4, f"{begun} were built once, and taken"
    assert published(tmp_path) == 4


def test_an_offer_that_a_worker_read_long_ago_is_not_built_again(tmp_path: Path, place: Place) -> None:
    """Nor one of a coordinator that was killed: its list stands there until the next one has written its own."""
    now = [0.0]
    executor = PullExecutor(store=place.store, bundle=no_files, lease=SHORT, clock=lambda: now[0])
    (tmp_path / "log").touch()
    request = Request(
        decision=stub_decision("model"), night="night", state=tmp_path, log=tmp_path / "log", cache=tmp_path, policy=Policy()
    )  # fmt: skip
    me = Identity.of("me", new_key())
    place.store.create(f"{WORKER}{me.name}", me.seal(Presence(tool=tool_digest(), version=__version__, count=1)))
    executor.submit(request)
    executor.look()
    found = place.store.read(FARM)
    assert found is not None
    (offer,) = read(Farm, found.data, "the farm", error=StorageError, hint="").offers
    told = put(place.store, write(Told(offer=offer.id, kind="infrastructure failed", seconds=1.0, memory=0)))
    lease = f"{LEASE}{offer.id}"
    assert place.store.create(lease, me.seal(Lease(offer=offer.id, worker=me.name, state="done", result=told)))
    executor.look()
    done = executor.next(0.0) or executor.next(None)
    assert done is not None and done[1].worker == me.name and place.store.blobs() == [offer.request]
    assert place.store.create(lease, b"once more") is None
    now[0] += SHORT + 1
    executor.look()
    assert lease not in place.store.cells(), "nobody knows the offer any more"
    executor.close()


def leases(place: Place) -> list[bytes]:
    store = place.store
    found = [store.read(name) for name in store.cells() if name.startswith(LEASE)]
    return [cell.data for cell in found if cell is not None]


def test_a_worker_without_work_ends(tmp_path: Path, place: Place) -> None:
    with worker(tmp_path, place, "one", idle=0.5) as hand:
        assert hand.end() == 0 and hand.said[-1] == "results 0"


def test_a_night_without_workers_ends_and_says_so(tmp_path: Path, place: Place) -> None:
    notes: list[str] = []
    with reported(NetworkError, varies=r"(?<=worker at )\S+"):
        night(tmp_path, place, notes=notes, policy=Policy(worker_wait=1.0)).run(lambda: [stub_decision("one")])
    assert len(notes) == 1 and "waiting for one for 1 s" in notes[0]


def test_two_nights_in_one_store_do_not_mix(tmp_path: Path, place: Place) -> None:
    with worker(tmp_path, place, "one", program=stub(600)) as hand:

        def intrude() -> None:
            hand.until("model")
            store = place.store
            cell = store.read(FARM)
            assert cell is not None
            while store.replace(FARM, b"{}", cell.tag) is None:
                cell = store.read(FARM)
                assert cell is not None

        thread = Thread(target=intrude)
        thread.start()
        decisions = [stub_decision("model1"), stub_decision("model2")]
        with reported(StorageError, varies=r"(?<=results in )\S+"):
            night(tmp_path, place).run(lambda: decisions)
        thread.join()


def test_nobody_speaks_for_another_worker() -> None:
    mine, other = Identity.of("mine", new_key()), Identity.of("other", new_key())
    lease = Lease(offer="1", worker=mine.name)
    assert opened(mine.seal(lease), Lease, lambda one: one.worker) == lease
    with pytest.raises(ValueError, match="it is not signed by mine-"):
        opened(other.seal(lease), Lease, lambda one: one.worker)
    changed = mine.seal(lease).replace(b"held", b"done")
    with pytest.raises(ValueError, match="its signature is wrong"):
        opened(changed, Lease, lambda one: one.worker)
