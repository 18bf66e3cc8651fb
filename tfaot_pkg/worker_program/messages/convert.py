"""What `convert` asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """Write the signature of the SavedModel in `folder` to the file `out`.

    As text of MLIR's TensorFlow dialect, or as a GraphDef.
    """

    folder: str
    tags: tuple[str, ...]
    signature: str
    form: Literal["mlir", "graph"]
    out: str
