"""`nightly prune`: take what is no longer needed out of the nightly's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.nightly.plan import DEFINITION, DefinitionArgument, StateOption
from tfaot_pkg.cli.options import DebugFlag, JsonFlag

if TYPE_CHECKING:
    from tfaot_pkg.nightly.prune import Pruned


def prune(
    definition: DefinitionArgument = DEFINITION,
    *,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, metavar="N", help="How many nights stay. (default: policy.keep_nights)"),
    ] = None,
    state: StateOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Remove all but the last nights, with their logs, their reports and what was built in them.

    The registry, the history and what plans and reports ask for stay. No night may run meanwhile, but for --dry-run.

    Examples: tfaot-pkg nightly prune --keep 30 --dry-run; tfaot-pkg nightly prune registry/registry.yaml
    """
    from tfaot_pkg.nightly import prune as pruning
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import state_folder
    from tfaot_pkg.nightly.state import State
    from tfaot_pkg.registry.folder import FolderRegistry

    session = Session()
    loaded = load_definition(definition)
    count = keep or loaded.policy.keep_nights
    if count is None:
        raise typer.BadParameter(f"say how many nights stay: --keep N, or policy.keep_nights in {definition}")
    registry = FolderRegistry.find(loaded.registry)
    done = pruning.prune(State(root=state_folder(loaded, state)), count, registry, dry_run=dry_run)
    session.result(done.as_dict(), text_of(done))


def text_of(done: Pruned) -> str:
    """What was removed, in one or two lines."""
    from tfaot_pkg.catalogue.site import size_text
    from tfaot_pkg.wording import counted

    what = "would be removed" if done.dry_run else "removed"
    span = f" ({' to '.join(dict.fromkeys((done.nights[0], done.nights[-1])))})" if done.nights else ""
    nights, results = counted(len(done.nights), "night"), counted(len(done.results), "result")
    return f"{what}: {nights}{span} and {results}, {size_text(done.size)}; {counted(len(done.kept), 'night')} kept"
