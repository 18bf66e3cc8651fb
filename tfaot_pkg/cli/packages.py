"""Commands that use what is published: search, show, install, uninstall, verify-install, rebuild-check."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.options import (
    DebugFlag,
    JsonFlag,
    KeysOption,
    OfflineFlag,
    PackageArgument,
    PassphraseFileOption,
    PrefixOption,
    RegistryOption,
    ToolchainPythonOption,
    UnconfinedFlag,
    VerboseFlag,
    WheelhouseOption,
)
from tfaot_pkg.cli.registries import open_registry
from tfaot_pkg.errors import NetworkError, RegistryError
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry
from tfaot_pkg.wording import counted

if TYPE_CHECKING:
    from tfaot_pkg.prefix.install import Installed
    from tfaot_pkg.prefix.verify import PrefixReport
    from tfaot_pkg.rebuild import Rebuilt
    from tfaot_pkg.registry.folder import FolderRegistry
    from tfaot_pkg.registry.reader import RegistryReader, SearchResult


def register(app: typer.Typer) -> None:
    for command in (search, show, uninstall):
        app.command()(command)
    app.command("verify-install")(verify_install)
    app.command()(yank)
    app.command()(unyank)
    app.command()(deprecate)
    app.command("rebuild-check")(rebuild_check)
    app.command("conan-home")(conan_home)


def search(
    text: Annotated[str, typer.Argument(help="Words of name, description or licence. (default: all)")] = "",
    *,
    registry: RegistryOption = None,
    offline: OfflineFlag = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Find packages.

    Example: tfaot-pkg search tagger
    """
    session = Session()
    result = session.open_registry(registry, offline=offline).search(text)
    session.result(result.as_dict(), found_text(result))


def found_text(result: SearchResult) -> str:
    """What a search found, for people."""
    width = max((len(str(entry)) for entry in result.found), default=0)
    lines = [
        f"{entry!s:<{width}}  {entry.description}".rstrip()
        + f" [deprecated: {entry.deprecated}]" * bool(entry.deprecated)
        for entry in result.found
    ]
    if result.yanked and not lines:
        lines = ["only packages whose versions are all yanked (tfaot-pkg show NAME tells why):", *result.yanked]
    lines += [f"damaged: {message}" for message in result.damaged]
    return "\n".join(lines) or "nothing found"


def show(
    package: PackageArgument,
    *,
    provenance: Annotated[bool, typer.Option("--provenance", help="Print its SLSA provenance (JSON).")] = False,
    sbom: Annotated[bool, typer.Option("--sbom", help="Print its bill of materials (CycloneDX JSON).")] = False,
    validation: Annotated[bool, typer.Option("--validation", help="Print its validation report (JSON).")] = False,
    registry: RegistryOption = None,
    offline: OfflineFlag = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show one version of a package: interface, targets, origin; or one of its documents, as it was published.

    Examples: tfaot-pkg show digits@1.0.0; tfaot-pkg show digits@1.0.0 --sbom
    """
    session = Session()
    opened = session.open_registry(registry, offline=offline)
    entry = opened.resolve(package)
    roles = [role for role, asked in (("provenance", provenance), ("sbom", sbom), ("validation", validation)) if asked]
    if roles:
        show_documents(session, opened, entry, roles)
        return
    others, deprecation = opened.entries(entry.name), opened.deprecation(entry.name)
    validated = _validated(opened, entry)
    document = {
        **entry.as_dict(),
        "validated": validated,
        "versions": [other.version for other in others],
        "deprecated": deprecation.as_dict() if deprecation else None,
    }
    session.result(document, _show_text(entry, others, deprecation, validated))


def show_documents(session: Session, reader: RegistryReader, entry: RegistryEntry, roles: list[str]) -> None:
    """Print documents of `entry` as they are in the registry; several as one JSON object by role."""
    from tfaot_pkg.provenance.documents import parse_document, read_document

    texts = {role: read_document(reader, entry, role) for role in roles}
    documents = {role: parse_document(text, entry, role) for role, text in texts.items()}
    if len(roles) == 1:
        session.result(documents[roles[0]], texts[roles[0]].decode())
    else:
        session.result(documents, json.dumps(documents, indent=2, ensure_ascii=False))


def _validated(reader: RegistryReader, entry: RegistryEntry) -> dict[str, str]:
    """How the code of each target was run to validate it; empty if the report is not there or cannot be had now."""
    from tfaot_pkg.provenance.documents import VALIDATION, parse_document, read_document

    if VALIDATION not in entry.blobs:
        return {}
    try:
        document = parse_document(read_document(reader, entry, VALIDATION), entry, VALIDATION)
    except (RegistryError, NetworkError):
        return {}
    targets = document.get("targets") if isinstance(document, dict) else None
    ways = {name: targets.get(name) for name in entry.targets} if isinstance(targets, dict) else {}
    return {name: how for name, how in ways.items() if isinstance(how, str) and how.isprintable()}


def _show_text(
    entry: RegistryEntry,
    others: Sequence[RegistryEntry],
    deprecation: Deprecation | None,
    validated: Mapping[str, str],
) -> str:
    rows = {
        "package": str(entry),
        "description": entry.description,
        "licence": entry.license,
        "inputs": "\n".join(map(str, entry.signature.inputs)),
        "outputs": "\n".join(map(str, entry.signature.outputs)),
        "batch sizes": entry.batch_sizes_text,
        "targets": ", ".join(entry.targets),
        **verified_rows(validated),
        "toolchain": entry.toolchain,
        "glibc": entry.glibc and f"{entry.glibc} or newer",
        "published": entry.published,
        "size": ", ".join(f"{role} {counted(blob.size, 'byte')}" for role, blob in entry.blobs.items()),
        "key": entry.key,
        "yanked": entry.yanked or "",
        "deprecated": str(deprecation or ""),
        "versions": ", ".join(other.version + " (yanked)" * (other.yanked is not None) for other in others),
    }
    return "\n".join(
        f"{name + ': ':<13}{value.replace(chr(10), chr(10) + ' ' * 13)}" for name, value in rows.items() if value
    )


def verified_rows(validated: Mapping[str, str]) -> dict[str, str]:
    """Targets by how their code was run to validate it, for people: those that were not run are not verified."""
    ran = [f"{name} ({how})" for name, how in validated.items() if how != "not run"]
    return {
        "verified": ", ".join(ran),
        "not verified": ", ".join(name for name, how in validated.items() if how == "not run"),
    }


def installed_text(done: Installed) -> str:
    """What an installation did, for people."""
    before = f" (was {done.previous})" if done.previous and done.previous != done.version else ""
    return f"{done.name} {done.version}: {done.status} in {done.prefix}{before}"


def uninstall(
    package: PackageArgument,
    *,
    prefix: PrefixOption,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Remove a package from a prefix. Files that were changed since are kept.

    Example: tfaot-pkg uninstall digits --prefix external
    """
    from tfaot_pkg.prefix.install import uninstall as uninstall_package

    session = Session()
    done = uninstall_package(package, prefix)
    kept = "".join(f"\nkept, because it was changed: {path}" for path in done.kept)
    session.result(done.as_dict(), f"{done.name} {done.version}: removed from {done.prefix}{kept}")


def verify_install(
    prefix: Annotated[Path, typer.Argument(metavar="PREFIX", help="A prefix that packages are installed in.")],
    *,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Compare every installed file with what was installed; exit code 0, or 22 where something is missing or changed.

    Example: tfaot-pkg verify-install external
    """
    from tfaot_pkg.errors import PrefixError
    from tfaot_pkg.prefix.verify import verify_install as verify

    session = Session()
    report = verify(prefix.absolute())
    session.result(report.as_dict(), _verified_text(report))
    if not report.ok:
        raise typer.Exit(PrefixError.exit_code)


def _verified_text(report: PrefixReport) -> str:
    lines = []
    for part in report.parts:
        lines.append(f"{part.name} {part.version}: {'ok' if part.ok else 'damaged'}".replace(" :", ":"))
        lines += [f"  missing: {path}" for path in part.missing]
        lines += [f"  changed: {path}" for path in part.changed]
        lines += ["  its installation or removal was interrupted"] * part.interrupted
    if not report.ok:
        lines.append("install the damaged packages again, and they are repaired")
    return "\n".join(lines)


def rebuild_check(
    package: PackageArgument,
    *,
    registry: RegistryOption = None,
    offline: OfflineFlag = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source", metavar="DIR", help="A folder with the model's files. (default: fetched as published)"
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE", help="The validation inputs, where the spec names a file."),
    ] = None,
    toolchain_python: ToolchainPythonOption = None,
    wheelhouse: WheelhouseOption = None,
    unconfined: UnconfinedFlag = False,
    json_: JsonFlag = False,
    verbose: VerboseFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Build a published package again from its provenance, with an empty cache, and compare every byte.

    Exit code 0: reproducible; 18: something differs (said file by file); 23: it cannot be built again here (said why).

    Example: tfaot-pkg rebuild-check digits@1.0.0 --source recipes/tfaot-model-digits/all
    """
    from tfaot_pkg.rebuild import Means
    from tfaot_pkg.rebuild import rebuild_check as rebuild

    session = Session()
    opened = session.open_registry(registry, offline=offline)
    means = Means(
        folders=session.folders,
        progress=session.progress,
        source=source,
        inputs=inputs,
        toolchain_python=toolchain_python,
        wheelhouse=wheelhouse,
    )
    found = rebuild(opened, package, means)
    session.result(found.as_dict(), _rebuilt_text(found))
    if found.exit_code:
        raise typer.Exit(found.exit_code)


def _rebuilt_text(found: Rebuilt) -> str:
    match found.verdict:
        case "reproducible":
            return f"{found.entry}: reproducible: {counted(found.files, 'file')}, the same byte for byte"
        case "cannot":
            return "\n".join([f"{found.entry}: cannot be built again here", *[f"  {why}" for why in found.reasons]])
        case "differs":
            lines = [f"{found.entry}: differs in {len(found.differing)} of {counted(found.files, 'file')}"]
            lines += [f"  {each}" for each in found.differing]
            if found.same_libraries:
                lines.append("libraries and headers are the same: numbers of a validation can differ between CPUs")
            return "\n".join(lines)


def yank(
    package: Annotated[str, typer.Argument(metavar="NAME@VERSION", help="The version to hide from resolvers.")],
    *,
    reason: Annotated[str, typer.Option(help="Why; shown to those who use it.")] = "",
    registry: RegistryOption = None,
    keys: KeysOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Hide a version: nobody gets it any more who does not ask for exactly it. Nothing is deleted.

    Example: tfaot-pkg yank digits@1.0.1 --reason "trained on the wrong data"
    """
    session = Session()
    name, version = _name_and_version(package)
    opened = open_registry(registry, keys, passphrase_file, session)
    entry = opened.yank(name, version, reason)
    _update_catalogue(opened, name, session)
    session.result({"entry": entry.as_dict()}, f"{entry}: yanked ({entry.yanked})")


def unyank(
    package: Annotated[str, typer.Argument(metavar="NAME@VERSION", help="The version to offer again.")],
    *,
    registry: RegistryOption = None,
    keys: KeysOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Take a yank back.

    Example: tfaot-pkg unyank digits@1.0.1
    """
    session = Session()
    name, version = _name_and_version(package)
    opened = open_registry(registry, keys, passphrase_file, session)
    entry = opened.unyank(name, version)
    _update_catalogue(opened, name, session)
    session.result({"entry": entry.as_dict()}, f"{entry}: not yanked")


def _update_catalogue(registry: FolderRegistry, package: str, session: Session) -> None:
    from tfaot_pkg.catalogue.render import update_or_note

    update_or_note(registry, package, session.progress)


def _name_and_version(text: str) -> tuple[str, str]:
    from tfaot_pkg.errors import RegistryError
    from tfaot_pkg.registry.requirement import Requirement

    version = text.partition("@")[2]
    if not version:
        raise RegistryError(f"{text!r} names no version", hint="write NAME@VERSION")
    return Requirement.parse(text).package, version.strip()


def deprecate(
    package: Annotated[str, typer.Argument(metavar="NAME", help="The package, all of its versions.")],
    *,
    use: Annotated[str, typer.Option(metavar="OTHER", help="The package to use instead.")] = "",
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
    registry: RegistryOption = None,
    keys: KeysOption = None,
    passphrase_file: PassphraseFileOption = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Say that a package should not be used any more: search, show, resolve and install tell; install still works.

    Example: tfaot-pkg deprecate digits --use digits2
    """
    from tfaot_pkg.package.name import package_meant_by

    session = Session()
    opened = open_registry(registry, keys, passphrase_file, session)
    opened.deprecate(package, None if undo else Deprecation(use=use, reason=reason))
    name, now = package_meant_by(package), opened.deprecation(package)
    _update_catalogue(opened, name, session)
    document = {"package": name, "deprecated": now.as_dict() if now else None}
    session.result(document, f"{name}: deprecated ({now})" if now else f"{name}: not deprecated")


def conan_home(*, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """Print the Conan home that `publish` fills.

    Example: CONAN_HOME=$(tfaot-pkg conan-home) conan install .
    """
    session = Session()
    session.result({"conan_home": str(session.folders.conan_home)}, str(session.folders.conan_home))
