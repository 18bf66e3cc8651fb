"""The archive that hls4ml's `serialize_model` writes (.fml): JSON and .npy files in a tar file, compressed by gzip.

It is not trusted: it is read as data, by the names that a network has, and nothing is unpacked.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from messages.requests import ModelFault, one_line

if TYPE_CHECKING:
    from framework_types import Array


MODEL, CONFIG, STATE, VERSION = "model_arch.json", "config.json", "graph_state.json", "version.json"
_MOST_BYTES = 1 << 30
"""Of all members together."""
_MOST_MEMBERS = 100_000
ARRAY = "@ndarray:"
"""Before the name of an array, in place of it."""
_AGAIN = "write it again with hls4ml.utils.serialization.serialize_model"


@dataclass(frozen=True, slots=True)
class Archive:
    """The members of a file, by their names."""

    members: dict[str, bytes]

    def document(self, name: str) -> dict[str, Any]:
        """Raises ModelFault."""
        try:
            found = json.loads(self.members[name])
        except KeyError:
            raise _fault(f"it has no {name}") from None
        except (ValueError, RecursionError) as error:
            raise _fault(f"{name}: {one_line(error)}") from error
        if not isinstance(found, dict):
            raise _fault(f"{name} is no object")
        return found

    def array(self, reference: object) -> Array:
        """The array to which a value of a document refers. Raises ModelFault."""
        if not isinstance(reference, str) or not reference.startswith(ARRAY):
            raise _fault(f"weights that are no array: {str(reference)[:60]}")
        name = reference.removeprefix(ARRAY)
        if name not in self.members:
            raise _fault(f"it has no {name}")
        try:
            found = np.load(io.BytesIO(self.members[name]), allow_pickle=False)
        except Exception as error:  # NumPy reads headers with Python's parser, which raises many kinds of errors
            raise _fault(f"{name}: {error}") from error
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf":
            raise _fault(f"{name} has no numbers")
        return found


def _fault(why: str) -> ModelFault:
    return ModelFault("the file of hls4ml cannot be read: " + " ".join(why.split())[:300], _AGAIN)


def opened(path: str) -> Archive:
    """Raises ModelFault for anything else than such an archive."""
    try:
        with gzip.open(path) as file:
            content = file.read(_MOST_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise _fault(f"it is cut off, or not compressed: {error}") from error
    if len(content) > _MOST_BYTES:
        raise _fault("it has more than 1 GiB")
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                # The module tarfile would go back for a negative size, and fill gaps with any number of zeros.
                if member.size < 0 or member.sparse is not None:
                    raise _fault(f"its member {member.name!r:.80} claims {member.size} bytes, or has gaps")
                # Names are keys of a dictionary, and never paths.
                name = member.name.rsplit("/", 1)[-1]
                found = archive.extractfile(member) if member.isreg() else None
                if found is not None and name:
                    members[name] = found.read()
                if len(members) > _MOST_MEMBERS:
                    raise _fault("it has too many members")
    except (tarfile.TarError, ArithmeticError, LookupError, TypeError, ValueError, OSError, RecursionError) as error:
        # The module tarfile lets through what Python makes of the numbers in headers.
        raise _fault(f"{type(error).__name__}: {one_line(error)}") from error
    return Archive(members)


def written(archive: Archive, path: str) -> None:
    """Write the members as hls4ml reads them: flat, and regular files."""
    with tarfile.open(path, "w:gz", compresslevel=1) as out:
        for name, content in archive.members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
