"""Runs a program in a sandbox: start.py REQUEST, as JSON. Prints what it prints, or how it failed, with exit code 1."""

import json
import sys
from pathlib import Path

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.sandbox import Limits, Sandbox


class _InUse(Limits):
    """Limits as a machine of little memory has them by default."""

    __slots__ = ()
    in_use = json.loads(sys.argv[1]).get("in_use", 0)


def main() -> int:
    request = json.loads(sys.argv[1])
    if "in_use" in request:
        request["memory"] = 0
    box = Sandbox(
        readable=tuple(map(Path, request["readable"])),
        writable=tuple(map(Path, request["writable"])),
        limits=(_InUse if "in_use" in request else Limits)(
            timeout=request.get("timeout", 60),
            memory=request.get("memory", 4 << 30),
            disk=request.get("disk", 1 << 30),
            threads=request.get("threads", 2048),
        ),
        starts_programs=request.get("starts_programs", False),
    )
    program, arguments = Path(request["program"]), request["arguments"]
    try:
        if request["kind"] == "native":
            command = box.native([program, *arguments])
        else:
            command = box.python(Path(request.get("python", sys.executable)), program, arguments)
        sys.stdout.write(command.run().stdout)
    except (TfaotError, CommandFailed) as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n{getattr(error, 'hint', '')}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
