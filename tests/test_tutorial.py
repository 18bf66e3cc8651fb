"""docs/tutorial.md, followed word by word: the wheel alone, an empty home, and the outputs that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tfaot_pkg.process import run

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]

_STEP = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_MARK = "--- the next step ---"


def alike(text: str, home: Path) -> str:
    """`text` without what differs from machine to machine: times, the home, and the newest kind of CPU."""
    text = re.sub(r"done in \d+\.\d s", "done in <seconds>", text.replace(str(home), "/home/ada"))
    return re.sub(r"(, )?x86-64-v4( \(native\)|(?=,))|^not verified: x86-64-v4\n", "", text, flags=re.MULTILINE)


def test_the_tutorial_works_as_written_with_the_wheel_alone(
    tmp_path: Path, shared_home_folder: Path, toolchain_python: Path
) -> None:
    steps = _STEP.findall((ROOT / "docs" / "tutorial.md").read_text())
    assert len(steps) == 7 and all(output for _, output in steps)
    home, folder = tmp_path, tmp_path / "tutorial"
    folder.mkdir()
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT)
    # What everybody downloads once; nothing else is there.
    cache = home / ".cache" / "tfaot-pkg"
    cache.mkdir(parents=True)
    (cache / "toolchains").symlink_to(shared_home_folder / "cache" / "toolchains")
    script = "set -euo pipefail\n" + f"echo '{_MARK}'\n".join(commands for commands, _ in steps)
    programs = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}
    environment = {**kept, "HOME": str(home), "PATH": programs, "TF_ENABLE_ONEDNN_OPTS": "0", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, text=True, timeout=800, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    printed = [alike(text, home) for text in done.stdout.split(f"{_MARK}\n")]
    assert printed == [alike(output, home) for _, output in steps]
