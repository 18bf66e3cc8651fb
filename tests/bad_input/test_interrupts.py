"""Ctrl-C at any time: it ends at once, leaves nothing running and nothing half-made, and the next run succeeds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine, Ended, left_in_cache, running, tree, warm_up, write_spec

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

SOON = 30.0  # seconds; 0.2 is usual, but a busy machine starts and ends processes slowly


def interrupt(
    tfaot: CommandLine, *arguments: str | Path, at: str, after: float, number: int = signal.SIGINT, group: bool = False
) -> Ended:
    """Run a command and send it a signal, `after` seconds after it has said that the stage `at` begins.

    With `group` all of its process group gets the signal, as from a terminal.
    """
    process = subprocess.Popen(
        tfaot.argv(*arguments),
        env=tfaot.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith(at):
            break
    time.sleep(after)
    (os.killpg if group else os.kill)(process.pid, number)
    start = time.monotonic()
    stdout, rest = process.communicate(timeout=60)
    assert time.monotonic() - start < SOON
    return Ended(code=process.returncode, stdout=stdout, stderr="".join(lines) + rest)


def wait_until_it_listens(process: subprocess.Popen[str]) -> None:
    """Until the command has put its own signal handlers in place (Python by itself catches no SIGTERM), or has ended.

    Before that Ctrl-C is the interpreter's, which says so with a traceback.
    """
    status = Path("/proc", str(process.pid), "status")
    while process.poll() is None:
        caught = int(status.read_text().partition("SigCgt:")[2].split()[0], 16)
        if caught & 1 << (signal.SIGTERM - 1):
            return
        time.sleep(0.005)


def require_nothing_left(tfaot: CommandLine, registry: Path) -> None:
    assert running(tfaot.scratch) == []
    assert left_in_cache(tfaot.home) == []
    assert list(tfaot.scratch.iterdir()) == []
    assert [name for name in tree(registry) if name.endswith(".part")] == []


# Seconds into the stage: while a process of another program works in it.
STAGES = {"freeze": 0.5, "compile": 0.5, "link": 2.0, "validate": 0.1, "package": 0.0, "publish": 0.0, "conan": 1.5}


@pytest.mark.release
def test_ctrl_c_in_every_stage(
    *,
    dense_registry: Path,
    shared_home_folder: Path,
    tmp_path: Path,
    scratch: Path,
    models: Mapping[str, Path],
) -> None:
    home, registry = tmp_path / "home", tmp_path / "registry"
    warm_up(home, shared_home_folder, parts=False)  # so that linking compiles XLA's parts, for many seconds
    tfaot = CommandLine(home=home, scratch=scratch)
    # A flag makes compiling need a worker of its own; XLA's own products take long to compile.
    flags = {"xla_flags": ["--xla_cpu_enable_fast_math=false"], "kernels": "none"}
    spec = write_spec(tmp_path / "spec.yaml", models["dense"], compilation=flags)
    for turn, (stage, after) in enumerate(STAGES.items()):
        if stage == "validate":
            warm_up(home, shared_home_folder)
        ended = interrupt(tfaot, "publish", spec, "--registry", registry, at=stage, after=after, group=turn % 2 == 0)
        assert ended.code == 130, (stage, ended)
        assert ended.stderr.endswith("\ninterrupted: no partial result was kept\n")
        assert "Traceback" not in ended.stderr
        require_nothing_left(tfaot, registry)
        if stage == "link":
            parts = (home / "cache" / "builds" / "part").rglob("part.o")
            assert not list(parts), "the compiler went on to its end"
        index = [name for name in tree(registry) if "tfaot-model-dense" in name]
        assert bool(index) == (stage == "conan") or stage == "publish", (stage, index)
    published = tfaot.works("publish", spec, "--registry", registry)
    assert published["conan"]["reference"] == "tfaot-model-dense/1.0.0"
    require_nothing_left(tfaot, registry)
    assert tfaot.works("publish", spec, "--registry", registry)["status"] == "already published"


@pytest.mark.sweep(night=["15"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_an_error_in_json_too_and_sigterm_has_its_own_code(
    own: CommandLine, tmp_path: Path, models: Mapping[str, Path], number: signal.Signals
) -> None:
    spec = write_spec(tmp_path / "spec.yaml", models["heavy"])
    ended = interrupt(own, "build", spec, "-o", tmp_path / "prefix", "--json", at="compile", after=0.3, number=number)
    error = json.loads(ended.stdout)["error"]
    assert (ended.code, error["kind"], error["exit_code"]) == (128 + number, "interrupted", 128 + number)
    ended.require_tidy()
    require_nothing_left(own, tmp_path / "registry")
    assert not (tmp_path / "prefix").exists()


def test_impatience_does_not_break_the_cleaning(own: CommandLine, tmp_path: Path, models: Mapping[str, Path]) -> None:
    spec = write_spec(tmp_path / "spec.yaml", models["heavy"])
    process = subprocess.Popen(
        own.argv("build", spec, "-o", tmp_path / "prefix"), env=own.variables, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while not process.stderr.readline().startswith("freeze"):
        pass
    time.sleep(0.5)
    hammer = threading.Event()

    def strike() -> None:
        while not hammer.is_set():
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)

    striker = threading.Thread(target=strike)
    striker.start()
    _, rest = process.communicate(timeout=60)
    hammer.set()
    striker.join()
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in rest
    require_nothing_left(own, tmp_path / "registry")


def test_an_interrupted_installation_is_completed_by_the_next(
    bare: CommandLine, dense_registry: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "prefix"
    bare.works("install", "dense", "--registry", dense_registry, "--prefix", prefix)
    whole = tree(prefix)
    shutil.rmtree(prefix)
    for delay in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
        process = subprocess.Popen(
            bare.argv("install", "dense", "--registry", dense_registry, "--prefix", prefix),
            env=bare.variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until_it_listens(process)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode in (0, 130), said
        assert "Traceback" not in said
    bare.works("install", "dense", "--registry", dense_registry, "--prefix", prefix)
    assert tree(prefix) == whole
