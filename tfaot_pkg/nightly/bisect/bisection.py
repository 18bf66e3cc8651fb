"""`nightly bisect`: which part of what a package is made of makes it slower, larger, other, or fail.

Both builds are made again here. Then one part after the other is swapped back, each by a build that people can repeat,
and measured as nights measure: bits of answers, bytes, the largest error, and times in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.nightly.bisect.ends import OF_TOOL, End, Files, Part, files_of_end, parts_between
from tfaot_pkg.nightly.bisect.search import Found, Guilt, search
from tfaot_pkg.nightly.bisect.tools import Tool, this_tool, tool_at
from tfaot_pkg.nightly.bisect.variants import METRICS, Metric, Workshop
from tfaot_pkg.nightly.compare import Times
from tfaot_pkg.pipeline.package_key import COMPILER, FLAGS, TOOLCHAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Parts without which a difference is gone, to `share`; `commands` build the package without and with them."""

    parts: tuple[str, ...]
    share: float
    alone: float | None
    without: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A difference, and what makes it. `some` are parts that make a share of it."""

    metric: Metric
    difference: str
    culprits: tuple[Culprit, ...]
    some: Mapping[str, float]
    unknown: Mapping[str, str]

    @property
    def is_named(self) -> bool:
        return bool(self.culprits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The result: `parts` differ between both builds, of which `left` could not be swapped, with the reason.

    `machines` are those of both nights, if what differs is not seen here.
    """

    task: str
    before: str
    after: str
    parts: tuple[Part, ...]
    left: Mapping[str, str]
    causes: tuple[Cause, ...]
    machines: tuple[str, str]
    builds: int

    @property
    def is_explained(self) -> bool:
        return bool(self.causes) and all(each.is_named for each in self.causes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a bisection has: folders, turns, and parts of the earlier build that are here: its tool and its compiler."""

    folders: Folders
    progress: Progress
    times: Times
    tool: Path | None = None
    compiler: str = ""
    metrics: Sequence[Metric] = ()


def bisect(before: End, after: End, output: Path, means: Means) -> Bisection:
    """Find what makes the differences between two builds; variants are built in the new folder `output`.

    Raises StorageError (a build that this machine cannot make), SpecError and SourceError (no spec of an end), and
    RebuildError (the tool in `means` does not run).
    """
    if output.exists() and any(output.iterdir()):
        raise StorageError(f"{output} is not empty", hint="name a new folder with --output")
    parts = parts_between(before, after)
    old, new = (files_of_end(end, means.folders, means.progress) for end in (before, after))
    tools, lacking = _tools(parts, before, after, means.tool)
    compilers, no_compiler = _compilers(parts, before, after, old, means)
    gone = {**new.lacking, **old.lacking, **lacking, **no_compiler}
    left = {part.name: gone[part.name] for part in parts if part.name in gone}
    shop = Workshop(
        root=output, parts=[part for part in parts if part.name not in left], before=(before, old), after=(after, new),
        tools=tools, compilers=compilers, times=means.times, progress=means.progress,
    )  # fmt: skip
    found = shop.differences(means.metrics or METRICS) if shop.parts else {}
    causes = tuple(_cause(shop, metric, text) for metric, text in found.items())
    return Bisection(
        task=after.decision.task.id, before=before.name, after=after.name, parts=parts, left=left, causes=causes,
        machines=(_machine(before), _machine(after)), builds=len(shop.tried),
    )  # fmt: skip


def _cause(shop: Workshop, metric: Metric, text: str) -> Cause:
    names = [part.name for part in shop.parts]
    found: Found = search(names, shop.share(metric))
    return Cause(
        metric=metric,
        difference=text,
        culprits=tuple(_culprit(shop, each) for each in found.guilty),
        some=dict(found.some),
        unknown={name: shop.made(frozenset([name])).error for name in found.unknown},
    )


def _culprit(shop: Workshop, guilt: Guilt) -> Culprit:
    return Culprit(
        parts=guilt.parts, share=round(guilt.share, 3), alone=None if guilt.alone is None else round(guilt.alone, 3),
        without=shop.made(frozenset(guilt.parts)).command, after=shop.made(frozenset()).command,
    )  # fmt: skip


def _tools(
    parts: Sequence[Part], before: End, after: End, given: Path | None
) -> tuple[tuple[Tool, Tool] | None, dict[str, str]]:
    """The tools of both ends; and parts of the tool that are not here, with the reason."""
    of_tool = [part.name for part in parts if part.name in OF_TOOL or _is_lock(part)]
    if not of_tool:
        return None, {}
    here = this_tool()
    if given is None:
        whose = before.name if here.is_of(after.inputs) else after.name
        return None, dict.fromkeys(of_tool, f"name the tool of {whose} with --tool: {_told_of(before, after, here)}")
    other = tool_at(given)
    for pair in ((other, here), (here, other)):
        if pair[0].is_of(before.inputs) and pair[1].is_of(after.inputs):
            return pair, {}
    return None, dict.fromkeys(of_tool, f"the tool in {given} and this one are not those of both builds")


def _told_of(before: End, after: End, here: Tool) -> str:
    return (before if here.is_of(after.inputs) else after).record.tool or "its night did not record which"


def _is_lock(part: Part) -> bool:
    """Whether it is another lock file of the same toolchain, which comes with the tool."""
    return part.name == TOOLCHAIN and part.components == (TOOLCHAIN,)


def _compilers(
    parts: Sequence[Part], before: End, after: End, old: Files, means: Means
) -> tuple[tuple[str, str], dict[str, str]]:
    """The compilers' commands of both ends, "" for the one that is used here anyway."""
    if all(part.name != COMPILER for part in parts):
        return ("", ""), {}
    architecture = TARGETS[old.spec.compilation.targets[0]].architecture
    log = means.folders.logs / "nightly-bisect.log"

    def is_of(command: str, end: End) -> bool:
        found = find_compiler(architecture, log=log, output=means.progress.output, command=command)
        return (found.identity, " ".join(found.all_flags)) == (end.inputs[COMPILER], end.inputs[FLAGS])

    for pair in ((means.compiler, ""), ("", means.compiler)):
        if all(is_of(command, end) for command, end in zip(pair, (before, after), strict=True)):
            return pair, {}
    whose = f"{before.inputs[COMPILER]} before, {after.inputs[COMPILER]} after"
    return ("", ""), {COMPILER: f"name the other compiler with --compiler: {whose}"}


def _machine(end: End) -> str:
    return ", ".join(f"{name} {text}" for name, text in end.record.machine.items())


def text_of(found: Bisection) -> str:
    """The result for people."""
    return "\n".join(_lines(found))


def _lines(found: Bisection) -> Iterator[str]:
    yield f"{found.task}: {found.before} -> {found.after}, {found.builds} builds"
    for part in found.parts:
        yield f"  {part}" + (f" (not swapped: {found.left[part.name]})" if part.name in found.left else "")
    for cause in found.causes:
        yield f"{cause.metric}: {cause.difference}"
        for each in cause.culprits:
            yield f"  made by {' and '.join(each.parts)}{_how_much(each)}"
            yield f"    without: {each.without}"
            yield f"    with:    {each.after}"
        for name, share in cause.some.items():
            yield f"  {share:.0%} of it goes without {name}"
        for name, why in cause.unknown.items():
            yield f"  not known of {name}: without it, {why}"
        if not cause.is_named:
            yield "  made by none of the parts that were swapped"
    if not found.causes:
        yield from _no_difference(found)


def _how_much(culprit: Culprit) -> str:
    share = f"{culprit.share:.0%} of it goes without {'it' if len(culprit.parts) == 1 else 'them'}"
    if culprit.alone is None:
        return f": {share}"
    alone = f"{culprit.alone:.0%} of it comes with {'it' if len(culprit.parts) == 1 else 'them'} alone"
    return f": {share}, {alone}"


def _no_difference(found: Bisection) -> Iterator[str]:
    if not found.parts:
        yield "both were made of the same: what differs is the machine, or the moment"
    elif len(found.left) == len(found.parts):
        yield "nothing that changed can be swapped here"
    else:
        yield "built again here, they do not differ: what is left is " + (
            ", ".join(found.left) if found.left else "the machine, or the moment"
        )
    before, after = found.machines
    if before != after:
        yield f"the machine before: {before or 'not recorded'}"
        yield f"the machine after: {after or 'not recorded'}"
