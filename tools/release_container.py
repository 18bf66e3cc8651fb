"""The container image of a release: the folder from which it is built, and a try of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Run = Callable[..., str]

_PROGRAMS = ("podman", "docker", "buildah")


def write_context(folder: Path, wheel: Path) -> None:
    """The files that the image is built from: the wheel, the versions of what it needs, and the Containerfile."""
    folder.mkdir()
    shutil.copy(wheel, folder)
    shutil.copyfile(ROOT / "requirements" / "run.txt", folder / "requirements.txt")
    shutil.copyfile(ROOT / "share" / "container" / "Containerfile", folder / "Containerfile")


def program() -> str | None:
    """The program of this machine that can build images; None if there is none."""
    for name in _PROGRAMS:
        # Of docker, only the client may be here.
        if shutil.which(name) and not subprocess.run([name, "info"], capture_output=True, check=False).returncode:
            return name
    return None


_TRY = """
set -e
test "$(id -u)" = 1000
cd "$(mktemp -d)"
g++ --version >/dev/null
tfaot-pkg sample digits >/dev/null
tfaot-pkg --version
"""


def build_and_try(folder: Path, tag: str, run: Run, name: str) -> str:
    """Build the image `tag` of `folder` with the program `name`, and start the tool in it; what it says."""
    base = os.environ.get("TFAOT_IMAGE_BASE")
    given = ["--build-arg", f"BASE={base}"] if base else []
    run(name, "build", "--file", folder / "Containerfile", "--tag", tag, *given, folder)
    if name != "buildah":
        return run(name, "run", "--rm", "--network", "none", "--entrypoint", "sh", tag, "-c", _TRY)
    container = run(name, "from", tag).strip()
    try:
        return run(name, "run", container, "--", "sh", "-c", _TRY)
    finally:
        run(name, "rm", container)
