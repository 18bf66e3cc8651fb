"""Pages, followed as a new user does: an empty home, what the wheel installs, and the outputs that pages show.

A block of `sh` is run; a block of `text` behind it is what it prints. Blocks of `console` are not run: they need a server,
root, PyTorch or something else that a page cannot bring.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import zipfile
from pathlib import Path

import pytest

from tests.commands import completed
from tests.ports import free_port
from tfaot_pkg.ground.process import run

ROOT = Path(__file__).resolve().parent.parent
GUIDES = ROOT / "docs" / "how-to"
pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]

_STEP = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_MARK = "--- the next step ---"
# A page without blocks of `sh` explains Python code that needs TensorFlow: tests of such models compile and run it.
_RUN = sorted(page.name for page in GUIDES.glob("*.md") if _STEP.search(page.read_text()))


def alike(text: str, home: Path) -> str:
    """`text` without what differs from machine to machine: times, the home, and the newest kind of CPU."""
    text = re.sub(r"done in \d+\.\d s", "done in <seconds>", text.replace(str(home), "/home/ada"))
    text = re.sub(r"validate \(\d runs\)", "validate (<number> runs)", text)
    newest = r"(, )?x86-64-v4( \(native\)|(?=,))|^not verified: x86-64-v4\n|; not verified: x86-64-v4(?=\n)"
    return re.sub(newest, "", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel installs: pages need no checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def followed(page: Path, home: Path, folder: Path, environment: dict[str, str]) -> list[str]:
    """What each block of the page prints."""
    # A page that starts a server at 8080: here at any free port, and what is behind waits for it.
    port = str(free_port())
    started = rf"\g<0>until (echo > /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.1; done\n"
    blocks = [
        re.sub(r"^.*--port 8080 .*&\n", started, commands, flags=re.MULTILINE).replace("8080", port)
        for commands, _ in _STEP.findall(page.read_text())
    ]
    script = (
        "exec 2>&1\nset -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n"
        + f"echo '{_MARK}'\n".join(blocks)
    )
    done = completed(
        ["bash", "-c", script], cwd=folder, env={**environment, "HOME": str(home), "LC_ALL": "C.UTF-8"}, timeout=800
    )
    assert done.returncode == 0, done.stdout
    return [alike(text.replace(f":{port}/", ":8080/"), home) for text in done.stdout.split(f"{_MARK}\n")]


def is_shown(shown: str, printed: str) -> bool:
    """Whether the lines of `shown` are in `printed`, in this order; `...` stands for anything."""
    pattern = "".join(rf"(?:.*\n)*?{re.escape(line).replace(re.escape('...'), '.*')}\n" for line in shown.splitlines()
                      if line.strip() != "...")  # fmt: skip
    return re.match(pattern, printed) is not None


@pytest.mark.sweep(
    night=[
        "troubleshooting.md",
        "custom-operations.md",
        "nightly.md",
        "run-a-signed-registry.md",
    ]
)
@pytest.mark.parametrize("name", _RUN)
def test_the_commands_of_a_how_to_page_print_what_it_shows(
    name: str, tmp_path: Path, shared_home_folder: Path, wheel: Path
) -> None:
    home, folder, programs = tmp_path, tmp_path / "project", tmp_path / "bin"
    area = folder / "CMSSW_15_0_0"
    for each in (programs, area):
        each.mkdir(parents=True)
    for program, main in (("tfaot-pkg", "main"), ("cms_tfaot_compile", "cms_tfaot_compile")):
        code = f"from tfaot_pkg.__main__ import {main}; {main}()"
        (programs / program).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n')
        (programs / program).chmod(0o755)
    # Toolchains and builds are cache hits; registries, keys and what is trusted are this page's own.
    (home / ".cache").mkdir()
    (home / ".cache" / "tfaot-pkg").symlink_to(shared_home_folder / "cache")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TFAOT_")}
    environment["TFAOT_ACCEPT_NOISE"] = "1"  # other tests run beside `tune`, which refuses to measure then
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    printed = followed(
        GUIDES / name, home, folder, {**environment, "PATH": path, "PYTHONPATH": str(wheel), "CMSSW_BASE": str(area)}
    )
    shown = [alike(output, home) for _, output in _STEP.findall((GUIDES / name).read_text())]
    wrong = [(want, got) for want, got in zip(shown, printed, strict=True) if not is_shown(want, got)]
    assert not wrong, "\n\n".join(f"the page shows:\n{want}\nbut the commands print:\n{got}" for want, got in wrong)


@pytest.mark.sweep(night=["*"])
def test_the_tutorial_works_as_written_with_the_wheel_alone(
    tmp_path: Path, shared_home_folder: Path, toolchain_python: Path
) -> None:
    page = ROOT / "docs" / "tutorial.md"
    steps = _STEP.findall(page.read_text())
    assert len(steps) == 7 and all(output for _, output in steps)
    home, folder = tmp_path, tmp_path / "tutorial"
    folder.mkdir()
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT)
    # What everybody downloads once; nothing else is there.
    cache = home / ".cache" / "tfaot-pkg"
    cache.mkdir(parents=True)
    (cache / "toolchains").symlink_to(shared_home_folder / "cache" / "toolchains")
    programs = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}
    printed = followed(page, home, folder, {**kept, **quiet, "PATH": programs})
    assert printed == [alike(output, home) for _, output in steps]
