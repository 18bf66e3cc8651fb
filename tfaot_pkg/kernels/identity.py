"""What decides about calls of the kernel library: its sources, and the code that plans the calls."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.keys import files_below, sha256_bytes, sha256_tree

_PLANNING = Path(__file__).resolve().parent


@cache
def kernels_digest() -> str:
    """SHA-256 of both: a part of every key that depends on calls."""
    planning = sha256_tree(_PLANNING, [path for path in files_below(_PLANNING) if path.suffix == ".py"])
    return sha256_bytes(f"{resources.digest(resources.kernels())} {planning}".encode())
