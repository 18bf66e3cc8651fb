"""What packages need of one another: from `depends` into the index, to whoever installs, and into reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.catalogue.registries import entry_of, publish
from tests.commands import invoked
from tests.nightly.nights import coordinator, home_of, stub, stub_decision
from tests.nightly.plans import DEFINITION, Lab, said
from tests.nightly.reports import FIRST, add_night, outcome, task
from tfaot_pkg.nightly.depends import Dependent
from tfaot_pkg.nightly.report.comparison import blast_radius
from tfaot_pkg.nightly.run import FAILED
from tfaot_pkg.nightly.state import State
from tfaot_pkg.nightly.types import Decision, Reason
from tfaot_pkg.registry.dependencies.resolution import resolve
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import Requirement


def night(root: Path, *decisions: Decision) -> dict[str, tuple[str, str]]:
    """Outcome and error by model of a night with real publishing."""
    done = coordinator(root, home_of(root), program=stub(0)).run(lambda: decisions)
    return {one.model: (one.kind, one.error) for one in done.outcomes}


def test_who_installs_a_model_gets_what_it_needs(tmp_path: Path) -> None:
    night(
        tmp_path, stub_decision("above", depends=("under", "beside")), stub_decision("under"), stub_decision("beside")
    )
    registry = FolderRegistry.open(tmp_path / "registry")
    (entry,) = registry.entries("tfaot-model-above")
    assert entry.dependencies == ("tfaot-model-beside", "tfaot-model-under")
    found = resolve(registry, [Requirement.parse("above")])
    assert [one.model for one in found.entries] == ["beside", "under", "above"]


def test_what_needs_a_model_that_was_never_published_is_not_published_either(tmp_path: Path) -> None:
    known = Reason(what="known broken", detail="since 2026-11-01 (https://example.org/1)")
    broken = replace(stub_decision("under"), action="skip", reasons=(known,))
    above, top = stub_decision("above", depends=("under",)), stub_decision("top", depends=("above",))
    assert night(tmp_path, broken, above, top) == {
        "under": ("skipped", ""),
        "above": ("dependency failed", "above@1.0.0+tf2.17.1 needs under, of which nothing is published"),
        "top": ("dependency failed", "it needs above@1.0.0+tf2.17.1: dependency failed"),
    }
    assert FolderRegistry.find(tmp_path / "registry") is None

    night(tmp_path, stub_decision("under"))
    found = night(tmp_path, broken, above, top)
    assert {name: kind for name, (kind, _) in found.items()} == {
        "under": "skipped", "above": "published", "top": "published",
    }, "an earlier version is there, and serves"  # fmt: skip


def test_a_model_that_needs_others_than_before_is_built_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.model("a")
    lab.model("b")
    lab.define()
    lab.night(lab.plan())
    lab.define(DEFINITION.replace("toolchains", "  - spec: models/a/spec.yaml\n    depends: [b]\ntoolchains"))
    (decision,) = (one for one in lab.plan() if one.action == "build")
    assert said([decision]) == [("a@1.0.0+tf2.17.1", "build", ["depends: none -> tfaot-model-b"])]
    assert decision.release == "1.0.0+tf2.17.1.b2"
    lab.night([decision])
    assert {one.action for one in lab.plan()} == {"up to date"}
    lab.define()
    assert [str(one.reasons[0]) for one in lab.plan() if one.action == "build"] == ["depends: tfaot-model-b -> none"]


def needs(model: str, *models: str, toolchain: str = "2.17.1") -> Dependent:
    return Dependent(id=f"{model}@9", model=model, toolchain=toolchain, depends=models)


def test_a_failure_hits_what_the_registry_has_too_where_no_task_says_otherwise() -> None:
    broken, planned, changed = task("broken"), task("planned", depends=["broken"]), task("changed")
    published = [
        needs("planned", "broken"),
        needs("changed", "broken"),  # the definition says that it needs nothing any more
        needs("retired", "broken"),
        needs("above_both", "planned", "retired"),
        needs("elsewhere", "broken", toolchain="2.21.0"),
        needs("broken", "above_both"),  # a circle
    ]
    found = blast_radius([broken, planned, changed], [outcome(broken, "build failed")], published)
    assert found == {broken.id: (planned.id, "retired@9", "above_both@9")}


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """The definition of a registry with packages that need one that failed last night."""
    (tmp_path / "spec.yaml").write_text("")
    definition = tmp_path / "registry.yaml"
    definition.write_text("registry: registry\nmodels:\n  - spec: spec.yaml\n")
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, entry_of("encoder"))
    for version, dependencies in (("1.0", ()), ("1.1", ("tfaot-model-encoder>=1.0",))):
        publish(registry, entry_of("tagger", version, dependencies=dependencies))
    publish(registry, entry_of("no_longer", dependencies=("tfaot-model-encoder",)))
    publish(registry, entry_of("no_longer", "1.1"))
    encoder = task("encoder")
    add_night(State(root=tmp_path / "nightly-state"), FIRST, [outcome(encoder, "build failed")], tasks=[encoder])
    return definition


def hits(definition: Path) -> list[str]:
    done = invoked(["nightly", "report", str(definition), "-o", str(definition.parent / "site")])
    assert done.exit_code == FAILED
    (found,) = json.loads((definition.parent / "site/report.json").read_text())["tasks"]
    return list(found["hits"])


def test_the_report_names_packages_by_their_newest_version(failed: Path) -> None:
    assert hits(failed) == ["tagger@1.1"]
    assert "tagger@1.1" in (failed.parent / "site/index.html").read_text()


def test_a_registry_that_cannot_be_read_does_not_cost_the_report(failed: Path) -> None:
    (failed.parent / "registry/config.json").write_text("{")
    assert hits(failed) == []
