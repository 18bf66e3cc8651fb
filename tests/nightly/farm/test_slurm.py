"""Workers as a job array of a real Slurm: a controller and a node of our own, on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.nightly.farm.conftest import Place
from tests.nightly.farm.farms import night, wait_for
from tests.nightly.nights import REPOSITORY, Seen, stub_decision
from tests.ports import free_port
from tfaot_pkg.nightly.ci_workers import WorkerJob, render_workers
from tfaot_pkg.nightly.types import Policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/controller.pid
SlurmdPidFile={root}/node.pid
SlurmctldLogFile={root}/controller.log
SlurmdLogFile={root}/node.log
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory=64000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# More memory than it has, and the processors that it has: jobs are not limited by what else runs here.


class Slurm:
    """A cluster of one node."""

    def __init__(self, configuration: Path) -> None:
        self._environment = {**os.environ, "SLURM_CONF": str(configuration)}

    def run(self, *argv: str, cwd: Path | None = None, **variables: str) -> str:
        done = subprocess.run(
            argv, cwd=cwd, env=self._environment | variables, capture_output=True, text=True, check=True
        )
        return done.stdout


@pytest.fixture
def slurm(require_program: Callable[[str], str], tmp_path: Path) -> Iterator[Slurm]:
    munged, controller, node = (require_program(name) for name in ("munged", "slurmctld", "slurmd"))
    if os.geteuid() != 0:
        pytest.skip("slurmd starts jobs as other users: it needs root")
    # Short: the path of a socket has at most 107 characters.
    root = Path(f"/tmp/tfaot-slurm-{os.getpid()}")
    for folder in ("munge", "state", "spool"):
        (root / folder).mkdir(parents=True)
    (root / "munge").chmod(0o700)
    (root / "munge/key").write_bytes(os.urandom(1024))
    (root / "munge/key").chmod(0o400)
    host = os.uname().nodename.partition(".")[0]
    configuration = root / "slurm.conf"
    text = _CONFIGURATION.format(
        root=root, host=host, controller=free_port(), node=free_port(), processors=os.cpu_count()
    )
    configuration.write_text(text)
    commands = [
        [munged, "--foreground", "--force", *(f"--{name}={root}/munge/{file}" for name, file in (
            ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")))],
        [controller, "-D", "-f", str(configuration)],
        [node, "-D", "-f", str(configuration), "-N", host],
    ]  # fmt: skip
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with (root / "output").open("wb") as output:
            for command in commands:
                processes.append(subprocess.Popen(command, stdout=output, stderr=output))
                if len(processes) == 1:
                    wait_for((root / "munge/socket").exists)
        cluster = Slurm(configuration)

        def is_up() -> bool:
            with suppress(subprocess.CalledProcessError):
                return "idle" in cluster.run("sinfo", "--noheader", "--format=%T")
            time.sleep(0.2)
            return False

        wait_for(is_up)
        yield cluster
        cluster.run("scancel", "--user=root")
        wait_for(lambda: not cluster.run("squeue", "--noheader"))
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
        shutil.rmtree(root)


def test_an_array_of_workers_builds_a_night(slurm: Slurm, tmp_path: Path) -> None:
    """The script as it is generated; tfaot-pkg is the worker of the tests, which builds stubs."""
    program = tmp_path / "tfaot-pkg"
    program.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={REPOSITORY} TFAOT_HOME={tmp_path}/home-$SLURM_ARRAY_TASK_ID\n"
        f'exec {sys.executable} -m tests.nightly.farm.work_by_options "$@"\n'
    )
    program.chmod(0o755)
    place = Place(url=str(tmp_path / "store"))
    (tmp_path / "logs").mkdir()
    policy = Policy(timeout=60, max_failures=0.5)
    job = WorkerJob(results=place.url, program=str(program), policy=policy, workers=2)
    (text,) = render_workers("slurm", job).values()
    (tmp_path / "worker.sh").write_text(text)
    slurm.run("sbatch", "worker.sh", cwd=tmp_path)
    watch = Seen()
    decisions = [stub_decision(f"model{number}") for number in range(8)]
    done = night(tmp_path, place, watch=watch, policy=policy).run(lambda: decisions)
    told = "\n".join(path.read_text() for path in (tmp_path / "logs").iterdir())
    assert done.counts == {"published": 8}, told
    assert {one.worker.rpartition("-")[0].rpartition("-")[0] for one in watch.built_} <= {"slurm-1-1", "slurm-1-2"}, (
        told
    )


def test_a_job_that_slurm_ends_gives_its_build_back(slurm: Slurm, tmp_path: Path) -> None:
    program = tmp_path / "tfaot-pkg"
    program.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={REPOSITORY} TFAOT_HOME={tmp_path}/home-$SLURM_ARRAY_TASK_ID\n"
        f'exec {sys.executable} -m tests.nightly.farm.work_by_options "$@" --sleep 600\n'
    )
    program.chmod(0o755)
    place = Place(url=str(tmp_path / "store"))
    (tmp_path / "logs").mkdir()
    job = WorkerJob(results=place.url, program=str(program), policy=Policy(timeout=700), workers=1)
    (text,) = render_workers("slurm", job).values()
    (tmp_path / "worker.sh").write_text(text)
    slurm.run("sbatch", "worker.sh", cwd=tmp_path)
    log = tmp_path / "logs" / "1_1.log"

    def end() -> None:
        wait_for(lambda: log.exists() and "build of" in log.read_text())
        program.write_text(program.read_text().replace("--sleep 600", "--sleep 0.1"))
        slurm.run("scancel", "1")
        slurm.run("sbatch", "worker.sh", cwd=tmp_path)

    thread = Thread(target=end)
    thread.start()
    done = night(tmp_path, place, policy=Policy(timeout=60), lease=1000).run(lambda: [stub_decision("one")])
    thread.join()
    assert done.counts == {"published": 1} and done.outcomes[0].attempts == 1
    assert "gave back" in log.read_text()
