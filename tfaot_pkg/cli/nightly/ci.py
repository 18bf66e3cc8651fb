"""`nightly ci`: definitions of jobs that run the nightly."""

from __future__ import annotations

import os
import shutil
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tfaot_pkg.cli.command import Result, Session, command
from tfaot_pkg.cli.nightly.plan import DEFINITION, DefinitionArgument, StateOption

if TYPE_CHECKING:
    from tfaot_pkg.ground.settings import Folders
    from tfaot_pkg.nightly.ci import Job, Remote, System
    from tfaot_pkg.nightly.ci_workers import BatchSystem
    from tfaot_pkg.nightly.types import NightlyDefinition


# An Enum, unlike `System` in nightly/ci.py: Typer makes the choices from it. StrEnum exists since Python 3.11 only.
class JobSystem(str, Enum):
    """What runs the job."""

    GITHUB = "github"
    GITLAB = "gitlab"
    JENKINS = "jenkins"
    SYSTEMD = "systemd"
    CRON = "cron"
    SLURM = "slurm"
    HTCONDOR = "htcondor"
    KUBERNETES = "kubernetes"


@command()
def ci(
    session: Session,
    system: Annotated[JobSystem, typer.Argument(help="What runs the job.", show_choices=True)],
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
    at: Annotated[
        str, typer.Option("--at", metavar="HH:MM", help="The time of day: UTC, or with cron the machine's time.")
    ] = "01:17",
    signed: Annotated[bool, typer.Option("--signed", help="The registry is signed: pass its keys to the job.")] = False,
    user: Annotated[str, typer.Option("--user", help="The user that systemd runs the job as.")] = "tfaot",
    results: Annotated[
        str, typer.Option("--results", metavar="URL", help="Jobs of workers: the store that they share with the night.")
    ] = "",
    workers: Annotated[
        int, typer.Option("--workers", min=1, metavar="N", help="Jobs of workers: how many there are.")
    ] = 10,
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="Kubernetes: a container image with tfaot-pkg.")
    ] = "",
    directive: Annotated[
        list[str] | None,
        typer.Option("--directive", metavar="LINE", help="Slurm, HTCondor: a further line of the job. Repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file to write; with systemd a folder. (default: print)"
        ),
    ] = None,
) -> Result:
    """Write the definition of a job that runs the nightly, or of one that runs many workers of it (`nightly worker`).

    They hold no secrets: those come from the CI's secret store, or from files that the first lines name.

    Examples: tfaot-pkg nightly ci github -o .github/workflows/nightly.yml; tfaot-pkg nightly ci systemd -o units;
    tfaot-pkg nightly ci slurm --results /shared/farm --workers 20 -o worker.sh
    """
    from tfaot_pkg.nightly.ci import render
    from tfaot_pkg.nightly.ci_workers import WorkerJob, render_workers
    from tfaot_pkg.nightly.definition import load_definition

    loaded = load_definition(definition)
    if system in (JobSystem.SLURM, JobSystem.HTCONDOR, JobSystem.KUBERNETES):
        if not results:
            raise typer.BadParameter("give --results: the store that the workers share with `nightly run --results`")
        place = WorkerJob(
            results=results, program=_program(), policy=loaded.policy, workers=workers, image=image,
            directives=tuple(directive or ()),
        )  # fmt: skip
        files = render_workers(cast("BatchSystem", system.value), place)
    else:
        job = _job(session, system, loaded, state, at=at, signed=signed, user=user)
        files = render(cast("System", system.value), job)
    if output is None:
        return Result(document={"files": files}, text="\n".join(files.values()))
    # Only systemd has several files: for it --output is a folder.
    paths = [output / name for name in files] if len(files) > 1 else [output]
    _write(dict(zip(paths, files.values(), strict=True)))
    document = {"files": files, "written": [str(path) for path in paths]}
    return Result(document=document, text="\n".join(map(str, paths)))


def _job(
    session: Session,
    system: JobSystem,
    definition: NightlyDefinition,
    state: Path | None,
    *,
    at: str,
    signed: bool,
    user: str,
) -> Job:
    from tfaot_pkg._version import __version__
    from tfaot_pkg.nightly.ci import IN_REPOSITORY, Job, inside
    from tfaot_pkg.nightly.planning import state_folder

    # CI services check the repository out to a folder of their own, so paths must be relative; other jobs run here.
    here = Path.cwd()
    kept = Path(os.path.abspath(state_folder(definition, state)))
    places = (definition.path, kept, kept.parent / "nightly-report", definition.registry)
    path, state_path, report, registry = (
        inside(one, here) if system.value in IN_REPOSITORY else str(one) for one in places
    )
    return Job(
        definition=path,
        state=state_path,
        report=report,
        registry=registry,
        folder=str(here),
        program=_program(),
        version=__version__,
        at=at,
        user=user,
        signed=signed,
        remotes=tuple(_remote(name, session.folders) for name in definition.remotes),
        notifies=definition.notify.is_wanted,
        notify_secrets=definition.notify.secrets,
    )


def _remote(name: str, folders: Folders) -> Remote:
    """The Conan remote `name`, whose address the job adds on a new machine. Raises ConanError."""
    from tfaot_pkg.nightly.ci import Remote
    from tfaot_pkg.pipeline.conan.upload import ConanRemotes

    known = ConanRemotes.of(folders).get(name)
    return Remote(name=known.name, url=known.url, allow_http=known.allow_http)


def _program() -> str:
    """The absolute path of this program: systemd and cron do not have the user's PATH."""
    beside = Path(sys.executable).with_name("tfaot-pkg")
    return str(beside) if beside.exists() else shutil.which("tfaot-pkg") or "/usr/local/bin/tfaot-pkg"


def _write(files: dict[Path, str]) -> None:
    from tfaot_pkg.ground.storage import storage_errors, write_file

    for path, text in files.items():
        with storage_errors(f"write {path}"):
            write_file(path, text.encode())
