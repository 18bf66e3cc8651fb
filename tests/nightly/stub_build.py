"""A stand-in for a build, for tests and benchmarks of everything around builds: it sleeps, then leaves a result.

    python -I -S stub_build.py SECONDS SPREAD REQUEST.json

Durations are log-normal with the median SECONDS and the standard deviation SPREAD of their logarithms, and depend on the
task's key only. Models whose names begin with `broken` fail, those with `breaks` from their second build on, those with `flaky` fail for the machine's reasons at first,
those with `meet4` wait until four such builds run at once, and fail for the machine's reasons after a minute.
All of them fail for the machine's reasons, at once, where LANG is `broken`: on a broken worker.
Standard library only: it must start at once.
"""

import ctypes
import hashlib
import json
import math
import os
import pathlib
import random
import signal
import sys
import time
from typing import Any


def duration(key: str, median: float, spread: float) -> float:
    return median * math.exp(random.Random(key).gauss(0.0, spread))


def line_of(decision: dict[str, Any], content: bytes) -> dict[str, Any]:
    """What the index says of the package."""
    tensor = {"name": "x", "dtype": "float32", "shape": [None, 4]}
    return {
        "v": 1, "name": "tfaot-model-" + decision["task"]["model"].replace("_", "-"), "model": decision["task"]["model"],
        "version": decision["release"], "key": decision["key"], "tree": hashlib.sha256(content).hexdigest(),
        "tool": "0", "toolchain": "tensorflow 2.17.1", "targets": ["x86-64-v3"], "batch_sizes": [1],
        "signature": {"inputs": [tensor], "outputs": [tensor]}, "license": "", "description": "a stub",
        "blobs": {"prefix": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}},
        "dependencies": [], "yanked": False, "published": "",
    }  # fmt: skip


def meets(folder: pathlib.Path, name: str, count: int) -> bool:
    """Whether `count` builds are at work at once within a minute."""
    (folder / f"at-work-{name}").touch()
    end = time.monotonic() + 60
    while len(list(folder.glob("at-work-*"))) < count:
        if time.monotonic() > end:
            (folder / f"at-work-{name}").unlink()
            return False
        time.sleep(0.05)
    return True


def main() -> int:
    median, spread, path = float(sys.argv[1]), float(sys.argv[2]), pathlib.Path(sys.argv[3])
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # as builds do: gone with whoever started it
    if os.environ.get("LANG") == "broken":
        return 70
    request = json.loads(path.read_text())
    decision = request["decision"]
    name, key = decision["task"]["model"], decision["key"]
    seconds = duration(key, median, spread)
    time.sleep(seconds)
    if name.startswith("meet") and not meets(pathlib.Path(request["state"]), name, int(name[4])):
        return 70
    answer = {"error": "", "error_class": "", "cause": ""}
    if name.startswith("broken") or (name.startswith("breaks") and not decision["release"].endswith(".b1")):
        answer |= {"kind": "build failed", "error": "it is broken", "error_class": "broken"}
        (path.parent / "answer.json").write_text(json.dumps(answer))
        return 12
    tried = pathlib.Path(request["state"], f"tried-{name}")
    if name.startswith("flaky") and not tried.exists():
        tried.touch()
        return 70
    folder = pathlib.Path(request["state"], "results", key[:2], key)
    part = folder.with_name(f".{key}.{os.getpid()}.part")
    (part / "blobs").mkdir(parents=True)
    content = key.encode()
    (part / "blobs" / "prefix").write_bytes(content)
    (part / "line").write_text(json.dumps(line_of(decision, content)) + "\n")
    attempt = {"kind": "verified", "night": request["night"], "seconds": seconds}
    (part / "result.json").write_text(json.dumps({"format": 1, "attempt": attempt}))
    os.rename(part, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
