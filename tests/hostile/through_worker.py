"""Do the same as drive.py through a real worker, at the level of confinement that this machine allows.

    python through_worker.py TOOLCHAIN_PYTHON FOLDER SCRATCH LOG NAME...

Prints the level, then a JSON line per model, whose `errors` are what freezing and running it ended with. With the
variable FORKED a fork server forks the worker, and the folders are copies in the server's; with FORKED=build, all that
is done by a process that the server's owner forked, as builds of a night are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment, external
from tfaot_pkg.frontends.toolchain.fork_servers import ForkServers, KeptServers
from tfaot_pkg.frontends.toolchain.worker import Worker, warm, worker
from tfaot_pkg.ground.sandbox import required
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.worker_program.messages.graph import Chosen, Freeze, Frozen
from tfaot_pkg.worker_program.messages.requests import Reference, Referenced


def main() -> None:
    python, folder, scratch, log = map(Path, sys.argv[1:5])
    names = sys.argv[5:]
    environment, forked = external(python), os.environ.get("FORKED")
    with ExitStack() as stack:
        servers: ForkServers | KeptServers | None = None
        if forked == "build":
            folder_of_all = stack.enter_context(temporary_folder(prefix="tfaot-kept-"))
            servers = stack.enter_context(KeptServers(folder_of_all, logs=log.parent))
        elif forked:
            servers = stack.enter_context(ForkServers(logs=log.parent))
        if servers is not None:
            (scratch := servers.folder / "scratch").mkdir()
            # Not shutil: some models are pipes.
            subprocess.run(["cp", "--archive", folder, servers.folder / "models"], check=True)
            folder = servers.folder / "models"
        if isinstance(servers, KeptServers):
            warm(servers, environment)
            assert servers._kept, "nothing will be forked"
            _in_a_forked_process(lambda: _drive(environment, folder, scratch, log, names, servers))
        else:
            _drive(environment, folder, scratch, log, names, servers)
        if isinstance(servers, ForkServers):
            assert len(servers.started) == 1, "it was not forked"


def _in_a_forked_process(run: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run()
            code = 0
        except BaseException:  # noqa: BLE001 (the parent is told by the exit code)
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def _drive(
    environment: ToolchainEnvironment, folder: Path, scratch: Path, log: Path, names: list[str],
    servers: ForkServers | KeptServers | None,
) -> None:  # fmt: skip
    np.savez(scratch / "inputs.npz", x=np.full((1, 4), 7.5, np.float32))
    with worker(environment, log=log, readable=[folder], writable=[scratch], servers=servers) as process:
        print(json.dumps({"level": required().level.value}))
        for name in names:
            print(json.dumps({"model": name, "errors": _driven(process, folder / name, scratch)}), flush=True)


def _driven(process: Worker, folder: Path, scratch: Path) -> list[str]:
    model = Chosen(folder=str(folder), tags=("serve",), signature="serving_default", shapes={}, inputs=(), outputs=())
    running = Reference(
        folder=str(folder),
        tags=("serve",),
        signature="serving_default",
        inputs=str(scratch / "inputs.npz"),
        out=str(scratch / "answers.npz"),
        batch_sizes=(1,),
        batched=("x",),
        stacked=("y",),
    )
    errors = []
    for request, answer in (
        (Freeze(model=model, weights="shared", threshold=1, out=str(scratch)), Frozen),
        (running, Referenced),
    ):
        try:
            process.call(request, answer)
        except TfaotError as error:
            errors.append(f"{type(error).__name__}: {error}")
    return errors


if __name__ == "__main__":
    main()
