"""Planning from end to end: reads definition, specs, model files, registry and state; the decisions are plan.py's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tfaot_pkg.errors import RegistryError, StorageError, TrustError
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.forms.document import MAX_BYTES, Document, read_document
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.emulator import runs_or_is_emulated
from tfaot_pkg.nightly import reasons
from tfaot_pkg.nightly.definition import line_of
from tfaot_pkg.nightly.inputs import Inputs, PlanCache, cache_file
from tfaot_pkg.nightly.models import Model, load_models, touched_since
from tfaot_pkg.nightly.outcome import first_words
from tfaot_pkg.nightly.plan import (
    Candidate,
    Published,
    Selection,
    candidates,
    decide,
    explained,
    targets_place,
    unreadable,
)
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.state import State, read_records
from tfaot_pkg.nightly.types import Decision, NightlyDefinition, NightPlan, Policy, Reason
from tfaot_pkg.provenance.statement import read_statement
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import PROVENANCE, VALIDATION, package_document


def state_folder(definition: NightlyDefinition, given: Path | None = None) -> Path:
    """The state folder: `given`, else beside the registry, never in it, where servers would publish it."""
    return given.absolute() if given is not None else definition.registry.with_name("nightly-state")


def plan_night(
    definition: NightlyDefinition,
    *,
    state: Path,
    folders: Folders,
    progress: Progress,
    model: str = "*",
    toolchains: tuple[str, ...] = (),
    changed_since: str | None = None,
    retry: bool = False,
) -> NightPlan:
    """The decisions with their reasons. `model` is a pattern for names; `changed_since` a git revision.

    With `retry`, what failed before is built although its inputs are the same.

    An error of one model becomes a decision about it. Raises SpecError (specs that contradict each other), SourceError
    (not a repository, no such revision), RegistryError, TrustError, StorageError.
    """
    touched = touched_since(definition, changed_since) if changed_since is not None else lambda _: True
    selection = Selection(
        model=model,
        toolchains=toolchains,
        touched=touched,
        is_whole=(model, toolchains, changed_since) == ("*", (), None),
    )
    file = cache_file(folders, state)
    known = PlanCache.read(file)
    models = load_models(definition, known.spec, folders=folders, progress=progress)
    registry = FolderRegistry.find(definition.registry)
    # None before the first night, whose publisher makes the registry.
    entries = registry.entries if registry is not None else lambda _: ()
    inputs = Inputs(folders=folders, progress=progress, digest=known.digest)
    found = candidates(definition, models, selection, entries)
    decisions = [
        decide(
            one,
            lambda release, one=one: inputs.plan(one.model.spec, one.task, release),  # type: ignore[misc]
            Published(
                unverified=lambda entry: _unverified(registry, entry, known),
                source=lambda entry: _source(registry, entry),
            ),
            definition.policy.changed_source,
        )
        for one in found
    ]
    # A plan of a part leaves the entries of all other models unused: only a whole plan shows which are obsolete.
    known.write(file, whole=selection.is_whole)
    faulty = [
        each for one in models.unreadable if selection.takes(one) for each in unreadable(one, definition, selection)
    ]
    made = _explained(definition, found, decisions, State(root=state))
    if not retry:
        results = State(root=state).results
        made = tuple(_unless_failed_before(one, results, definition.policy) for one in made)
    return NightPlan(definition=definition, decisions=(*faulty, *made))


def _unless_failed_before(decision: Decision, results: Results, policy: Policy) -> Decision:
    """`decision`, or that an earlier night failed to build the same inputs."""
    attempt = results.remembered(decision.key, policy) if decision.action == "build" else None
    if attempt is None:
        return decision
    why = attempt.error_class or first_words(attempt.error)
    reason = Reason(what=attempt.kind, detail=f"{why} ({attempt.night}); the inputs are the same: --retry builds them")
    return replace(decision, action="failed before", reasons=(reason,))


def _explained(
    definition: NightlyDefinition, found: tuple[Candidate, ...], decisions: list[Decision], state: State
) -> tuple[Decision, ...]:
    """The decisions with their reasons; past nights are read only if something is to be built."""
    building = [one for one, decision in zip(found, decisions, strict=True) if decision.action == "build"]
    if not building:
        return tuple(decisions)
    published = {one.published.key: one.published.published for one in building if one.published is not None}
    records = read_records(state, published, {one.task.id for one in building})
    where = _Where(definition)
    return tuple(
        explained(decision, one, records, where.of(one.model)) for one, decision in zip(found, decisions, strict=True)
    )


class _Where:
    """The lines of fields; a spec is read for them only when one is needed."""

    def __init__(self, definition: NightlyDefinition) -> None:
        self._definition = definition
        self._document = cache(_document)

    def of(self, model: Model) -> reasons.Where:
        return lambda path: self._place(model, path)

    def _place(self, model: Model, path: str) -> str:
        elsewhere = targets_place(self._definition, model.entry, model.number)
        if path == "compilation.targets" and elsewhere:
            return f"{self._definition.path.name}:{line_of(self._definition, elsewhere)}"
        document, field = self._document(model.spec.path), tuple(path.split("."))
        name = model.spec.path.name
        if field[0] == "source" and ("source",) not in document.lines:  # the spec's folder, or one above
            field = ("model", model.spec.model.files.format)
        return f"{name}:{document.lines[field]}" if field in document.lines else name


def _document(path: Path) -> Document:
    with path.open("rb") as file:
        return read_document(file.read(MAX_BYTES), path.name)


def _source(registry: FolderRegistry | None, entry: RegistryEntry) -> str | None:
    """The digest of the model's files from which `entry` was built, from its provenance."""
    if registry is None:
        return None
    try:
        return read_statement(package_document(registry, entry, PROVENANCE), str(entry)).source
    except (RegistryError, TrustError, StorageError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Validation:
    """The part of a validation report that decides: targets that ran nowhere."""

    not_run: tuple[str, ...]


def _unverified(registry: FolderRegistry | None, entry: RegistryEntry, known: PlanCache) -> tuple[Reason, ...]:
    """The reason to build `entry` again if targets of it ran nowhere, and this machine can run them."""
    blob = entry.blobs.get(VALIDATION)
    if blob is None or registry is None:
        return (reasons.unverified(()),)

    def read() -> tuple[str, ...]:
        with registry.open_blob(blob) as file:
            return convert(_Validation, read_json(file.read())).not_run

    try:
        # A report that cannot be read proves nothing, so the package counts as unverified.
        not_run = known.validation(blob.sha256, read)
    except (RegistryError, TrustError, StorageError, ValueError):
        return (reasons.unverified(()),)
    here = tuple(name for name in not_run if name in TARGETS and runs_or_is_emulated(TARGETS[name]))
    return (reasons.unverified(here),) if here else ()
