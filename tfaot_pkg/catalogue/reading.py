"""Documents that publishers wrote: what does not have the expected form is left out, never an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.documents import is_number, read_json
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import RegistryReader

Document = Mapping[str, Any]
DocumentReader = Callable[[RegistryEntry, str], Document | None]

# A publisher chose the sizes of both: neither may make a page slow to render or to load.
_LARGEST_DOCUMENT = 4 << 20
_MEASUREMENTS = 100


def document_reader(reader: RegistryReader) -> DocumentReader:
    """Reads the JSON document of an entry with a role; None if it is missing or cannot be read."""

    def read(entry: RegistryEntry, role: str) -> Document | None:
        blob = entry.blobs.get(role)
        if blob is None or blob.size > _LARGEST_DOCUMENT:
            return None
        try:
            with reader.open_blob(blob) as file:
                # A publisher chose this text: deeply nested JSON exceeds Python's recursion limit.
                document = read_json(file.read())
        except (TfaotError, ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    return read


def listed(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def mapped(value: object) -> Document:
    """`value` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_of(value: object, length: int = 60) -> str:
    """`value` as text of at most `length` characters; "" for None."""
    text = "" if value is None else str(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def measurements_of(document: Document) -> Iterator[tuple[str, int, float]]:
    """(target, batch size, nanoseconds of a call) of a document's measurements; of `bench` the target is ""."""
    for row in map(mapped, listed(document.get("measurements"))[:_MEASUREMENTS]):
        size, time = row.get("batch_size"), row.get("nanoseconds")
        # The bounds exclude what overflows the axis of a plot.
        if is_number(size) and is_number(time) and 1 <= size < 1e15 and 1e-3 < time < 1e15:
            yield text_of(row.get("target"), 40), round(size), float(time)
