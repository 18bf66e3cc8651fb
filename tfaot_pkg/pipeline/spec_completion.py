"""What a first spec must say so that `check` accepts it: sizes of axes, variables, values of switches.

Each proposal is tried as `check` would, and the first one without a fault is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frontends.frozen.source_model import symbol_name
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.spec.formats import FILE_FORMATS
from tfaot_pkg.spec.types import ModelInfo, ModelSpec, Variables
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.graph import FoundSizes

_LEAST_SIZES = 5
"""Fewer sizes make no range (spec/rules.py)."""
_MOST_SWITCHES = 3
_NAMES_VARIABLES = "compilation: {variables:"
"""In the hint of a signature that changes variables (worker_program/freeze.py)."""
_ROWS, _MOST_ROWS = "rows", 128
_OWN_ROWS = (
    "The inputs have numbers of rows of their own, as nodes and edges of a graph do: rows depend on one another, and "
    "the model takes different numbers."
)
_SAID = 160
"""Characters of a reason in a comment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """`spec` with what was found, and its `signature`; None and a `fault` if `check` refuses all that was tried.

    `remarks` are comments for the spec, by the field of `model` or `compilation` that they are about.
    """

    spec: ModelSpec
    signature: Signature | None
    remarks: Mapping[str, str]
    fault: ModelError | ToolchainError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The signature of a spec that `check` accepts; `rows_meet`: rows of a batch depend on one another."""

    signature: Signature
    rows_meet: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The model's `signature` before anything is settled; `rows` are the file's names of batches, by input."""

    signature: Signature
    rows: Mapping[str, str] = field(default_factory=dict)

    @property
    def batched(self) -> tuple[Tensor, ...]:
        return tuple(each for each in self.signature.inputs if each.has_batch_axis)


Attempt = Callable[[ModelSpec], Accepted]
"""What `check` finds. Raises ModelError for a spec that it refuses."""
Sizes = Callable[[ModelSpec], FoundSizes | None]


def settled(spec: ModelSpec, inputs: Inputs, attempt: Attempt, sizes: Sizes) -> Settled:
    """`spec` with what it needs; `sizes` finds the sizes that it takes."""
    faults: list[ModelError] = []
    for proposed, remarks in _proposals(spec, inputs, sizes, faults):
        try:
            found = attempt(proposed)
            made = Settled(spec=proposed, signature=found.signature, remarks=remarks)
            return _with_own_rows(made, inputs, attempt, sizes) if found.rows_meet else made
        except ModelError as error:
            if error.newer:
                raise
            faults.append(error)
        except ToolchainError as error:
            if not error.cause:  # a fault of ours
                raise
            return Settled(spec=spec, signature=None, remarks={}, fault=error)
    # That of the first proposal, which has all that is known: later ones are guesses.
    return Settled(spec=spec, signature=None, remarks={}, fault=faults[0])


def _with_own_rows(batched: Settled, inputs: Inputs, attempt: Attempt, sizes: Sizes) -> Settled:
    """`batched`, whose rows depend on one another, or with sizes of their own for inputs that take different ones.

    As the nodes and the edges of a graph: one batch for both would mean as many edges as nodes in each call.
    """
    spec = _with_rows_apart(batched.spec, inputs, sizes)
    if spec is None:
        return batched
    try:
        return replace(batched, spec=spec, signature=attempt(spec).signature, remarks={"shapes": _OWN_ROWS})
    except ModelError as error:
        names = ", ".join(each.name for each in inputs.batched)
        why = (
            f"All of {names} have one number of rows, N, in each call. The model itself takes a different number for "
            f"each, but with sizes such as `{_example(spec.model)}` in model.shapes: {_short(error.message)}"
        )
        return replace(batched, remarks={**batched.remarks, "shapes": why})


def _example(model: ModelInfo) -> str:
    return "; ".join(f"{name}: {json.dumps(model.shape_document(name))}" for name in sorted(model.shapes))


def _with_rows_apart(spec: ModelSpec, inputs: Inputs, sizes: Sizes) -> ModelSpec | None:
    """`spec` with sizes of their own in place of the batch; None if all inputs have one, or take no range of sizes."""
    # Batches of one name are one number, and an input whose batch has no name may have its own.
    names = {each.name: inputs.rows.get(each.name) or f"n_{each.name}" for each in inputs.batched}
    symbols: dict[str, str] = {}
    for name in names.values():
        symbols.setdefault(name, symbol_name(name, [*_ranges(spec.model), *symbols.values()]))
    if len(symbols) < 2:
        return None
    model = with_rows_as_sizes(spec.model, inputs.batched, {each: symbols[name] for each, name in names.items()})
    made, _ = _of_sizes_that_run(replace(spec, model=model), sizes)
    first = {made.model.axes.get(name, ("",))[0] for name in names}
    return made if len(first) > 1 and "" not in first else None


def _proposals(
    spec: ModelSpec,
    inputs: Inputs,
    sizes: Sizes,
    faults: Sequence[ModelError],
) -> Iterator[tuple[ModelSpec, Mapping[str, str]]]:
    spec, remark = _of_sizes_that_run(spec, sizes)
    yield spec, remark
    yield from _with_rows(spec, inputs, sizes, faults)
    if spec.model.symbols:
        for made, remark in _with_numbers(spec, faults):
            spec = made
            yield spec, remark
        yield from _with_rows(spec, inputs, sizes, faults)
    if _NAMES_VARIABLES in faults[-1].hint:
        yield (
            replace(spec, compilation=replace(spec.compilation, variables=Variables(update=("*",)))),
            {"variables": "The signature changes variables: callers keep them as state."},
        )
    given = FILE_FORMATS.get(spec.model.files.format)
    if given is None or given.is_tensorflows or given.takes_constants:
        for values in _switches(inputs.signature):
            constants = {**spec.model.constants, **values}
            shown = " and ".join(values)
            yield (
                replace(spec, model=replace(spec.model, constants=constants)),
                {"constants": f"Review: shapes depend on the value of {shown}, so it is a constant of the package."},
            )


def _with_numbers(spec: ModelSpec, faults: Sequence[ModelError]) -> Iterator[tuple[ModelSpec, Mapping[str, str]]]:
    """`spec` with numbers for sizes: for those that the reason names, as long as it names others, and last for all."""
    told = faults[0]
    remark = {
        "shapes": f"Fixed sizes, of which you choose others, because of all sizes up to these: {_short(told.message)}"
    }
    while spec.model.symbols:
        named = [each for each in spec.model.symbols if re.search(rf"\b{re.escape(each.name)}\b", told.message)]
        fixed = {each.name: (each.maximum, each.maximum) for each in named or spec.model.symbols}
        spec = replace(spec, model=with_sizes(spec.model, _ranges(spec.model) | fixed))
        yield spec, remark
        told = faults[-1]


def _of_sizes_that_run(spec: ModelSpec, sizes: Sizes) -> tuple[ModelSpec, Mapping[str, str]]:
    """`spec` with the ranges of sizes that the model takes, and what to say of them."""
    found = sizes(spec) if spec.model.symbols else None
    if found is None or not found.sizes:
        return spec, {}
    spec = replace(spec, model=with_equal_sizes(spec.model, found.equal))
    ranges = {each.name: (each.least, each.most) for each in found.sizes if each.name in _ranges(spec.model)}
    remarks = {"shapes": _limited(spec.model, ranges, found.fault)} if ranges != _ranges(spec.model) else {}
    return replace(spec, model=with_sizes(spec.model, ranges)), remarks


def _with_rows(
    spec: ModelSpec,
    inputs: Inputs,
    sizes: Sizes,
    faults: Sequence[ModelError],
) -> Iterator[tuple[ModelSpec, Mapping[str, str]]]:
    """`spec` with a size in place of the batch, as of a signal whose windows run over the first axis."""
    if made := _with_rows_apart(spec, inputs, sizes):
        yield made, {"shapes": _OWN_ROWS}
    if inputs.batched and _ROWS not in _ranges(spec.model):
        model = with_rows_as_sizes(spec.model, inputs.batched, {each.name: _ROWS for each in inputs.batched})
        why = _short(faults[-1].message)
        made, _ = _of_sizes_that_run(replace(spec, model=model), sizes)
        yield made, {"shapes": f"The number of rows is a size of the call, and no batch, because with a batch: {why}"}


def _switches(inputs: Signature) -> Iterator[dict[str, Values]]:
    """Values of scalars that may be switches: of booleans, at first all false."""
    names = [each.name for each in inputs.inputs if each.dtype is DType.BOOL and each.shape in ((), (1,))]
    if not 1 <= len(names) <= _MOST_SWITCHES:
        return
    shapes = {each.name: tuple(size or 1 for size in each.shape) for each in inputs.inputs}
    for value in (False, True):
        yield {name: Values(shape=shapes[name], values=(value,)) for name in names}


def _ranges(model: ModelInfo) -> dict[str, tuple[int, int]]:
    return {symbol.name: (symbol.minimum, symbol.maximum) for symbol in model.symbols}


def with_sizes(model: ModelInfo, ranges: Mapping[str, tuple[int, int]]) -> ModelInfo:
    """`model` with other ranges of its symbols; a symbol with too few sizes becomes the number of the largest one."""
    symbols = tuple(
        Symbol(name=name, minimum=least, maximum=most)
        for name, (least, most) in sorted(ranges.items())
        if most - least >= _LEAST_SIZES - 1
    )
    kept = {symbol.name for symbol in symbols}
    axes = {name: tuple(axis if axis in kept else "" for axis in each) for name, each in model.axes.items()}
    shapes = {
        name: tuple(
            ranges[axis][1] if axis in ranges else size
            for axis, size in zip(model.axes.get(name) or ("",) * len(shape), shape, strict=True)
        )
        for name, shape in model.shapes.items()
    }
    return replace(model, symbols=symbols, shapes=shapes, axes={name: each for name, each in axes.items() if any(each)})


def with_equal_sizes(model: ModelInfo, equal: Iterable[Sequence[str]]) -> ModelInfo:
    """`model` with one symbol in place of those that have one size: the first of each of `equal`.

    A worker names them: names of other symbols than those of the model are left out.
    """
    known = {each.name for each in model.symbols}
    own = ([name for name in names if name in known] for names in equal)
    first = {name: names[0] for names in own for name in names}
    axes = {name: tuple(first.get(axis, axis) for axis in each) for name, each in model.axes.items()}
    symbols = tuple(each for each in model.symbols if first.get(each.name, each.name) == each.name)
    return replace(model, axes=axes, symbols=symbols)


def with_rows_as_sizes(model: ModelInfo, batched: Iterable[Tensor], names: Mapping[str, str]) -> ModelInfo:
    """`model` with symbols for the numbers of rows of its inputs `batched`, named by input."""
    shapes, axes = dict(model.shapes), dict(model.axes)
    for each in batched:
        shape = model.shapes.get(each.name, each.shape)
        named = model.axes.get(each.name) or ("",) * len(shape)
        shapes[each.name], axes[each.name] = (_MOST_ROWS, *shape[1:]), (names[each.name], *named[1:])
    symbols = (*model.symbols, *(Symbol(name=name, minimum=1, maximum=_MOST_ROWS) for name in {*names.values()}))
    return replace(model, shapes=shapes, axes=axes, symbols=tuple(sorted(symbols, key=lambda each: each.name)))


def _limited(model: ModelInfo, ranges: Mapping[str, tuple[int, int]], fault: str) -> str:
    """Why the model's symbols have other ranges than those that were proposed."""
    names = [name for name, each in ranges.items() if each != _ranges(model)[name]]
    return f"The model does not take all sizes of {' and '.join(names)}: {_short(fault)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SAID else f"{line[:_SAID]}..."
