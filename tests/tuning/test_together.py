"""Layers and flags weighed together, with the times of a machine that is made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from tfaot_pkg.compiled.assignment import Unit
from tfaot_pkg.tuning.choosing import FlagsFound, LayersFound, choose_beside, settled
from tfaot_pkg.tuning.selection import Group, Ratio
from tfaot_pkg.tuning.variants import Variant, Workshop

from .test_selection import LAYERS

V3 = "x86-64-v3"
ONE, EIGHT = (1, V3), (8, V3)
ALL, NONE = frozenset(layer.name for layer in LAYERS), frozenset[str]()
FLAGS = ("--xla_flag=1",)
NO_FLAGS = FlagsFound(flags={}, ratios={}, skipped={"all": "the kernel library computes all products"})


@dataclass
class Machine:
    """A workshop whose libraries are names of what is in them, and take the times that are said."""

    nanoseconds: Mapping[tuple[str, Unit], float]
    budget: int = 1 << 20
    groups: Sequence[Group] = (Group(layers=LAYERS),)
    built: list[Variant] = field(default_factory=list)

    def effective(self, chosen: frozenset[str]) -> frozenset[str]:
        return chosen

    def library(self, variant: Variant) -> Path:
        self.built.append(variant)
        return Path("ours" if any(variant.layers.values()) else "xla")

    def times(self, libraries: Mapping[Unit, Sequence[Path]]) -> dict[Unit, list[list[float]]]:
        return {unit: [[self.nanoseconds[path.name, unit]] * 9 for path in each] for unit, each in libraries.items()}


def _settled(machine: Machine, *units: Unit) -> tuple[dict[Unit, frozenset[str]], FlagsFound]:
    """What is chosen of `units`, where all layers were the kernels' and XLA alone gains by FLAGS."""
    layers = {
        unit: LayersFound(chosen=ALL, words="all", xla=900.0, estimated=800.0, tuned=800.0) for unit in (ONE, EIGHT)
    }
    alone = FlagsFound(
        flags=dict.fromkeys(units, FLAGS), ratios=dict.fromkeys(units, Ratio(value=0.5)), skipped={"--other": "no gain"}
    )
    decided, flags = settled(cast(Workshop, machine), layers, NO_FLAGS, alone)
    assert all(decided[unit].tuned == (800.0 if decided[unit].chosen else 900.0) for unit in decided)
    return {unit: found.chosen for unit, found in decided.items()}, flags


def test_xlas_code_with_flags_takes_the_place_of_the_kernels_where_it_is_faster() -> None:
    machine = Machine({("ours", ONE): 800.0, ("xla", ONE): 810.0, ("ours", EIGHT): 800.0, ("xla", EIGHT): 450.0})
    chosen, flags = _settled(machine, ONE, EIGHT)
    assert chosen == {ONE: ALL, EIGHT: NONE}
    assert flags.flags == {EIGHT: FLAGS} and flags.ratios[EIGHT].value == 0.5 and list(flags.skipped) == ["--other"]
    assert [variant.flags for variant in machine.built] == [{}, {ONE: FLAGS, EIGHT: FLAGS}]


@pytest.mark.parametrize("units", [(), (ONE, EIGHT)], ids=len)
def test_what_was_chosen_stays_where_nothing_is_faster(units: Sequence[Unit]) -> None:
    times = {(name, unit): 800.0 for name in ("ours", "xla") for unit in (ONE, EIGHT)}
    assert _settled(Machine(times), *units) == ({ONE: ALL, EIGHT: ALL}, NO_FLAGS)


def test_weights_are_not_twice_in_the_library_beyond_the_budget() -> None:
    times = {("ours", ONE): 800.0, ("xla", ONE): 800.0, ("ours", EIGHT): 800.0, ("xla", EIGHT): 500.0}
    chosen, flags = _settled(Machine(times, budget=0), ONE, EIGHT)
    assert chosen == {ONE: ALL, EIGHT: ALL} and flags == NO_FLAGS
    both = {**times, ("xla", ONE): 600.0}
    assert _settled(Machine(both, budget=0), ONE, EIGHT)[0] == {ONE: NONE, EIGHT: NONE}  # once each, in XLA's form


def test_layers_chosen_alone_are_weighed_with_the_flags_that_the_file_has() -> None:
    layers = {
        unit: LayersFound(chosen=chosen, words="", xla=900.0, estimated=800.0, tuned=800.0)
        for unit, chosen in ((ONE, NONE), (EIGHT, ALL))
    }
    machine = Machine({("ours", EIGHT): 800.0, ("xla", EIGHT): 450.0})
    found = choose_beside(cast(Workshop, machine), layers, {ONE: FLAGS, EIGHT: FLAGS})
    assert {unit: each.chosen for unit, each in found.items()} == {ONE: NONE, EIGHT: NONE}
    assert [variant.flags for variant in machine.built] == [{EIGHT: FLAGS}, {EIGHT: FLAGS}]
    assert choose_beside(cast(Workshop, Machine({})), layers, {}) == layers
