"""How a task is built by hand."""

from __future__ import annotations

import shlex

from tfaot_pkg.nightly.types import Task


def command_for(task: Task) -> str:
    """One line for a shell that builds `task` here, into a prefix of its own."""
    targets = [word for target in task.targets for word in ("--target", target)]
    words = [
        "tfaot-pkg",
        "build",
        str(task.spec),
        "--tensorflow",
        task.toolchain,
        *targets,
        "-o",
        f"{task.model}-prefix",
    ]
    return shlex.join(words)
