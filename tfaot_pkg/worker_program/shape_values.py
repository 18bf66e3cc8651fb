"""How the numbers and the shape of a tensor depend on sizes, which are symbols (shape_analysis.py)."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from polynomials import BATCH, Polynomial

if TYPE_CHECKING:
    from fractions import Fraction

    from framework_types import Array


MOST_ELEMENTS = 1024
"""Elements of the largest array whose numbers are followed one by one: shapes, paddings and indices of axes."""
_MOST = {True: 1, False: 2}
"""The highest degrees of sizes in a program: in the batch, and in the other sizes together."""


Shape: TypeAlias = "tuple[Polynomial | None, ...] | None"
"""Sizes, None for unknown ones; None if the rank is unknown."""


@dataclass(frozen=True)
class Choice:
    """A number or a shape that depends on `sizes`, and not as a polynomial, because of the operation of `node`.

    `of_several` is the number for all sizes of at least two, if they have the same one.
    """

    node: str
    operation: str
    sizes: frozenset[str]
    of_several: Polynomial | None = None


@dataclass(frozen=True)
class Data:
    """Numbers that the inputs decide, or that are computed when the model runs."""


@dataclass(frozen=True)
class Computed:
    """Numbers that no input decides, and that are computed when the model runs: what a loop leaves.

    `sizes` are those that they depend on.
    """

    sizes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Spread:
    """Numbers that no input decides, as linear functions of `sizes`, and of their positions if `is_placed`.

    With `is_bent`, they are any function of their positions alone. With `is_inverse`, they are constants divided by a
    polynomial. Constants are one without sizes. Positions are those along axes that depend on sizes. With `counted`,
    they are the numbers from 0 on that are less than the size of this name.
    """

    sizes: frozenset[str] = frozenset()
    is_placed: bool = False
    is_bent: bool = False
    is_inverse: bool = False
    counted: str | None = None


@dataclass(frozen=True, eq=False)
class Known:
    """An array of polynomials, with a Choice for each element that is none."""

    values: Array  # of Polynomial or Choice

    @property
    def sizes(self) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for each in self.values.flat:
            found |= each.sizes if isinstance(each, Choice) else each.names
        return found

    @property
    def choice(self) -> Choice | None:
        """The first element that is no polynomial; None if all are."""
        return next((each for each in self.values.flat if isinstance(each, Choice)), None)

    @property
    def element(self) -> Any:
        """The only element."""
        element: Any = self.values.reshape(())[()]
        return element

    @property
    def numbers(self) -> Array | None:
        """The numbers, if they depend on no size; None otherwise."""
        if any(isinstance(each, Choice) or each.names for each in self.values.flat):
            return None
        found = np.array([each.constant for each in self.values.flat], object).reshape(self.values.shape)
        numbers: Array = np.vectorize(float, [float])(found) if found.size else found.astype(float)
        return numbers


Content: TypeAlias = Data | Computed | Spread | Known | Choice


@dataclass(frozen=True)
class Value:
    """`content` is one of the types above. `shape` has None for unknown sizes, and is None if the rank is unknown.

    `chosen` is a Choice that the shape depends on; None if there is none. With `is_ragged`, unknown sizes depend on
    values. Of a list of arrays, `content` is their number, and `shape` that of each; None before one is set.
    """

    content: Content
    shape: Shape = None
    chosen: Choice | None = None
    is_ragged: bool = False

    @property
    def positions(self) -> frozenset[str]:
        """The sizes of axes along which numbers that no input decides differ."""
        return growing(self.shape) if isinstance(self.content, Spread) and self.content.is_placed else frozenset()

    @property
    def choice(self) -> Choice | None:
        """What its shape or its numbers depend on, other than as polynomials; None if there is nothing."""
        return self.chosen or choice_of(self.content)


DATA, CONSTANT = Data(), Spread()


def choice_of(content: Content) -> Choice | None:
    if isinstance(content, Known):
        return content.choice
    return content if isinstance(content, Choice) else None


def all_known(contents: Collection[Content]) -> list[Known] | None:
    """The contents, if all of them are known; None otherwise."""
    found = [each for each in contents if isinstance(each, Known)]
    return found if len(found) == len(contents) else None


def complete(shape: Shape) -> tuple[Polynomial, ...] | None:
    """The shape, if all of its sizes are known; None otherwise."""
    sizes = tuple(size for size in shape or () if size is not None)
    return None if shape is None or len(sizes) < len(shape) else sizes


def is_folded(content: Content) -> bool:
    """Whether a compiler may compute it before the model runs."""
    return not isinstance(content, Data)


def sizes_of(content: Content) -> frozenset[str]:
    return frozenset() if isinstance(content, Data) else content.sizes


def known(values: Any) -> Known:
    """Of polynomials and numbers."""
    array = np.empty(np.shape(values), object)
    flat = np.asarray(values, object).reshape(-1)
    for place, each in enumerate(flat):
        array.flat[place] = each if isinstance(each, (Polynomial, Choice)) else Polynomial.number(_exact(each))
    return Known(array)


def _exact(number: Any) -> Fraction | int:
    from fractions import Fraction

    return (
        int(number)
        if isinstance(number, (bool, np.bool_))
        else Fraction(number.item() if hasattr(number, "item") else number)
    )


def of_constant(array: Array) -> Known | Spread:
    """The content of a constant."""
    is_small = array.size <= MOST_ELEMENTS and array.dtype.kind in "iubf"
    return known(array) if is_small and np.isfinite(array).all() else CONSTANT


def is_program(polynomial: Polynomial) -> bool:
    """Whether a program computes this polynomial."""
    return all(polynomial.degree(of_batch=of_batch) <= most for of_batch, most in _MOST.items())


def growing(shape: Shape) -> frozenset[str]:
    """The sizes that a shape depends on; the batch if it is unknown."""
    if shape is None:
        return frozenset({BATCH})
    return frozenset().union(*(frozenset({BATCH}) if each is None else each.names for each in shape))


def same_shape(one: Shape, two: Shape) -> bool:
    return one is not None and two is not None and None not in one and one == two


def joined(one: Value, two: Value) -> Value:
    """What holds of a tensor that is either of both."""
    shape = one.shape if same_shape(one.shape, two.shape) else None
    if shape is None and one.shape is not None and two.shape is not None and len(one.shape) == len(two.shape):
        shape = tuple(a if a == b else None for a, b in zip(one.shape, two.shape, strict=True))
    is_ragged = one.is_ragged or two.is_ragged
    return Value(_joined(one.content, two.content), shape, one.chosen or two.chosen, is_ragged)


def _joined(one: Content, two: Content) -> Content:
    found = choice_of(one) or choice_of(two)
    if found is not None:
        return found
    if isinstance(one, Known) and isinstance(two, Known) and same_numbers(one, two):
        return one
    if not is_folded(one) or not is_folded(two):
        return DATA
    return Computed(sizes_of(one) | sizes_of(two))


def same_numbers(one: Known, two: Known) -> bool:
    return one.values.shape == two.values.shape and all(
        a == b for a, b in zip(one.values.flat, two.values.flat, strict=True)
    )


def same(one: Value, two: Value) -> bool:
    if isinstance(one.content, Known) and isinstance(two.content, Known):
        return same_numbers(one.content, two.content) and one.shape == two.shape and one.chosen == two.chosen
    return one == two


def key_of(value: Value) -> tuple[Hashable, ...]:
    """Equal for equal values."""
    content: Hashable = value.content
    if isinstance(content, Known):
        content = (content.values.shape, tuple(content.values.flat))
    return content, value.shape, value.chosen, value.is_ragged
