"""`nightly plan`: what a night has to do, and why."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, command, said

if TYPE_CHECKING:
    from tfaot_pkg.nightly.cost import Cost
    from tfaot_pkg.nightly.types import Decision, NightPlan

DefinitionArgument = Annotated[Path, typer.Argument(metavar="REGISTRY.yaml", help="The definition of the registry.")]
StateOption = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="The nightly's folder. (default: nightly-state beside the registry)"),
]
ModelOption = Annotated[str, typer.Option("--model", metavar="GLOB", help="Only models whose names match.")]
ToolchainOption = Annotated[
    list[str] | None,
    typer.Option(
        "--toolchain",
        metavar="VERSION",
        help="Only this toolchain, tfaot for models that no TensorFlow reads. Repeatable.",
    ),
]
RetryFlag = Annotated[bool, typer.Option("--retry", help="Also build what failed before with the same inputs.")]
ChangedSinceOption = Annotated[
    str | None,
    typer.Option("--changed-since", metavar="REV", help="Only models that changed in git since this revision."),
]

DEFINITION = Path("registry/registry.yaml")

# Characters that Markdown or HTML would interpret in a cell of a table.
_SPECIAL = re.compile(r"([|<>*`\[\]\\])")
_HEADS = ("task", "what", "why")
_SHOWN = 10
_STYLES = {
    "build": "bold yellow",
    "failed before": "red",
    "refuse": "red",
    "up to date": "green",
    "skip": "dim",
    "fail": "bold red",
}


@command()
def plan(
    session: Session,
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
    retry: RetryFlag = False,
    changed_since: ChangedSinceOption = None,
    model: ModelOption = "*",
    toolchain: ToolchainOption = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table, for a pull request.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Also list what is up to date.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Also tell what the builds took the last time, and which packages need them.")
    ] = False,
) -> Result | None:
    """Tell for each model and toolchain whether it is up to date or has to be built, and why. Builds nothing.

    Examples: tfaot-pkg nightly plan registry/registry.yaml; tfaot-pkg nightly plan --changed-since main --markdown
    """
    from tfaot_pkg.frontends.toolchain.definition import toolchain as known
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import plan_night, state_folder
    from tfaot_pkg.nightly.types import OWN

    for version in toolchain or ():
        if version != OWN:
            known(version)  # raises for a version that is no toolchain, which else would select no task
    loaded = load_definition(definition)
    folder = state_folder(loaded, state)
    made = plan_night(
        loaded,
        state=folder,
        folders=session.folders,
        progress=session.progress,
        model=model,
        toolchains=tuple(toolchain or ()),
        changed_since=changed_since,
        retry=retry,
    )
    shown = [one for one in made.decisions if all_ or one.action != "up to date"]
    found = _cost(made, folder) if cost else None
    if said.json:
        return Result(document=document_of(made, found), text="")
    if markdown:
        return Result(document={}, text=markdown_of(made, shown, found))
    if sys.stdout.isatty():
        _print_table(made, shown, found)
        return None
    return Result(document={}, text=_text(made, shown, found))


def _cost(made: NightPlan, state: Path) -> Cost:
    from tfaot_pkg.nightly.cost import cost_of
    from tfaot_pkg.nightly.depends import published_dependents
    from tfaot_pkg.nightly.history import History
    from tfaot_pkg.registry.folder import FolderRegistry

    root = made.definition.registry
    registry = FolderRegistry.find(root)
    published = published_dependents(registry) if registry is not None else ()
    return cost_of(made.decisions, History(root=state).last(), published)


def document_of(made: NightPlan, cost: Cost | None = None) -> dict[str, object]:
    """The plan as JSON values."""
    from tfaot_pkg.nightly.plan import summary

    return {
        "definition": str(made.definition.path),
        "registry": str(made.definition.registry),
        "counts": dict(summary(made.decisions)),
        "decisions": made.decisions,
        **({"cost": cost} if cost is not None else {}),
    }


def markdown_of(made: NightPlan, shown: Sequence[Decision], cost: Cost | None = None) -> str:
    """A table of the decisions `shown`, under a line that counts all."""
    rows = [[_escaped(cell) for cell in row] for row in _rows(shown, "\n")]
    lines = [f"**Nightly plan**: {_counts(made)}"]
    # Markdown joins lines that have no empty one between them.
    lines += [f"\n{_escaped(line)}" for line in _told(cost)]
    if rows:
        lines += ["", f"| {' | '.join(_HEADS)} |", "| --- | --- | --- |"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def _text(made: NightPlan, shown: Sequence[Decision], cost: Cost | None) -> str:
    rows = list(_rows(shown, "; "))
    width = max((len(row[0]) for row in rows), default=0)
    wide = max([len("up to date"), *(len(row[1]) for row in rows)])
    lines = [f"{row[0]:<{width}}  {row[1]:<{wide}}  {row[2]}".rstrip() for row in rows]
    return "\n".join([*lines, _counts(made), *_told(cost)])


def _print_table(made: NightPlan, shown: Sequence[Decision], cost: Cost | None = None) -> None:
    from rich.console import Console
    from rich.table import Table

    from tfaot_pkg.cli.progress import shown as drawn

    table = Table(*_HEADS, box=None, pad_edge=False)
    for row in _rows(shown, "\n"):
        table.add_row(drawn(row[0]), drawn(row[1], _STYLES[row[1]]), drawn(row[2]))
    console = Console()
    if table.row_count:
        console.print(table)
    for line in (_counts(made), *_told(cost)):
        console.print(drawn(line))


def _rows(decisions: Sequence[Decision], separator: str) -> Iterator[tuple[str, str, str]]:
    for one in decisions:
        yield (
            one.task.id,
            one.action,
            separator.join(line for reason in one.reasons for line in str(reason).splitlines()),
        )


def _counts(made: NightPlan) -> str:
    from tfaot_pkg.nightly.plan import summary

    counts = summary(made.decisions)
    words = {"build": "to build", "refuse": "refused", "skip": "skipped", "fail": "cannot be planned"}
    told = [f"{count:,} {words.get(action, action)}" for action, count in counts.items() if count]
    return ", ".join(told) or "no tasks: no model is selected"


def _told(cost: Cost | None) -> list[str]:
    if cost is None:
        return []
    from tfaot_pkg.ground.wording import size_text
    from tfaot_pkg.nightly.report.wording import duration_text

    time = duration_text(cost.seconds)
    if time:
        lines = [f"cost: {time} of one machine, {size_text(cost.size)} of libraries, as the last time"]
    else:
        lines = ["cost: not known, because nothing was built yet" if cost.builds else "cost: none, nothing is built"]
    if time and cost.guessed:
        lines.append(f"never built, so guessed from the others: {_some(cost.guessed)}")
    if cost.dependents:
        lines.append(f"packages that need them: {_some(cost.dependents)}")
    return lines


def _some(names: Sequence[str]) -> str:
    """The first of `names`; all are in the JSON document."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _escaped(cell: str) -> str:
    return _SPECIAL.sub(r"\\\1", cell).replace("\n", "<br>")
