"""The build cache: one folder per stage and key, made once and never changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.storage import locked, new_folder, storage_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildCache:
    """`root/STAGE/KEY/`: safe for several processes, because a folder appears whole or not at all."""

    root: Path

    def folder(self, stage: str, key: Key) -> Path:
        # key[:2]: 256 folders, so that none of them gets very large.
        return self.root / stage / key[:2] / key

    def has(self, stage: str, key: Key) -> bool:
        return self.folder(stage, key).is_dir()

    def get_or_make(self, stage: str, key: Key, make: Callable[[Path], None]) -> Path:
        """The folder of `key`; `make` fills it if it is missing. Nothing is kept if `make` raises.

        If two processes need the same key at once, the second waits for the first.
        """
        folder = self.folder(stage, key)
        # Without the lock: folders appear by a rename, so one that is there is complete.
        if folder.is_dir():
            return folder
        with storage_errors(f"write the build cache {self.root}"):
            with locked(folder.with_name(key + ".lock"), what=f"the build of {stage} {key[:12]}", timeout=3600):
                # Another process may have made it while this one waited for the lock.
                if not folder.is_dir():
                    for left in folder.parent.glob(f".{key}.*.part"):  # of killed runs: we hold the lock
                        shutil.rmtree(left, ignore_errors=True)
                    with new_folder(folder) as temporary:
                        make(temporary)
                        # Before the rename: a result of code that changed meanwhile must not be stored (decision 031).
                        resources.require_unchanged()
        return folder
