"""Files of JSON lines, to which a night appends: a kill leaves at most one incomplete line, at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.storage import storage_errors


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines, by their numbers; none if it is missing.

    The last line counts only with its end: without it, its writer was killed.
    """
    with storage_errors(f"read {path}"):
        data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            value = read_json(line)
        except ValueError as error:
            raise damaged_line(path, number, str(error)) from error
        if not isinstance(value, dict):
            raise damaged_line(path, number, "not an object")
        yield number, value


def damaged_line(path: Path, number: int, why: str) -> StorageError:
    hint = "delete this line: only what it records is lost"
    return StorageError(f"{path}:{number} is damaged: {why}", hint=hint)
