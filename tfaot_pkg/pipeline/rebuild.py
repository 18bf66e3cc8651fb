"""Build a published package again from its provenance, and compare every byte.

The build cache is empty, so that all stages run; toolchains and downloads are the user's, because digests identify
them. If an input of the bytes differs here (the compiler, for example), nothing is built, and the result has the
reasons.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import yaml

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import CompilerError, RebuildError, SourceError, SpecError, ToolchainError, TrustError
from tfaot_pkg.ground.forms.document import Dumper
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.package.listing import Member, Tree, scan_tree
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan
from tfaot_pkg.provenance.statement import Recorded, read_statement
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.attestation import require_attested
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.reader import FILES, PROVENANCE, RegistryReader, resolve
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.row_files import digest_in
from tfaot_pkg.spec.tuning import PACKAGED, read_tuning
from tfaot_pkg.spec.types import INPUTS_KEY, FolderSource, ModelSpec, Tuning
from tfaot_pkg.verify.validate import inputs_document

Verdict = Literal["reproducible", "differs", "cannot"]

_EXIT_CODES: dict[Verdict, int] = {
    "reproducible": 0,
    "differs": TrustError.exit_code,
    "cannot": RebuildError.exit_code,
}
_COMPILER = {"version": "version", "linker": "linker", "libc": "libc", "machine": "machine", "flags": "all_flags"}
"""The compiler's entries in a statement, with the attributes of `Compiler`."""
_MARK = re.compile(r"\{[{%#]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The result of `rebuild_check`: the `differing` among all `files`, or the `reasons` why it could not build."""

    entry: RegistryEntry
    verdict: Verdict
    files: int
    differing: tuple[Difference, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.verdict]

    @property
    def same_libraries(self) -> bool:
        """Whether only documents differ, such as the report of a validation on another CPU."""
        return not any(each.path.startswith(("lib/", "include/", "bin/")) for each in self.differing)

    def as_dict(self) -> dict[str, object]:
        return {
            "package": self.entry.name,
            "version": self.entry.version,
            "key": self.entry.key,
            "verdict": self.verdict,
            "files": self.files,
            "same_libraries": self.same_libraries if self.verdict != "cannot" else None,
            "differing": list(self.differing),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The means of a rebuild: `source` is a folder with the model's files, `inputs` the file of validation inputs.

    `architecture` is that of the package (empty: what was published first).
    """

    folders: Folders
    progress: Progress
    source: Path | None = None
    inputs: Path | None = None
    architecture: str = ""
    toolchain_python: Path | None = None
    wheelhouse: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _EmptyCache(Folders):
    """The user's folders, but with a build cache of its own."""

    empty: Path

    @property
    def builds(self) -> Path:
        return self.empty


def rebuild_check(reader: RegistryReader, requirement: str, means: Means) -> Rebuilt:
    """Build the version that `requirement` selects again, and compare it with the published package.

    Raises RegistryError (unknown package), TrustError (damaged package), NetworkError, StorageError, and the errors of
    a build that have other reasons than a difference of the machine.
    """
    entry = resolve(reader, requirement, architecture=means.architecture)
    with temporary_folder(prefix="tfaot-rebuild-") as scratch:
        tree = fetch_published(reader, entry, scratch / "published")
        recorded = recorded_of(entry, tree, scratch / "published")
        try:
            tuning = _tuning(recorded, scratch / "published" / "share" / entry.name / PACKAGED)
            plan, pipeline = _plan(recorded, tuning, means, scratch)
        except CannotRebuild as error:
            return Rebuilt(entry=entry, verdict="cannot", files=len(tree.members), reasons=error.reasons)
        build = pipeline.build(plan)
        found = differences(scratch / "published", build.tree.root)
    verdict: Verdict = "differs" if found else "reproducible"
    return Rebuilt(entry=entry, verdict=verdict, files=len(tree.members), differing=found)


class CannotRebuild(Exception):
    """The package cannot be built again here."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


def fetch_published(reader: RegistryReader, entry: RegistryEntry, into: Path) -> Tree:
    require_attested(reader, entry)
    into.mkdir()
    with reader.open_blob(entry.blobs[PREFIX]) as archive:
        tree = unpack(archive, into, what=str(entry))
    if tree.digest != entry.tree:
        raise TrustError(
            f"the archive of {entry} does not contain what the index says",
            hint="tell the registry's maintainer, such an archive is not made by this tool",
        )
    return tree


def recorded_of(entry: RegistryEntry, tree: Tree, root: Path) -> Recorded:
    """The package's provenance. Raises TrustError if it is not that of these files."""
    path = f"share/{entry.name}/{FILES[PROVENANCE]}"
    if path not in tree.files:
        raise TrustError(
            f"{entry} has no provenance", hint="it was published by an older version of tfaot-pkg: publish it again"
        )
    recorded = read_statement((root / path).read_bytes(), str(entry))
    # The statement lists all files except itself (decision 014).
    others = {name: digest for name, digest in tree.files.items() if name != path}
    wrong = sorted(name for name, digest in others.items() if recorded.files.get(name) != digest)
    if wrong or recorded.key != entry.key:
        raise TrustError(
            f"the provenance of {entry} is not that of these files"
            + (f": it describes another {wrong[0]}" if wrong else ": it names another key than the index"),
            hint="do not use this package; ask who published it",
        )
    return recorded


def _plan(recorded: Recorded, tuning: Tuning | None, means: Means, scratch: Path) -> tuple[Plan, Pipeline]:
    """The plan that gives the same key as the published package's. Raises CannotRebuild."""
    # The version is a component of the key: with another one, the keys can never be equal.
    if recorded.tool != __version__:
        raise CannotRebuild(f"it was built by tfaot-pkg {recorded.tool}, and this is {__version__}")
    if not recorded.pinned and means.toolchain_python is None:
        raise CannotRebuild(
            "it was built with a TensorFlow of the publisher's own, not with a pinned one: name one of the version "
            f"{recorded.tensorflow} with --toolchain-python"
        )
    spec = replace(spec_of(recorded, means, scratch / "spec"), tuning=tuning)
    folders = _EmptyCache(cache=means.folders.cache, data=means.folders.data, empty=scratch / "builds")
    pipeline = Pipeline(
        folders=folders,
        progress=means.progress,
        # A pinned toolchain is installed from its lock file, even if the user names an interpreter.
        toolchain_python=None if recorded.pinned else means.toolchain_python,
        wheelhouse=means.wheelhouse,
        source_folder=means.source,
    )
    try:
        plan = pipeline.plan(spec)
    except (CompilerError, SourceError, ToolchainError) as error:
        raise CannotRebuild(f"{error.message}; {error.hint}".removesuffix("; ")) from error
    reasons = tuple(_reasons(recorded, plan))
    # If the key differs without any of these reasons, this one remains.
    if not reasons and plan.key != recorded.key:
        reasons = (f"this tfaot-pkg {__version__} is not the one that built it: other templates or programs",)
    if reasons:
        raise CannotRebuild(*reasons)
    return plan, pipeline


def _reasons(recorded: Recorded, plan: Plan) -> Iterator[str]:
    """The differences between here and the publisher's machine that change a package's bytes. Pure."""
    if plan.source.digest != recorded.source:
        yield f"the model's files are not those it was built from (digest {plan.source.digest[:12]} here)"
    if plan.toolchain.identity != recorded.toolchain:
        here = plan.toolchain.toolchain.title
        there = f"TensorFlow {recorded.tensorflow}" if recorded.tensorflow else f"tfaot-pkg {recorded.tool}"
        yield f"another toolchain: {here} here, {there} there, or other pinned packages"
    for name, attribute in _COMPILER.items():
        here, there = _plain(getattr(plan.compiler, attribute)), _plain(recorded.compiler.get(name, ""))
        if here != there:
            yield f"another compiler ({name}): {here or 'unknown'} here, {there or 'unknown'} there"
    inputs = inputs_document(plan.spec)
    if inputs != recorded.validation_inputs:
        yield f"other validation inputs: {inputs} here, {recorded.validation_inputs} there"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(map(str, value))


def spec_of(recorded: Recorded, means: Means, folder: Path) -> ModelSpec:
    """The spec as it was built, in the empty `folder`. Raises CannotRebuild."""
    folder.mkdir()
    text = yaml.dump(escaped(recorded.spec), Dumper=Dumper, allow_unicode=True).encode()
    try:
        spec = parse_spec(text, folder / "spec.yaml")
    except SpecError as error:
        raise CannotRebuild(f"this version cannot read its spec: {error.message}") from error
    # Another version may have other defaults or rules, but the text must result in exactly the values that were built.
    if spec_document(spec) != recorded.spec:
        raise CannotRebuild("this version reads its spec differently")
    if isinstance(spec.source, FolderSource) and means.source is None:
        raise CannotRebuild(
            f"the model was in a folder of the publisher's: name one with the same files (digest "
            f"{recorded.source[:12]}) with --source; model.{spec.model.files.format} is {spec.model.files.path!r} in it"
        )
    _place_inputs(spec, recorded, means)
    return replace(spec, defines=dict(recorded.defines))


def _tuning(recorded: Recorded, packaged: Path) -> Tuning | None:
    """The tuning of the package, from the copy in it. Raises CannotRebuild."""
    try:
        return read_tuning(packaged, str(recorded.spec["model"]["name"]))
    except (SpecError, KeyError, TypeError) as error:
        raise CannotRebuild(f"this version cannot read its {PACKAGED}: {error}") from error


def escaped(value: Any) -> Any:
    """`value` with braces escaped: the recorded strings are expanded already, and contain no expressions."""
    if isinstance(value, Mapping):
        return {key: escaped(item) for key, item in value.items() if item not in ("", {})}
    if isinstance(value, list):
        return [escaped(item) for item in value]
    return _MARK.sub(lambda mark: f"{{{{ '{mark.group()}' }}}}", value) if isinstance(value, str) else value


def _place_inputs(spec: ModelSpec, recorded: Recorded, means: Means) -> None:
    """Put the files of rows where `spec` looks for them. Raises CannotRebuild."""
    for key, path in spec.data_files.items():
        relative = path.relative_to(spec.folder)
        beside = [means.source / relative, means.source / relative.name] if means.source else []
        if means.inputs is not None:
            beside.insert(0, means.inputs if key == INPUTS_KEY else means.inputs.with_name(relative.name))
        found = next((each for each in beside if each.is_file()), None)
        if found is None:
            where = "name the file with --inputs" if key == INPUTS_KEY else "put it beside the model or the --inputs"
            raise CannotRebuild(
                f"the file of {key}, {relative.name} (SHA-256 {digest_in(recorded.validation_inputs, key)}), was not "
                f"found: {where}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, path)


Kind = Literal["missing", "added", "kind", "content"]

_SHOWN = 8  # bytes
_LINE = 80  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One file that differs: only published ("missing"), only rebuilt ("added"), of another kind, or other bytes.

    For bytes, `detail` has the position of the first difference, and both contents there.
    """

    path: str
    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


def differences(there: Path, here: Path) -> tuple[Difference, ...]:
    """The differences of the published tree and the rebuilt one, by path. Raises RegistryError, OSError."""
    theirs = {member.path: member for member in scan_tree(there).members}
    ours = {member.path: member for member in scan_tree(here).members}
    return tuple(
        found
        for path in sorted(theirs.keys() | ours.keys())
        for found in _differences(path, theirs.get(path), ours.get(path), there / path, here / path)
    )


def _differences(
    path: str, theirs: Member | None, ours: Member | None, there: Path, here: Path
) -> Iterator[Difference]:
    if ours is None:
        yield Difference(path=path, kind="missing", detail="is not in the rebuilt package")
    elif theirs is None:
        yield Difference(path=path, kind="added", detail="is not in the published package")
    elif theirs.kind != ours.kind:
        yield Difference(path=path, kind="kind", detail=f"was published as {theirs.kind}, rebuilt as {ours.kind}")
    elif theirs.content != ours.content:
        yield Difference(path=path, kind="content", detail=_first(theirs, there, here))


def _first(member: Member, there: Path, here: Path) -> str:
    if member.kind == "link":
        return f"the link's target differs ({there.readlink()} published, {here.readlink()} rebuilt)"
    theirs, ours = there.read_bytes(), here.read_bytes()
    sizes = f" ({counted(len(theirs), 'byte')} published, {len(ours):,} rebuilt)" if len(theirs) != len(ours) else ""
    try:
        # A line is more useful than an offset; binary files are hardly ever valid UTF-8.
        return _first_line(theirs.decode(), ours.decode()) + sizes
    except UnicodeDecodeError:
        return _first_byte(theirs, ours) + sizes


def _first_line(theirs: str, ours: str) -> str:
    pairs = zip_longest(theirs.splitlines(keepends=True), ours.splitlines(keepends=True), fillvalue="")
    number, there, here = next((n, a, b) for n, (a, b) in enumerate(pairs, 1) if a != b)
    return f"line {number} is {here.strip()[:_LINE]!r}, was published as {there.strip()[:_LINE]!r}"


def _first_byte(theirs: bytes, ours: bytes) -> str:
    common = min(len(theirs), len(ours))
    at = next((n for n in range(common) if theirs[n] != ours[n]), common)
    there, here = theirs[at : at + _SHOWN].hex(" "), ours[at : at + _SHOWN].hex(" ")
    return f"from byte {at} on is {here or 'nothing'}, was published as {there or 'nothing'}"
