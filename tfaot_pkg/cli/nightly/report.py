"""`nightly report`: the results of a night."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, command
from tfaot_pkg.cli.nightly.plan import DEFINITION, DefinitionArgument, StateOption

if TYPE_CHECKING:
    from tfaot_pkg.ground.progress import Progress
    from tfaot_pkg.nightly.depends import Dependent
    from tfaot_pkg.nightly.notify import Sent
    from tfaot_pkg.nightly.report.report import Report
    from tfaot_pkg.nightly.types import NightlyDefinition


@command()
def report(
    session: Session,
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
    night: Annotated[
        str, typer.Option("--night", metavar="ID", help="The night, such as 2026-11-21.1. (default: the last one)")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder to write. (default: report/ in the night's folder)"
        ),
    ] = None,
    catalogue: Annotated[
        bool, typer.Option("--catalogue", help="Also put it into the registry's catalogue, whose front page links it.")
    ] = False,
    notify: Annotated[
        bool,
        typer.Option(
            "--notify", help="Also tell owners what is new, each thing once: by mail and webhooks (notify in FILE)."
        ),
    ] = False,
) -> Result:
    """Write the report of a night: pages, report.json, junit.xml, and summary.md for CI.

    Exit codes: 0 no failure; 24 models failed; 25 so many that a toolchain published nothing; 26 machines failed;
    27 the night is not over.

    Examples: tfaot-pkg nightly report; tfaot-pkg nightly report registry/registry.yaml --night 2026-11-21.1 -o site
    """
    from tfaot_pkg.errors import NetworkError
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import state_folder
    from tfaot_pkg.nightly.report.report import find_night, read_report
    from tfaot_pkg.nightly.report.write import document, write_report
    from tfaot_pkg.nightly.state import State

    loaded = load_definition(definition)
    kept = State(root=state_folder(loaded, state))
    found = find_night(kept, night)
    if notify and found != find_night(kept):
        raise typer.BadParameter(f"--notify tells news: {night} is not the last night")
    # A function, because dependents are read from the whole index, and only a report with failures lists them.
    made = read_report(kept, found, lambda: _dependents(loaded.registry, session.progress))
    # In the night's folder a report is removed with its night (prune).
    folder = output.absolute() if output is not None else found.folder / "report"
    write_report(made, folder)
    if catalogue:
        _into_catalogue(made, loaded.registry, session.progress)
    told = _notified(made, loaded, kept.root) if notify else ()
    result = {**document(made), "folder": str(folder), **({"told": told} if notify else {})}
    text = "\n".join([_text(made, folder), *map(str, told)])
    code = made.exit_code or (NetworkError.exit_code if any(each.fault for each in told) else 0)
    return Result(document=result, text=text, exit_code=code)


@command()
def diff(
    session: Session,
    before: Annotated[str, typer.Argument(metavar="A", help="A night, such as 2026-11-20.1.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another night.")],
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
) -> Result:
    """Show the tasks whose outcome, release or figures differ between two nights; small differences are noise.

    Example: tfaot-pkg nightly diff 2026-11-20.1 2026-11-21.1
    """
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import state_folder
    from tfaot_pkg.nightly.report.log import plain
    from tfaot_pkg.nightly.report.report import changes_between, find_night, read_report
    from tfaot_pkg.nightly.state import State

    kept = State(root=state_folder(load_definition(definition), state))
    one, other = (read_report(kept, find_night(kept, name)) for name in (before, after))
    found = changes_between(one, other)
    lines = [plain(str(each)) for each in found] or [f"the same outcomes, releases and figures in {before} and {after}"]
    return Result(document={"before": before, "after": after, "changes": list(found)}, text="\n".join(lines))


@command("toolchain_python", "wheelhouse", "unconfined")
def reproduce(
    session: Session,
    night: Annotated[str, typer.Argument(metavar="NIGHT", help="The night, such as 2026-11-21.1.")],
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
    model: Annotated[str, typer.Option("--model", metavar="PATTERN", help="Only models that match it.")] = "*",
) -> Result:
    """Build what a night published again from its provenance, with an empty cache, and compare every byte.

    Model files in folders must be those of the night: `made_with` in its night.json has the commit.
    Exit codes: 0 all reproducible; 18 a file differs; 23 some cannot be built here, with the reasons.

    Example: tfaot-pkg nightly reproduce 2026-11-21.1 registry/registry.yaml --model 'tagger*'
    """
    from tfaot_pkg.errors import RebuildError, RegistryError, TrustError
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import state_folder
    from tfaot_pkg.nightly.record import reproduce as built_again
    from tfaot_pkg.nightly.report.report import find_night
    from tfaot_pkg.nightly.state import State
    from tfaot_pkg.pipeline.rebuild import Means
    from tfaot_pkg.registry.folder import FolderRegistry

    loaded = load_definition(definition)
    found = find_night(State(root=state_folder(loaded, state)), night)
    registry = FolderRegistry.find(loaded.registry)
    if registry is None:
        raise RegistryError(f"there is no registry in {loaded.registry}", hint="nothing was published into it yet")
    means = Means(
        folders=session.folders, progress=session.progress, toolchain_python=session.flags.toolchain_python,
        wheelhouse=session.wheelhouse,
    )  # fmt: skip
    made = list(built_again(found, registry, means, model=model))
    verdicts = {each.verdict for each in made}
    code = (
        TrustError.exit_code if "differs" in verdicts else RebuildError.exit_code if verdicts - {"reproducible"} else 0
    )
    text = "\n".join(map(str, made)) or f"nothing that matches {model} was published in {night}"
    return Result(document={"night": night, "packages": made}, text=text, exit_code=code)


def _notified(made: Report, definition: NightlyDefinition, state: Path) -> tuple[Sent, ...]:
    from tfaot_pkg.errors import SpecError, TfaotError
    from tfaot_pkg.nightly.form import REFERENCE
    from tfaot_pkg.nightly.notify import send
    from tfaot_pkg.nightly.report.notices import notices_of
    from tfaot_pkg.registry.audit import renewals
    from tfaot_pkg.registry.folder import FolderRegistry

    notify = definition.notify
    if not notify.is_wanted:
        raise SpecError(
            f"{definition.path}: --notify needs `notify`, with mail or webhooks", hint=REFERENCE.hint([("notify",)])
        )
    try:
        registry = FolderRegistry.find(definition.registry)
        expiring = renewals(registry, datetime.now(timezone.utc)) if registry is not None else []
    except TfaotError as error:  # a damaged registry is news of its own, and must not keep others back
        expiring = [error.message]
    return send(made, notices_of(made, definition.owners, expiring), notify, state)


def _dependents(root: Path, progress: Progress) -> Sequence[Dependent]:
    """The packages of the registry that depend on others. A damaged registry must not prevent the report."""
    from tfaot_pkg.errors import TfaotError
    from tfaot_pkg.nightly.depends import published_dependents
    from tfaot_pkg.registry.folder import FolderRegistry

    try:
        registry = FolderRegistry.find(root)
        return tuple(published_dependents(registry)) if registry is not None else ()
    except TfaotError as error:
        progress.note(f"dependents are listed for this night's models only: {error.message}")
        return ()


def _into_catalogue(made: Report, root: Path, progress: Progress) -> None:
    from tfaot_pkg.catalogue.render import FOLDER, HOME, NIGHTLY, update_front
    from tfaot_pkg.nightly.report.write import write_report
    from tfaot_pkg.registry.folder import FolderRegistry

    catalogue = root / FOLDER
    registry = FolderRegistry.find(root)
    if registry is None or not (catalogue / HOME).exists():
        progress.note(f"there is no catalogue in {root}: the report was not added to it")
        return
    write_report(made, catalogue / NIGHTLY)
    update_front(registry, catalogue)


def _text(made: Report, folder: Path) -> str:
    from tfaot_pkg.nightly.report.log import plain
    from tfaot_pkg.nightly.report.wording import change_text

    failed = [f"  {one.outcome.task}: {one.outcome.kind}, {change_text(one.change)}" for one in made.failed]
    lines = [f"{made.night}: {made.headline}", *failed, *map(str, made.groups)]
    return "\n".join([*map(plain, lines), f"{folder}/index.html"])
