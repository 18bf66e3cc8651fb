"""Nights that never were: plans, outcomes and histories in a state folder, written with its own writers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from tfaot_pkg.ground.cpu import Cpu
from tfaot_pkg.ground.keys import Key, key_of
from tfaot_pkg.nightly.state import Gate, NightFolder, State, Summary
from tfaot_pkg.nightly.types import Comparison, Decision, Figures, Outcome, OutcomeKind, Reason, Task
from tfaot_pkg.verify.turns import Speed, SpeedKind, Turns, threshold

HOSTILE = "</title><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>]]>\"'>{{ 7 * 7 }} | **x** \x1b[31m\x00\u202e"
"""What a log, an error or a name may hold."""

FIRST = date(2026, 10, 20)
_BUILDS = count()


def task(
    model: str, *, version: str = "1.0.0", toolchain: str = "2.17.1", depends: Sequence[str] = (),
    owners: Sequence[str] = (),
) -> Task:  # fmt: skip
    return Task(
        model=model,
        version=version,
        toolchain=toolchain,
        targets=("x86-64-v3",),
        spec=Path(f"/specs/{model}.yaml"),
        depends=tuple(depends),
        owners=tuple(owners),
    )


def decision(of: Task, action: Any = "build", reason: str = "changed") -> Decision:
    return Decision(
        task=of,
        action=action,
        reasons=(Reason(what="source", detail=reason),),
        release=of.release(1),
        key=key_of("test", 1, {"id": of.id}),
    )


CPU = "Example CPU <b>4000</b>"


def figures(
    size: int = 100_000, time: float = 40.0, error: float = 1e-7, latency: float = 5000.0, **answers: str
) -> Figures:
    by_size = {"1": latency, "16": 10 * latency}
    return Figures(
        library_size=size, build_time=time, error=error, latency={"x86-64-v3": by_size}, processor=CPU, answers=answers
    )


def outcome(of: Task, kind: OutcomeKind = "published", **fields: Any) -> Outcome:
    """Of a build of its own, unless `key` is given."""
    made = decision(of)
    given: dict[str, Any] = {
        "seconds": 41.0, "command": f"tfaot-pkg build {of.spec} --tensorflow {of.toolchain}", "reasons": made.reasons,
        "key": key_of("test", 1, {"id": of.id, "build": next(_BUILDS)}),
        "figures": figures() if kind in ("published", "withheld") else None, **fields,
    }  # fmt: skip
    return Outcome(task=of.id, model=of.model, toolchain=of.toolchain, kind=kind, release=made.release, **given)


THIS_CPU = Cpu(name=CPU, model="GenuineIntel-6-143-8", microcode="0x2b", flags="0123456789ab")


def comparison(of: Task, *, before: float = 5000.0, ratio: float = 1.0, base: str = "", **fields: Any) -> Comparison:
    """The first build of `of` beside another one, with times in turns of two batch sizes."""
    kind: SpeedKind = "slower" if ratio > threshold(before) else "the same"
    speeds = tuple(
        Speed(
            target="x86-64-v3", batch_size=size, before=size * before, after=size * before * ratio, ratio=ratio,
            spread=0.01, kind=kind,
        )
        for size in (1, 16)
    )  # fmt: skip
    given: dict[str, Any] = {"size": (100_000, 100_000), "reasons": decision(of).reasons, **fields}
    return Comparison(
        task=of.id, release=of.release(1), key=decision(of).key, base=base or of.release(1), base_key=Key("0" * 64),
        turns=Turns(speeds=speeds, cpu=THIS_CPU, load=0.01, processes=12), **given,
    )  # fmt: skip


def add_night(
    state: State, day: date, outcomes: Iterable[Outcome], decisions: Iterable[Decision] | None = None,
    tasks: Iterable[Task] = (), logs: dict[str, str] | None = None, gate: Gate | None = None,
    comparisons: Iterable[Comparison] = (),
) -> NightFolder:  # fmt: skip
    """A night as the coordinator leaves it; without `decisions` all of `tasks` were to be built."""
    outcomes = list(outcomes)
    made = [decision(one) for one in tasks] if decisions is None else list(decisions)
    night = state.new_night(made, day)
    for name, text in (logs or {}).items():
        path = night.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    night.add(*outcomes)
    if gate is not None:
        night.set_gate(gate)
    built = {one.task.id for one in made if one.action == "build"}
    state.history.add(night.name, night.sequence, [one for one in outcomes if one.task in built])
    for one in comparisons:
        state.history.compare(night.name, one)
    night.end(summary(night))
    return night


def summary(night: NightFolder) -> Summary:
    return Summary(night=night.name, ended="2026-11-21T03:00:00Z", counts={}, withheld="", exit_code=0)


LOG = """planning
compiling for x86-64-v3
unit_3.cc:14:7: error: no matching function for call to 'dot'
  14 |   dot(a, b);
     |   ^~~
1 error generated.
error: build failed: the C++ compiler failed on generated code
"""


def two_nights(root: Path, *, quiet_nights: int = 14) -> State:
    """`quiet_nights` quiet nights, then two with every kind of outcome (docstrings of the tests say what of)."""
    state = State(root=root)
    noise = random.Random(5)
    steady, slow = task("steady"), task("slow")
    for number in range(quiet_nights):
        quiet = [outcome(one, figures=figures(latency=5000 * noise.gauss(1, 0.02))) for one in (steady, slow)]
        add_night(state, FIRST + timedelta(days=number), quiet, tasks=[steady, slow])
    day = FIRST + timedelta(days=quiet_nights)
    tasks = {
        name: task(name)
        for name in ("steady", "slow", "broken", "mended", "wrong", "hung", "greedy", "flaky", "lost", "quiet", "known")
    }
    tasks["child"] = task("child", depends=["broken"])
    tasks["grandchild"] = task("grandchild", depends=["child"])
    tasks["other_broken"] = task("other_broken")
    unsupported: dict[str, Any] = {
        "error": "XLA cannot compile the model:\n  StringJoin (node a/b)",
        "error_class": "unsupported operation StringJoin",
    }
    add_night(
        state, day,
        [
            outcome(tasks["steady"]), outcome(tasks["slow"]),
            outcome(tasks["broken"]), outcome(tasks["mended"], "timed out", error="no end after 10 s"),
            outcome(tasks["other_broken"], "build failed", **unsupported), outcome(tasks["wrong"]),
            outcome(task("old_one")),
        ],
        tasks=[tasks[n] for n in ("steady", "slow", "broken", "mended", "other_broken", "wrong")] + [task("old_one")],
    )  # fmt: skip
    tonight = [
        outcome(tasks["steady"], figures=figures(latency=5050)),
        outcome(tasks["slow"], figures=figures(latency=6500)),
        outcome(tasks["broken"], "build failed", log="logs/broken.log", **unsupported),
        outcome(tasks["other_broken"], "build failed", **unsupported),
        outcome(tasks["mended"]),
        outcome(tasks["wrong"], "validation failed", error=f"answers differ {HOSTILE}", error_class=HOSTILE, log="logs/wrong.log"),
        outcome(tasks["hung"], "timed out", error="no end after 1800 s (policy.timeout)", error_class="timed out"),
        outcome(tasks["greedy"], "out of memory", error="it used 5 GiB", error_class="out of memory"),
        outcome(tasks["flaky"], "not reproducible", error="two builds differ in 1 file", error_class="two builds differ"),
        outcome(tasks["lost"], "infrastructure failed", error="a worker was lost", error_class="worker lost", attempts=3),
        outcome(tasks["child"], "dependency failed", error="it needs broken@1.0.0+tf2.17.1", error_class="dependency failed"),
        outcome(tasks["grandchild"], "withheld", error="too much failed"),
        outcome(tasks["quiet"], "up to date", seconds=0, reasons=()),
    ]  # fmt: skip
    decisions = [decision(one) for name, one in tasks.items() if name not in ("quiet", "known")]
    decisions += [
        decision(tasks["quiet"], "up to date"),
        decision(tasks["known"], "skip", "known broken since 2026-10-01"),
    ]
    logs = {"logs/broken.log": LOG, "logs/wrong.log": f"all well\nerror: {HOSTILE}\n" * 3}
    beside = [comparison(tasks["steady"], ratio=1.01), comparison(tasks["slow"], ratio=1.3)]
    add_night(state, day + timedelta(days=1), tonight, decisions, logs=logs, comparisons=beside)
    return state
