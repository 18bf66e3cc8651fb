"""Inputs of validation: the user's file or random rows, and classes of inputs drawn from the spec's seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.package.example import small_sizes
from tfaot_pkg.spec.row_files import read_rows
from tfaot_pkg.spec.rules import INPUT_CLASSES
from tfaot_pkg.spec.types import INPUTS_KEY, Validation
from tfaot_pkg.verify.limits import USUAL, Drawing, Ends, below_zero, beyond, sizes_of, whole_numbers
from tfaot_pkg.worker_program.messages.elements import held, largest, numbers_type

MAIN = "main"
"""The user's file, or `validation.samples` random rows."""

BRANCHES = "branches"
"""Inputs that take other sides of branches: found by TensorFlow (worker_program/branches.py), not drawn here."""

THRESHOLDS = "thresholds"
"""Rows at which the answers of decision trees change (worker_program/from_trees/rows.py), not drawn here."""

ARRANGED = "arranged"
"""Rows of the main class again, at other positions, with other neighbours, and repeated (rows.py)."""

SIZES = "sizes"
"""Rows of the main class again, in batches of sizes that are not in the spec (sizes.py)."""

CORPUS = "corpus"
"""Pinned inputs, for which hashes of answers are stored (corpus.py)."""

EXAMPLES = "examples"
"""The rows that a model was exported with, in its file (tfaot_pkg/export), not drawn here."""

ROWS = 8
"""The least rows of each class; the largest batch size if that is more."""

_SCALE = 1000.0
_LARGE = (1e4, 1e6, 1e8)
_HUGE = (1e15, 1e20, 1e30)
"""Their squares overflow: rules of infinity and NaN, and the order of operations, decide the answers."""
_LARGE_HALVES, _HUGE_HALVES = (1e2, 1e3, 1e4), (3e4, 5e4, 6e4)
"""The same for float16, whose largest number is 65504."""
_SUBNORMAL = 1e-2  # of the smallest normal number
_SHARE_OF_SPECIAL = 0.4
_SHARE_OF_SUBNORMAL = 0.1


INTEGERS = "integers"
SUBNORMAL = "subnormal"
NEGATIVE = "integers negative"
"""Indices that are negative, which some frameworks count from the end, and others reject or drop."""


def is_drawn_for(name: str, signature: Signature) -> bool:
    """Whether `signature` has inputs that the class changes."""
    kinds = {tensor.dtype.is_inexact for tensor in signature.inputs if tensor.dtype is not DType.BOOL}
    # `integers` changes integers only; every other class changes floats only.
    return (name != INTEGERS) in kinds


def classes_of(classes: Sequence[str], signature: Signature, drawing: Drawing) -> tuple[str, ...]:
    """Those of `classes` that are drawn for `signature`, and NEGATIVE if it has indices."""
    found = [name for name in classes if name != BRANCHES and is_drawn_for(name, signature)]
    ends = {tensor.name: drawing.ends(tensor, sizes_of(signature)) for tensor in signature.inputs}
    has_indices = any(
        (each := ends[tensor.name]) is not None and each.is_index and tensor.dtype.value.startswith("int")
        for tensor in signature.inputs
    )
    return (*found, *([NEGATIVE] if has_indices and INTEGERS in found else []))


def drawn(name: str, signature: Signature, *, seed: int, rows: int, drawing: Drawing = USUAL) -> dict[str, Array]:
    """One held array (elements.py) per input, batch axis first if there is one. Inputs that the class does not change
    are drawn as usual: floats from the standard normal distribution, integers and booleans from {0, 1}, or from their
    ranges.
    """
    # A stream per class, so that without one class (validation.classes) the others still draw the same numbers.
    generator, sizes = np.random.default_rng([seed, *name.encode()]), sizes_of(signature)
    found = {tensor.name: _draw(generator, name, tensor, rows, sizes, drawing) for tensor in signature.inputs}
    return drawing.with_categories(found, seed)


def _draw(
    generator: np.random.Generator,
    name: str,
    tensor: Tensor,
    rows: int,
    sizes: Mapping[str, int],
    drawing: Drawing,
) -> Array:
    ends = drawing.ends(tensor, sizes)
    if tensor.dtype.is_inexact:
        floats = _floats(generator, name, tensor.carried.shape_at(rows), tensor.dtype)
        if name == SUBNORMAL and drawing.is_long:
            among = generator.random(floats.shape) < _SHARE_OF_SUBNORMAL
            floats = np.where(among, floats, _floats(generator, MAIN, floats.shape, tensor.dtype))
        if drawing.positive:
            floats = np.abs(floats)
        # Floats that become indices must stay in range, in classes of large numbers, too.
        if ends is not None and (not drawing.is_stated(tensor) or _is_usual(name)):
            floats = _between(generator, drawing, tensor, ends, floats)
        return held(floats, tensor.dtype.value)
    shape, dtype = tensor.shape_at(rows), np.dtype(tensor.dtype.value)
    usual = _whole(generator, tensor, ends, shape, drawing.positive)
    if name not in (INTEGERS, NEGATIVE) or tensor.dtype is DType.BOOL:
        return usual
    if name == NEGATIVE:
        return (
            usual
            if ends is None or not ends.is_index or dtype.kind == "u"
            else below_zero(generator, ends, shape).astype(dtype)
        )
    special = generator.choice(_special_integers(dtype), shape)
    # Every second row has small numbers, which are in the range of most tables: TensorFlow rejects none of these.
    small = usual if ends is not None else generator.integers(0, 4, shape).astype(dtype)
    if ends is not None:
        special = np.where(generator.random(shape) < _SHARE_NEAR, beyond(generator, ends, dtype, shape), special)
    if not tensor.has_batch_axis:
        return np.where(generator.random(shape) < _SHARE_OF_SPECIAL, special, small) if ends is not None else small
    row = np.arange(shape[0])
    return np.where((row % 2 == 0).reshape(-1, *[1] * (len(shape) - 1)), small, special)


_SHARE_NEAR = 0.5
"""Share of numbers just out of range among those of the class `integers`."""


def _is_usual(name: str) -> bool:
    """Whether `name` is no class of the spec: floats have their usual numbers."""
    return name not in INPUT_CLASSES or name in (INTEGERS, BRANCHES)


def _whole(
    generator: np.random.Generator, tensor: Tensor, ends: Ends | None, shape: Sequence[int], positive: bool
) -> Array:
    """Usual integers, or booleans."""
    if tensor.dtype is DType.BOOL or (ends is None and not positive):
        return generator.integers(0, _INTEGERS_BELOW, shape).astype(tensor.dtype.value)
    if ends is None:
        return generator.integers(1, 1 + _INTEGERS_BELOW, shape).astype(tensor.dtype.value)
    found = whole_numbers(generator, ends, tensor.dtype, shape)
    if positive:
        found = np.maximum(found, np.minimum(1, ends.whole(tensor.dtype)[1]))
    return found.astype(tensor.dtype.value)


def _between(generator: np.random.Generator, drawing: Drawing, tensor: Tensor, ends: Ends, floats: Array) -> Array:
    """`floats`, those with a range between its ends: integers for indices, uniform numbers for stated ranges."""
    if drawing.is_stated(tensor):
        return generator.uniform(ends.low, ends.high, floats.shape).astype(floats.dtype)
    whole = whole_numbers(generator, ends, tensor.dtype, floats.shape)
    return np.where(ends.given, whole, floats).astype(floats.dtype)


def _special_integers(dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    values = {limits.min, limits.min + 1, -1, 0, 1, 2, 7, 100, limits.max - 1, limits.max}
    return np.array(sorted(value for value in values if limits.min <= value <= limits.max), dtype)


def _floats(generator: np.random.Generator, name: str, shape: Sequence[int], dtype: DType) -> Array:
    """The numbers of an array of `dtype`, not yet rounded."""
    limits, most = np.finfo(numbers_type(dtype.value)), largest(dtype.value)
    normal = generator.standard_normal(shape)
    with np.errstate(all="ignore"):
        match name:
            case "scaled":
                values = _SCALE * normal
            case "large" | "huge":
                # One magnitude per row: in sums of different ones, the largest numbers would hide errors of the others.
                large, huge = (_LARGE_HALVES, _HUGE_HALVES) if dtype is DType.FLOAT16 else (_LARGE, _HUGE)
                size = generator.choice(large if name == "large" else huge, [*shape[:1], *[1] * (len(shape) - 1)])
                values = np.copysign(size * generator.uniform(0.5, 1, shape), normal)
            case "subnormal":
                values = normal * float(limits.smallest_normal) * _SUBNORMAL
            case "boundary":
                least = float(limits.smallest_normal)
                values = generator.choice([0.0, -0.0, 1.0, -1.0, most, -most, least, -least], shape)
            case "nonfinite":
                special = generator.choice([np.nan, np.inf, -np.inf], shape)
                values = np.where(generator.random(shape) < _SHARE_OF_SPECIAL, special, normal)
            case _:
                values = normal
        return np.asarray(values).astype(numbers_type(dtype.value))


_INTEGERS_BELOW = 2
"""Integers without a range are 0 or 1."""

_MOST_DRAWN = 1 << 31
"""The most numbers of one input: 16 GiB while they are drawn."""


def validation_inputs(
    validation: Validation,
    signature: Signature,
    largest_batch: int,
    *,
    sha256: object = None,
    drawing: Drawing = USUAL,
) -> dict[str, Array]:
    """One held array (elements.py) per input, batch axis first if there is one, with at least `largest_batch` rows.

    If `sha256` is given, it is that of the user's file when the build was planned.

    Drawn are floats from the standard normal distribution, integers from {0, 1}, booleans with equal probability; what
    has a range in `drawing`, from that.
    Raises SpecError if the user's file does not fit the signature, SourceError if it has changed since.
    """
    if validation.inputs is not None:
        return read_rows(validation.inputs, signature.inputs, key=INPUTS_KEY, least=largest_batch, sha256=sha256)
    generator = np.random.default_rng(validation.seed)
    rows = max(validation.samples, largest_batch)
    for tensor in signature.inputs:
        if math.prod(tensor.shape_at(rows)) > _MOST_DRAWN:
            raise ModelError(
                f"the input {tensor.name!r} is too large: {counted(rows, 'row')} of it have the shape "
                f"{list(tensor.shape_at(rows))}",
                hint="give its axes smaller sizes: model.shapes in the spec",
            )
    sizes = sizes_of(signature)
    found = {tensor.name: _draw_random(generator, tensor, rows, sizes, drawing) for tensor in signature.inputs}
    return drawing.with_categories(found, validation.seed)


def _draw_random(
    generator: np.random.Generator, tensor: Tensor, rows: int, sizes: Mapping[str, int], drawing: Drawing
) -> Array:
    ends = drawing.ends(tensor, sizes)
    if not tensor.dtype.is_inexact:
        return _whole(generator, tensor, ends, tensor.shape_at(rows), drawing.positive)
    floats = generator.standard_normal(tensor.carried.shape_at(rows))
    floats = np.abs(floats) if drawing.positive else floats
    return held(floats if ends is None else _between(generator, drawing, tensor, ends, floats), tensor.dtype.value)


def sized_inputs(
    signature: Signature, classes: Sequence[str], *, seed: int, rows: int, drawing: Drawing = USUAL
) -> Mapping[str, Mapping[str, Array]]:
    """Random rows at the smallest sizes, at small ones and in the middle, and there also rows of `classes`.

    Small ones and those in the middle differ from one another, as a library may take one symbol for another.
    By name: `n=2` or, for a class, `large n=12`. Empty if there are no symbols.
    """
    if not signature.symbols:
        return {}
    symbols = signature.symbols
    least = {each.name: each.minimum for each in symbols}
    middle = {
        each.name: max((each.minimum + each.maximum) // 2 - place, each.minimum) for place, each in enumerate(symbols)
    }
    found = {
        name_of_sizes(MAIN, sizes): drawn(MAIN, signature.at(sizes), seed=seed, rows=rows, drawing=drawing)
        for sizes in (least, small_sizes(signature), middle)
    }
    for name in classes_of(classes, signature, drawing):
        found[name_of_sizes(name, middle)] = drawn(name, signature.at(middle), seed=seed, rows=rows, drawing=drawing)
    return found


def name_of_sizes(kind: str, sizes: Mapping[str, int]) -> str:
    """The name of a class of inputs `kind` at `sizes` of the symbols."""
    shown = " ".join(f"{name}={size}" for name, size in sizes.items())
    return shown if kind == MAIN else f"{kind} {shown}"
