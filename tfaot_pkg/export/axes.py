"""The axes of inputs, sizes or names of those that vary, and the examples along them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import ExportError

Axes = tuple["int | str", ...]


Limits = Mapping[str, tuple[int, "int | None"]]


_ROWS, _BYTES = 64, 8 << 20  # limits of the inputs that are stored with answers


def limits_of(dynamic: Iterable[str]) -> dict[str, tuple[int, int | None]]:
    found: dict[str, tuple[int, int | None]] = {}
    for text in dynamic:
        match = re.fullmatch(r"(?:(\d+)<=)?([A-Za-z_]\w*)(?:<=(\d+))?", re.sub(r"\s", "", text))
        if not match:
            raise ExportError(f'dynamic {text!r}: write "n<=128" or "4<=n<=128"')
        found[match[2]] = (int(match[1] or 1), int(match[3]) if match[3] else None)
    return found


def axes_of(names: list[str], examples: list[Any], shapes: Mapping[str, str] | None, limits: Limits) -> list[Axes]:
    """For each input the sizes of its axes, names for those that vary."""
    if unknown := [name for name in shapes or () if name not in names]:
        raise ExportError(f"there is no input {unknown[0]!r}; there are: {', '.join(names)}")
    firsts = {len(each) for each in examples if each.ndim}
    batched = shapes is None and len(firsts) == 1 and all(each.ndim for each in examples)
    found: list[Axes] = []
    for name, example in zip(names, examples, strict=True):
        sizes: Axes = tuple(example.shape)
        if shapes is None:
            found.append(("batch", *sizes[1:]) if batched else sizes)
        else:
            found.append(_checked(name, sizes, parsed(name, shapes[name]) if name in shapes else sizes))
    if unused := [name for name in limits if not any(name in axes for axes in found)]:
        raise ExportError(f"no axis of an input is called {unused[0]!r}: name it in the shapes, as in x=batch,n,16")
    return found


def _checked(name: str, sizes: Axes, axes: Axes) -> Axes:
    """`axes`, if an example with `sizes` may have them."""
    if len(axes) != len(sizes) or any(isinstance(a, int) and a != b for a, b in zip(axes, sizes, strict=True)):
        raise ExportError(f"the input {name} has the shape {list(sizes)}, which is not {','.join(map(str, axes))}")
    return axes


def parsed(name: str, text: str) -> Axes:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    for place, word in enumerate(words):
        if match := re.fullmatch(r"(\d+) ?\* ?([A-Za-z_]\w*)", word):
            raise ExportError(
                f"the input {name}: {word!r} is no size of a call: write two axes, {match[2]},{match[1]}, and let "
                f"forward make one of them, {name}.flatten({place}, {place + 1}); callers pass the same numbers"
            )
        if not re.fullmatch(r"\d+|[A-Za-z_]\w*", word):
            raise ExportError(f"the input {name}: {word!r} is neither a size nor a name; write {name}=batch,n,16")
    return tuple(int(word) if word.isdigit() else word for word in words)


def batch_of(axes: list[Axes]) -> str | None:
    """The name of the axis that is the batch: the first one of the first input, if it varies."""
    first = axes[0][0] if axes and axes[0] else None
    return first if isinstance(first, str) else None


def first_rows(examples: list[Any], axes: list[Axes]) -> list[Any]:
    """The first rows of the examples, as many as are stored with answers."""
    batch = batch_of(axes)
    if batch is None:
        return examples
    batched = [each for each, names in zip(examples, axes, strict=True) if names[:1] == (batch,)]
    rows = len(batched[0])
    size = sum(each.nbytes for each in batched) / max(rows, 1)
    # At least one row, however large it is: without answers there is nothing to compare with.
    rows = max(1, min(rows, _ROWS, int(_BYTES / max(size, 1))))
    return [each[:rows] if names[:1] == (batch,) else each for each, names in zip(examples, axes, strict=True)]


def at_least_two(examples: list[Any], axes: list[Axes]) -> list[Any]:
    """Repeat axes of size 1 that vary: torch.export takes a size of 1 for a constant."""
    varies = [
        [isinstance(axis, str) and size == 1 for axis, size in zip(each, example.shape, strict=True)]
        for example, each in zip(examples, axes, strict=True)
    ]
    return [x.repeat([1 + one for one in ones]) if ones else x for x, ones in zip(examples, varies, strict=True)]
