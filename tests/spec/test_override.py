from __future__ import annotations

from dataclasses import replace

from tests.package.conftest import make_spec
from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.parse import override
from tfaot_pkg.spec.types import Tuning


def test_what_is_not_given_stays_as_the_spec_has_it() -> None:
    spec = make_spec()
    assert override(spec) == spec


def test_what_is_given_takes_the_place_of_the_spec_s() -> None:
    spec = replace(make_spec(), tuning=Tuning(model="affine", batch_costs={"x86-64-v3": {1: 10.0}}))
    given = override(spec, name="steep", targets=["x86-64-v4", "x86-64-v2"], batch_sizes=[8, 1, 8], tools=True)
    assert given.model == replace(spec.model, name="steep")
    assert given.compilation.targets == ("x86-64-v2", "x86-64-v4")
    assert given.compilation.batch_sizes == (1, 8)
    assert given.package.tools
    assert given.tuning == replace(spec.tuning, model="steep") if spec.tuning else None


def test_every_fault_is_told_with_its_option() -> None:
    with reported(SpecError) as error:
        override(make_spec(), name="Steep-1", targets=["vax"], batch_sizes=[0])
    lines = error.value.message.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["--name", "--batch-size", "--target"]


def test_targets_are_of_one_architecture() -> None:
    with reported(SpecError):
        override(make_spec(), targets=["x86-64-v2", "aarch64"])
