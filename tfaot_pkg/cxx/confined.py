"""A compiler in a sandbox, because its input may be hostile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.process import Finished
from tfaot_pkg.sandbox import Limits, Sandbox

_VARIABLES = {"LC_ALL": "C", "SOURCE_DATE_EPOCH": "0", "CCACHE_DISABLE": "1"}  # a cache would be outside
_SYSTEM = (Path("/usr"), Path("/bin"))


def confined(compiler: Compiler, *, limits: Limits | None = None) -> Compiler:
    """`compiler` in a sandbox: it reads only our and the system's files, and writes to the folder that it runs in."""
    programs = [found for name in (*compiler.command[:1], *compiler.tools.values()) if (found := shutil.which(name))]
    # Beside its bin/, a compiler's prefix holds its own libraries and headers.
    prefixes = {Path(program).resolve().parents[1] for program in programs}
    own = (resources.templates(), resources.headers(), resources.kernels())
    box = Sandbox(readable=(*_SYSTEM, *sorted(prefixes), *own), limits=limits or Limits.of_user(), starts_programs=True)

    def run(argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], timeout: float, log: Path) -> Finished:
        here = replace(box, writable=(cwd,), limits=replace(box.limits, timeout=min(timeout, box.limits.timeout)))
        return here.native(argv, env={"PATH": env.get("PATH", os.defpath), **_VARIABLES}).run(log=log)

    return replace(compiler, runner=run)
