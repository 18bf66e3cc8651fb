"""`nightly worker`: build what nights offer in a store, on a machine that shares nothing else with them."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, command

if TYPE_CHECKING:
    from tfaot_pkg.nightly.farm.identity import Identity

ResultsOption = Annotated[
    str, typer.Option("--results", metavar="URL", help="The store of a farm: s3://BUCKET/PREFIX, or a folder.")
]


def _seconds(text: str) -> float:
    """The value of a time such as `4 h`, as in registry.yaml."""
    from tfaot_pkg.nightly.form import SECONDS, duration_fault, quantity

    if fault := duration_fault(text):
        raise typer.BadParameter(fault)
    return quantity(text, SECONDS)


@command("wheelhouse", "unconfined")
def worker(
    session: Session,
    *,
    results: ResultsOption,
    walltime: Annotated[
        str,
        typer.Option(
            "--walltime", metavar="TIME", help="How long the worker may run: it begins no build that may not fit."
        ),
    ] = "",
    idle: Annotated[
        str, typer.Option("--idle", metavar="TIME", help="How long it waits for a build before it ends.")
    ] = "10 min",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The first part of its name. (default: the machine's name)")
    ] = "",
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE", help="Its private key, made if it is missing. (default: a new one each time)"
        ),
    ] = None,
    timing: Annotated[
        bool,
        typer.Option("--timing", help="Build nothing: take turns of old and new libraries, on a machine that is idle."),
    ] = False,
) -> Result:
    """Take builds of `nightly run --results URL`, and put their results there. Makes toolchains on this machine.

    Needs the coordinator's version of tfaot-pkg. S3: credentials, region and endpoint are boto3's own settings.

    Examples: tfaot-pkg nightly worker --results s3://farm/nightly --walltime '4 h';
    tfaot-pkg nightly worker --results s3://farm/nightly --timing --key timing.pem --idle '24 h'
    """
    from tfaot_pkg.frontends.toolchain.environment import ensure
    from tfaot_pkg.nightly.farm.address import store_at
    from tfaot_pkg.nightly.farm.identity import Identity, key_in, new_key
    from tfaot_pkg.nightly.farm.worker import Worker

    identity = Identity.of(name or platform.node(), key_in(key) if key is not None else new_key())
    session.progress.note(f"worker {identity.name} at {results}, public key {identity.public}")
    if timing:
        return _timing(session, results, identity, _seconds(idle))
    made = Worker(
        store=store_at(results),
        identity=identity,
        folders=session.folders,
        idle=_seconds(idle),
        walltime=_seconds(walltime) if walltime else None,
        prepare=lambda version: ensure(
            version, folders=session.folders, progress=session.progress, wheelhouse=session.wheelhouse
        ),
        note=session.progress.note,
    )
    count = made.run()
    return Result(document={"worker": identity.name, "results": count}, text=f"{count} built")


def _timing(session: Session, results: str, identity: Identity, idle: float) -> Result:
    from tfaot_pkg.nightly.compare import turns_here
    from tfaot_pkg.nightly.farm.address import store_at
    from tfaot_pkg.nightly.farm.timing import TimingWorker

    times = turns_here(session.folders, session.progress)
    made = TimingWorker(store=store_at(results), identity=identity, times=times, idle=idle, note=session.progress.note)
    count = made.run()
    return Result(document={"worker": identity.name, "results": count}, text=f"{count} timed")
