"""A publisher in a process of its own: `publisher.py REGISTRY FOLDER...`, each folder with `line` and `prefix`.

Prints a JSON line per package; a failure ends it with the error's exit code. TEST_FSIZE limits the size of files,
TEST_KEYS names the folder of the keys of a signed registry.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.registry.commit import open_keys
from tfaot_pkg.registry.entry import parse_index
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.trust.keys import secrets_from


def main() -> int:
    if limit := int(os.environ.get("TEST_FSIZE", "0")):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        keys = [Path(folder) for folder in os.environ.get("TEST_KEYS", "").split(":") if folder]
        registry = FolderRegistry.create(Path(sys.argv[1]), keys=open_keys(keys, secrets_from()))
        for folder in map(Path, sys.argv[2:]):
            line = (folder / "line").read_bytes()
            (one,) = parse_index(line, str(folder), json.loads(line)["name"])
            assert one.entry is not None
            done = registry.publish(one.entry, {role: folder / role for role in one.entry.blobs})
            print(json.dumps({"status": plain(done)["status"], "entry": str(done.entry)}), flush=True)  # noqa: T201
    except TfaotError as error:
        print(json.dumps(plain(error)), flush=True)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
