"""What changed between a version and the one before it: answers, latency, size, graph, toolchain, signature.

Publishers wrote the documents (reading.py): what does not have the expected form is not compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tfaot_pkg.catalogue.reading import Document, listed, mapped, measurements_of
from tfaot_pkg.ground.wording import duration, size_text
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX

_LINE = 120
_KINDS, _CELLS = 6, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version with its documents (empty if it has none)."""

    entry: RegistryEntry
    validation: Document
    latency: Document
    graph: Document
    provenance: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One aspect: what it was, what it is, and what to think of it."""

    what: str
    before: str
    after: str
    note: str = ""

    @property
    def is_equal(self) -> bool:
        return self.before == self.after


def difference(before: Version, after: Version) -> tuple[Change, ...]:
    """The changes from `before` to `after`, equal aspects included."""
    old, new = before.entry, after.entry
    return (
        _answers(before.validation, after.validation),
        *_latency(before.latency, after.latency),
        _size(old, new),
        _graph(before.graph, after.graph),
        *_made_of(before.provenance, after.provenance),
        Change(what="Toolchain", before=old.toolchain[:_LINE], after=new.toolchain[:_LINE]),
        Change(what="Inputs", before=_tensors(old.signature.inputs), after=_tensors(new.signature.inputs)),
        Change(what="Outputs", before=_tensors(old.signature.outputs), after=_tensors(new.signature.outputs)),
        Change(what="Targets", before=", ".join(old.targets)[:_LINE], after=", ".join(new.targets)[:_LINE]),
    )


def _answers(before: Document, after: Document) -> Change:
    """Of the validation's example, if both versions were asked for the same inputs."""
    old, new = mapped(before.get("example")), mapped(after.get("example"))
    if not old or not new:
        return Change(what="Answers", before="", after="", note="one of the two versions stores none")
    if old.get("inputs") != new.get("inputs"):
        return Change(what="Answers", before="", after="", note="not compared: the stored inputs differ")
    theirs, ours = mapped(old.get("outputs")), mapped(new.get("outputs"))
    largest, where = 0.0, ""
    for name in sorted(theirs.keys() & ours.keys()):
        apart = _apart(theirs[name], ours[name])
        if apart is None:
            return Change(what="Answers", before="", after="", note=f"the output {name[:40]} has another shape")
        if apart > largest:
            largest, where = apart, name
    other = sorted(map(str, theirs.keys() ^ ours.keys()))
    note = f"other outputs: {', '.join(other)[:_LINE]}" if other else ""
    if not where:
        return Change(what="Answers", before="the same", after="the same", note=note or "on the stored inputs")
    return Change(what="Answers", before="", after=f"up to {largest:.3g} apart", note=note or f"output {where[:60]}")


def _made_of(before: Document, after: Document) -> list[Change]:
    """What other answers and times come from: the inputs of the builds that differ, as their provenances name them."""
    old, new = _inputs(before), _inputs(after)
    if not old or not new:
        return []
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [Change(what="Made from", before="", after=", ".join(changed)[:_LINE] or "the same inputs")]


def _inputs(provenance: Document) -> dict[str, str]:
    """The inputs of a build by the words that people know: the model, the toolchain, the compiler, tfaot-pkg, ..."""
    predicate = mapped(provenance.get("predicate"))
    build = mapped(predicate.get("buildDefinition"))
    inner = mapped(build.get("internalParameters"))
    builder = mapped(mapped(predicate.get("runDetails")).get("builder"))
    # Packages of Python are parts of the toolchain, and have addresses.
    files = (one for one in map(mapped, listed(build.get("resolvedDependencies"))) if "uri" not in one)
    found = {str(one.get("name"))[:40]: str(one.get("digest")) for one in files}
    spec = dict(mapped(mapped(build.get("externalParameters")).get("spec")))
    spec["model"] = {key: value for key, value in mapped(spec.get("model")).items() if key != "version"}
    parts = {
        "toolchain": mapped(inner.get("toolchain")).get("identity"), "compiler": inner.get("compiler"),
        "tfaot-pkg": builder.get("version"), "spec": spec,
    }  # fmt: skip
    return found | {name: str(value) for name, value in parts.items()} if inner else {}


def _apart(one: object, other: object) -> float | None:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return None
    try:
        return max((abs(float(a) - float(b)) for a, b in zip(one, other, strict=True)), default=0.0)
    except (TypeError, ValueError, OverflowError):
        return None


def _latency(before: Document, after: Document) -> list[Change]:
    """Per batch size of the best common target, if one kind of CPU measured both."""
    old, new = ({row[:2]: row[2] for row in measurements_of(one)} for one in (before, after))
    targets = [target for target, _ in new if any(target == each for each, _ in old)]
    if not targets:
        return []
    # CPUs of one brand differ, but older documents have nothing else.
    name = "cpu" if "cpu" in before and "cpu" in after else "processor"
    same = before.get(name) == after.get(name)
    note = "" if same else "measured on another CPU"
    found = []
    # Documents list targets from the lowest level to the highest: the last one is the best.
    for target, size in new:
        if target == targets[-1] and (target, size) in old:
            was, now = old[target, size], new[target, size]
            # Two builds of the same source may differ by 3 % (measure/bench/table.py), and machines by more.
            note_of = note or (f"{now / was - 1:+.0%}" if abs(now / was - 1) >= 0.05 else "about the same")
            what = f"Latency, batch {size}, {target}"
            found.append(Change(what=what[:_LINE], before=duration(was), after=duration(now), note=note_of))
    return found[:_CELLS]


def _size(old: RegistryEntry, new: RegistryEntry) -> Change:
    sizes = [entry.blobs[PREFIX].size if PREFIX in entry.blobs else 0 for entry in (old, new)]
    note = f"{sizes[1] / sizes[0] - 1:+.0%}" if all(sizes) and sizes[0] != sizes[1] else ""
    return Change(what="Size of the package", before=size_text(sizes[0]), after=size_text(sizes[1]), note=note)


def _graph(before: Document, after: Document) -> Change:
    old, new = _kinds(before), _kinds(after)
    changed = [
        f"{kind}: {old[kind]} → {new[kind]}" for kind in sorted(old.keys() | new.keys()) if old[kind] != new[kind]
    ]
    more = f" and {len(changed) - _KINDS} more" if len(changed) > _KINDS else ""
    totals = [f"{sum(each.values()):,} operations" for each in (old, new)]
    return Change(what="Graph", before=totals[0], after=totals[1], note=", ".join(changed[:_KINDS]) + more)


def _kinds(document: Document) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in map(mapped, listed(document.get("nodes"))):
        if one.get("kind") == "operation":
            # type() and no isinstance: for Python True is an integer too.
            members = one.get("members", 1)
            found[str(one.get("op"))[:40]] += members if type(members) is int and 0 < members < 10**9 else 1
    return found


def _tensors(tensors: tuple[object, ...]) -> str:
    text = ", ".join(map(str, tensors))
    return text if len(text) <= 2 * _LINE else f"{text[: 2 * _LINE]}…"
