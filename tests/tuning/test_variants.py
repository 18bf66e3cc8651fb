"""Variants of a model, built by a real toolchain: what is chosen reaches the code of the units that it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.measure.tuning.choosing import CANDIDATES, choose_flags
from tfaot_pkg.measure.tuning.variants import Variant, Workshop, workshop
from tfaot_pkg.native.compiled.flags import Unit
from tfaot_pkg.native.compiled.model import CompiledModel
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec, SavedModelFiles

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

V3 = "x86-64-v3"
UNITS: tuple[Unit, ...] = ((1, V3), (8, V3))


@pytest.fixture(scope="module")
def shop(
    models: Mapping[str, Path], shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workshop]:
    """Of the model `dense`."""
    spec = ModelSpec(
        path=tmp_path_factory.mktemp("shop") / "spec.yaml",
        model=ModelInfo(name="dense", version="1.0.0", files=SavedModelFiles(path="dense")),
        source=FolderSource(path=models["dense"].parent),
        compilation=Compilation(batch_sizes=(1, 8), targets=(V3,), engine="xla"),
    )
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    with workshop(spec, Pipeline(folders=folders, progress=Silent())) as made:
        yield made


def _code(compiled: CompiledModel) -> dict[Unit, list[bytes]]:
    return {
        (unit.batch_size, unit.target.name): [path.read_bytes() for path in unit.objects] for unit in compiled.units
    }


def test_flags_reach_only_the_units_that_they_are_for(shop: Workshop) -> None:
    plain, changed = (
        _code(shop.compiled(Variant(flags={UNITS[0]: (), UNITS[1]: given}))) for given in ((), CANDIDATES[0])
    )
    assert plain[UNITS[0]] == changed[UNITS[0]] and plain[UNITS[1]] != changed[UNITS[1]]


def test_flags_that_are_not_there_change_nothing_or_are_the_specs_are_not_used(shop: Workshop) -> None:
    unknown, idle, given = (
        (f"--{name}",)
        for name in ("xla_cpu_no_such_flag=1", "xla_cpu_enable_xprof_traceme=false", "xla_dump_max_hlo_modules=2")
    )
    compilation = replace(shop.spec.compilation, xla_flags=("--xla_dump_max_hlo_modules=1",))
    spec = replace(shop.spec, compilation=compilation)
    found = choose_flags(replace(shop, plan=replace(shop.plan, spec=spec)), UNITS, [unknown, idle, given])
    assert found.flags == {} and list(found.skipped) == [unknown[0], idle[0], given[0]]
    assert found.skipped[unknown[0]].startswith(
        "not available: the toolchain does not know this flag: --xla_cpu_no_such_"
    )
    assert (found.skipped[idle[0]], found.skipped[given[0]]) == ("changes no code", "the spec sets it")
