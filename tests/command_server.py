"""Runs `tfaot-pkg` in processes that start with its modules loaded: tests/commands.py starts this program and asks it.

Python takes half a second of CPU to load the command line, and tests run it a thousand times. Here a process loads it
once and forks for each command. It has a single thread, so a fork copies no lock that another thread holds.

A request is one message: JSON with `argv`, `cwd` and `env`, the two files for the output, and a socket for the answer,
which is the command's process id, then its exit code (negative: the signal that ended it).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

_LONGEST = 1 << 20  # bytes of a request: an environment
# The command line, and what its commands load when they run.
_LOADED = [
    "tfaot_pkg.measure.bench.run",
    "tfaot_pkg.catalogue.site",
    "tfaot_pkg.pipeline.check",
    "tfaot_pkg.cli.app",
    "tfaot_pkg.registry.dependencies.install",
    "tfaot_pkg.nightly.planning",
    "tfaot_pkg.package.prefix.install",
    "tfaot_pkg.pipeline.publish",
    "tfaot_pkg.pipeline.rebuild",
    "tfaot_pkg.registry.audit",
    "tfaot_pkg.registry.named",
    "pydantic.type_adapter",
    "typer.rich_utils",
    "rich.markup",
    "rich.panel",
    "rich.table",
]


def serve(requests: socket.socket) -> list[str] | None:
    """Answer requests until the other end closes; in the process of a command its arguments, otherwise None."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, _LONGEST, 3)
        if not message:
            return None
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _supervise(json.loads(message), *files)
        for file in files:
            os.close(file)


def _supervise(request: dict[str, Any], output: int, errors: int, answer: int) -> list[str]:
    """Fork the command, wait for it and say how it ended; returns in the command's process only."""
    command = os.fork()
    if command:
        os.write(answer, f"{command}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
        with suppress(BrokenPipeError):  # who asked may wait no longer
            os.write(answer, f"{code}\n".encode())
        os._exit(0)
    for file, number in ((output, 1), (errors, 2)):
        os.dup2(file, number)
    for file in (output, errors, answer):
        os.close(file)
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    return [*request["argv"]]


def main() -> None:
    sys.path.pop(0)  # the folder of the tests
    import tfaot_pkg.cli.app
    import tfaot_pkg.pipeline.pipeline
    import tfaot_pkg.registry.folder  # noqa: F401 (what most commands load later)
    from tfaot_pkg.__main__ import main as command
    from tfaot_pkg.ground.code import modules_of
    from tfaot_pkg.ground.rendering import _environment, template_names
    from tfaot_pkg.pipeline.package_key import STAGES

    for name in _LOADED:
        importlib.import_module(name)
    # What each build would find out again: which modules a stage has, and the code of templates.
    for module in STAGES.values():
        modules_of(module)
    for name in (*template_names("package"), *template_names("recipe")):
        _environment().get_template(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would copy locks that a thread holds"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the supervisors
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        arguments = serve(requests)
    if arguments is not None:
        sys.argv = ["tfaot-pkg", *arguments]
        command()


if __name__ == "__main__":
    main()
