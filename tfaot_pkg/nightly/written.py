"""How a night is told in words: the command that builds a task by hand, errors in short, numbers of things."""

from __future__ import annotations

import shlex

from tfaot_pkg.nightly.types import GitSpec, Task


def command_for(task: Task) -> str:
    """One line for a shell that builds `task` here, into a prefix of its own.

    A spec of another repository is fetched first, at its commit: it may be missing from this machine's cache, and is
    from that of whoever reads a report elsewhere. What cannot be planned fails as it did there.
    """
    spec, fetch = str(task.spec), ""
    if task.origin is not None:
        folder = f"{task.model}-repository"
        spec, fetch = f"{folder}/{task.origin.path}", f"{_fetch(task.origin, folder)} && "
    toolchain = ["--tensorflow", task.toolchain] if task.toolchain else []
    targets = [word for target in task.targets for word in ("--target", target)]
    defines = [word for name, value in task.defines.items() for word in ("-D", f"{name}={value}")]
    words = [
        "tfaot-pkg",
        "build",
        spec,
        *toolchain,
        *targets,
        *defines,
        "-o",
        f"{task.model}-prefix",
    ]
    return f"{fetch}{shlex.join(words)}"


def _fetch(origin: GitSpec, folder: str) -> str:
    """Commands that put the commit's files into `folder`; they may be repeated. A clone has no commits of forks."""
    commands = (
        ["git", "init", "--quiet", folder],
        ["git", "-C", folder, "fetch", "--quiet", "--depth=1", origin.url, origin.revision],
        ["git", "-C", folder, "checkout", "--quiet", "--force", "FETCH_HEAD"],
    )
    return " && ".join(map(shlex.join, commands))


def first_words(error: str) -> str:
    """The first line of an error; where that only announces the next one ("...:"), both."""
    first, _, rest = error.partition("\n")
    announced = rest.partition("\n")[0].strip() if first.endswith(":") else ""
    return f"{first} {announced}".rstrip()
