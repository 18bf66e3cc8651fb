"""A worker in a process of its own, with a home of its own: `work.py ARGUMENTS.json`.

Arguments: `url`, `label`, `program`, `idle`, `walltime`, `key` (a file), `tool` (a digest in place of its own), `lies` (how its results lie).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.nightly.farm.lies import LIES, UNSEEN
from tfaot_pkg.ground import interruption
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.nightly.farm import worker as working
from tfaot_pkg.nightly.farm.address import store_at
from tfaot_pkg.nightly.farm.identity import Identity, key_in, new_key
from tfaot_pkg.nightly.farm.worker import OtherVersion, Worker


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main(given: dict[str, Any]) -> int:
    interruption.take_signals()
    if given["tool"]:
        vars(working)["tool_digest"] = lambda: given["tool"]
    if given["lies"]:
        {**LIES, **UNSEEN}[given["lies"]](vars(working))
    made = Worker(
        store=store_at(given["url"]),
        identity=Identity.of(given["label"], key_in(Path(given["key"])) if given.get("key") else new_key()),
        folders=Folders.of_user(),
        idle=given["idle"],
        prepare=lambda _: None,
        walltime=given["walltime"],
        program=tuple(given["program"]),
        note=say,
        poll=0.1,
    )
    say(f"name {made.identity.name}")
    try:
        say(f"results {made.run()}")
    except OtherVersion as error:
        say(error.message)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
