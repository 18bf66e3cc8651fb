"""Programs that were built with a sanitizer."""

from __future__ import annotations

from pathlib import Path

from tfaot_pkg.ground.process import CommandFailed, Finished, run

CATCH_ERRORS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
CATCH_RACES = ("-fsanitize=thread",)


def run_sanitized(argv: list[str | Path], timeout: float = 300) -> Finished:
    """Run a program; where ThreadSanitizer cannot start in this kernel's address space layout, run it without one."""
    try:
        return run(argv, timeout=timeout)
    except CommandFailed as error:
        if "unexpected memory mapping" not in error.output:
            raise
        return run(["setarch", "-R", *argv], timeout=timeout)
