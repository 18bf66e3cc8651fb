"""How a night is told in words: the command that builds a task by hand, errors in short, numbers of things."""

from __future__ import annotations

import shlex

from tfaot_pkg.nightly.types import Task


def command_for(task: Task) -> str:
    """One line for a shell that builds `task` here, into a prefix of its own."""
    targets = [word for target in task.targets for word in ("--target", target)]
    defines = [word for name, value in task.defines.items() for word in ("-D", f"{name}={value}")]
    words = [
        "tfaot-pkg",
        "build",
        str(task.spec),
        "--tensorflow",
        task.toolchain,
        *targets,
        *defines,
        "-o",
        f"{task.model}-prefix",
    ]
    return shlex.join(words)


def first_words(error: str) -> str:
    """The first line of an error; where that only announces the next one ("...:"), both."""
    first, _, rest = error.partition("\n")
    announced = rest.partition("\n")[0].strip() if first.endswith(":") else ""
    return f"{first} {announced}".rstrip()


def counted(count: int, what: str) -> str:
    """`1 task`, `2,000 tasks`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
