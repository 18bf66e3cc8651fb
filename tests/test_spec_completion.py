"""What a first spec says beside the model's name, by what `check` makes of each proposal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.pipeline.spec_completion import Accepted, Inputs, Settled, settled, with_equal_sizes, with_sizes
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec, files_of
from tfaot_pkg.worker_program.messages import graph as messages
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.graph import FoundSizes, SymbolSizes
from tfaot_pkg.worker_program.messages.size_search import search

FLAG = Tensor(name="flag", dtype=DType.BOOL, shape=())
SIGNATURE = Signature(inputs=(FLAG,), outputs=())
INPUTS = Inputs(signature=SIGNATURE)
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
    def attempt(spec: ModelSpec) -> Accepted:
        if fault := fault_of(spec):
            raise ModelError(fault, hint=hint)
        return Accepted(signature=SIGNATURE, rows_meet=False)

    sizes = tuple(SymbolSizes(name=name, least=least, most=most) for name, least, most in found)
    return settled(_spec(model), INPUTS, attempt, lambda _: FoundSizes(sizes=sizes, fault="k is 17" if found else ""))


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


def test_only_axes_that_the_reason_names_get_numbers() -> None:
    faults = {"m": "a division of m by 2", "n": "a stride of n"}
    both = OPEN.symbols

    def fault_of(*refused: str) -> Callable[[ModelSpec], str]:
        return lambda spec: next((faults[each.name] for each in spec.model.symbols if each.name in refused), "")

    made = _settled(OPEN, fault_of("n"), ("m", 1, 128), ("n", 1, 128))
    assert made.spec.model.symbols == both[:1] and made.spec.model.axes == {"x": ("", "", "m", "")}
    assert "a stride of n" in made.remarks["shapes"] and made.fault is None
    assert _settled(OPEN, fault_of("m", "n"), ("m", 1, 128), ("n", 1, 128)).spec.model.symbols == ()


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
    def crash(_: ModelSpec) -> Accepted:
        raise ToolchainError("TensorFlow crashed", cause="crashed")

    made = settled(_spec(CLOSED), INPUTS, crash, lambda _: None)
    assert made.fault is not None and made.fault.message == "TensorFlow crashed"

    def newer(_: ModelSpec) -> Accepted:
        raise ModelError("Keras 4", newer=True)

    with pytest.raises(ModelError):
        settled(_spec(replace(CLOSED, files=files_of("keras", "a.keras"))), INPUTS, newer, lambda _: None)


def _search(
    *names: str, takes: Callable[[Mapping[str, int]], bool], likely: Sequence[int] = ()
) -> list[tuple[int, int]]:
    symbols = [messages.Symbol(name=name, minimum=1, maximum=128) for name in names]
    found = search(symbols, lambda sizes: "" if takes(sizes) else "it does not fit", likely)
    return [(each.least, each.most) for each in found.sizes]


def _found(*names: str, takes: Callable[[Mapping[str, int]], bool]) -> tuple[dict[str, tuple[int, int]], set[str]]:
    """(ranges, those that are equal, joined by spaces)."""
    symbols = [messages.Symbol(name=name, minimum=1, maximum=128) for name in names]
    found = search(symbols, lambda sizes: "" if takes(sizes) else "it does not fit")
    return {each.name: (each.least, each.most) for each in found.sizes}, {" ".join(each) for each in found.equal}


def test_symbols_that_change_only_together_are_equal() -> None:
    ranges, equal = _found("a", "b", "c", takes=lambda n: n["a"] == n["c"] >= 3)
    assert equal == {"a c"} and ranges == {"a": (3, 128), "b": (1, 128), "c": (3, 128)}
    ranges, equal = _found("a", "b", "c", "d", takes=lambda n: n["a"] == n["d"] and n["b"] == n["c"])
    assert equal == {"a d", "b c"} and set(ranges.values()) == {(1, 128)}
    # Beside one that has one size only, and where the maxima are too large.
    ranges, equal = _found("a", "b", "c", takes=lambda n: n["a"] == n["b"] <= 70 and n["c"] == 64)
    assert equal == {"a b"} and ranges == {"a": (1, 70), "b": (1, 70), "c": (64, 64)}


def test_symbols_that_change_alone_or_never_are_not_equal() -> None:
    for takes in (
        lambda n: n["a"] == 96 and n["b"] == 96,
        lambda n: n["a"] % 16 == 0 and n["b"] % 16 == 0,
        lambda n: n["a"] + n["b"] >= 100,
    ):
        assert _found("a", "b", takes=takes)[1] == set()


NODES = Tensor(name="nodes", dtype=DType.FLOAT32, shape=(None, 4))
EDGES = Tensor(name="edges:0", dtype=DType.INT32, shape=(None, 2))
FEATURES = Tensor(name="features", dtype=DType.FLOAT32, shape=(None, 3))
GRAPH = Signature(inputs=(NODES, EDGES, FEATURES), outputs=())


def _of_a_graph(
    *,
    takes: Callable[[Mapping[str, int]], bool],
    fault_of: Callable[[ModelSpec], str],
    rows_meet: bool = True,
    rows: Mapping[str, str] | None = None,
) -> Settled:
    def attempt(spec: ModelSpec) -> Accepted:
        if fault := fault_of(spec):
            raise ModelError(fault)
        return Accepted(signature=GRAPH, rows_meet=rows_meet and not spec.model.symbols)

    def sizes(spec: ModelSpec) -> FoundSizes:
        symbols = [messages.Symbol(name=s.name, minimum=s.minimum, maximum=s.maximum) for s in spec.model.symbols]
        return search(symbols, lambda sizes: "" if takes(sizes) else "it does not fit")

    return settled(_spec(CLOSED), Inputs(signature=GRAPH, rows=rows or {}), attempt, sizes)


def _one_per_edge(sizes: Mapping[str, int]) -> bool:
    return "rows" in sizes or sizes["n_edges_0"] == sizes["n_features"]


APART = {"nodes": ("n_nodes", ""), "edges:0": ("n_edges_0", ""), "features": ("n_edges_0", "")}


@pytest.mark.parametrize("fault", ["", "ranges of indices"])
def test_inputs_that_take_different_numbers_of_rows_have_sizes_of_their_own(fault: str) -> None:
    """Whether `check` accepts them as one batch or not."""
    made = _of_a_graph(takes=_one_per_edge, fault_of=lambda spec: "" if spec.model.symbols else fault)
    assert made.spec.model.axes == APART and made.fault is None
    assert made.spec.model.shapes == {"nodes": (128, 4), "edges:0": (128, 2), "features": (128, 3)}
    assert "rows of their own" in made.remarks["shapes"]


def test_inputs_of_one_number_of_rows_stay_a_batch() -> None:
    """Because rows do not depend on one another, or all inputs must have as many."""
    assert _of_a_graph(takes=_one_per_edge, fault_of=lambda _: "", rows_meet=False).spec == _spec(CLOSED)
    made = _of_a_graph(takes=lambda sizes: len({*sizes.values()}) == 1, fault_of=lambda _: "")
    assert made.spec == _spec(CLOSED) and not made.remarks


def test_numbers_of_rows_have_the_names_of_a_file() -> None:
    """Which the model takes different ones of, but its framework may rely on what the file says."""
    names = {"nodes": "v", "edges:0": "e", "features": "e"}
    made = _of_a_graph(takes=lambda _: True, fault_of=lambda _: "", rows=names)
    assert made.spec.model.axes == {"nodes": ("v", ""), "edges:0": ("e", ""), "features": ("e", "")}
    assert _of_a_graph(takes=lambda _: True, fault_of=lambda _: "", rows=dict.fromkeys(names, "N")).spec == _spec(
        CLOSED
    )


def test_a_batch_that_must_do_says_what_else_to_write() -> None:
    made = _of_a_graph(takes=_one_per_edge, fault_of=lambda spec: "no program" if spec.model.symbols else "")
    assert made.spec == _spec(CLOSED) and made.fault is None
    for part in ("nodes, edges:0, features have one number of rows", '"n_nodes <= 128", 4', "no program"):
        assert part in made.remarks["shapes"]


def test_a_signal_longer_than_all_proposals_is_found() -> None:
    """As of a net that leaves out 5,000 samples at both ends; images of such sizes would be too large."""
    assert _search("n", takes=lambda sizes: sizes["n"] > 10_000) == [(10_001, 16_384)]
    assert not _search("h", "w", takes=lambda sizes: sizes["h"] > 10_000)


def test_an_axis_of_features_has_a_size_of_the_weights() -> None:
    assert _search("n", takes=lambda sizes: sizes["n"] == 138, likely=[25, 100, 138]) == [(138, 138)]
    assert _search("n", takes=lambda sizes: sizes["n"] >= 130) == [(130, 224)]


def test_a_worker_names_equal_sizes_of_the_model_alone() -> None:
    """Others, or none, change nothing."""
    assert with_equal_sizes(OPEN, [["m", "n"]]).symbols == OPEN.symbols[:1]
    assert with_equal_sizes(OPEN, [["#include", "n"], [], ["another"]]) == OPEN
