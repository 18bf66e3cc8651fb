"""Publish: build and verify a model, and put it into a registry and into the tool's Conan home."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.catalogue.render import update_or_note
from tfaot_pkg.errors import RegistryError, SpecError
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.documents import plain, read_json
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.native.compiled.program import Engine
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.package.binary.elf import opened
from tfaot_pkg.package.binary.findings import above_floor, glibc_floor_of
from tfaot_pkg.package.check import Identity, require_sound
from tfaot_pkg.pipeline.conan.package import ConanHome, ConanPackage, create
from tfaot_pkg.pipeline.conan.recipe import recipe_digest, require_built_from, require_no_other_recipe, stage_recipe
from tfaot_pkg.pipeline.pipeline import Build, Pipeline, Plan
from tfaot_pkg.provenance.attestation import attested_statement
from tfaot_pkg.registry.archive import pack, require_rendered
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.files.layout import ATTESTATION, BENCH, LATENCY, PREFIX
from tfaot_pkg.registry.places import Place, create_at, find_at
from tfaot_pkg.registry.reader import FILES, PROVENANCE
from tfaot_pkg.registry.signing import load_state
from tfaot_pkg.registry.trust.envelope import seal
from tfaot_pkg.registry.trust.keys import RELEASE, ROOT
from tfaot_pkg.registry.trust.roles import LIMITS, metadata_path
from tfaot_pkg.registry.writable import Published, PublishStatus, WritableRegistry
from tfaot_pkg.spec.source.checkout import Checkout, checkout_of
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify import latency
from tfaot_pkg.verify.hashes import Hashes
from tfaot_pkg.verify.runs import may_be_unverified, not_run_targets, require_verified, runnable_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Times of other engines: the `document` to publish, of the model files with the digest `source`."""

    document: bytes
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The result of `publish`. `conan` is None if no Conan package was requested; `engine`, `validated` (how the code
    of each target was run) and `hashes` of answers are None if nothing was built. `created`: the registry is new.
    """

    status: PublishStatus
    registry: str
    created: bool
    signed: bool
    entry: RegistryEntry
    conan: dict[str, object] | None
    engine: Engine | None
    validated: Mapping[str, str] | None
    hashes: Hashes | None


def publish(
    spec: ModelSpec,
    *,
    place: Place,
    pipeline: Pipeline,
    keys: Keys | None = None,
    conan: bool = True,
    unverified: Sequence[str] = (),
    measured: Measured | None = None,
) -> Publication:
    """Publish the model of `spec` into the registry at `place`.

    Nothing is built if the same content is published already. If there is no registry, an unsigned one is created after
    the build. `keys` are those of a signed registry. `unverified` names targets that may be published without
    validation, because they cannot be run here; `measured` is published beside the package.
    Raises RegistryError, before the build, if the version is published with other content or times; SpecError if these
    are of another model; ValidationError if a target cannot be validated here; all errors of a build.
    """
    if spec.package.profile:
        raise SpecError(
            "package.profile is for your own builds: such a library writes files, which no published one may",
            hint="build with -o PREFIX, and publish without package.profile",
        )
    registry = find_at(place, keys=keys)
    plan = pipeline.plan(spec)
    present = _present(registry, spec) if registry is not None else None
    if present is not None:
        # Before the build, which may take minutes: a published version never changes.
        _require_same(present, plan)
    if measured is not None:
        _require_measured(measured, plan, present)
    if conan:
        require_no_other_recipe(spec)
    record = _conan_record(pipeline, spec)
    packaged = _read_record(record, plan) if conan else None
    if registry is not None and present is not None and registry.has_blobs(present) and (packaged or not conan):
        update_or_note(registry, present.name, pipeline.progress)
        return _publication("already published", present, registry, packaged)
    if registry is not None:
        # Before the build as well: otherwise a missing key would be found at the very end.
        registry.require_keys()
    require_verified(not_run_targets(spec), may_be_unverified(spec, unverified))
    build = pipeline.build(plan)
    # Only now, so that a failed build leaves no empty registry behind.
    created = registry is None
    registry = registry or create_at(place, keys=keys)
    with pipeline.progress.step("publish"):
        more = {BENCH: measured.document} if measured is not None else {}
        release = attested(release_of(build, pipeline.cache, more), registry, checkout_of(spec))
        status, entry = into_registry(release, registry, pipeline.progress)
    if conan and packaged is None:
        packaged = into_conan(spec, build.tree.root, pipeline.folders, pipeline.progress).as_dict()
        # After the Conan package is complete, so that an interrupted one is created again.
        made = {"key": plan.key, "recipe": recipe_digest(spec), "package": packaged}
        write_file(record, json.dumps(made).encode())
    return _publication(status, entry, registry, packaged, build, created=created)


def _publication(
    status: PublishStatus,
    entry: RegistryEntry,
    registry: WritableRegistry,
    conan: dict[str, object] | None,
    build: Build | None = None,
    *,
    created: bool = False,
) -> Publication:
    return Publication(
        status=status,
        entry=entry,
        registry=registry.location,
        created=created,
        signed=registry.is_signed,
        conan=conan,
        engine=build.engine if build is not None else None,
        validated=build.report.targets if build is not None else None,
        hashes=build.report.hashes if build is not None else None,
    )


def _present(registry: WritableRegistry, spec: ModelSpec) -> RegistryEntry | None:
    entries = registry.entries(spec.model.package_name)
    machine = TARGETS[spec.compilation.targets[0]].architecture
    # A version may be there for another architecture only: then this one is added to it.
    return next((entry.on(machine) for entry in entries if entry.version == spec.model.version), None)


def _require_same(present: RegistryEntry, plan: Plan) -> None:
    if present.key != plan.key:
        raise RegistryError(
            f"{present} is published already, and this spec would give other content "
            f"(key {present.key[:12]} there, {plan.key[:12]} here)",
            hint="a published version never changes: raise model.version in the spec",
        )


def _require_measured(measured: Measured, plan: Plan, present: RegistryEntry | None) -> None:
    if measured.source != plan.source.digest:
        raise SpecError(
            "the times of --bench are of other model files than this spec's",
            hint="measure this model: tfaot-pkg bench SPEC -o FILE.json",
        )
    if present is not None and present.blobs.get(BENCH) != BlobRef.of(measured.document):
        raise RegistryError(
            f"{present} is published already, without these times",
            hint="a published version never changes: raise model.version in the spec, or leave --bench out",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The published parts of a build: the index line, and the blobs by role, as files or in memory."""

    entry: RegistryEntry
    blobs: Mapping[str, Path | bytes]


def release_of(build: Build, cache: BuildCache, more: Mapping[str, bytes] | None = None) -> Release:
    """Check and pack the result of `build`, with the latency of its library here; `more` are blobs by role.

    Raises TrustError, RegistryError, CompilerError, ValidationError.
    """
    _require_floor(build)
    identity = Identity(package=build.tree.package_name, version=build.tree.version, key=build.plan.key)
    with tempfile.TemporaryFile() as archive:
        # The digest of the tree comes from packing, so that it is of the bytes in the archive.
        tree = pack(build.tree.root, archive)
        require_sound(build.tree.root, tree, identity)
        archive.seek(0)
        content = archive.read()
    blobs = {
        PREFIX: content,
        **_documents(build),
        **latency_here(build.plan, build.library, cache, build.gains),
        **(more or {}),
    }
    references = {role: BlobRef.of(blob) for role, blob in blobs.items()}
    glibc = glibc_floor_of(build.tree.loaded)
    entry = entry_of(build.plan, build.frozen, build.engine, glibc=glibc, tree=tree.digest, blobs=references)
    # As every installation does: what a build left in the cache may have been changed since.
    require_rendered(build.tree.root, tree, entry)
    return Release(entry=entry, blobs=blobs)


def _require_floor(build: Build) -> None:
    """Raise RegistryError if a library or program needs a newer C library than package.glibc allows."""
    limit = build.plan.spec.package.glibc
    for path in build.tree.loaded:
        with opened(path) as data:
            needed = above_floor(data, limit)
        if needed:
            raise RegistryError(
                f"{path.name} would not load on systems with glibc {limit} (package.glibc): "
                f"it needs {', '.join(needed)}",
                hint="build it on an older system; or allow newer ones by package.glibc in the spec",
            )


def into_registry(
    release: Release, registry: WritableRegistry, progress: Progress
) -> tuple[PublishStatus, RegistryEntry]:
    """Publish `release` and update the catalogue. Raises RegistryError, TrustError, StorageError."""
    (result,) = all_into_registry([release], registry, progress)
    if isinstance(result, RegistryError):
        raise result
    return result.status, result.entry


def all_into_registry(
    releases: Sequence[Release], registry: WritableRegistry, progress: Progress
) -> list[Published | RegistryError]:
    """Publish `releases` in one step, and update the catalogue; errors as `WritableRegistry.publish_all`."""
    done = registry.publish_all([(one.entry, one.blobs) for one in releases])
    for name in dict.fromkeys(one.entry.name for one in done if isinstance(one, Published)):
        update_or_note(registry, name, progress)
    return done


def attested(release: Release, registry: WritableRegistry, spec: Checkout | None) -> Release:
    """`release` with its provenance, signed by the release keys of `registry` that are here.

    As it is if the registry is unsigned, or it has no provenance. `spec` is the checkout that the spec was read from.
    Raises TrustError, StorageError.
    """
    if not registry.is_signed or PROVENANCE not in release.blobs:
        return release
    packaged = release.blobs[PROVENANCE]
    if isinstance(packaged, Path):
        with storage_errors(f"read the provenance of {release.entry}"):
            packaged = packaged.read_bytes()
    publisher = sha256_bytes(registry.files.get(metadata_path(ROOT, 1), LIMITS[ROOT]))
    signers = registry.keys.signers(load_state(registry), [RELEASE]).by_role[RELEASE]
    envelope = seal(attested_statement(packaged, release.entry, publisher=publisher, spec=spec), signers)
    entry = replace(
        release.entry,
        blobs={**release.entry.blobs, ATTESTATION: BlobRef.of(envelope)},
        attestors={signer.public_key.keyid: signer.public_key.to_dict() for signer in signers},
    )
    return Release(entry=entry, blobs={**release.blobs, ATTESTATION: envelope})


def _documents(build: Build) -> dict[str, bytes]:
    """The documents that are also blobs of their own, to be read without the package, by role."""
    folder = build.tree.root / "share" / build.tree.package_name
    return {role: (folder / name).read_bytes() for role, name in FILES.items() if (folder / name).exists()}


def latency_here(
    plan: Plan, library: NativeLibrary, cache: BuildCache, gains: tuple[latency.Gain, ...] = ()
) -> dict[str, bytes]:
    """The blob with latencies of the library of `plan` on this machine; none if it can run no target.

    `gains` are those of a reduced package, which this machine measured when it built it.
    """
    targets = runnable_targets(plan.spec)
    if not targets:
        return {}
    measured = latency.measured_today(library.shared, plan.compiler, targets, cache)
    said = {"gains": [plain(gain) for gain in gains]} if gains else {}
    return {LATENCY: json.dumps({**measured, **said}).encode()}


def entry_of(
    plan: Plan, frozen: FrozenModel, engine: Engine, *, glibc: str, tree: str, blobs: Mapping[str, BlobRef]
) -> RegistryEntry:
    """The index line for the package of `plan`, whose install tree has the digest `tree`."""
    spec = plan.spec
    return RegistryEntry(
        name=spec.model.package_name,
        model=spec.model.name,
        version=spec.model.version,
        key=plan.key,
        tree=tree,
        toolchain=plan.toolchain.toolchain.name,
        targets=spec.compilation.targets,
        batch_sizes=spec.compilation.batch_sizes,
        rows_independent=frozen.rows.independent,
        any_batch_size=engine.is_program,
        signature=frozen.signature,
        license=spec.model.license,
        description=spec.model.description,
        glibc=glibc,
        blobs=blobs,
    )


def into_conan(spec: ModelSpec, prefix: Path, folders: Folders, progress: Progress) -> ConanPackage:
    """Create the Conan package of `spec` from its install tree `prefix`, in the tool's Conan home.

    Raises ConanError, SourceError if the model's files changed since the build. Nothing of the author's runs.
    """
    require_no_other_recipe(spec)
    home = ConanHome(root=folders.conan_home, log=folders.logs / f"conan-{spec.model.name}.log")
    architecture = TARGETS[spec.compilation.targets[0]].architecture
    with temporary_folder(prefix="tfaot-recipe-") as scratch:
        recipe = stage_recipe(spec, scratch)
        require_built_from(recipe, spec, prefix)
        return create(
            recipe,
            spec.model.version,
            home=home,
            prefix=prefix,
            architecture=architecture,
            progress=progress,
        )


def _conan_record(pipeline: Pipeline, spec: ModelSpec) -> Path:
    """The file with the key of a version's package in the Conan home: asking Conan would take most of a second."""
    name = f"{spec.model.package_name}-{spec.model.version}.json"
    return pipeline.folders.conan_home / "tfaot-published" / name


def _read_record(record: Path, plan: Plan) -> dict[str, object] | None:
    try:
        content = read_json(record.read_text())
    except (OSError, ValueError):
        return None
    # Former versions packaged with the recipe of the author, which an upload would run again.
    if (content.get("key"), content.get("recipe")) != (plan.key, recipe_digest(plan.spec)):
        return None
    package = content.get("package")
    return package if isinstance(package, dict) else None
