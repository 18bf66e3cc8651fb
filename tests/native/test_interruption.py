"""Ctrl-C while runtime parts are compiled."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

_PROGRAM = """
from pathlib import Path
from tfaot_pkg.native.build import together
from tfaot_pkg.ground.process import run

def task() -> Path:
    print("started", flush=True)
    run(["sleep", "60"])
    return Path()

together([task] * 64)
"""


def test_an_interrupt_ends_what_runs_and_does_not_wait_for_what_has_not_begun() -> None:
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.5)  # until all of them wait for their turn
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in errors
