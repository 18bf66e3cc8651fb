"""Runs a program in processes of one fork server: fork.py REQUEST, as JSON. Prints what each answers, or how it ended.

The request has the folder of the program, the folder of all boxes, and for each box what it may read and write.
"""

import json
import os
import resource
import sys
from pathlib import Path

from tfaot_pkg.ground.sandbox import ForkServer, Limits, Sandbox, required


def main() -> None:
    request = json.loads(sys.argv[1])
    folder = Path(request["folder"])
    server = ForkServer(
        Path(sys.executable),
        Path(request["program"]),
        "preloaded:preload",
        folder=folder,
        log=folder / "server",
        env={},
    )
    assert server.is_ready(60), (folder / "server").read_text()
    found = []
    for place, each in enumerate(request["boxes"]):
        limits = Limits(timeout=60, memory=4 << 30, disk=each.get("disk", 1 << 30), threads=each.get("threads", 300))
        box = Sandbox(
            readable=tuple(map(Path, each["readable"])), writable=tuple(map(Path, each["writable"])), limits=limits
        )
        # As a build does, long after its server was started.
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (each.get("largest", most), most))
        read_end, write_end = os.pipe()
        with (folder / f"log{place}").open("wb") as log:
            forked = server.fork(box, log=log, answers=write_end)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as answers:
            said = answers.readline() if each.get("ends") else answers.read()
        if each.get("ends"):
            forked.end()
        code = forked.process.wait()
        forked.end()
        printed = (folder / f"log{place}").read_text()[-2000:]
        found.append({"said": said.decode(), "code": code, "fault": forked.fault, "log": printed})
    ended = server.ended
    server.end()
    sys.stdout.write(json.dumps({"level": required().level.value, "found": found, "ended": ended}))


if __name__ == "__main__":
    main()
