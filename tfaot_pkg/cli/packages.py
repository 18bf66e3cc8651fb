"""Commands about packages: search, show, list, export, uninstall, verify-install, rebuild-check, yank, deprecate."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tfaot_pkg.cli.artifacts import OciLayoutOption, OciOption, PlainHttpFlag, export_artifact
from tfaot_pkg.cli.channels import ByOption, FollowOption
from tfaot_pkg.cli.command import PackageArgument, PrefixArgument, PrefixOption, Result, Session, command
from tfaot_pkg.errors import NetworkError, RegistryError
from tfaot_pkg.ground import reduced, reproducible
from tfaot_pkg.ground.documents import fields_of
from tfaot_pkg.ground.wording import AUTHORED, counted

if TYPE_CHECKING:
    from tfaot_pkg.analysis.accuracy import Accuracy
    from tfaot_pkg.ground.signature import Signature, Tensor
    from tfaot_pkg.package.prefix.install import Installed
    from tfaot_pkg.package.prefix.manifest import PrefixReport
    from tfaot_pkg.pipeline.rebuild import Rebuilt
    from tfaot_pkg.registry.entry import Deprecation, RegistryEntry
    from tfaot_pkg.registry.reader import RegistryReader, SearchResult
    from tfaot_pkg.registry.static import StaticRegistry
    from tfaot_pkg.registry.writable import WritableRegistry
    from tfaot_pkg.verify.hashes import Hashes
    from tfaot_pkg.verify.installed import AnswersReport


def register(app: typer.Typer) -> None:
    for each in (search, show, export, uninstall, verify_install, yank, unyank, deprecate, rebuild_check, conan_home):
        app.command()(each)
    app.command("list")(list_)


@command("registry", "offline")
def search(
    session: Session,
    text: Annotated[
        str, typer.Argument(help="Words of the name, description or licence. (default: list all packages)")
    ] = "",
) -> Result:
    """Find packages.

    Example: tfaot-pkg search tagger
    """
    opened = session.open_registries()
    results = {name: registry.search(text) for name, registry in opened.items()}
    # Lines are cut for terminals only: a program that reads a pipe gets whole descriptions.
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    near = [] if any(each.found or each.yanked for each in results.values()) else _near(text, opened.values())
    document = {
        "found": [{**fields_of(one), "registry": name} for name, each in results.items() for one in each.found],
        "yanked": [one for each in results.values() for one in each.yanked],
        "damaged": [one for each in results.values() for one in each.damaged],
        "near": near,
    }
    parts = [found_text(each, columns) for each in results.values()]
    if len(parts) > 1:
        parts = [f"{name}:\n{textwrap.indent(part, '  ')}" for name, part in zip(results, parts, strict=True)]
    return Result(document=document, text="\n".join([*parts, *(f"did you mean {one}?" for one in near)]))


def _near(text: str, registries: Iterable[StaticRegistry]) -> list[str]:
    """Models whose names are like `text`."""
    from tfaot_pkg.package.name import model_of
    from tfaot_pkg.registry.reader import names_like

    text = text.strip().lower()
    return [model_of(name) for name in names_like(text, registries)] if text else []


_NAMES, _LEAST = 48, 20
"""Widths: of the column of names at most, of a description on a terminal at least."""


def found_text(result: SearchResult, columns: int = 0) -> str:
    """The results of a search, one package per line; lines are cut to `columns` characters, unless that is 0."""
    width = min(_NAMES, max((len(str(entry)) for entry in result.found), default=0))
    lines = []
    for entry in result.found:
        name, note = f"{entry!s:<{width}}", f" [deprecated: {entry.deprecated}]" * bool(entry.deprecated)
        # A description may have several lines: in the list a package has one.
        text, room = " ".join(entry.description.split()), max(_LEAST, columns - len(name) - len(note) - 2)
        # Only the description is cut, never the note, which is a warning.
        cut = text if not columns or len(text) <= room else f"{text[: room - 1]}…"
        lines.append(f"{name}  {cut}".rstrip() + note)
    if result.yanked and not lines:
        lines = ["only packages whose versions are all yanked (tfaot-pkg show NAME says why):", *result.yanked]
    lines += [f"damaged: {message}" for message in result.damaged]
    return "\n".join(lines) or "nothing found"


@command("registry", "offline")
def show(
    session: Session,
    package: PackageArgument,
    *,
    provenance: Annotated[bool, typer.Option("--provenance", help="Print its SLSA provenance (JSON).")] = False,
    attestation: Annotated[
        bool, typer.Option("--attestation", help="Print its provenance as its publisher signed it (DSSE JSON).")
    ] = False,
    sbom: Annotated[bool, typer.Option("--sbom", help="Print its bill of materials (CycloneDX JSON).")] = False,
    validation: Annotated[bool, typer.Option("--validation", help="Print its validation report (JSON).")] = False,
    channel: FollowOption = "",
    arch: Annotated[
        str, typer.Option("--arch", metavar="ARCH", help="The package for this architecture: x86_64, aarch64.")
    ] = "",
) -> Result:
    """Show one version of a package: interface, targets, origin; or one of its documents, as it was published.

    Examples: tfaot-pkg show digits@1.0.0; tfaot-pkg show digits@1.0.0 --sbom
    """
    from tfaot_pkg.registry.dependencies.resolution import Constraints
    from tfaot_pkg.registry.files.layout import LATENCY
    from tfaot_pkg.registry.reader import INFO, VALIDATION

    opened = session.open_registry_of(package)
    entry = _shown(opened, package, channel, Constraints.parse(architecture=arch).machine)
    asked = {"provenance": provenance, "attestation": attestation, "sbom": sbom, "validation": validation}
    roles = [role for role, wanted in asked.items() if wanted]
    if roles:
        return _documents_result(opened, entry, roles)
    others, deprecation = opened.entries(entry.name), opened.deprecation(entry.name)
    report, bits = _document(opened, entry, VALIDATION), reproducible.told_by(_document(opened, entry, INFO))
    validated, hashes, contains = _validated(report, entry), _hashes(report), _contains(report)
    precision, accuracy = reduced.told_by(report), _accuracy(report)
    gains = reduced.gains_told_by(_document(opened, entry, LATENCY)) if precision else ()
    channels = opened.channels_of(entry.package)
    document = {
        **entry.as_dict(),
        "architectures": [one.architecture for one in entry.trees],
        "channels": channels,
        "validated": validated,
        "hashes": hashes,
        "contains": contains,
        "bits": bits,
        **({"precision": report["precision"]} if precision else {}),
        **({"accuracy": accuracy} if accuracy else {}),
        **({"gains": gains} if gains else {}),
        "versions": [other.version for other in others],
        "deprecated": deprecation,
    }
    more = {
        "answers": str(hashes or ""), "bits": bits, "precision": precision,
        "errors": "\n".join(f"{each.output}: {each}" for each in accuracy), "gains": "\n".join(gains),
        "contains": contains, "channels": "\n".join(map(str, channels)),
    }  # fmt: skip
    return Result(document=document, text=_show_text(entry, others, deprecation, validated, more))


def _shown(opened: StaticRegistry, package: str, channel: str, architecture: str) -> RegistryEntry:
    """What `install` would take on `architecture`; without one on this machine, or else whatever there is."""
    if architecture:
        return opened.resolve(package, channel, architecture)
    try:
        return opened.resolve(package, channel, platform.machine())
    except RegistryError:
        return opened.resolve(package, channel)


def _documents_result(reader: RegistryReader, entry: RegistryEntry, roles: list[str]) -> Result:
    """Documents of `entry` as they are in the registry; several as one JSON object by role."""
    from tfaot_pkg.registry.reader import package_document, parse_document

    texts = {role: package_document(reader, entry, role) for role in roles}
    documents = {role: parse_document(text, entry, role) for role, text in texts.items()}
    if len(roles) == 1:
        return Result(document=documents[roles[0]], text=texts[roles[0]].decode())
    return Result(document=documents, text=json.dumps(documents, indent=2, ensure_ascii=False))


def _document(reader: RegistryReader, entry: RegistryEntry, role: str) -> Mapping[str, Any]:
    """A document of `entry`, such as the validation report; empty if there is none or it cannot be fetched."""
    from tfaot_pkg.registry.reader import package_document, parse_document

    if role not in entry.blobs:
        return {}
    try:
        document = parse_document(package_document(reader, entry, role), entry, role)
    except (RegistryError, NetworkError):
        # The entry answers most of what `show` is asked: it must not fail because one document cannot be fetched.
        return {}
    return document if isinstance(document, dict) else {}


def _validated(report: Mapping[str, Any], entry: RegistryEntry) -> dict[str, str]:
    """How the code of each target was run to validate it."""
    targets = report.get("targets")
    # A publisher wrote the report: only texts of the expected form are shown.
    ways = {name: targets.get(name) for name in entry.targets} if isinstance(targets, dict) else {}
    return {name: how for name, how in ways.items() if isinstance(how, str) and how.isprintable()}


def _contains(report: Mapping[str, Any]) -> str:
    """That the library has code of the model's author; empty if it has none."""
    names = report.get(AUTHORED)
    shown = [name for name in names if isinstance(name, str) and name.isprintable()] if isinstance(names, list) else []
    return f"its author's operations: {', '.join(shown)}" if shown else ""


def _hashes(report: Mapping[str, Any]) -> Hashes | None:
    """The hashes of answers; None if the report has none that this version can read."""
    if not report:
        return None
    from tfaot_pkg.verify.report import hashes_in  # NumPy takes time to import

    try:
        return hashes_in(report)
    except ValueError:
        return None


def _accuracy(report: Mapping[str, Any]) -> tuple[Accuracy, ...]:
    """The errors of each output on the target with the largest; none if the report has none that can be read."""
    if "accuracy" not in report:
        return ()
    from tfaot_pkg.analysis.accuracy import worst
    from tfaot_pkg.verify.report import accuracy_in  # NumPy takes time to import

    try:
        return tuple(each for each in worst(accuracy_in(report)) if each.is_printable)
    except ValueError:
        return ()


def border_rows(signature: Signature) -> dict[str, str]:
    """Inputs and outputs; of several signatures, a line for each."""
    if not signature.parts:
        return {"inputs": "\n".join(map(str, signature.inputs)), "outputs": "\n".join(map(str, signature.outputs))}
    own = {part.name: signature.of(part) for part in signature.parts}
    lines = [f"{name}: {_listed(each.inputs)} -> {_listed(each.outputs)}" for name, each in own.items()]
    return {"signatures": "\n".join(lines)}


def _listed(tensors: Iterable[Tensor]) -> str:
    return ", ".join(map(str, tensors))


def _show_text(
    entry: RegistryEntry,
    others: Sequence[RegistryEntry],
    deprecation: Deprecation | None,
    validated: Mapping[str, str],
    more: Mapping[str, str],
) -> str:
    """`more` are rows of what the package's documents say."""
    rows = {
        "package": str(entry),
        "description": entry.description,
        "licence": entry.license,
        **border_rows(entry.signature),
        "batch sizes": entry.batch_sizes_text,
        "targets": ", ".join(entry.targets),
        "also for": "; ".join(", ".join(one.targets) for one in entry.others),
        **verified_rows(validated),
        **more,
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
    """The rows of targets that were verified, with how their code was run, and of those that were not run."""
    ran = [f"{name} ({how})" for name, how in validated.items() if how != "not run"]
    return {
        "verified": ", ".join(ran),
        "not verified": ", ".join(name for name, how in validated.items() if how == "not run"),
    }


def installed_text(done: Installed) -> str:
    """The outcome of an installation in words."""
    before = f" (was {done.previous})" if done.previous and done.previous != done.version else ""
    return f"{done.name} {done.version}: {done.status} in {done.prefix}{before}"


@command()
def list_(
    session: Session,
    prefix: PrefixArgument = None,
) -> Result:
    """List the packages that are installed in a prefix.

    Example: tfaot-pkg list external
    """
    from tfaot_pkg.package.prefix.manifest import list_prefix

    place = session.prefix(prefix).absolute()
    found = list_prefix(place)
    lines = [f"{one.name} {one.version}".rstrip() + " (interrupted: install it again)" * one.damaged for one in found]
    return Result(
        document={"prefix": str(place), "packages": found},
        text="\n".join(lines)
        or f"no package is installed in {session.prefix(prefix)} (tfaot-pkg search lists what there is)",
    )


@command("registry", "offline")
def export(
    session: Session,
    package: PackageArgument,
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="DIR",
            help="Write the sources, which CMake and a C++17 compiler build without this tool, into this folder, which "
            "must not exist yet. For packages whose spec has `package: {source: true}`.",
        ),
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(
            "--wheel",
            metavar="DIR",
            help="Write a wheel for each architecture into this folder: pip installs a Python module that needs NumPy "
            "alone, with CMake and pkg-config files for C++.",
        ),
    ] = None,
    conda: Annotated[
        Path | None,
        typer.Option(
            "--conda",
            metavar="DIR",
            help="Write a conda package for each architecture, for C++ in an environment, and one of the headers that "
            "models share, into the folders of this conda channel.",
        ),
    ] = None,
    tree: Annotated[
        Path | None,
        typer.Option(
            "--tree",
            metavar="DIR",
            help="Add a prefix for each architecture to this folder, as DIR/PACKAGE/VERSION/ARCH, for CVMFS and other "
            "file systems that machines share, and let DIR/PACKAGE/current lead to the version.",
        ),
    ] = None,
    recipe: Annotated[
        tuple[str, Path] | None,
        typer.Option(
            "--recipe",
            metavar="MANAGER DIR",
            help="Write the sources with what a package manager builds them by, into new folders below DIR: bazel, "
            "debian, nix, spack or vcpkg. For packages with sources.",
        ),
    ] = None,
    oci: OciOption = "",
    oci_layout: OciLayoutOption = None,
    plain_http: PlainHttpFlag = False,
    prefix: Annotated[
        Path | None,
        typer.Option(
            "--prefix",
            metavar="DIR",
            help="Take the package that is installed in this prefix. (default: from the registry)",
        ),
    ] = None,
    arch: Annotated[
        str,
        typer.Option(
            "--arch", metavar="ARCH", help="Wheels, conda packages, trees and artifacts for this architecture only."
        ),
    ] = "",
) -> Result:
    """Write a package in another form: sources, recipes, a wheel, a conda package, a shared tree, or an OCI artifact.

    The package is verified as for an installation. Files that exist are not replaced.

    Examples: tfaot-pkg export digits@1.0.0 --source digits; tfaot-pkg export digits@1.0.0 --wheel wheels; tfaot-pkg
    export digits --prefix external --conda channel; tfaot-pkg export digits@1.0.0 --oci registry.example.org/ada/digits
    """
    archives = {"--wheel": wheel, "--conda": conda, "--tree": tree, "--recipe": recipe[1] if recipe else None}
    form = _chosen({"--source": source, **archives, "--oci": oci or None, "--oci-layout": oci_layout})
    if prefix is not None and (session.registry is not None or session.flags.offline or arch):
        raise typer.BadParameter("--prefix asks no registry: leave out --registry, --offline and --arch")
    if form in ("--oci", "--oci-layout"):
        if prefix is not None:
            raise typer.BadParameter("an artifact has what was published: leave out --prefix")
        return export_artifact(session, package, oci_layout or oci, arch, plain_http=plain_http)
    if plain_http:
        raise typer.BadParameter("--plain-http needs --oci")
    if source is not None:
        return _export_source(session, package, source, prefix, arch)
    kind, folder = _known(recipe, arch) if recipe else form.removeprefix("--"), archives[form]
    assert folder is not None
    return _export_files(session, package, kind, folder, prefix, arch)


def _known(recipe: tuple[str, Path], arch: str) -> str:
    """The package manager of `--recipe`."""
    from tfaot_pkg.pipeline.distributions.recipe import MANAGERS

    if recipe[0] not in MANAGERS:
        raise typer.BadParameter(f"--recipe knows {', '.join(MANAGERS)}, and not {recipe[0]}")
    if arch:
        raise typer.BadParameter("sources are for all architectures: leave out --arch")
    return recipe[0]


def _export_files(session: Session, package: str, kind: str, folder: Path, prefix: Path | None, arch: str) -> Result:
    from tfaot_pkg.pipeline.distributions import exporting
    from tfaot_pkg.registry.dependencies.resolution import Constraints

    form = cast("exporting.Kind", kind)
    if prefix is not None:
        done = exporting.export_installed(prefix, package, form, folder)
    else:
        machine = Constraints.parse(architecture=arch).machine if arch else ""
        done = exporting.export_published(session.open_registry_of(package), package, form, folder, machine)
    lines = [*(f"{done.name} {done.version}: wrote {path}" for path in done.files), *done.notes]
    return Result(document=done, text="\n".join(lines))


def _chosen(forms: Mapping[str, object]) -> str:
    """The one of `forms` that is given."""
    given = [name for name, value in forms.items() if value is not None]
    if len(given) != 1:
        *others, last = forms
        raise typer.BadParameter(f"name one of {', '.join(others)} and {last}")
    return given[0]


def _export_source(session: Session, package: str, folder: Path, prefix: Path | None, arch: str) -> Result:
    from tfaot_pkg.registry.source_export import export_installed, export_published

    if arch:
        raise typer.BadParameter("sources are for all architectures: leave out --arch")
    if prefix is not None:
        done = export_installed(prefix, package, folder)
    else:
        done = export_published(session.open_registry_of(package), package, folder)
    files = counted(done.files, "file")
    return Result(document=done, text=f"{done.name} {done.version}: wrote {files} into {done.folder}")


@command()
def uninstall(
    session: Session,
    package: PackageArgument,
    *,
    prefix: PrefixOption = None,
) -> Result:
    """Remove a package from a prefix. Files that were changed since the installation are kept.

    Example: tfaot-pkg uninstall digits --prefix external
    """
    from tfaot_pkg.package.prefix.install import uninstall as uninstall_package

    done = uninstall_package(package, session.prefix(prefix))
    kept = "".join(f"\nkept, because it was changed: {path}" for path in done.kept)
    return Result(document=done, text=f"{done.name} {done.version}: removed from {done.prefix}{kept}")


@command()
def verify_install(
    session: Session,
    prefix: PrefixArgument = None,
    *,
    run: Annotated[
        bool,
        typer.Option(
            "--run",
            help="Also run each library on stored inputs, with the code of each target that this CPU can run, and "
            "compare the bits of its answers with those of its build.",
        ),
    ] = False,
) -> Result:
    """Compare every installed file with what was installed.

    Exit code 0; 22 if a file is missing or changed; with --run, 15 if answers have other bits or a library does not
    run. A package without hashes of answers is named with the reason, and changes no exit code.

    Examples: tfaot-pkg verify-install external; tfaot-pkg verify-install external --run
    """
    from tfaot_pkg.errors import PrefixError, ValidationError
    from tfaot_pkg.package.prefix.manifest import verify_install as verify

    report = verify(session.prefix(prefix).absolute())
    exit_code = 0 if report.ok else PrefixError.exit_code
    if not run:
        return Result(document=report, text=_verified_text(report), exit_code=exit_code)
    from tfaot_pkg.verify.installed import check_answers

    answers = list(check_answers(report))
    # A damaged file outweighs other answers: it may be their cause.
    if exit_code == 0 and not all(each.ok for each in answers):
        exit_code = ValidationError.exit_code
    document = {**report.as_dict(), "answers": answers}
    text = "\n".join([_verified_text(report), *map(_answers_text, answers)])
    return Result(document=document, text=text, exit_code=exit_code)


def _answers_text(report: AnswersReport) -> str:
    head = f"{report.name} {report.version}: answers"
    if report.not_checked:
        return f"{head} not checked: {report.not_checked}"
    if report.ok:
        return f"{head} ok: the same bits as at the build ({', '.join(report.checked)})"
    lines = [f"{head} are not those of the build", *(f"  other bits: {each}" for each in report.different)]
    return "\n".join([*lines, *(f"  {target} did not run: {why}" for target, why in report.failed.items())])


def _verified_text(report: PrefixReport) -> str:
    lines = []
    for part in report.parts:
        # An interrupted installation may have no version yet.
        lines.append(f"{part.name} {part.version}: {'ok' if part.ok else 'damaged'}".replace(" :", ":"))
        lines += [f"  missing: {path}" for path in part.missing]
        lines += [f"  changed: {path}" for path in part.changed]
        lines += ["  its installation or removal was interrupted"] * part.interrupted
    if not report.ok:
        lines.append("to repair the damaged packages, install them again")
    return "\n".join(lines)


@command("registry", "offline", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def rebuild_check(
    session: Session,
    package: PackageArgument,
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source", metavar="DIR", help="A folder with the model's files. (default: fetched as published)"
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="The file of validation inputs, if the spec names one. (default: in the source folder)",
        ),
    ] = None,
) -> Result:
    """Build a published package again from its provenance, with an empty cache, and compare every byte.

    Exit code 0: reproducible; 18: files differ (each is listed); 23: it cannot be built again here (with the reasons).

    Example: tfaot-pkg rebuild-check digits@1.0.0 --source digits
    """
    from tfaot_pkg.pipeline.rebuild import Means
    from tfaot_pkg.pipeline.rebuild import rebuild_check as rebuild

    opened = session.open_registry_of(package)
    means = Means(
        folders=session.folders,
        progress=session.progress,
        source=source,
        inputs=inputs,
        toolchain_python=session.flags.toolchain_python,
        wheelhouse=session.wheelhouse,
    )
    found = rebuild(opened, package, means)
    return Result(document=found, text=_rebuilt_text(found), exit_code=found.exit_code)


def _rebuilt_text(found: Rebuilt) -> str:
    match found.verdict:
        case "reproducible":
            return f"{found.entry}: reproducible: {counted(found.files, 'file')}, identical byte for byte"
        case "cannot":
            return "\n".join([f"{found.entry}: cannot be built again here", *[f"  {why}" for why in found.reasons]])
        case "differs":
            lines = [f"{found.entry}: differs in {len(found.differing)} of {counted(found.files, 'file')}"]
            lines += [f"  {each}" for each in found.differing]
            if found.same_libraries:
                lines.append("libraries and headers are the same; numbers of a validation can differ between CPUs")
            return "\n".join(lines)


@command("registry", "keys", "passphrase_file")
def yank(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="NAME@VERSION", help="The version to yank.")],
    *,
    reason: Annotated[str, typer.Option(help="Why; users of the version see it.")] = "",
    by: ByOption = "",
) -> Result:
    """Yank a version: it is no longer chosen unless exactly it is asked for. Nothing is deleted.

    Example: tfaot-pkg yank digits@1.0.1 --reason "trained on the wrong data"
    """
    name, version = _name_and_version(package)
    opened = session.writable_registry()
    entry = opened.yank(name, version, reason, by=by)
    # The yank is in force from here on, whatever becomes of the pages.
    _update_catalogue(opened, name, session)
    return Result(document={"entry": entry}, text=_with_channels(f"{entry}: yanked ({entry.yanked})", opened, name))


@command("registry", "keys", "passphrase_file")
def unyank(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="NAME@VERSION", help="The version to offer again.")],
    *,
    by: ByOption = "",
) -> Result:
    """Undo a yank.

    Example: tfaot-pkg unyank digits@1.0.1
    """
    name, version = _name_and_version(package)
    opened = session.writable_registry()
    entry = opened.unyank(name, version, by=by)
    _update_catalogue(opened, name, session)
    return Result(document={"entry": entry}, text=_with_channels(f"{entry}: not yanked", opened, name))


def _with_channels(text: str, registry: WritableRegistry, package: str) -> str:
    """`text`, and what each channel has of `package` now: a yank moves them, and an unyank does not move them back."""
    return "\n".join([text, *(f"  {one}" for one in registry.channels_of(package))])


def _update_catalogue(registry: WritableRegistry, package: str, session: Session) -> None:
    from tfaot_pkg.catalogue.render import update_or_note

    update_or_note(registry, package, session.progress)


def _name_and_version(text: str) -> tuple[str, str]:
    from tfaot_pkg.registry.reader import Requirement

    version = text.partition("@")[2]
    if not version:
        raise RegistryError(f"{text!r} names no version", hint="write NAME@VERSION")
    # The whole text is parsed, not only its name: a version that is none is reported before the registry is opened.
    return Requirement.parse(text).package, version.strip()


@command("registry", "keys", "passphrase_file")
def deprecate(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="PACKAGE", help="The package, with all its versions.")],
    *,
    use: Annotated[str, typer.Option(metavar="OTHER", help="The package to use instead.")] = "",
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Undo the deprecation.")] = False,
) -> Result:
    """Deprecate a package: search, show, resolve and install say so; it can still be installed.

    Example: tfaot-pkg deprecate digits --use digits2
    """
    from tfaot_pkg.package.name import package_meant_by
    from tfaot_pkg.registry.entry import Deprecation

    opened = session.writable_registry()
    opened.deprecate(package, None if undo else Deprecation(use=use, reason=reason))
    name, now = package_meant_by(package), opened.deprecation(package)
    _update_catalogue(opened, name, session)
    document = {"package": name, "deprecated": now}
    return Result(document=document, text=f"{name}: deprecated ({now})" if now else f"{name}: not deprecated")


@command()
def conan_home(session: Session) -> Result:
    """Print the Conan home that `publish` fills.

    Example: CONAN_HOME=$(tfaot-pkg conan-home) conan install .
    """
    return Result(document={"conan_home": str(session.folders.conan_home)}, text=str(session.folders.conan_home))
