"""Commands that keep a registry up to date: nightly plan, run, report, diff, reproduce, bisect, prune, ci, worker."""

from __future__ import annotations

import typer

from tfaot_pkg.cli.groups import Group
from tfaot_pkg.cli.nightly.bisect import bisect
from tfaot_pkg.cli.nightly.ci import ci
from tfaot_pkg.cli.nightly.plan import plan
from tfaot_pkg.cli.nightly.report import diff, report, reproduce
from tfaot_pkg.cli.nightly.run import prune, run
from tfaot_pkg.cli.nightly.worker import worker

app = typer.Typer(
    cls=Group,
    name="nightly",
    help="Keep a registry up to date: build what has changed, verify, publish, report.",
    no_args_is_help=True,
)


def register(parent: typer.Typer) -> None:
    app.command()(plan)
    app.command()(run)
    app.command()(report)
    app.command()(diff)
    app.command()(reproduce)
    app.command()(bisect)
    app.command()(prune)
    app.command()(ci)
    app.command()(worker)
    parent.add_typer(app, name="nightly")
