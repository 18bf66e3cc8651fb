"""Checking a build's result again before it is signed: builders run untrusted models, and share their folders.

The publisher trusts nothing in the state folder. It makes a copy of its own, compares everything with the plan and with
the documents that it makes itself (documents.py), inspects the compiled files, validates the shared library against
TensorFlow in its own sandbox, and links all other compiled files again, which must give the same bytes. What it signs
are archives that it writes from the files that it checked, and latencies that it measured.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from stat import S_ISREG

from tfaot_pkg.errors import CompilerError, StorageError, TrustError
from tfaot_pkg.frontends.toolchain.fork_servers import ForkServers
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Progress, Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.native.cxx.compiler import Compiler, confined
from tfaot_pkg.native.library import NativeLibrary, join, link_shared, object_names
from tfaot_pkg.native.tools import link_programs, program_names
from tfaot_pkg.nightly.documents import provenance_fault, reference_fault, report_fault, report_in, sbom_fault
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.package.binary.archive import MalformedArchive, members_of
from tfaot_pkg.package.binary.elf import read_elf, symbols_of
from tfaot_pkg.package.check import Identity, require_sound
from tfaot_pkg.package.listing import Tree
from tfaot_pkg.package.name import shared_library_name
from tfaot_pkg.package.tree import PackageContents, render
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan, Validated, contents_of
from tfaot_pkg.pipeline.publish import Release, entry_of, latency_here
from tfaot_pkg.provenance.statement import read_statement
from tfaot_pkg.registry.archive import pack, unpack
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.files.layout import LATENCY, PREFIX
from tfaot_pkg.registry.reader import FILES, PROVENANCE, SBOM, VALIDATION
from tfaot_pkg.spec.source.tree import copy_hashed
from tfaot_pkg.verify.hashes import OF_THE_MACHINE, Hashes
from tfaot_pkg.verify.oracle import REFERENCE_FILE
from tfaot_pkg.verify.report import NOT_RUN, ValidationReport

_HINT = "the state folder, or the machine that built it, was tampered with or is damaged: find out before you go on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """Checks results, each in a folder and with workers of its own: no model can influence the check of another.

    `servers` fork the workers, if they are given (decision 117).
    """

    folders: Folders
    progress: Progress = field(default_factory=Silent)
    servers: ForkServers | None = None

    @contextmanager
    def __call__(self, decision: Decision, release: Release) -> Iterator[Release]:
        """`release` with blobs that were written here, from the files that were checked, while the block runs.

        Raises TrustError if it is not the result of `decision`, ValidationError if the library's answers are wrong,
        StorageError if the model changed since the night was planned, and the errors of freezing it.
        """
        with temporary_folder(prefix="tfaot-publish-") as scratch:
            # Copied before anything is checked: a builder could replace a file between its check and its publication.
            own = _copied(release, scratch / "blobs")
            root = scratch / "package"
            root.mkdir()
            tree = _unpacked(own, root)
            plan = self._plan(decision)
            _require_documents(own, root, tree, plan)
            library = self._require_valid(own, plan, root, tree)
            times = latency_here(plan, library, BuildCache(root=self.folders.builds))
            yield _written(own, root, plan, scratch / PREFIX, times)

    def _plan(self, decision: Decision) -> Plan:
        pipeline = Pipeline(folders=self.folders, progress=self.progress)
        plan = pipeline.plan(spec_for(decision.task, decision.release))
        if plan.key != decision.key:
            raise StorageError(
                f"{decision.task.id} changed since the night was planned", hint="the next night builds it as it is then"
            )
        return plan

    def _require_valid(self, release: Release, plan: Plan, root: Path, tree: Tree) -> NativeLibrary:
        """The library gives TensorFlow's answers, and its index line and texts are those that are made here."""
        pipeline = Pipeline(folders=self.folders, progress=self.progress, servers=self.servers)
        environment = pipeline.environment_of(plan)
        programs = tuple(sorted(root.glob("bin/*")))
        with (
            temporary_folder(self.servers.folder if self.servers else None, prefix="tfaot-recheck-") as scratch,
            pipeline.workers(environment, scratch_root=scratch) as pool,
        ):
            valid = pipeline.validate(
                plan, root / "lib", pool, check=lambda found: _require_one_code(release, found, programs, plan)
            )
            library = valid.library
            contents = contents_of(
                plan, valid.frozen, valid.engine, library, environment, program=valid.program, programs=programs
            )
            entry = entry_of(
                plan, valid.frozen, valid.engine, glibc=contents.glibc, tree=tree.digest, blobs=release.entry.blobs
            )
            _require_entry(release, entry)
            _require_texts(release, tree, contents)
            _require_told(release, root, tree, plan, contents, valid)
        return library


def _written(release: Release, root: Path, plan: Plan, archive: Path, times: Mapping[str, bytes]) -> Release:
    """`release` with the package in `root` in the new file `archive`, its documents, and `times` of this machine.

    An archive may have more than its files, which nobody has looked at: bytes in padding, or the choices of an encoder.
    """
    share = root / "share" / plan.spec.model.package_name
    with storage_errors(f"pack {release.entry}"):
        with archive.open("xb") as file:
            tree = pack(root, file)
        if tree.digest != release.entry.tree:
            raise _tampered(release, "its files changed while they were checked")
        documents = {role: (share / FILES[role]).read_bytes() for role in release.entry.blobs if role in FILES}
    blobs: dict[str, Path | bytes] = {PREFIX: archive, **documents, **times}
    references = {role: BlobRef.of(blob) for role, blob in blobs.items()}
    return Release(entry=replace(release.entry, blobs=references), blobs=blobs)


def _copied(release: Release, folder: Path) -> Release:
    """`release` with copies of its blobs. Raises TrustError if one differs from the entry's digest."""
    copies: dict[str, Path | bytes] = {}
    with storage_errors(f"copy the stored result of {release.entry}"):
        folder.mkdir()
        for role, blob in release.entry.blobs.items():
            source, copies[role] = release.blobs[role], folder / role
            assert isinstance(source, Path)
            with open(source, "rb", opener=_at_once) as content:
                # The size first: a file that a builder made larger must not fill the disk.
                if os.fstat(content.fileno()).st_size != blob.size or not S_ISREG(os.fstat(content.fileno()).st_mode):
                    raise _tampered(release, f"its {role} is not a file of the size that its index line gives")
                if copy_hashed(content, folder / role) != blob.sha256:
                    raise _tampered(release, f"its {role} is not what its index line says")
    return replace(release, blobs=copies)


def _at_once(path: str, flags: int) -> int:
    """Do not wait for a pipe and do not follow a link: a builder could put either in the place of a file."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _unpacked(release: Release, root: Path) -> Tree:
    entry, archive = release.entry, release.blobs[PREFIX]
    assert isinstance(archive, Path)
    with storage_errors(f"unpack {entry}"), archive.open("rb") as stream:
        # Not synced to the disk: this copy is removed when the check ends.
        tree = unpack(stream, root, what=str(entry), durable=False)
    if tree.digest != entry.tree:
        raise _tampered(release, "its archive does not contain the files that its index line names")
    with storage_errors(f"read {entry}"):
        require_sound(root, tree, Identity(package=entry.name, version=entry.version, key=entry.key))
    return tree


def _require_documents(release: Release, root: Path, tree: Tree, plan: Plan) -> None:
    """The documents beside the package are those in it; the provenance is about these files and this plan."""
    folder = f"share/{plan.spec.model.package_name}"
    for role, name in FILES.items():
        blob = release.entry.blobs.get(role)
        if (blob.sha256 if blob else None) != tree.files.get(f"{folder}/{name}"):
            raise _tampered(release, f"its {role} is not the one in its archive")
    place = f"{folder}/{FILES[PROVENANCE]}"
    if place not in tree.files:
        raise _tampered(release, "it has no provenance")
    recorded = read_statement((root / place).read_bytes(), str(release.entry))
    expected = (plan.key, plan.source.digest, plan.toolchain.identity)
    if (recorded.key, recorded.source, recorded.toolchain) != expected:
        raise _tampered(release, "its provenance is about another build")
    # The provenance lists all files except itself: no file can contain its own digest.
    if recorded.files != {path: digest for path, digest in tree.files.items() if path != place}:
        raise _tampered(release, "its provenance is about other files")


def _require_one_code(release: Release, library: NativeLibrary, programs: tuple[Path, ...], plan: Plan) -> None:
    """The static library, objects and programs have the code of the shared library, which was validated."""
    try:
        with temporary_folder(prefix="tfaot-relink-") as scratch:
            require_one_code(library, programs, plan, scratch)
    except OtherCode as error:
        raise _tampered(release, str(error)) from error


def _require_texts(release: Release, tree: Tree, contents: PackageContents) -> None:
    """All files, except the compiled ones and those about the build, are equal to those that are made here.

    Headers and build files are compiled, or run, in their users' builds.
    """
    share = f"share/{contents.package_name}"
    told = {f"{share}/{FILES[role]}" for role in (PROVENANCE, SBOM, VALIDATION)} | {f"{share}/{REFERENCE_FILE}"}
    own = {path: sha256_bytes(text) for path, text in render(contents).items()}
    for path in sorted((tree.files.keys() | own.keys()) - told - contents.binaries.keys()):
        if tree.files.get(path) != own.get(path):
            raise _tampered(release, f"{path} is not the one that is made for this model")


def _require_told(
    release: Release, root: Path, tree: Tree, plan: Plan, contents: PackageContents, valid: Validated
) -> None:
    """The documents about the build are those that are made here, except for what another machine measured."""
    share = f"share/{contents.package_name}"

    def content(name: str) -> bytes | None:
        return (root / share / name).read_bytes() if f"{share}/{name}" in tree.files else None

    try:
        report = report_in(content(FILES[VALIDATION]) or b"")
    except ValueError as error:
        raise _tampered(release, f"its {FILES[VALIDATION]} is damaged: {error}") from error
    place = f"{share}/{FILES[PROVENANCE]}"
    others = Tree(members=tuple(member for member in tree.members if member.path != place))
    faults = (
        report_fault(report, valid.report),
        reference_fault(content(REFERENCE_FILE), valid.answers, valid.frozen.signature, report),
        provenance_fault(content(FILES[PROVENANCE]) or b"", plan, contents, others, report),
        sbom_fault(content(FILES[SBOM]) or b""),
    )
    if fault := next(filter(None, faults), ""):
        raise _tampered(release, fault)
    _require_hashes(release, plan, report, valid.report.hashes)


def _require_hashes(release: Release, plan: Plan, report: ValidationReport, own: Hashes | None) -> None:
    """The hashes of answers in the package are those of the library here, `own`, for all targets that were run here."""
    given, ways = report.hashes, report.targets
    if own is None or own.reason in OF_THE_MACHINE or (given and given.reason in OF_THE_MACHINE):
        return
    for target in plan.spec.compilation.targets:
        group, expected = own.of(target), given.of(target) if given else None
        # Only one of both machines may be able to run it.
        if (group and not expected and ways.get(target) == NOT_RUN) or (expected and not group and own.groups):
            continue
        if (group and group.batches) != (expected and expected.batches):
            raise _tampered(release, f"its hashes of answers for {target} are not those of its library")


def _require_entry(release: Release, expected: RegistryEntry) -> None:
    """The index line agrees with the spec, the toolchain, the model and the library, and has nothing else."""
    entry = release.entry
    for each in fields(RegistryEntry):
        given, value = getattr(entry, each.name), getattr(expected, each.name)
        if given != value:
            raise _tampered(release, f"its index line says {each.name} = {given}, which should be {value}")
    if unknown := sorted(set(entry.blobs) - {PREFIX, LATENCY, *FILES}):
        raise _tampered(release, f"its index line names a blob {unknown[0]}")


def _tampered(release: Release, why: str) -> TrustError:
    return TrustError(f"the stored result of {release.entry} is not what was built: {why}", hint=_HINT)


_GROUP = 17  # SHT_GROUP
_ONCE = ".gnu.linkonce."


class OtherCode(Exception):
    """A file of a package has other code than the shared library; the message names it, with the reason."""


def require_one_code(library: NativeLibrary, programs: Sequence[Path], plan: Plan, work: Path) -> None:
    """Raise OtherCode if a file of `library` or of `programs` has other code than the shared library.

    `work` is an empty folder. Raises StorageError.
    """
    compiler = confined(plan.compiler)
    spec, again = plan.spec, replace(library, folder=work)
    whole = work / f"{library.name}.o"
    try:
        whole.write_bytes(_only_member(library.static.read_bytes(), whole.name, library.symbol))
        # Archived again, because an archive has more than its member: headers and a symbol table.
        compiler.archive([whole], again.static)
        _require_same(library.static, again.static)
        _require_objects(library, object_names(spec) if spec.package.objects else (), whole, compiler)
        # A copy, because `link_shared` renames symbols in its input.
        linked = shutil.copyfile(whole, work / "shared.o")
        link_shared(
            linked, again.shared,
            symbol=library.symbol, soname=shared_library_name(library.name, library.uid),
            compiler=compiler, work=work,
        )  # fmt: skip
        _require_same(library.shared, again.shared)
        names = program_names(spec)
        _require_named("bin", programs, names.values())
        if names:
            made = work / "bin"
            made.mkdir()
            link_programs(spec, again, compiler, made)
            for program in programs:
                _require_same(program, made / program.name)
    except CompilerError as error:
        raise OtherCode(f"its compiled files cannot be linked again: {error.message}") from error


def _only_member(data: bytes, name: str, symbol: str) -> bytes:
    try:
        members = list(members_of(memoryview(data)))
    except MalformedArchive as error:
        raise OtherCode(f"its static library is damaged: {error}") from error
    if [one for one, _ in members] != [name]:
        raise OtherCode(f"its static library does not consist of one object, {name}")
    (_, content) = members[0]
    # A second global symbol could replace a function of a program that links the library.
    if _globals(content, name) != [symbol]:
        raise OtherCode(f"{name} does not define {symbol} alone")
    return bytes(content)


def _require_objects(library: NativeLibrary, names: Sequence[str], whole: Path, compiler: Compiler) -> None:
    _require_named("lib", library.objects, names)
    if not names:
        return
    copies, defined = [], set[str]()
    for name in names:
        symbols = _globals(memoryview((library.folder / name).read_bytes()), name)
        if twice := defined.intersection(symbols):
            raise OtherCode(f"its objects define {min(twice)} more than once")
        defined.update(symbols)
        copies.append(shutil.copyfile(library.folder / name, whole.parent / name))
    joined = whole.with_suffix(".joined.o")
    join(copies, joined, symbol=library.symbol, compiler=compiler)
    if joined.read_bytes() != whole.read_bytes():
        raise OtherCode("its objects have other code than its static library")


def _globals(data: memoryview, name: str) -> list[str]:
    """The global symbols that an object defines.

    Linked code must not depend on the order of objects, as it does if a linker takes the first of several sections.
    """
    elf = read_elf(data)
    for section in elf.sections:
        if section.kind == _GROUP or section.name.startswith(_ONCE):
            raise OtherCode(f"{name} has sections that linkers take from one object only")
    return [symbol.name for symbol in symbols_of(elf) if not symbol.is_local and not symbol.is_undefined]


def _require_named(folder: str, files: Sequence[Path], names: Iterable[str]) -> None:
    found, wanted = {path.name for path in files}, set(names)
    for name in sorted(found ^ wanted):
        raise OtherCode(f"{folder}/{name} {'should not be there' if name in found else 'is missing'}")


def _require_same(given: Path, made: Path) -> None:
    if given.read_bytes() != made.read_bytes():
        raise OtherCode(f"{given.name} is not what the package's own objects are linked to")
