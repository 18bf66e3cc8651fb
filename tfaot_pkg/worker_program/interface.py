"""The inputs and outputs of a model: checks that a compiled library can have them."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from messages.formulas import Formula
from messages.requests import ModelFault

if TYPE_CHECKING:
    from messages.graph import Axes, Shape, Symbol


ALLOWED = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "float16",
    "bfloat16", "complex64", "complex128",
)  # fmt: skip
_ADVICE = {
    "string": "text cannot be compiled: split it and look it up in the calling program, and pass numbers "
    "(the ids of its words) as int32 or int64",
    "resource": "pass the values themselves as a tensor",
    "variant": "pass the values themselves as a tensor",
}


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_Named)


def require_dtype(kind: str, name: str, dtype: str) -> str:
    """`dtype`, if a compiled library can have inputs and outputs of it; else ModelFault."""
    if dtype not in ALLOWED:
        raise ModelFault(
            f"{kind} {name!r} has dtype {dtype}, which a compiled model cannot have as {kind}",
            _ADVICE.get(dtype, f"supported are {', '.join(ALLOWED)}"),
        )
    return dtype


def input_shape(name: str, shape: Shape | None, override: Shape | None) -> Shape:
    """The shape of an input, in which only the batch axis (the first) may be None.

    `shape` is TensorFlow's (None for unknown rank); `override` is `model.shapes` of the spec, if given.
    """
    if override is not None:
        _require_fits(name, shape, override)
        shape = override
    if shape is None:
        raise ModelFault(f"input {name!r} has an unknown number of axes", f"set model.shapes.{name} in the spec")
    if any(size is None for size in shape[1:]):
        text = ", ".join("null" if size is None else str(size) for size in shape)
        raise ModelFault(
            f"input {name!r} has the shape [{text}]: only the first axis, the batch, may be unknown",
            f"fix the others in the spec, such as `model: {{shapes: {{{name}: [null, 10]}}}}`",
        )
    if any(size == 0 for size in shape if size is not None):
        raise ModelFault(
            f"input {name!r} has an axis of size 0",
            "no call can give it values: let the model make such an array itself",
        )
    return tuple(shape)


def output_shape(
    name: str, batch_sizes: Sequence[int], shapes: tuple[Sequence[int | None], Sequence[int | None]]
) -> Shape:
    """The shape of an output with None for the batch axis, from its `shapes` at two `batch_sizes`."""
    first, second = shapes
    if first == second:  # no axis grows with the batch
        return tuple(first)
    grows = [axis for axis, sizes in enumerate(zip(first, second, strict=False)) if sizes[0] != sizes[1]]
    if len(first) == len(second) and grows == [0] and (first[0], second[0]) == tuple(batch_sizes):
        return (None, *first[1:])
    raise ModelFault(
        f"output {name!r} has the shape {first} at batch size {batch_sizes[0]} "
        f"and {second} at batch size {batch_sizes[1]}: "
        "only the first axis may grow, and it must be the batch",
        "reshape the output so that its first axis is the batch, and its other axes are fixed",
    )


def distinct_sizes(symbols: Iterable[Symbol]) -> dict[str, int]:
    """A size below its maximum for each symbol, different for all of them."""
    # output_axes recognizes a symbol by its size: no two symbols may have the same one, nor one the maximum of another.
    taken, found = {symbol.maximum for symbol in symbols}, {}
    for symbol in symbols:
        size = next((size for size in range(symbol.maximum - 1, symbol.minimum, -1) if size not in taken), None)
        if size is None:
            raise ModelFault(
                f"the range of {symbol.name}, {symbol.minimum} to {symbol.maximum}, has too few sizes to compile for",
                "give the axis a number in model.shapes, or allow more sizes",
            )
        taken.add(size)
        found[symbol.name] = size
    return found


def output_axes(
    name: str,
    most: Sequence[int | None],
    smaller: Sequence[int | None],
    symbols: Collection[Symbol],
    sizes: Mapping[str, int],
    at: Callable[[Mapping[str, int]], Sequence[int | None]],
) -> Axes:
    """The symbol or the formula of each axis of an output; none if no axis has one.

    It has the shape `most` at the maxima, `smaller` at `sizes`, and the shape `at(...)` at any sizes.
    """
    if not symbols or list(most) == list(smaller):
        return ()
    maxima = {symbol.name: symbol.maximum for symbol in symbols}
    axes: list[str | None] = []
    for place, (large, small) in enumerate(zip(most, smaller, strict=False)):
        symbol = next((each for each in maxima if (large, small) == (maxima[each], sizes[each])), None)
        axes.append("" if large == small else symbol or _formula(place, maxima, sizes, at))
    if len(most) != len(smaller) or None in axes:
        raise ModelFault(
            f"output {name!r} has the shape {list(most)} at {maxima}, and {list(smaller)} at {sizes}: "
            "each axis must have a fixed size, or one that is a polynomial in symbols of model.shapes and grows with "
            "them",
            "reshape or pad the output, or give the axes numbers in model.shapes",
        )
    return tuple(axis for axis in axes if axis is not None)


def _formula(
    place: int,
    maxima: Mapping[str, int],
    sizes: Mapping[str, int],
    at: Callable[[Mapping[str, int]], Sequence[int | None]],
) -> str | None:
    """The size of the axis `place` as a polynomial of the second degree; None if it is another one."""

    @cache
    def size(*less: tuple[str, int]) -> int:
        """At the maxima, less what is given for symbols."""
        return at({**maxima, **{symbol: maxima[symbol] - by for symbol, by in less}})[place] or 0

    # With x = symbol - maximum, it is most + a * x + b * x * x + ... + d * x * y: from x = -2 and x = -3.
    most = size()
    terms: list[tuple[tuple[str, ...], int]] = [((), most)]
    for symbol, largest in maxima.items():
        second, third = (size((symbol, by)) - most for by in (2, 3))
        b = (2 * third - 3 * second) // 6
        a = (4 * b - second) // 2
        terms += [((symbol, symbol), b), ((symbol,), a - 2 * b * largest), ((), (b * largest - a) * largest)]
    for one, other in itertools.combinations(maxima, 2):
        d = (size((one, 2), (other, 2)) - size((one, 2)) - size((other, 2)) + most) // 4
        terms += [((one, other), d), ((one,), -d * maxima[other]), ((other,), -d * maxima[one])]
        terms.append(((), d * maxima[one] * maxima[other]))
    formula = Formula.sum(terms)
    points = [{**maxima, symbol: maxima[symbol] - by} for symbol in maxima for by in (2, 3)]
    fits = all(formula.at(point) == at(point)[place] for point in (maxima, sizes, *points))
    return str(formula) if fits and formula.never_falls else None


def in_order(kind: str, tensors: Sequence[Named], names: tuple[str, ...]) -> tuple[Named, ...]:
    """`tensors` in the order of `names`: the spec's `model.inputs` or `model.outputs` (`kind`); unchanged if empty.

    Raises ModelFault if `names` are not the names of all `tensors`.
    """
    if not names:
        return tuple(tensors)
    found = {tensor.name: tensor for tensor in tensors}
    missing = [name for name in found if name not in names]
    faults = [f"there is no {name!r}{nearest(name, missing or found)}" for name in names if name not in found]
    faults += [f"{name!r} is missing" for name in missing]
    if faults:
        raise ModelFault(
            f"model.{kind} must list each of the signature's {kind} once: {', '.join(faults)}",
            f"the {kind} are: {', '.join(found)}",
        )
    return tuple(found[name] for name in names)


def nearest(name: str, candidates: Iterable[str]) -> str:
    """The end of a message about the unknown `name`: the most similar of the `candidates`."""
    # Without a cutoff: with few names, even a distant one may be what was meant.
    found = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.0)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _require_fits(name: str, shape: Shape | None, override: Shape) -> None:
    if shape is None:
        return
    clash = len(shape) != len(override) or any(
        fixed is not None and chosen != fixed for fixed, chosen in zip(shape, override, strict=True)
    )
    if clash:
        raise ModelFault(f"model.shapes.{name} is {list(override)}, but the model's input has the shape {list(shape)}")
