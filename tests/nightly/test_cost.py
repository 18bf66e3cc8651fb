"""What a plan costs: the last figures of what it builds, and who needs that."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from tests.commands import run_command
from tests.nightly.plans import Lab
from tests.nightly.reports import add_night, decision, figures, outcome, task
from tfaot_pkg.nightly.cost import cost_of
from tfaot_pkg.nightly.definition import load_definition
from tfaot_pkg.nightly.depends import Dependent
from tfaot_pkg.nightly.planning import state_folder
from tfaot_pkg.nightly.state import State

OLD, NEW = "2.17.1", "2.21.0"


def test_builds_cost_what_the_same_or_else_the_same_model_took_last() -> None:
    last = {
        ("a", OLD): figures(size=100, time=10),
        ("a", NEW): figures(size=300, time=50),
        ("b", OLD): figures(size=1000, time=20),
    }
    planned = [
        decision(task("a", toolchain=NEW)),
        decision(task("b", toolchain=NEW)),
        decision(task("b"), "up to date"),
    ]
    cost = cost_of(planned, last, [])
    assert (cost.builds, cost.seconds, cost.size, cost.guessed) == (2, 70, 1300, ())
    never = cost_of([decision(task("c"))], last, [])
    assert (never.seconds, never.size, never.guessed) == (20, 300, (task("c").id,)), "the median of all"
    nothing = cost_of([decision(task("c"))], {}, [])
    assert (nothing.seconds, nothing.size, nothing.guessed) == (0, 0, (task("c").id,))


def test_who_needs_a_build_through_others_is_named_once() -> None:
    def needs(model: str, *depends: str, toolchain: str = OLD) -> Dependent:
        return Dependent(id=model, model=model, toolchain=toolchain, depends=depends)

    published = [
        needs("b", "a"),
        needs("b", "a", toolchain=NEW),
        needs("c", "b"),
        needs("d", "x"),
        needs("x", "c", "d"),
    ]
    assert cost_of([decision(task("a")), decision(task("b"))], {}, published).dependents == ("c", "d", "x")
    assert cost_of([decision(task("a"), "up to date")], {}, published).dependents == ()


def test_the_command_tells_it_in_words_and_in_json(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.define()
    lab.model("a")
    lab.model("b")
    state = State(root=state_folder(load_definition(lab.definition)))
    one = task("a")
    add_night(state, date(2026, 11, 1), [outcome(one, figures=figures(size=2_500_000, time=750))], tasks=[one])
    words = ["nightly", "plan", str(lab.definition), "--cost"]
    cost = json.loads(run_command([*words, "--json"]).stdout)["cost"]
    assert (cost["builds"], cost["seconds"], cost["size"], cost["guessed"]) == (
        2,
        1500,
        5_000_000,
        ["b@1.0.0+tf2.17.1"],
    )
    for form in ([], ["--markdown"]):
        printed = run_command([*words, *form]).stdout
        assert "cost: 25 min 0 s of one machine, 5 MB of libraries, as the last time" in printed
        assert "never built, so guessed from the others: b@1.0.0+tf2.17.1" in printed
    assert "cost" not in run_command(words[:-1]).stdout


def test_before_the_first_night_the_cost_is_not_known(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.define()
    for name in ("a", "b"):
        lab.model(name)
    words = ["nightly", "plan", str(lab.definition), "--cost"]
    assert run_command(words).stdout.endswith("2 to build\ncost: not known, because nothing was built yet\n")
    assert run_command([*words, "--model", "none"]).stdout.endswith("cost: none, nothing is built\n")
