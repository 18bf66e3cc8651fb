"""A worker that a model took over may say anything of the model that it froze.

What contradicts the spec, the listing or the files is rejected; what follows from the listing is decided from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.program.listings import Builder, listing
from tfaot_pkg.analysis.program.weighted import multiplies_by_weights
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.frozen.claims import facts_of, require_consistent
from tfaot_pkg.frontends.frozen.model import signature_of
from tfaot_pkg.frontends.toolchain.worker import from_worker
from tfaot_pkg.ground.signature import Symbol
from tfaot_pkg.spec.types import ModelInfo, SavedModelFiles
from tfaot_pkg.worker_program.messages import graph
from tfaot_pkg.worker_program.messages.graph import Feed, Fetch, FoundSegment, Frozen, FrozenGraph
from tfaot_pkg.worker_program.messages.listing import Computation, HloListing, Module, NoAttributes

X = Feed(name="x", node="x", dtype="float32", shape=(None, 4))
Y = Fetch(name="y", node="y", index=0, dtype="float32", shape=(None, 4))
IN = Feed(name="in0", node="tfaot_segment_0_in0", dtype="float32", shape=(None, 4))
OUT = Fetch(name="out0", node="y", index=0, dtype="float32", shape=(None, 4))
SEGMENT = FoundSegment(name="tfaot_segment_0", reason="Cholesky (node 'y')", inputs=(IN,), outputs=(OUT,))
MODEL = ModelInfo(name="m", version="1", files=SavedModelFiles(path="m"), inputs=("x",), outputs=("y",))


def _written(write: Callable[[Builder], int]) -> HloListing:
    """A listing whose result is a tuple of one array [batch, 4]."""

    def tupled(builder: Builder) -> int:
        number = write(builder)
        builder.main.add("tuple", {"tuple": [("f32", (builder.batch, 4))]}, number)
        return number

    found = listing(tupled)
    # `listing` adds a tuple of its own, for tests in which shapes of results say nothing.
    modules = tuple(
        replace(module, computations=(*module.computations[:-1], _without_last(module.computations[-1])))
        for module in found.modules
    )
    return replace(found, modules=modules)


def _without_last(computation: Any) -> Any:
    kept = computation.instructions[:-1]
    return replace(computation, instructions=kept, root=kept[-1].id)


def _negated(builder: Builder) -> int:
    return builder.main.add("negate", (builder.batch, 4), builder.main.parameter((builder.batch, 4)))


def _calling(builder: Builder) -> int:
    x = builder.main.parameter((builder.batch, 4))
    return builder.main.add("custom-call", (builder.batch, 4), x, target="tfaot_segment_0")


def _weighted(builder: Builder) -> int:
    x, w = builder.main.parameter((builder.batch, 4)), builder.main.parameter((4, 4), 1)
    return builder.main.add("dot", (builder.batch, 4), x, w, contracting=[[1], [0]], batch=[[], []])


def _eigenvalues(builder: Builder) -> int:
    x = builder.main.parameter((builder.batch, 4))
    return builder.main.add("custom-call", (builder.batch, 4), x, target="Eigh")


def _squared(builder: Builder) -> int:
    x = builder.main.parameter((builder.batch, 4))
    return builder.main.add("dot", (builder.batch, 4), x, x, contracting=[[1], [1]], batch=[[0], [0]])


PLAIN = Frozen(
    model=FrozenGraph(inputs=(X,), outputs=(Y,), weights=(), segments=(), warnings=(), graph=None),
    hlo=_written(_negated), cut=None, parts=(),
)  # fmt: skip
CUT = Frozen(
    model=replace(PLAIN.model, segments=(SEGMENT,)),
    hlo=_written(_negated), cut=_written(_calling), parts=(_written(_negated),),
)  # fmt: skip


def _require(frozen: Frozen, folder: Path, model: ModelInfo = MODEL) -> None:
    with from_worker():
        require_consistent(frozen, signature_of(frozen.model), model, (), folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tfaot_segment_0.pb").touch()
    return tmp_path


@pytest.mark.parametrize("frozen", [PLAIN, CUT, replace(PLAIN, hlo=HloListing(modules=(), fault="it does not"))])
def test_what_fits_is_taken(frozen: Frozen, folder: Path) -> None:
    _require(frozen, folder)


def _model(**changed: Any) -> Frozen:
    return replace(PLAIN, model=replace(PLAIN.model, **changed))


def _segment(**changed: Any) -> Frozen:
    return replace(CUT, model=replace(CUT.model, segments=(replace(SEGMENT, **changed),)))


def _doubling(module: Module) -> Module:
    """`module` with 40 functions, each of which calls the one before twice: as one, a million million instructions."""
    call = replace(module.computations[-1].instructions[0], opcode="call", attributes=NoAttributes(), operands=(0,))
    first = module.computations[-1].instructions[0]
    functions = [Computation(id=1000, root=0, instructions=(replace(first, id=0),))]
    for number in range(1001, 1040):
        calls = (replace(call, id=each, operands=(each - 1,), called=(number - 1,)) for each in (1, 2))
        functions.append(Computation(id=number, root=2, instructions=(replace(first, id=0), *calls)))
    entry = module.computations[-1]
    added = replace(call, id=99, operands=(first.id,), called=(1039,))
    whole = replace(entry, instructions=(*entry.instructions[:-1], added, entry.instructions[-1]))
    return replace(module, computations=(*functions, *module.computations[:-1], whole))


def _modules(change: Callable[[Any], Any]) -> Frozen:
    return replace(PLAIN, hlo=replace(PLAIN.hlo, modules=tuple(map(change, PLAIN.hlo.modules))))


@pytest.mark.parametrize(
    "lie",
    [
        # Fewer elements than the program reads: it would read, or write, beyond the caller's arrays.
        pytest.param(_model(inputs=(replace(X, shape=(None, 2)),)), id="a smaller input"),
        pytest.param(_model(outputs=(replace(Y, shape=(None, 2)),)), id="a smaller output"),
        pytest.param(_model(inputs=(replace(X, shape=(5, 4)),)), id="an input without a batch"),
        pytest.param(_model(inputs=(replace(X, dtype="int32"),)), id="an input of another type"),
        pytest.param(_model(outputs=(replace(Y, dtype="int8"),)), id="an output of another type"),
        pytest.param(_model(inputs=(X, replace(X, name="z"))), id="one input more"),
        pytest.param(_model(inputs=(X, X)), id="an input twice"),
        pytest.param(_model(inputs=(replace(X, name="z"),)), id="another name of an input"),
        pytest.param(_model(outputs=(replace(Y, name="z"),)), id="another name of an output"),
        pytest.param(_model(outputs=()), id="no output"),
        pytest.param(_model(symbols=(graph.Symbol(name="n", minimum=1, maximum=9),)), id="a symbol"),
        pytest.param(_model(inputs=(replace(X, shape=(None, 4), axes=("", "n")),)), id="an axis without a symbol"),
        pytest.param(_modules(lambda each: replace(each, batch_size=9)), id="one batch size for all modules"),
        pytest.param(_modules(lambda each: replace(each, batch_size=each.batch_size + 1)), id="other batch sizes"),
        pytest.param(_modules(lambda each: replace(each, sizes={"n": 4})), id="sizes of no symbol"),
        pytest.param(_modules(_doubling), id="functions that call others twice"),
        pytest.param(replace(PLAIN, hlo=replace(PLAIN.hlo, modules=PLAIN.hlo.modules[:3])), id="three modules"),
        pytest.param(replace(PLAIN, hlo=replace(PLAIN.hlo, fault="it does not")), id="modules of what does not compile"),
        pytest.param(replace(PLAIN, cut=CUT.cut), id="a cut without segments"),
        pytest.param(_segment(name="../tfaot_segment_0"), id="a segment outside of the folder"),
        pytest.param(_segment(name="tfaot_segment_1"), id="a segment without a file"),
        pytest.param(_segment(inputs=(replace(IN, shape=(None, 2)),)), id="a segment that takes less"),
        pytest.param(_segment(outputs=(replace(OUT, shape=(None, 8)),)), id="a segment that gives more"),
        pytest.param(replace(CUT, cut=None), id="segments without a cut"),
        pytest.param(replace(CUT, parts=()), id="a segment without a listing"),
        pytest.param(
            replace(CUT, cut=_written(lambda each: each.main.add("custom-call", (each.batch, 4),
                each.main.parameter((each.batch, 4)), target="tfaot_segment_7"))), id="a call of no segment"),
        pytest.param(
            replace(CUT, cut=_written(lambda each: each.main.add("custom-call", (each.batch, 4),
                each.main.constant([1.0, 2.0], (2,), "f32"), target="tfaot_segment_0"))), id="a call with less"),
    ],
)  # fmt: skip
def test_what_contradicts_spec_listing_or_files_is_rejected(lie: Frozen, folder: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot be read"):
        _require(lie, folder)


@pytest.mark.parametrize(
    "model",
    [
        replace(MODEL, shapes={"x": (None, 5)}),
        replace(MODEL, shapes={"x": (8, 4)}, axes={"x": ("n", "")}, symbols=(Symbol(name="n", minimum=1, maximum=8),)),
        replace(MODEL, symbols=(Symbol(name="n", minimum=1, maximum=8),)),
        replace(MODEL, inputs=("z",)),
    ],
)
def test_what_the_spec_says_holds(model: ModelInfo, folder: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot be read"):
        _require(PLAIN, folder, model)


def test_the_listing_of_a_segment_says_whether_it_multiplies_by_weights_and_iterates() -> None:
    signature = signature_of(SEGMENT)
    assert facts_of(SEGMENT, _written(_weighted), signature).has_weights
    assert not facts_of(SEGMENT, _written(_squared), signature).has_weights
    assert not facts_of(SEGMENT, _written(_negated), signature).iterates
    assert facts_of(SEGMENT, _written(_eigenvalues), signature).iterates


def test_functions_that_are_called_again_and_again_are_looked_at_once() -> None:
    assert not multiplies_by_weights(_doubling(PLAIN.hlo.modules[0]), 1)


def test_weights_that_a_loop_carries_are_weights() -> None:
    def looping(builder: Builder) -> int:
        shapes = {"tuple": [("f32", (builder.batch, 4)), ("f32", (4, 4)), ("s32", ())]}

        def part(inner: Any, number: int) -> int:
            dtype, sizes = shapes["tuple"][number]
            found: int = inner.add("get-tuple-element", sizes, inner.whole, dtype=dtype, index=number)
            return found

        body, condition = builder.computation(), builder.computation()
        for inner in (body, condition):
            inner.whole = inner.parameter(shapes)  # type: ignore[attr-defined]
        x, w, i = (part(body, number) for number in range(3))
        product = body.add("dot", (builder.batch, 4), x, w, contracting=[[1], [0]], batch=[[], []])
        body.add("tuple", shapes, product, w, i)
        condition.add("compare", (), part(condition, 2), part(condition, 2), dtype="pred", direction="LT")
        main = builder.main
        given = main.add(
            "tuple", shapes, main.parameter((builder.batch, 4)), main.parameter((4, 4), 1), main.constant(0)
        )
        loop = main.add("while", shapes, given, called=[body.number, condition.number])
        return main.add("get-tuple-element", (builder.batch, 4), loop, index=0)

    found = facts_of(SEGMENT, _written(looping), signature_of(SEGMENT))
    assert found.has_weights and not found.iterates
