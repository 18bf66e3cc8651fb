"""JSON documents, which are read into and written from frozen dataclasses (decision 037).

`read` returns a dataclass from the document's bytes, or raises one error with the place of the fault
(`$.blobs[...].size: expected int, got str`); `plain` returns the JSON values of a dataclass. A type checks conditions
beyond its fields' types in `__post_init__` and raises ValueError. Unknown names are ignored: a newer version of the
tool may have written them.

Documents are not trusted: a server, a disk or an editor may have changed them. Python's own reader accepts more than
JSON (NaN), and text that cannot be written again: half of a surrogate pair has no form in UTF-8, and would raise an
error far from its document.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
from collections.abc import Mapping, Set
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, TypeGuard, TypeVar

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.keys import canonical_json

_T = TypeVar("_T")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_PLACE = re.compile(r"(.*?)(?: - at (`key` in )?`([^`]*)`)?", re.DOTALL)
_NUMBERS = ("format", "schema")
"""Fields with the number of a document's format; their default is the number that this version reads."""
_known: set[object] = set()
_learning = Lock()


def read(
    kind: type[_T],
    data: bytes | str,
    what: str,
    *,
    error: type[TfaotError],
    hint: str,
    other_format: type[TfaotError] | None = None,
) -> _T:
    """The `kind` in a JSON document. Raises `error`, which names the document as `what`.

    If `other_format` is given, it is raised for a document whose format this version does not know.
    """
    try:
        value = read_json(data)
        # First, because another format may have other fields, and would be reported as damaged.
        _check_number(kind, value)
        return convert(kind, value)
    except _OtherFormat as other:
        raise (other_format or error)(f"{what}: {other}", hint="upgrade tfaot-pkg") from None
    except ValueError as fault:
        raise error(f"{what} is damaged: {fault}", hint=hint) from fault


def convert(kind: type[_T], value: object, place: str = "$") -> _T:
    """The `kind` in JSON values at `place` in a document. Raises ValueError with the fault and its place."""
    import msgspec  # takes 25 ms, which commands without documents save (decision 037)

    # A type is described when msgspec first meets it. That is not safe among threads (0.22): another one would find the
    # description half made, and the process would be killed by SIGSEGV.
    if kind not in _known:
        with _learning:
            msgspec.json.Decoder(kind)
        _known.add(kind)
    try:
        # In JSON all keys are strings, also those of `Mapping[int, float]`.
        return msgspec.convert(value, kind, dec_hook=_from_text, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(_said(str(error), place)) from error


def _from_text(kind: type, value: object) -> object:
    """Convert types that msgspec does not know: paths, which are strings in JSON."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    if isinstance(value, kind):  # any value, for a field of the type object
        return value
    raise ValueError(f"expected {kind.__name__.lower()}, got {type(value).__name__}")


def plain(value: object) -> Any:
    """The JSON values of a dataclass, or of a collection of them: its fields, or the result of its `as_dict`."""
    if value is None or isinstance(value, str | int | float):
        return value
    # Before the other cases, because a type's own form replaces that of its fields.
    if hasattr(value, "as_dict"):
        return plain(value.as_dict())
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Set):
        # Sets have no order of their own, and documents must be the same in every run.
        return sorted(plain(item) for item in value)
    if dataclasses.is_dataclass(value):
        return {name: plain(item) for name, item in fields_of(value).items()}
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be represented in JSON")


def fields_of(value: Any) -> dict[str, object]:
    """The fields of a dataclass by name, for an `as_dict` that adds to them or leaves some out."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def write(value: object) -> bytes:
    """`value` as a canonical JSON document: one line, sorted names."""
    return canonical_json(plain(value)) + b"\n"


def write_indented(value: object) -> bytes:
    """`value` as an indented JSON document, with names in the order of the fields."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def read_json(data: bytes | str) -> Any:
    """The value of a JSON document in UTF-8, which can be written again as JSON and as text.

    Raises ValueError for every fault.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        # Encoding the value again takes time, so it is done only if the text has such an escape.
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    # UnicodeDecodeError, of bytes that are not UTF-8, is a ValueError and says enough.
    except UnicodeEncodeError:
        raise ValueError("its text contains half of a surrogate pair") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error})") from None
    return value


_TIME = "%Y-%m-%dT%H:%M:%SZ"
"""ISO 8601 in UTC, to the second, as in the metadata of TUF (section 4.2 of its specification)."""


def utc(text: str) -> datetime:
    """The time that a document gives as `text`. Raises ValueError."""
    # `fromisoformat` accepts the Z only from Python 3.11 on.
    return datetime.strptime(text, _TIME).replace(tzinfo=timezone.utc)


def iso(when: datetime) -> str:
    """A time as documents give it; `utc` reads it."""
    return when.astimezone(timezone.utc).strftime(_TIME)


def utc_now() -> str:
    """The current time as documents give it."""
    return iso(datetime.now(timezone.utc))


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number that is not negative; a bool is an int for Python."""
    return type(value) in (int, float) and 0 <= value < float("inf")  # type: ignore[operator]


class _OtherFormat(Exception):
    """The document's number is not the one that this version reads."""


def _check_number(kind: type, value: object) -> None:
    """Raise _OtherFormat if this version does not know the document's format, before its content is read."""
    for field in dataclasses.fields(kind) if isinstance(value, dict) else ():
        if field.name in _NUMBERS:
            number = value.get(field.name)  # type: ignore[attr-defined]
            # Not isinstance: True is an int in Python.
            if type(number) is not int:
                raise ValueError(f"it has no {field.name} number")
            if number != field.default:
                raise _OtherFormat(f"{field.name} {number} is unknown; this version reads {field.name} {field.default}")


def _said(message: str, place: str) -> str:
    """A message of msgspec with the place first."""
    # msgspec writes ``Expected `int`, got `str` - at `$.size` ``.
    found = _PLACE.fullmatch(message)
    assert found is not None
    text = found[1].replace("`", "")
    what = "a key: " if found[2] else ""
    return f"{place}{(found[3] or '$')[1:]}: {what}{text[:1].lower()}{text[1:]}"


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value
