"""What is chosen for each unit, and what of it is a part of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.package.conftest import make_spec
from tests.wording import reported
from tfaot_pkg.compiled.assignment import choices_of, missing_layers, units_of
from tfaot_pkg.compiled.model import compiled_key
from tfaot_pkg.errors import SpecError
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.keys import Key
from tfaot_pkg.spec.types import LayerChoice, ModelSpec, TunedCode, Tuning
from tfaot_pkg.toolchain.definition import toolchain
from tfaot_pkg.worker_program.messages.graph import Weight

V2, V3 = "x86-64-v2", "x86-64-v3"
CLASSIC, THUNKS = toolchain("2.17.1"), toolchain("2.21.0")
FLAG = "--xla_backend_extra_options=a"


def _dense(name: str, after: str = "") -> Layer:
    return Layer(
        name=name,
        operation={"kind": "dense", "rows": 1, "inputs": 64, "outputs": 64, "activation": "none"},
        reads=("x", 0), after=after, reads_input=False, gives_output=False,
        input_size=64, output_size=64, output_shape=(64,),
        parameters=Weight(node=name, dtype="float32", shape=(64 * 65,), offset=0),
    )  # fmt: skip


LAYERS = (_dense("a"), _dense("b", "a"), _dense("c", "b"))
ALL, NONE = LayerChoice(others=True), LayerChoice()


def _spec(kernels: Mapping[str, Any] | None = None, version: str = "2.17.1", **more: Any) -> ModelSpec:
    """A model of the batch sizes 2 and 4, for two targets, tuned."""
    code = TunedCode(kernels=kernels or {}, xla_flags=more.pop("flags", {}))
    return replace(make_spec(), tuning=Tuning(model="affine", toolchains={version: code}, **more))


def _calls(spec: ModelSpec, chain: str = "2.17.1") -> dict[tuple[int, str], list[list[str]]]:
    """The layers of each call."""
    found = choices_of(spec, LAYERS, toolchain(chain)).calls
    return {unit: [[layer.name for layer in call.layers] for call in calls] for unit, calls in found.items()}


def test_the_file_chooses_where_it_says_something_and_the_cost_model_elsewhere() -> None:
    spec = _spec({V2: {2: NONE}, V3: {2: LayerChoice(named=("b",)), 4: LayerChoice(named=("b",), others=True)}})
    assert _calls(spec) == {
        (2, V2): [],
        (4, V2): [["a", "b", "c"]],
        (2, V3): [["b"]],
        (4, V3): [["a"], ["c"]],
    }
    assert _calls(make_spec()) == {unit: [["a", "b", "c"]] for unit in units_of(spec.compilation)}


def test_what_was_measured_with_another_toolchain_chooses_nothing() -> None:
    spec = _spec({V2: {2: NONE}}, "2.18.0", flags={V2: {2: (FLAG,)}})
    assert _calls(spec) == _calls(make_spec())
    assert not any(choices_of(spec, LAYERS, CLASSIC).xla_flags.values())


@pytest.mark.parametrize("changes", [{"kernels": "none"}, {"weights": "embedded"}], ids=str)
def test_the_spec_stands_above_the_file(changes: Mapping[str, Any]) -> None:
    spec = _spec({V2: {2: ALL}}, flags={V3: {4: (FLAG,)}})
    spec = replace(spec, compilation=replace(spec.compilation, xla_flags=("--own",), **changes))
    assert not any(_calls(spec).values())
    flags = choices_of(spec, LAYERS, CLASSIC).xla_flags
    assert flags == {**dict.fromkeys(flags, ("--own",)), (4, V3): ("--own", FLAG)}


def test_a_toolchain_without_custom_calls_leaves_all_of_a_model_to_the_library_or_nothing() -> None:
    whole = (replace(LAYERS[0], reads_input=True), LAYERS[1], replace(LAYERS[2], gives_output=True))
    spec = _spec({V2: {2: ALL, 4: LayerChoice(named=("a",))}, V3: {2: NONE, 4: ALL}}, "2.21.0")
    assert not any(_calls(spec, "2.21.0").values())
    calls = choices_of(spec, whole, THUNKS).calls
    assert [unit for unit, each in calls.items() if each] == [(2, V2), (4, V3)]


def test_layers_that_are_gone_are_an_error_that_says_what_to_do() -> None:
    names = tuple(f"gone{number}" for number in range(5))
    spec = _spec({V2: {2: LayerChoice(named=("a", *names), others=True)}})
    assert spec.tuning is not None
    with reported(SpecError):
        choices_of(spec, LAYERS, CLASSIC)
    assert missing_layers(spec, spec.tuning.toolchains["2.17.1"], LAYERS) == names


def test_sizes_and_targets_that_are_not_compiled_do_no_harm() -> None:
    gone = LayerChoice(named=("gone",))
    assert _calls(_spec({V2: {3: gone}, "x86-64-v4": {2: gone}})) == _calls(make_spec())


def _key(spec: ModelSpec, chain: str = "2.17.1") -> Key:
    return compiled_key(spec, Key("f" * 64), toolchain(chain))


def test_a_choice_changes_the_key_of_what_is_compiled_and_costs_do_not() -> None:
    plain = _key(_spec())
    assert _key(_spec(batch_costs={V2: {2: 5.0}}, machine={"cpu": "A"})) == plain == _key(make_spec())
    changed = [
        _key(_spec({V2: {2: NONE}})),
        _key(_spec({V2: {2: ALL}})),
        _key(_spec({V3: {2: ALL}})),
        _key(_spec({V2: {4: ALL}})),
        _key(_spec({V2: {2: LayerChoice(named=("a",))}})),
        _key(_spec({V2: {2: LayerChoice(named=("a",), others=True)}})),
        _key(_spec(flags={V2: {2: (FLAG,)}})),
        _key(_spec(flags={V2: {2: (FLAG, "--more")}})),
        _key(_spec(flags={V2: {4: (FLAG,)}})),
    ]
    assert len({plain, *changed}) == len(changed) + 1


def test_what_decides_nothing_is_not_in_the_key() -> None:
    assert _key(_spec({V2: {3: NONE}, "x86-64-v4": {2: NONE}})) == _key(_spec())
    assert _key(_spec({V2: {2: NONE}}), "2.21.0") == _key(_spec(), "2.21.0")
    assert _key(_spec(flags={V2: {2: (FLAG,)}}, version="2.21.0"), "2.21.0") != _key(_spec(), "2.21.0")
