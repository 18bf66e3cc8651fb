"""A coordinator in a process of its own, which tests kill, or which kills itself: `coordinate.py ARGUMENTS.json`.

Arguments: `root` (state, registry), `home` (a TFAOT_HOME), `plan` (a file of decisions) or `definition`, `dask`,
`slots`, `results` (a store of pull workers), `program`, `policy` (fields), `policies` (changes of it, by model), `today`, `die` (after how many lines, and how
many seconds after that). Prints `built ID KIND`, `published ID` and in the end the exit code.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from tests.nightly.nights import Seen, coordinator, home_of
from tfaot_pkg.ground.documents import convert
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.nightly.executors import Executor, LocalExecutor
from tfaot_pkg.nightly.farm.address import store_at
from tfaot_pkg.nightly.farm.bundle import Bundle
from tfaot_pkg.nightly.farm.executor import PullExecutor
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.supervise import hide_secrets
from tfaot_pkg.nightly.types import Decision, Outcome, Policy


class Told(Seen):
    """Tells the test how far it is."""

    def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
        say(f"building {count}")

    def built(self, decision: Decision, attempt: Attempt) -> None:
        say(f"built {decision.task.id} {attempt.kind}")

    def outcome(self, outcome: Outcome) -> None:
        say(f"{outcome.kind} {outcome.task}")


_lines = count(1)
_die: list[list[float]] = []


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201
    if _die and next(_lines) == _die[0][0]:
        # By a clock of this process: on a busy machine whoever reads these lines would come too late.
        threading.Timer(_die[0][1], os.kill, (os.getpid(), signal.SIGKILL)).start()


def main(given: dict[str, Any]) -> int:
    _die.extend(given["die"])
    root, folders = Path(given["root"]), home_of(Path(given["home"]))

    # Before its credentials are hidden, as the command does.
    store = store_at(given["results"]) if given.get("results") else None

    def executor(count: int) -> Executor:
        if store is not None:
            bundle = Bundle(files={})
            return PullExecutor(store=store, bundle=lambda _: bundle, policy=Policy(**given["policy"]), poll=0.1)
        if not given["dask"]:
            return LocalExecutor(given["slots"])
        from tfaot_pkg.nightly.dask_executor import DaskExecutor

        class Limited(DaskExecutor):
            """Some models have limits of their own, so that the test need not wait as long as a slow build may take."""

            def submit(self, request: Request, avoid: Collection[str] = ()) -> None:
                changes = given["policies"].get(request.decision.task.model, {})
                super().submit(replace(request, policy=replace(request.policy, **changes)), avoid)

        return Limited(slots=given["slots"], memory=2**30, scratch=root / "dask")

    def plan() -> Sequence[Decision]:
        if "plan" in given:
            return [convert(Decision, one) for one in json.loads(Path(given["plan"]).read_text())]
        from tfaot_pkg.nightly.definition import load_definition
        from tfaot_pkg.nightly.planning import plan_night

        definition = load_definition(Path(given["definition"]))
        return plan_night(definition, state=root / "state", folders=folders, progress=Silent()).decisions

    hide_secrets(os.environ)
    night = coordinator(
        root,
        folders,
        policy=Policy(**given["policy"]),
        watch=Told(),
        program=tuple(given["program"]),
        executor=executor,
        today=date.fromisoformat(given["today"]),
    ).run(plan)
    return night.exit_code


if __name__ == "__main__":
    code = main(json.loads(Path(sys.argv[1]).read_text()))
    say(f"exit {code}")
    sys.exit(code)
