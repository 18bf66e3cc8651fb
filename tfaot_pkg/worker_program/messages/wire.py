"""Frozen dataclasses as JSON, and back: one line per message between the host and a program in another environment.

A value is encoded field by field. `decoded` rejects unknown and missing fields and values of another type, because the
process that wrote them may be under the control of a hostile model. Standard library only: both sides import it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
_SCALARS = {bool: "true or false", int: "an integer", float: "a number", str: "a text", type(None): "null"}


def encoded(message: object) -> str:
    """`message`, a dataclass whose values are JSON's, tuples and dataclasses, as one line of JSON."""
    return json.dumps(message, default=_fields)


def _fields(value: Any) -> dict[str, Any]:
    if not dataclasses.is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no part of a message")
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def plain(message: object) -> Any:
    """`message` as JSON values: dataclasses become dicts, tuples lists."""
    return json.loads(encoded(message))


def decoded(kind: type[T], value: object, path: str) -> T:
    """JSON values as a message of type `kind`; `path` names them in errors. Raises ValueError."""
    try:
        made: T = built(kind, value, path)
    except RecursionError:  # nested too deeply: `built` follows the nesting
        raise ValueError(f"{path}: nested too deeply") from None
    return made


def built(kind: Any, value: Any, path: str) -> Any:
    """`value`, JSON values, as `kind`: a dataclass, a scalar, a tuple, a mapping with strings as keys, or a union."""
    if kind is object or kind is Any:
        return value
    if kind in _SCALARS:
        return _scalar(kind, value, path)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, path)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple(arguments, value, path)
    if origin is Mapping:
        _require(isinstance(value, dict), "an object", value, path)
        return {key: built(arguments[1], each, f"{path}.{key}") for key, each in value.items()}
    if origin is typing.Literal:
        _require(isinstance(value, str) and value in arguments, f"one of {', '.join(arguments)}", value, path)
        return value
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, value, path)
    raise TypeError(f"{path}: {kind} is no type of a message")


def _require(fits: bool, wanted: str, value: Any, path: str) -> None:
    if not fits:
        raise ValueError(f"{path}: must be {wanted}, got {str(value)[:80]!r}")


def _scalar(kind: type, value: Any, path: str) -> Any:
    # bool is a subclass of int, but true is no number of JSON; 1 is allowed for 1.0.
    fits = type(value) is kind or (kind is float and type(value) is int)
    _require(fits, _SCALARS[kind], value, path)
    return value


def _tuple(kinds: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    _require(isinstance(value, list), "a list", value, path)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        # Literals of a graph have up to 2 ** 18 numbers: those of one plain type take no call each.
        if kinds[0] in _SCALARS and all(type(each) is kinds[0] for each in value):
            return tuple(value)
        return tuple(built(kinds[0], each, f"{path}[{index}]") for index, each in enumerate(value))
    _require(len(value) == len(kinds), f"a list of {len(kinds)}", value, path)
    return tuple(
        built(kind, each, f"{path}[{index}]") for index, (kind, each) in enumerate(zip(kinds, value, strict=True))
    )


@functools.cache
def _types_of(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _dataclass(kind: Any, value: Any, path: str) -> Any:
    _require(isinstance(value, dict), "an object", value, path)
    wanted = _types_of(kind)
    if unknown := sorted(value.keys() - wanted.keys()):
        raise ValueError(f"{path}: unknown field {unknown[0][:80]!r}")
    if missing := [name for name in wanted if name not in value]:
        raise ValueError(f"{path}: missing field {missing[0]!r}")
    made = {name: built(each, value[name], f"{path}.{name}") for name, each in wanted.items()}
    try:
        return kind(**made)
    except ValueError as error:  # what `__post_init__` rejects
        raise ValueError(f"{path}: {error}") from None


def _union(kinds: tuple[Any, ...], value: Any, path: str) -> Any:
    """The first type that has the shape of `value`: a dataclass is known by the names of its fields."""
    for kind in kinds:
        if dataclasses.is_dataclass(kind) and not (isinstance(value, dict) and value.keys() == _types_of(kind).keys()):  # type: ignore[arg-type]
            continue
        if kind in _SCALARS and not (type(value) is kind or (kind is float and type(value) is int)):
            continue
        if typing.get_origin(kind) is tuple:
            try:
                return built(kind, value, path)
            except ValueError:  # a list of another kind
                continue
        return built(kind, value, path)
    raise ValueError(f"{path}: of no known form: {str(value)[:80]!r}")
