"""Job scripts of Dask workers on batch systems, as dask-jobqueue writes them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Literal

from tfaot_pkg.errors import SpecError, TfaotError
from tfaot_pkg.nightly.types import Policy

BatchSystem = Literal["htcondor", "slurm"]
_SCHEDULER = re.compile(r"(tcp|tls)://[A-Za-z0-9.:\[\]-]+:[0-9]{1,5}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_./+-]+", re.ASCII)
_NAME = "tfaot-nightly"
_OWN_MEMORY = 2**30
"""Bytes of a worker itself, beside the build that it runs."""

_GIB, _PATIENCE, _BUILDS = 2**30, 300, 8
"""`_PATIENCE`: seconds after which a worker that finds no scheduler ends; `_BUILDS`: how many of the longest builds a
worker's time lasts for."""


def worker_script(system: BatchSystem, scheduler: str, policy: Policy, *, logs: str = "logs") -> str:
    """The script of one worker, which runs one build at a time within the limits of `policy`.

    Submit it as often as builds are to run at a time. `logs` is a folder that has to be there. Raises SpecError (not an
    address of a scheduler, not a plain path), TfaotError where dask-jobqueue is not installed.
    """
    if not _SCHEDULER.fullmatch(scheduler):
        raise SpecError(f"--scheduler: must be an address such as tcp://HOST:8786, got {scheduler!r}")
    for word in (sys.executable, logs):
        if not _WORD.fullmatch(word):
            raise SpecError(f"cannot be written into a job's script: {word!r}")
    try:
        import dask
        from dask_jobqueue import htcondor, slurm
    except ModuleNotFoundError as error:
        raise TfaotError(
            f"a batch system's workers need a module that is not installed: {error.name}",
            hint="pip install 'tfaot-pkg[nightly]'",
        ) from error
    common: dict[str, Any] = {
        "cores": 1,
        "processes": 1,
        "memory": f"{(policy.memory + _OWN_MEMORY) / _GIB:g} GiB",
        "death_timeout": _PATIENCE,
        "python": sys.executable,
        "log_directory": logs,
        "worker_command": "distributed.cli.dask_worker",
    }
    make: Callable[..., Any]
    if system == "htcondor":
        make = htcondor.HTCondorJob
        common["disk"] = f"{(4 * policy.output + _GIB) / _GIB:g} GiB"
        common["name"] = "htcondor--$F(MY.JobId)--"  # HTCondor fills it in, one name per worker
        profile = dask.config.get("jobqueue.htcondor.job-extra-directives", None) or {}
        common["job_extra_directives"] = {"batch_name": _NAME, **profile}
    else:
        make = slurm.SLURMJob
        common |= {"name": '"slurm-$SLURM_JOB_ID"', "job_name": _NAME, "walltime": _walltime(policy)}
    job: Any = make(scheduler, **common)
    script: str = job.job_script()
    return script


def _walltime(policy: Policy) -> str:
    minutes = -(-round(policy.timeout * _BUILDS) // 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:00"
