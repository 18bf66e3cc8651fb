"""`nightly bisect`: what makes the difference between two builds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from tfaot_pkg.cli.command import Result, Session, command
from tfaot_pkg.cli.nightly.plan import DEFINITION, DefinitionArgument, StateOption
from tfaot_pkg.ground.wording import unknown_of

_METRICS = ("verdict", "answers", "size", "memory", "error", "speed")


@command()
def bisect(
    session: Session,
    task: Annotated[str, typer.Argument(metavar="TASK", help="A model, or a task such as tagger@1.0.0+tf2.17.1.")],
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A night or a release that was good.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="A night or a release that is not.")],
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="A new folder for what is built.")
    ] = Path("bisect"),
    of: Annotated[
        list[str] | None,
        typer.Option("--of", metavar="|".join(_METRICS), help="Only this difference. Repeatable. (default: all)"),
    ] = None,
    tool: Annotated[
        Path | None,
        typer.Option("--tool", metavar="DIR", help="The other tfaot-pkg: a checkout, or its site-packages folder."),
    ] = None,
    compiler: Annotated[
        str, typer.Option("--compiler", metavar="COMMAND", help="The other build's C++ compiler, as for CXX.")
    ] = "",
) -> Result:
    """Name what makes a build slower, larger, less precise, answer otherwise, or fail.

    Both builds are made again, then with one part of what changed as it was before: source, fields of the spec,
    toolchain, compiler, and with --tool the kernels, headers, templates and code of this tool. Answers are compared
    by bits, speed in turns. Exit codes: 0 all that differs here is explained; 23 it is not, with the reasons.

    Example: tfaot-pkg nightly bisect tagger 2026-11-20.1 2026-11-21.1 registry/registry.yaml -o bisect
    """
    from tfaot_pkg.errors import RebuildError
    from tfaot_pkg.nightly.bisect.bisection import Means, text_of
    from tfaot_pkg.nightly.bisect.bisection import bisect as search
    from tfaot_pkg.nightly.bisect.ends import end_of
    from tfaot_pkg.nightly.bisect.variants import Metric
    from tfaot_pkg.nightly.compare import turns_here
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import state_folder
    from tfaot_pkg.nightly.state import State

    metrics: list[Metric] = [each for each in get_args(Metric) if each in (of or ())]
    if unknown := set(of or ()) - set(metrics):
        raise typer.BadParameter(unknown_of(min(unknown), get_args(Metric)), param_hint="--of")
    kept = State(root=state_folder(load_definition(definition), state))
    ends = [end_of(kept, task, which) for which in (before, after)]
    means = Means(
        folders=session.folders, progress=session.progress, tool=tool, compiler=compiler, metrics=metrics,
        times=turns_here(session.folders, session.progress),
    )  # fmt: skip
    found = search(ends[0], ends[1], output.absolute(), means)
    return Result(document=found, text=text_of(found), exit_code=0 if found.is_explained else RebuildError.exit_code)
