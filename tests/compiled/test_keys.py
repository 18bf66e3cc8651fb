"""Flags of each unit, and what of them is a part of keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.package.conftest import make_spec
from tfaot_pkg.frontends.toolchain.definition import toolchain
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.native.compiled.flags import flags_of
from tfaot_pkg.native.compiled.model import compiled_key
from tfaot_pkg.spec.types import ModelSpec, TunedCode, Tuning

V2, V3 = "x86-64-v2", "x86-64-v3"
CLASSIC = toolchain("2.17.1")
FLAG = "--xla_backend_extra_options=a"


def _spec(flags: Any = None, version: str = "2.17.1", **more: Any) -> ModelSpec:
    """A model of the batch sizes 2 and 4, for two targets, tuned."""
    return replace(
        make_spec(), tuning=Tuning(model="affine", toolchains={version: TunedCode(xla_flags=flags or {})}, **more)
    )


def test_flags_of_the_spec_stand_before_those_of_the_file() -> None:
    spec = _spec({V3: {4: (FLAG,)}})
    spec = replace(spec, compilation=replace(spec.compilation, xla_flags=("--own",)))
    flags = flags_of(spec, CLASSIC)
    assert len(flags) == 4 and flags == {**dict.fromkeys(flags, ("--own",)), (4, V3): ("--own", FLAG)}


def test_what_was_measured_with_another_toolchain_chooses_nothing() -> None:
    assert not any(flags_of(_spec({V2: {2: (FLAG,)}}, "2.18.0"), CLASSIC).values())


def _key(spec: ModelSpec, chain: str = "2.17.1") -> Key:
    return compiled_key(spec, Key("f" * 64), toolchain(chain))


def test_flags_change_the_key_of_what_is_compiled_and_costs_do_not() -> None:
    plain = _key(_spec())
    assert _key(_spec(batch_costs={V2: {2: 5.0}}, machine={"cpu": "A"})) == plain == _key(make_spec())
    changed = [
        _key(_spec({V2: {2: (FLAG,)}})),
        _key(_spec({V2: {2: (FLAG, "--more")}})),
        _key(_spec({V2: {4: (FLAG,)}})),
    ]
    assert len({plain, *changed}) == len(changed) + 1


def test_what_decides_nothing_is_not_in_the_key() -> None:
    assert _key(_spec({V2: {3: (FLAG,)}, "x86-64-v4": {2: (FLAG,)}})) == _key(_spec())
    assert _key(_spec({V2: {2: (FLAG,)}}), "2.21.0") == _key(_spec(), "2.21.0")
    assert _key(_spec({V2: {2: (FLAG,)}}, version="2.21.0"), "2.21.0") != _key(_spec(), "2.21.0")


def test_whatever_chooses_the_engine_is_in_the_key() -> None:
    spec = make_spec()
    others = [replace(spec.compilation, kernels="none"), replace(spec.compilation, engine="xla")]
    assert len({_key(replace(spec, compilation=each)) for each in (spec.compilation, *others)}) == 3
