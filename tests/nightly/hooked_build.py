"""A real build (build_task.py) with hooks by the model's name: `hangs` in its compiler, `hungry` for memory, `flaky` once.

    python hooked_build.py FOLDER REQUEST.json

Each build writes the environment that it was given, and that of the process that started it, into FOLDER.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import tfaot_pkg.pipeline.pipeline
from tfaot_pkg.nightly import build_task

_HUNGRY = "import time; kept = bytearray(b'x') * (1 << 30); time.sleep(600)"
_HANGS = "import time; time.sleep(600)"


def _program(text: str) -> None:
    """As a compiler that the build starts, in a session of its own."""
    subprocess.run([sys.executable, "-c", text], check=True, start_new_session=True)


def main(folder: Path, request: Path) -> int:
    name = json.loads(request.read_text())["decision"]["task"]["model"]
    folder.mkdir(exist_ok=True)
    starter = Path(f"/proc/{os.getppid()}/environ").read_bytes().decode(errors="replace")
    (folder / f"{name}-{os.getpid()}").write_text(f"{json.dumps(dict(os.environ))}\n{starter}")
    if name == "flaky" and len(list(folder.glob("flaky-*"))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if name in ("hangs", "hungry"):
        text = _HANGS if name == "hangs" else _HUNGRY
        vars(tfaot_pkg.pipeline.pipeline).update(freeze=lambda *_, **__: _program(text))
    return build_task.main(request)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
