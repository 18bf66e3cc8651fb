"""Models that no TensorFlow reads: one task each, whose packages name no release of TensorFlow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.catalogue.registries import entry_of
from tests.nightly.plans import DEFINITION, SPEC, Lab, said
from tests.nightly.reports import decision, outcome, task
from tfaot_pkg.nightly.depends import Dependent, by_place, needed
from tfaot_pkg.nightly.outcome import command_for
from tfaot_pkg.nightly.plan import newest_build, sibling_of
from tfaot_pkg.nightly.reasons import changes
from tfaot_pkg.nightly.report.comparison import blast_radius
from tfaot_pkg.nightly.types import OWN, toolchain_in
from tfaot_pkg.pipeline.package_key import TOOLCHAIN

_ONNX = SPEC.replace("1.0.0\n", "1.0.0\n  onnx: net.onnx\n")
_TWO = DEFINITION.replace("[2.17.1]", "[2.17.1, 2.21.0]")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A SavedModel and an ONNX file, and two releases of TensorFlow."""
    lab = Lab(tmp_path)
    lab.model("a")
    (lab.model("net", _ONNX).parent / "net.onnx").write_bytes(b"graph")
    lab.define(_TWO)
    return lab


def test_releases_of_tensorflow_are_for_models_that_need_one(lab: Lab) -> None:
    assert [(one.task.id, one.release) for one in lab.plan()] == [
        ("a@1.0.0+tf2.17.1", "1.0.0+tf2.17.1.b1"),
        ("a@1.0.0+tf2.21.0", "1.0.0+tf2.21.0.b1"),
        ("net@1.0.0+tfaot", "1.0.0+tfaot.b1"),
    ]
    lab.night(lab.plan())
    assert {one.action for one in lab.plan()} == {"up to date"}
    assert [one.task.model for one in lab.plan(toolchains=(OWN,))] == ["net"]
    lab.model("net", _ONNX.replace("[1, 4]", "[1]"))
    (changed,) = (one for one in lab.plan() if one.action == "build")
    assert changed.release == "1.0.0+tfaot.b2"


def test_such_a_model_can_be_known_to_be_broken(lab: Lab) -> None:
    broken = "known_broken: {tfaot: {since: 2026-11-01, issue: https://example.org/issues/7}}"
    lab.define(_TWO.replace("models/*", "models/net").replace("\ntoolchains", f"\n    {broken}\ntoolchains"))
    assert said(lab.plan()) == [
        ("net@1.0.0+tfaot", "skip", ["known broken: since 2026-11-01 (https://example.org/issues/7)"])
    ]


def test_releases_that_were_named_by_tensorflow_are_older_and_hold_the_source() -> None:
    own = task("net", toolchain=OWN)
    before = replace(entry_of("net", "1.0.0+tf2.21.0.b10"), toolchain="tfaot-pkg 0.2.0")
    assert newest_build(own, [before]) == (None, 0)
    assert sibling_of(own, [before]) == before
    now = entry_of("net", own.release(1))
    assert newest_build(own, [before, now]) == (now, 1)
    assert now.rank > before.rank and now.order > before.order
    assert [toolchain_in(one.version) for one in (before, now)] == ["2.21.0", OWN]
    assert toolchain_in("1.0.0+local.b1") is None
    assert Dependent.of_entry(before).toolchain == OWN


def test_packages_without_tensorflow_go_with_those_of_every_release() -> None:
    net = task("net", toolchain=OWN, depends=["under"])
    under = [task("under", toolchain=each) for each in ("2.17.1", "2.21.0")]
    above = [task("above", toolchain=each, depends=["net"]) for each in ("2.17.1", "2.21.0")]
    decisions = {each.id: decision(each) for each in (net, *under, *above)}
    places = by_place([*decisions.values()])
    assert needed(decisions[net.id], places) == [decisions[each.id] for each in under]
    assert [needed(decisions[each.id], places) for each in above] == [[decisions[net.id]]] * 2
    failed = [outcome(under[0], "build failed")]
    assert blast_radius([net, *under, *above], failed) == {under[0].id: (net.id, *(each.id for each in above))}


def test_reasons_and_commands_name_no_tensorflow() -> None:
    (reason,) = changes({TOOLCHAIN: "a"}, {TOOLCHAIN: "b"}, tensorflow="", where=str)
    assert str(reason) == "toolchain: the front-end's lock file"
    assert "--tensorflow" not in command_for(task("net", toolchain=OWN))
    assert "--tensorflow 2.17.1" in command_for(task("net"))
