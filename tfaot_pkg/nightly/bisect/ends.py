"""The two builds of a bisection: what each was made of, as its night recorded it, and the parts that differ.

The model's files, rows and specs of an earlier night are those of the commit that its record names. What a night
recorded are digests, so whatever is found is compared with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import SpecError, StorageError, TfaotError
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.nightly.history import NIGHT
from tfaot_pkg.nightly.models import at_release
from tfaot_pkg.nightly.reasons import changes
from tfaot_pkg.nightly.report.report import find_night
from tfaot_pkg.nightly.state import NightFolder, Record, State, built_in, inputs_of
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.pipeline.package_key import (
    CODE,
    COMPILER,
    FLAGS,
    HEADERS,
    INPUTS,
    KERNELS,
    SOURCE,
    SPEC,
    TEMPLATES,
    TOOL,
    TOOLCHAIN,
    TUNING,
    WORKER,
    spec_components,
)  # fmt: skip
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.source.checkout import top_of
from tfaot_pkg.spec.source.git import fetch_git
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.validate import inputs_document

ROWS, TEMPLATE, TOOL_CODE = "files of rows", "templates", "the tool's code"
"""Names of parts, beside those of components."""
OF_TOOL = (KERNELS, HEADERS, TEMPLATE, WORKER, TOOL_CODE)

_VERSION, _RELEASE = f"{SPEC}model.version", f"{SPEC}compilation.tensorflow"
_FORMATS = frozenset(f"{SPEC}model.{name}" for name in (SAVED_MODEL, *FILE_FORMATS))


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A build: `decision` of `night`, made of `inputs` (package_key.py). `record` says what the night was made with."""

    night: str
    decision: Decision
    inputs: Mapping[str, str]
    record: Record

    @property
    def name(self) -> str:
        return f"{self.decision.release} ({self.night})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Components that are swapped together: `components` are their names, `detail` says what changed."""

    name: str
    components: tuple[str, ...]
    detail: str

    def __str__(self) -> str:
        return self.detail or self.name


def end_of(state: State, task: str, which: str) -> End:
    """The build of `task` (an id, or a model's name) that `which` names: a night, or a release. Raises StorageError."""
    night, decision = _in_night(state, task, which) if NIGHT.fullmatch(which) else _released(state, task, which)
    made_in = built_in(state, decision.key) or night
    summary = made_in.summary()
    inputs = decision.inputs or inputs_of(state, decision.key)
    if not inputs:
        raise StorageError(
            f"no night in {state.root} recorded what {decision.task.model}@{decision.release} was made of",
            hint="name a later build, or a night that built it",
        )
    record = summary.made_with if summary is not None and summary.made_with is not None else Record()
    return End(night=made_in.name, decision=decision, inputs=inputs, record=record)


def _in_night(state: State, task: str, name: str) -> tuple[NightFolder, Decision]:
    night = find_night(state, name)
    found = [one for one in night.decisions() if task in (one.task.id, one.task.model)]
    if len(found) != 1:
        ids = ", ".join(one.task.id for one in found or night.decisions()[:10])
        raise StorageError(
            f"the night {name} has {counted(len(found), 'task') if found else 'no task'} {task}",
            hint=f"name one of them: {ids}",
        )
    return night, found[0]


def _released(state: State, task: str, release: str) -> tuple[NightFolder, Decision]:
    for night in reversed(state.nights()):
        for one in night.decisions():
            if one.release == release and one.inputs and one.task.model == task.partition("@")[0]:
                return night, one
    raise StorageError(
        f"no night in {state.root} built {task.partition('@')[0]}@{release}",
        hint="name a night, such as 2026-11-21.1, or a release, such as 1.0.0+tf2.17.1.b2",
    )


def parts_between(before: End, after: End) -> tuple[Part, ...]:
    """What differs, in parts that can be swapped for themselves. Pure."""
    old, new = before.inputs, after.inputs
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys((*new, *old)):
        if old.get(name) != new.get(name) and (group := _group(name, old, new)):
            groups.setdefault(group, []).append(name)
    return tuple(
        Part(name=group, components=tuple(names), detail=_detail(names, before, after))
        for group, names in groups.items()
    )


def _group(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """The part that has the component `name`, which differs; "" for one that changes no content."""
    if name.startswith((SOURCE, f"{SPEC}source.")) or name in _FORMATS:
        # A folder's name alone is no difference.
        has_files = any(old.get(each) != new.get(each) for each in {*old, *new} if each.startswith(SOURCE))
        return "source" if has_files else ""
    if name.startswith(TEMPLATES):
        return TEMPLATE
    if name == TOOL or name.startswith(CODE):
        return TOOL_CODE
    if name == FLAGS:  # of the compiler, else the tool's own choice
        return COMPILER if old.get(COMPILER) != new.get(COMPILER) else TOOL_CODE
    if name in (TOOLCHAIN, _RELEASE):
        return TOOLCHAIN
    if name == INPUTS:
        return ROWS if "sha256" in f"{old.get(name)}{new.get(name)}" else ""
    if name in (TUNING, COMPILER, WORKER, HEADERS, KERNELS):
        return name
    return name.removeprefix(SPEC) if name.startswith(SPEC) and name != _VERSION else ""


def _detail(names: list[str], before: End, after: End) -> str:
    """What changed, if only the components `names` did."""
    mixed = {name: text for name, text in before.inputs.items() if name not in names}
    mixed |= {name: after.inputs[name] for name in names if name in after.inputs}
    task = after.decision.task
    said = changes(before.inputs, mixed, tensorflow=task.tensorflow, where=lambda _: task.spec.name)
    return "; ".join(map(str, said))


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What is here of an end: its spec, with the model's files; `lacking` are parts that are not, with the reason."""

    spec: ModelSpec
    lacking: Mapping[str, str]


def files_of_end(end: End, folders: Folders, progress: Progress) -> Files:
    """The spec and the files of `end`: those of its night's commit, or those that are there now.

    Raises SpecError, SourceError and StorageError if there is no spec at all.
    """
    found: list[Files] = []
    error: TfaotError | None = None
    for place in _places(end, folders, progress):
        try:
            task = end.decision.task
            spec = at_release(load_spec(place, task.defines), task, end.decision.release)
            found.append(Files(spec=spec, lacking=_lacking(spec, end, folders, progress)))
        except TfaotError as raised:
            error = raised
            continue
        if not found[-1].lacking:
            return found[-1]
    if not found:
        assert error is not None
        raise error
    return min(found, key=lambda each: len(each.lacking))


def _places(end: End, folders: Folders, progress: Progress) -> Iterator[Path]:
    """Where its spec may be: in the commit of its night, then where it is now."""
    spec, commit = end.decision.task.spec, end.record.commit
    if commit and end.decision.task.origin is None:
        try:
            top = top_of(spec.parent)
            tree = fetch_git(str(top), commit, folders=folders, progress=progress)
            yield tree / os.path.relpath(os.path.realpath(spec), top)
        except TfaotError as error:
            progress.note(f"the commit {commit[:12]} of {end.night} is not here: {error.message}")
    yield spec


def _lacking(spec: ModelSpec, end: End, folders: Folders, progress: Progress) -> dict[str, str]:
    """Parts of `end` that `spec` and its files are not, with the reason."""
    source = Pipeline(folders=folders, progress=progress).source(spec)
    try:
        rows = canonical_json(inputs_document(spec)).decode()
    except SpecError:  # a file is missing
        rows = ""
    here = {
        **spec_components(spec),
        **{f"{SOURCE}{name}": digest for name, digest in source.files.items()},
        INPUTS: rows,
    }
    commit = end.record.commit
    whose = f"of {end.night}" + (f" (commit {commit[:12]})" if commit else ", whose commit is not known,")
    return {
        group: f"what it was in the night {whose} is not here"
        for name in dict.fromkeys((*here, *end.inputs))
        if name.startswith((SPEC, SOURCE)) or name in (INPUTS, TUNING)
        if here.get(name) != end.inputs.get(name) and (group := _group(name, end.inputs, here))
    }
