"""Numbers and lists of them in a spec: values that a model's inputs are given for good."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from tfaot_pkg.forms.document import scalar
from tfaot_pkg.forms.form import problem
from tfaot_pkg.spec.expand import Expanded
from tfaot_pkg.wording import described
from tfaot_pkg.worker_program.messages.conversions import Values

_MOST = 4096
_WANTED = "must be true, false, a number, or a list of these"


def _validated(value: object) -> object:
    """`value` as it is, if it is an array; expressions become the numbers that they mean."""
    if isinstance(value, Values):
        return value
    shape, found = _flat(value)
    if len(found) > _MOST:
        raise problem(f"must have at most {_MOST} numbers, got {len(found)}")
    kinds = {type(each) for each in found}
    if bool in kinds and len(kinds) > 1:
        raise problem("must not mix true and false with numbers")
    if kinds in ({bool}, {int}):
        return Values(shape=shape, values=tuple(found))
    return Values(shape=shape, values=tuple(float(each) for each in found))


def _flat(value: object) -> tuple[tuple[int, ...], list[Any]]:
    """Shape and elements of nested lists."""
    value = scalar(str(value)) if isinstance(value, Expanded) else value
    if isinstance(value, list):
        parts = [_flat(each) for each in value]
        if len({shape for shape, _ in parts}) > 1:
            raise problem("must have lists of the same length at each depth")
        inner = parts[0][0] if parts else ()
        return (len(value), *inner), [each for _, found in parts for each in found]
    if not isinstance(value, bool | int | float):
        raise problem(f"{_WANTED}, got {described(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise problem("must be a finite number")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise problem("must be a number of at most 64 bits")
    return (), [value]


def _as_it_is(value: object) -> Any:
    return value


Constants = Annotated[
    dict[str, Annotated[Values, PlainValidator(_validated), PlainSerializer(_as_it_is)]],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["boolean", "number", "array", "string"]}}),
]
