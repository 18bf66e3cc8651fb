"""Folders that are nested deeper than honest ones are."""

from __future__ import annotations

import os
from pathlib import Path


def deepen(folder: Path, levels: int) -> None:
    """Make that many folders below `folder`, each in the one before."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
