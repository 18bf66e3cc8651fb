"""`nightly run`: build what must be built, verify and publish it; `nightly prune`: remove old nights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import DryRunFlag, Result, Session, command
from tfaot_pkg.cli.nightly.plan import (
    DEFINITION,
    ChangedSinceOption,
    DefinitionArgument,
    ModelOption,
    RetryFlag,
    StateOption,
    ToolchainOption,
)
from tfaot_pkg.ground.wording import counted

if TYPE_CHECKING:
    from tfaot_pkg.frontends.toolchain.fork_servers import ForkServers
    from tfaot_pkg.ground.settings import Folders
    from tfaot_pkg.nightly.compare import Comparer
    from tfaot_pkg.nightly.executors import Executor
    from tfaot_pkg.nightly.prune import Pruned
    from tfaot_pkg.nightly.publisher import Publisher, Remote
    from tfaot_pkg.nightly.run import Coordinator, NightRun
    from tfaot_pkg.nightly.types import Decision, NightlyDefinition, Policy
    from tfaot_pkg.registry.commit import Keys

_WORKER_MEMORY = 1 << 30  # for the Dask worker process itself: the build is a subprocess with its own limit


WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, metavar="N", help="Builds at a time. (default: as many as memory and processors allow)"
    ),
]
NoDaskFlag = Annotated[bool, typer.Option("--no-dask", help="Run the builds on this machine, without a Dask cluster.")]
SchedulerOption = Annotated[
    str, typer.Option("--scheduler", metavar="ADDRESS", help="A running Dask scheduler: tcp://HOST:PORT.")
]
SchedulerFileOption = Annotated[
    Path | None, typer.Option("--scheduler-file", metavar="FILE", help="The file that a Dask scheduler wrote.")
]
ResultsOption = Annotated[
    str,
    typer.Option(
        "--results", metavar="URL", help="Build by the workers of this store: s3://BUCKET/PREFIX, or a folder."
    ),
]
NewFlag = Annotated[
    bool,
    typer.Option(
        "--new", help="Begin a new night although the last one was interrupted; finished builds are not repeated."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    """The options that choose where a night builds, checked."""

    workers: int | None
    no_dask: bool
    scheduler: str
    scheduler_file: Path | None
    results: str

    def __post_init__(self) -> None:
        if sum((self.no_dask, bool(self.scheduler), self.scheduler_file is not None, bool(self.results))) > 1:
            raise typer.BadParameter("give only one of --no-dask, --scheduler, --scheduler-file and --results")


@command("keys", "passphrase_file", "wheelhouse", "unconfined")
def run(
    session: Session,
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
    workers: WorkersOption = None,
    no_dask: NoDaskFlag = False,
    scheduler: SchedulerOption = "",
    scheduler_file: SchedulerFileOption = None,
    results: ResultsOption = "",
    new: NewFlag = False,
    retry: RetryFlag = False,
    accept: Annotated[
        str,
        typer.Option(
            "--accept", metavar="GLOB", help="Publish models that match although they are worse (policy.regression)."
        ),
    ] = "",
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Append what happens to this file or pipe, as JSON lines."),
    ] = None,
    changed_since: ChangedSinceOption = None,
    model: ModelOption = "*",
    toolchain: ToolchainOption = None,
) -> Result:
    """Build, verify and publish what `nightly plan` lists. A night that was interrupted is continued.

    Exit code 0: no failure; 24: models failed; 25: so many that what was built with their toolchain is not published;
    26: machines failed.

    Examples: tfaot-pkg nightly run registry/registry.yaml; tfaot-pkg nightly run --scheduler tcp://farm:8786;
    tfaot-pkg nightly run --results s3://farm/nightly
    """
    from tfaot_pkg.frontends.toolchain.fork_servers import ForkServers
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import plan_night, state_folder
    from tfaot_pkg.nightly.supervise import hide_secrets

    # Options that exclude each other are reported before the keys are unlocked.
    where = _Where(
        workers=workers, no_dask=no_dask, scheduler=scheduler, scheduler_file=scheduler_file, results=results
    )
    loaded = load_definition(definition)
    if loaded.policy.builders.needed > 1 and not results:
        raise typer.BadParameter("policy.builders needs workers with keys of their own: --results URL")
    if loaded.timing and not results:
        raise typer.BadParameter("timing workers are asked in a store: --results URL")
    root = state_folder(loaded, state)
    servers = ForkServers(logs=session.folders.logs)
    publisher = _publisher(loaded, session, session.keys(), servers)
    publisher.require()  # unlocks the keys, so it comes before hide_secrets removes the passphrase
    # Its credentials are in variables, too.
    pull = _pull_executor(loaded, results, session) if results else None
    hide_secrets(os.environ)
    # The whole plan too: a night that was interrupted may have had other tasks than the options of this command select.
    whole = partial(plan_night, loaded, state=root, folders=session.folders, progress=session.progress)
    part = partial(whole, model=model, toolchains=tuple(toolchain or ()), changed_since=changed_since, retry=retry)
    with (
        servers,
        _coordinator(
            loaded,
            root,
            session,
            publisher,
            pull or _executors(loaded.policy, root, session, where),
            accept,
            events,
            results,
        ) as coordinator,
    ):
        done = coordinator.run(lambda: part().decisions, whole=lambda: whole().decisions, new=new)
    # After the night, because both take the lock of the state folder.
    pruned = _prune(loaded, root, session)
    _retire(loaded, publisher, session, lambda: whole().decisions)
    return Result(document=_document(done, pruned), text=_text(done, pruned), exit_code=done.exit_code)


@command()
def sync_conan_remote(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Your name for the remote.")],
    definition: DefinitionArgument = DEFINITION,
    *,
    state: StateOption = None,
    model: ModelOption = "*",
) -> Result:
    """Upload what nights published and a Conan remote lacks, also from before `remotes` named it.

    Only what is up to date is sent: a recipe contains the model's files, which must be those of the package. In a
    registry with channels, only what is in the default channel. No night may run at the same time.

    Example: tfaot-pkg conan-remote sync ours registry/registry.yaml
    """
    from dataclasses import replace

    from tfaot_pkg.errors import NetworkError
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import plan_night, state_folder
    from tfaot_pkg.nightly.state import State
    from tfaot_pkg.registry.commit import Keys

    loaded = replace(load_definition(definition), remotes=(name,))
    night = State(root=state_folder(loaded, state))
    publisher = _publisher(loaded, session, Keys(), None)
    with night.lock():
        plan = plan_night(loaded, state=night.root, folders=session.folders, progress=session.progress, model=model)
        sent, failed = publisher.sync(night.results, plan.decisions)
    lines = [*(f"{task}: uploaded" for task in sent), *(f"{task}: not uploaded: {why}" for task, why in failed.items())]
    document = {"remote": name, "sent": sent, "failed": failed}
    exit_code = NetworkError.exit_code if failed else 0
    return Result(document=document, text="\n".join(lines) or f"{name} lacks nothing", exit_code=exit_code)


def _publisher(definition: NightlyDefinition, session: Session, keys: Keys, servers: ForkServers | None) -> Publisher:
    from tfaot_pkg.nightly.publisher import Publisher
    from tfaot_pkg.nightly.recheck import Recheck

    return Publisher(
        registry=definition.registry,
        keys=keys,
        folders=session.folders,
        remotes=_remotes(definition, session.folders),
        note=session.progress.note,
        recheck=Recheck(folders=session.folders, servers=servers),
    )


@contextmanager
def _coordinator(
    definition: NightlyDefinition,
    root: Path,
    session: Session,
    publisher: Publisher,
    executor: Callable[[int], Executor],
    accept: str,
    events: Path | None,
    results: str,
) -> Iterator[Coordinator]:
    """The coordinator of a night in the state folder `root`; its progress is shown while the block runs.

    Timing workers are asked in the store `results`.
    """
    from tfaot_pkg.cli.nightly.events import events_to
    from tfaot_pkg.cli.nightly.live import make_watch
    from tfaot_pkg.nightly.executors import slots_here
    from tfaot_pkg.nightly.record import record_of
    from tfaot_pkg.nightly.run import Coordinator
    from tfaot_pkg.nightly.state import State

    comparer = _comparer(definition, session, results)
    with make_watch() as shown, events_to(events, shown) as watch:
        yield Coordinator(
            state=State(root=root),
            policy=definition.policy,
            publisher=publisher,
            # Made when the builds are known: a night that builds nothing starts no cluster.
            executor=executor,
            watch=watch,
            cache=session.folders.cache,
            # Each of them validates the package again, as a build does.
            publications=slots_here(definition.policy.memory),
            record=partial(record_of, definition.path),
            comparer=comparer,
            accept=accept,
            # Here and once: builds that begin at the same time would all want to make the same toolchain.
            prepare=lambda versions: _unmade(versions, session),
        )


def _comparer(definition: NightlyDefinition, session: Session, results: str) -> Comparer:
    """Compares with the registry, and takes turns on this machine, or on those that the definition names."""
    from tfaot_pkg.ground.cpu import this_cpu
    from tfaot_pkg.nightly.compare import Comparer, turns_here

    days = definition.policy.retime_days
    if definition.timing:
        from tfaot_pkg.nightly.farm.address import store_at
        from tfaot_pkg.nightly.farm.timing import TimingWorkers

        asked = TimingWorkers(store=store_at(results), keys=definition.timing, wait=definition.policy.worker_wait)
        return Comparer(registry=definition.registry, turns=asked, cpu=None, retime_days=days)
    turns = turns_here(session.folders, session.progress)
    return Comparer(registry=definition.registry, turns=turns, cpu=this_cpu(), retime_days=days)


def _prune(definition: NightlyDefinition, root: Path, session: Session) -> Pruned | None:
    """Prune as the policy says. If that fails, the night's result stays the same."""
    from tfaot_pkg.errors import TfaotError
    from tfaot_pkg.nightly.prune import prune
    from tfaot_pkg.nightly.state import State
    from tfaot_pkg.registry.folder import FolderRegistry

    if definition.policy.keep_nights is None:
        return None
    try:
        return prune(State(root=root), definition.policy.keep_nights, FolderRegistry.find(definition.registry))
    except TfaotError as error:
        session.progress.note(f"no night was removed (policy.keep_nights): {error.message}")
        return None


def _retire(
    definition: NightlyDefinition, publisher: Publisher, session: Session, plan: Callable[[], Sequence[Decision]]
) -> None:
    """Retire old builds as the policy says. If that fails, the night's result stays the same."""
    from tfaot_pkg.errors import TfaotError
    from tfaot_pkg.nightly.retention import rules_of

    policy = definition.policy
    if policy.keep_builds is None and policy.keep_toolchains is None:
        return
    try:
        # The whole plan, because this command may have been about some models only.
        for text in publisher.retire(rules_of(definition, plan())):
            session.progress.note(text)
    except TfaotError as error:
        session.progress.note(f"no build was retired (policy.keep_builds, policy.keep_toolchains): {error.message}")


def _remotes(definition: NightlyDefinition, folders: Folders) -> list[Remote]:
    """The Conan remotes that the definition names. Raises ConanError (not known here, no password)."""
    from tfaot_pkg.pipeline.conan.upload import ConanRemotes, credentials_for

    known = [ConanRemotes.of(folders).get(name) for name in definition.remotes]
    return [(remote, credentials_for(remote, os.environ)) for remote in known]


def _pull_executor(definition: NightlyDefinition, url: str, session: Session) -> Callable[[int], Executor]:
    """By the workers of the store at `url`, which is opened now."""
    from tfaot_pkg.nightly.farm.address import store_at
    from tfaot_pkg.nightly.farm.bundle import bundle_of
    from tfaot_pkg.nightly.farm.executor import PullExecutor

    store = store_at(url)
    return lambda _: PullExecutor(
        store=store,
        bundle=lambda request: bundle_of(request.decision, session.folders),
        policy=definition.policy,
        builders=definition.builders,
        note=session.progress.note,
    )


def _executors(policy: Policy, root: Path, session: Session, where: _Where) -> Callable[[int], Executor]:
    from tfaot_pkg.nightly.executors import LocalExecutor, slots_here

    def make(builds: int) -> Executor:
        # No more than there are builds: each slot of a cluster on this machine is a process to start.
        slots = max(1, min(where.workers or slots_here(policy.memory), builds))
        if where.no_dask:
            return LocalExecutor(slots)
        from tfaot_pkg.errors import TfaotError

        try:
            from tfaot_pkg.nightly.dask_executor import DaskExecutor
        except ModuleNotFoundError as error:
            raise TfaotError(
                f"a Dask cluster needs a module that is not installed: {error.name}",
                hint="pip install 'tfaot-pkg[nightly]', or give --no-dask",
            ) from error
        if where.scheduler or where.scheduler_file is not None:
            return DaskExecutor(
                scratch=root / "dask",
                scheduler=where.scheduler,
                scheduler_file=where.scheduler_file,
                worker_wait=policy.worker_wait,
                note=session.progress.note,
            )
        return DaskExecutor(slots=slots, memory=_WORKER_MEMORY, scratch=root / "dask")

    return make


def _unmade(versions: Sequence[str], session: Session) -> Mapping[str, str]:
    """Make the toolchains of these versions; returns the reasons for those that cannot be made."""
    from tfaot_pkg.errors import TfaotError
    from tfaot_pkg.frontends.toolchain.environment import ensure

    broken = {}
    for version in versions:
        try:
            ensure(version, folders=session.folders, progress=session.progress, wheelhouse=session.wheelhouse)
        except TfaotError as error:
            # One toolchain that cannot be made fails its own tasks only.
            broken[version] = f"the toolchain {version} cannot be made: {error.message}"
    return broken


def _document(done: NightRun, pruned: Pruned | None) -> dict[str, object]:
    return {
        "night": done.night.name,
        "folder": str(done.night.folder),
        "counts": done.counts,
        "withheld": done.gate.withheld,
        "exit_code": done.exit_code,
        "outcomes": done.outcomes,
        "pruned": list(pruned.nights) if pruned is not None else [],
    }


def _text(done: NightRun, pruned: Pruned | None) -> str:
    return "\n".join([*_lines(done), *([_pruned_text(pruned)] if pruned is not None and pruned.size else [])])


def _lines(done: NightRun) -> Iterator[str]:
    from tfaot_pkg.nightly.outcome import first_words

    quiet = ("published", "up to date", "skipped", "withheld")  # the reason for 'withheld' is one line below
    for one in done.outcomes:
        if one.kind not in quiet:
            yield f"{one.task}: {one.kind}: {first_words(one.error)}"
            if one.log:
                yield f"  log: {done.night.folder / one.log}"
            if one.command:
                yield f"  by hand: {one.command}"
    if done.gate.withheld:
        yield f"not published: {done.gate.withheld}"
    counts = ", ".join(f"{count:,} {kind}" for kind, count in done.counts.items()) or "no tasks"
    yield f"night {done.night.name}: {counts}"


@command()
def prune(
    session: Session,
    definition: DefinitionArgument = DEFINITION,
    *,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, metavar="N", help="How many nights to keep. (default: policy.keep_nights)"),
    ] = None,
    state: StateOption = None,
    dry_run: DryRunFlag = False,
) -> Result:
    """Remove all nights except the last ones, with their logs, reports and results.

    The registry, the history, and results that plans and reports need are kept. No night may run at the same time,
    except with --dry-run.

    Examples: tfaot-pkg nightly prune --keep 30 --dry-run; tfaot-pkg nightly prune registry/registry.yaml
    """
    from tfaot_pkg.nightly import prune as pruning
    from tfaot_pkg.nightly.definition import load_definition
    from tfaot_pkg.nightly.planning import state_folder
    from tfaot_pkg.nightly.state import State
    from tfaot_pkg.registry.folder import FolderRegistry

    loaded = load_definition(definition)
    count = keep or loaded.policy.keep_nights
    if count is None:
        raise typer.BadParameter(f"say how many nights to keep: --keep N, or policy.keep_nights in {definition}")
    registry = FolderRegistry.find(loaded.registry)
    done = pruning.prune(State(root=state_folder(loaded, state)), count, registry, dry_run=dry_run)
    return Result(document=done, text=_pruned_text(done))


def _pruned_text(done: Pruned) -> str:
    """What was removed, in one line."""
    from tfaot_pkg.ground.wording import size_text

    what = "would be removed" if done.dry_run else "removed"
    span = f" ({' to '.join(dict.fromkeys((done.nights[0], done.nights[-1])))})" if done.nights else ""
    nights, results = counted(len(done.nights), "night"), counted(len(done.results), "result")
    return f"{what}: {nights}{span} and {results}, {size_text(done.size)}; {counted(len(done.kept), 'night')} kept"
