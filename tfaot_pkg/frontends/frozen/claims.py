"""What a worker says of a model that it froze, compared with the spec, the listing and the files (decision 084).

The worker read the model, which may have taken it over. So what it says twice must agree, and what follows from the
listing is decided from it. All functions raise ValueError, LookupError or AttributeError for an answer that is not
consistent: the caller turns these into the error of a worker that gave one (`from_worker`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.program.weighted import multiplies_by_weights
from tfaot_pkg.compiler.program import NUMPY_TYPES
from tfaot_pkg.ground.signature import Signature, Symbol
from tfaot_pkg.spec.types import ModelInfo
from tfaot_pkg.worker_program.messages.conversions import StateTensor
from tfaot_pkg.worker_program.messages.formulas import Formula
from tfaot_pkg.worker_program.messages.graph import Feed, Fetch, FoundSegment, Frozen
from tfaot_pkg.worker_program.messages.listing import (
    ArrayShape,
    CustomCall,
    HloListing,
    Instruction,
    Module,
    Number,
    TupleShape,
)

_PROBES = 5
"""Modules of a listing (worker_program/hlo.py)."""
_SEGMENT = "tfaot_segment_"
_MOST_INSTRUCTIONS, _PASSES = 1 << 20, 4
"""Instructions of a module if each call is replaced by what it calls, with so many passes over the body of a loop: the
analyses of rows and ranges look at each. Networks have some thousands; a million takes about 10 s.
"""
_ITERATIVE = frozenset({"Svd", "XlaSvd"})
"""Operations of loops that end when all matrices have converged. Without such a name, a loop that ends for all rows at
once makes them dependent (analysis/program/independence.py)."""
_EIGENVALUES = "Eigh"
"""XLA's custom call for such a loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """What the listing of a segment says: `is_independent` if no row depends on another one.

    If it `has_weights`, it multiplies by weights, which one run for all rows would read once. If it `iterates`, it
    decomposes matrices until all have converged, so that a row's answers for large numbers depend on other rows
    (decision 042).
    """

    is_independent: bool
    has_weights: bool
    iterates: bool


def require_consistent(
    frozen: Frozen, signature: Signature, model: ModelInfo, state: Sequence[StateTensor], folder: Path
) -> None:
    """Raise if `frozen` contradicts the spec, itself, or the files in `folder`; its `signature` has no symbols yet."""
    found, symbols = frozen.model, model.symbols
    wanted = [(each.name, each.minimum, each.maximum) for each in symbols]
    _require([(s.name, s.minimum, s.maximum) for s in found.symbols] == wanted, "its symbols are not those of the spec")
    _require_names("input", found.inputs, model.inputs, [each.input for each in state])
    _require_names("output", found.outputs, model.outputs, [each.output for each in state if each.output])
    _require_sizes(signature, model)
    _require_axes(signature, model.symbols)
    for each in (frozen.hlo, *([frozen.cut] if frozen.cut else []), *frozen.parts):
        _require_bounded(each)
    listings = [(frozen.hlo, symbols), *([(frozen.cut, ())] if frozen.cut else [])]
    for listing, known in listings:
        _require_border(listing, found.inputs, found.outputs, known)
    _require((frozen.cut is not None) == bool(found.segments), "it was cut without segments")
    for number, (segment, part) in enumerate(zip(found.segments, frozen.parts, strict=True)):
        _require(segment.name == f"{_SEGMENT}{number}", f"a segment is called {segment.name!r}")
        _require((folder / f"{segment.name}.pb").is_file(), f"the graph of {segment.name} is missing")
        _require_border(part, segment.inputs, segment.outputs, ())
    if frozen.cut is not None:
        _require_calls(frozen.cut, found.segments)


def facts_of(segment: FoundSegment, part: HloListing, signature: Signature) -> SegmentFacts:
    """What follows from `part`, the listing of `segment`, whose border is `signature`."""
    module = part.modules[0] if part.modules else None
    return SegmentFacts(
        is_independent=rows_of(part, signature).independent,
        has_weights=module is not None and multiplies_by_weights(module, len(segment.inputs)),
        iterates=module is not None and any(map(_iterates, _instructions(module))),
    )


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)


def _require_names(kind: str, found: Sequence[Feed | Fetch], wanted: Sequence[str], of_state: Sequence[str]) -> None:
    names = [each.name for each in found]
    _require(len(set(names)) == len(names), f"two {kind}s have one name")
    _require(set(of_state) <= set(names), f"an {kind} of a variable is missing")
    if wanted:
        _require(names == [*wanted, *of_state], f"its {kind}s are not those of the spec")


def _require_sizes(signature: Signature, model: ModelInfo) -> None:
    """The shapes that the spec sets."""
    inputs = {each.name: each for each in signature.inputs}
    for name, shape in model.shapes.items():
        axes = tuple(model.axes.get(name, ()))
        same = inputs[name].shape == tuple(shape) and _named(inputs[name].axes) == _named(axes)
        _require(same, f"the input {name!r} has another shape than the spec says")


def _require_axes(signature: Signature, symbols: Sequence[Symbol]) -> None:
    """Axes of inputs are symbols, those of outputs may be formulas of these; shapes have the sizes at the maxima."""
    largest = {each.name: each.maximum for each in symbols}
    _require(not any(each.computed for each in signature.inputs), "the size of an input is computed")
    for tensor in signature.tensors:
        formulas = [Formula.read(axis) for axis in tensor.axes if axis]
        known = all(each.symbols <= largest.keys() and each.never_falls for each in formulas)
        _require(known and tensor.at(largest).shape == tensor.shape, f"the sizes of {tensor.name!r} do not fit")


def _named(axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(axes) if any(axes) else ()


def _require_bounded(listing: HloListing) -> None:
    """Each function may call another one twice: a short listing may stand for more than can be looked at."""
    for module in (*listing.modules, *listing.samples):
        totals: dict[int, int] = {}
        for computation in module.computations:  # each after those that it calls
            totals[computation.id] = sum(
                1 + sum(totals[called] for called in each.called) * (_PASSES if each.opcode == "while" else 1)
                for each in computation.instructions
            )
        _require(totals[module.entry] <= _MOST_INSTRUCTIONS, "a module calls itself too often")


def _require_border(
    listing: HloListing, inputs: Sequence[Feed], outputs: Sequence[Fetch], symbols: Sequence[Symbol]
) -> None:
    """The entry of each module takes the inputs, and gives the outputs, at the sizes that the module has."""
    if listing.fault:
        _require(not listing.modules and not listing.samples, "there are modules of what does not compile")
        return
    sizes = [each.batch_size for each in listing.modules]
    _require(len(set(sizes)) == _PROBES == len(sizes) and min(sizes) > 1, f"modules at the batch sizes {sizes}")
    ranges = {each.name: range(each.minimum, each.maximum + 1) for each in symbols}
    for module in (*listing.modules, *listing.samples):
        _require(module.sizes.keys() == ranges.keys(), "a module has other symbols")
        _require(all(size in ranges[name] for name, size in module.sizes.items()), "a module has other sizes")
        entry = next(each for each in module.computations if each.id == module.entry)
        known = {each.id: each for each in entry.instructions}
        taken = {
            each.attributes.number: each.shape
            for each in entry.instructions
            if each.opcode == "parameter" and isinstance(each.attributes, Number)
        }
        given = known[entry.root].shape
        _require(isinstance(given, TupleShape) and len(given.parts) == len(outputs), "a module has other outputs")
        for number, feed in enumerate(inputs):
            _require(_is_array(taken[number], feed, module), f"the input {feed.name!r} is another one in the listing")
        parts = given.parts if isinstance(given, TupleShape) else ()
        for part, fetch in zip(parts, outputs, strict=True):
            _require(_is_array(part, fetch, module), f"the output {fetch.name!r} is another one in the listing")


def _is_array(found: ArrayShape | TupleShape, wanted: Feed | Fetch, module: Module) -> bool:
    axes = wanted.axes or ("",) * len(wanted.shape)
    sizes = tuple(
        Formula.read(axis).at(module.sizes) if axis else module.batch_size if size is None else size
        for axis, size in zip(axes, wanted.shape, strict=True)
    )
    return isinstance(found, ArrayShape) and _type(found) == np.dtype(wanted.dtype) and found.sizes == sizes


def _type(shape: ArrayShape) -> np.dtype | None:
    return NUMPY_TYPES.get(shape.dtype)


def _require_calls(listing: HloListing, segments: Sequence[FoundSegment]) -> None:
    """Each call of a segment passes the arrays of its border: code of it reads and writes by these."""
    by_name: Mapping[str, FoundSegment] = {each.name: each for each in segments}
    for module in listing.modules:
        for computation in module.computations:
            shapes = {each.id: each.shape for each in computation.instructions}
            for each in computation.instructions:
                if not isinstance(each.attributes, CustomCall) or not each.attributes.target.startswith(_SEGMENT):
                    continue
                segment = by_name[each.attributes.target]
                results = each.shape.parts if isinstance(each.shape, TupleShape) else (each.shape,)
                passed = (*(shapes[operand] for operand in each.operands), *results)
                borders: Sequence[Feed | Fetch] = (*segment.inputs, *segment.outputs)
                fits = all(_is_array(shape, one, module) for shape, one in zip(passed, borders, strict=True))
                _require(fits, f"a call of {segment.name} passes other arrays")


def _iterates(each: Instruction) -> bool:
    if isinstance(each.attributes, CustomCall):
        return each.attributes.target == _EIGENVALUES
    return each.opcode == "while" and each.operation in _ITERATIVE


def _instructions(module: Module) -> Iterator[Instruction]:
    for computation in module.computations:
        yield from computation.instructions
