"""Variants of a model, built by a real toolchain: what is chosen reaches the code of the units that it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tfaot_pkg.compiled.assignment import Unit
from tfaot_pkg.compiled.model import CompiledModel
from tfaot_pkg.folders import Folders
from tfaot_pkg.pipeline import Pipeline
from tfaot_pkg.progress import Silent
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec
from tfaot_pkg.tuning.choosing import CANDIDATES, choose_flags, choose_layers, left_to_xla
from tfaot_pkg.tuning.selection import Chosen
from tfaot_pkg.tuning.variants import Variant, Workshop, workshop

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

V3 = "x86-64-v3"
UNITS: tuple[Unit, ...] = ((1, V3), (8, V3))
NONE: Chosen = frozenset()


@pytest.fixture(scope="module")
def shop(
    models: Mapping[str, Path], shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workshop]:
    """Of the model `dense`."""
    spec = ModelSpec(
        path=tmp_path_factory.mktemp("shop") / "spec.yaml",
        model=ModelInfo(name="dense", version="1.0.0", saved_model="dense"),
        source=FolderSource(path=models["dense"].parent),
        compilation=Compilation(batch_sizes=(1, 8), targets=(V3,)),
    )
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    with workshop(spec, Pipeline(folders=folders, progress=Silent())) as made:
        yield made


def _code(compiled: CompiledModel) -> dict[Unit, list[bytes]]:
    return {
        (unit.batch_size, unit.target.name): [path.read_bytes() for path in unit.objects] for unit in compiled.units
    }


def test_flags_reach_only_the_units_that_they_are_for(shop: Workshop) -> None:
    layers = dict.fromkeys(UNITS, NONE)
    plain, changed = (
        _code(shop.compiled(Variant(layers=layers, flags=given))) for given in ({}, {UNITS[1]: CANDIDATES[0]})
    )
    assert plain[UNITS[0]] == changed[UNITS[0]] and plain[UNITS[1]] != changed[UNITS[1]]


@pytest.mark.nightly
def test_flags_that_are_not_there_change_nothing_or_are_the_specs_are_not_used(shop: Workshop) -> None:
    unknown, idle, given = (
        (f"--{name}",)
        for name in ("xla_cpu_no_such_flag=1", "xla_cpu_enable_xprof_traceme=false", "xla_dump_max_hlo_modules=2")
    )
    compilation = replace(shop.spec.compilation, xla_flags=("--xla_dump_max_hlo_modules=1",))
    spec = replace(shop.spec, compilation=compilation)
    found = choose_flags(
        replace(shop, plan=replace(shop.plan, spec=spec)), dict.fromkeys(UNITS, NONE), [unknown, idle, given]
    )
    assert found.flags == {} and list(found.skipped) == [unknown[0], idle[0], given[0]]
    assert found.skipped[unknown[0]].startswith(
        "not available: the toolchain does not know this flag: --xla_cpu_no_such_"
    )
    assert (found.skipped[idle[0]], found.skipped[given[0]]) == ("changes no code", "the spec sets it")


def test_no_flags_are_tried_where_the_kernel_library_computes_all_products(shop: Workshop) -> None:
    assert left_to_xla(shop, shop.everything) < 0.1 and left_to_xla(shop, NONE) == 1.0
    found = choose_flags(shop, dict.fromkeys(UNITS, shop.everything))
    assert found.flags == {} and list(found.skipped) == ["all"]


def test_layers_are_chosen_for_each_unit(shop: Workshop) -> None:
    found = choose_layers(shop, UNITS)
    assert set(found) == set(UNITS)
    for each in found.values():
        assert each.chosen <= shop.everything
        assert min(each.xla, each.estimated, each.tuned) > 0
