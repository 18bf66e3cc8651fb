"""What a first spec says beside the model's name, by what `check` makes of each proposal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.pipeline.spec_completion import Settled, settled, with_sizes
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec, files_of
from tfaot_pkg.worker_program.messages import graph as messages
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.graph import FoundSizes, SymbolSizes
from tfaot_pkg.worker_program.messages.size_search import search

FLAG = Tensor(name="flag", dtype=DType.BOOL, shape=())
SIGNATURE = Signature(inputs=(FLAG,), outputs=())
OPEN = ModelInfo(
    name="net",
    version="1.0",
    shapes={"x": (None, 128, 128, 4)},
    axes={"x": ("", "n", "m", "")},
    symbols=(Symbol(name="m", minimum=1, maximum=128), Symbol(name="n", minimum=1, maximum=128)),
)
CLOSED = ModelInfo(name="net", version="1.0")


def _spec(model: ModelInfo) -> ModelSpec:
    source = FolderSource(path=Path("/m"))
    return ModelSpec(path=Path("/m/spec.yaml"), model=model, source=source, compilation=Compilation(batch_sizes=(1,)))


def _settled(
    model: ModelInfo, fault_of: Callable[[ModelSpec], str], *found: tuple[str, int, int], hint: str = ""
) -> Settled:
    def attempt(spec: ModelSpec) -> Signature:
        if fault := fault_of(spec):
            raise ModelError(fault, hint=hint)
        return SIGNATURE

    sizes = tuple(SymbolSizes(name=name, least=least, most=most) for name, least, most in found)
    return settled(
        _spec(model), SIGNATURE, attempt, lambda _: FoundSizes(sizes=sizes, fault="k is 17" if found else "")
    )


def test_ranges_are_those_of_sizes_at_which_the_model_runs() -> None:
    made = _settled(OPEN, lambda _: "", ("m", 1, 128), ("n", 17, 128))
    assert made.spec.model.symbols == (
        Symbol(name="m", minimum=1, maximum=128),
        Symbol(name="n", minimum=17, maximum=128),
    )
    assert made.signature == SIGNATURE and made.fault is None
    assert made.remarks == {"shapes": "The model does not take all sizes of n: k is 17"}


def test_a_size_that_is_alone_is_a_number() -> None:
    model = _settled(OPEN, lambda _: "", ("m", 96, 96), ("n", 8, 64)).spec.model
    assert model.shapes == {"x": (None, 64, 96, 4)} and model.axes == {"x": ("", "n", "", "")}
    assert with_sizes(OPEN, {"m": (4, 4), "n": (5, 8)}).axes == {}


def test_axes_get_numbers_if_the_model_cannot_be_compiled_for_all_sizes() -> None:
    made = _settled(OPEN, lambda spec: "a stride" if spec.model.symbols else "", ("m", 1, 128), ("n", 1, 128))
    assert made.spec.model.shapes == {"x": (None, 128, 128, 4)} and not made.spec.model.symbols
    assert "a stride" in made.remarks["shapes"] and made.fault is None


def test_variables_that_the_signature_changes_are_state() -> None:
    made = _settled(
        CLOSED,
        lambda spec: "" if spec.compilation.variables else "changes variables",
        hint="list them in the spec, as in `compilation: {variables: {update: ['*']}}`",
    )
    assert made.spec.compilation.variables.update == ("*",) and "variables" in made.remarks


def test_a_switch_that_shapes_depend_on_is_a_constant() -> None:
    made = _settled(CLOSED, lambda spec: "" if spec.model.constants else "the shape of output 'y' depends on values")
    assert made.spec.model.constants == {"flag": Values(shape=(), values=(False,))}
    assert "Review" in made.remarks["constants"] and "flag" in made.remarks["constants"]


def test_without_a_proposal_that_is_accepted_the_first_reason_is_told() -> None:
    reasons = iter(["the first", "the second", "the third", "the fourth"])
    made = _settled(CLOSED, lambda _: next(reasons))
    assert made.signature is None and made.fault is not None and made.fault.message == "the first"
    assert made.spec == _spec(CLOSED) and not made.remarks


def test_what_no_spec_can_mend_ends_the_attempts() -> None:
    def crash(_: ModelSpec) -> Signature:
        raise ToolchainError("TensorFlow crashed", cause="crashed")

    made = settled(_spec(CLOSED), SIGNATURE, crash, lambda _: None)
    assert made.fault is not None and made.fault.message == "TensorFlow crashed"

    def newer(_: ModelSpec) -> Signature:
        raise ModelError("Keras 4", newer=True)

    with pytest.raises(ModelError):
        settled(_spec(replace(CLOSED, files=files_of("keras", "a.keras"))), SIGNATURE, newer, lambda _: None)


def _search(
    *names: str, takes: Callable[[Mapping[str, int]], bool], likely: Sequence[int] = ()
) -> list[tuple[int, int]]:
    symbols = [messages.Symbol(name=name, minimum=1, maximum=128) for name in names]
    found = search(symbols, lambda sizes: "" if takes(sizes) else "it does not fit", likely)
    return [(each.least, each.most) for each in found.sizes]


def test_a_signal_longer_than_all_proposals_is_found() -> None:
    """As of a net that leaves out 5,000 samples at both ends; images of such sizes would be too large."""
    assert _search("n", takes=lambda sizes: sizes["n"] > 10_000) == [(10_001, 16_384)]
    assert not _search("h", "w", takes=lambda sizes: sizes["h"] > 10_000)


def test_an_axis_of_features_has_a_size_of_the_weights() -> None:
    assert _search("n", takes=lambda sizes: sizes["n"] == 138, likely=[25, 100, 138]) == [(138, 138)]
    assert _search("n", takes=lambda sizes: sizes["n"] >= 130) == [(130, 224)]
