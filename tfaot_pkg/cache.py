"""The build cache: one folder per stage and key, made once, then never changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.keys import Key
from tfaot_pkg.storage import locked, new_folder, storage_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildCache:
    """`root/STAGE/KEY/`: safe for several processes, because a folder appears whole or not at all."""

    root: Path

    def folder(self, stage: str, key: Key) -> Path:
        return self.root / stage / key[:2] / key

    def has(self, stage: str, key: Key) -> bool:
        return self.folder(stage, key).is_dir()

    def get_or_make(self, stage: str, key: Key, make: Callable[[Path], None]) -> Path:
        """The folder of `key`; `make` fills it where it is missing. Nothing is kept where `make` raises.

        Two processes that ask for the same key at once do the work once: the second waits.
        """
        folder = self.folder(stage, key)
        if folder.is_dir():
            return folder
        with storage_errors(f"write the build cache {self.root}"):
            with locked(folder.with_name(key + ".lock"), what=f"the build of {stage} {key[:12]}", timeout=3600):
                if not folder.is_dir():
                    for left in folder.parent.glob(f".{key}.*.part"):  # of killed runs: we hold the lock
                        shutil.rmtree(left, ignore_errors=True)
                    with new_folder(folder) as temporary:
                        make(temporary)
                        resources.require_unchanged()
        return folder
