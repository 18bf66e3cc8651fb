"""Commands about the tool on this machine: help, version, settings, toolchain (a group), schema, doctor."""

from __future__ import annotations

import json
import platform
import re
from pathlib import Path
from typing import Annotated

import typer

from tfaot_pkg._version import __version__
from tfaot_pkg.cli.command import Result, Session, command, require_writable
from tfaot_pkg.cli.groups import Group

VersionArgument = Annotated[str, typer.Argument(help="A TensorFlow version, such as 2.17.1.", metavar="TENSORFLOW")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=Group,
        help="Environments of TensorFlow, installed on demand and shared by all projects.",
        no_args_is_help=True,
    )
    group.command("add")(add_toolchain)
    group.command("list")(list_toolchains)
    group.command("remove")(remove_toolchain)
    group.command("try")(try_toolchain)
    app.add_typer(group, name="toolchain")
    # Defaults of its own: by the program's, which have one for the flag of the same name, Click would go wrong.
    app.command("help", context_settings={"default_map": {}})(help_)
    for each in (version, settings, schema, doctor):
        app.command()(each)


@command(json=False)
def help_(
    session: Session,
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND|PAGE", help="A command, or a page of the documentation. (default: list both)"),
    ] = None,
) -> Result:
    """Explain a command, or print a page of the documentation.

    Examples: tfaot-pkg help build; tfaot-pkg help registry keys new; tfaot-pkg help validation
    """
    from tfaot_pkg.cli.manual import help_for

    return Result(document=None, text=help_for(context.find_root(), words or ()))


@command()
def version(session: Session) -> Result:
    """Print the versions of this tool and of the Python that runs it.

    Example: tfaot-pkg version --json
    """
    document = {
        "tfaot_pkg": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    text = f"tfaot-pkg {__version__} (Python {document['python']}, {document['platform']})"
    return Result(document=document, text=text)


@command()
def settings(session: Session) -> Result:
    """Print your settings: what holds without an option, and whether a variable or your file settings.yaml says it.

    Write the file yourself; `registry order` writes its list `registries`. `tfaot-pkg schema --settings` describes it.

    Example: tfaot-pkg settings --json
    """
    from tfaot_pkg.ground.settings_file import holding

    file, held = session.folders.settings_file, holding(session.settings)
    width = max(len(one.name) for one in held)
    lines = [f"{file}" if session.settings.lines else f"{file} (not there: all settings have their defaults)"]
    lines += [f"{one.name:<{width}}  {one.text}" + (f"  ({one.origin})" if one.origin else "") for one in held]
    document = {
        "file": str(file),
        "settings": {one.name: {"value": one.value, "from": one.origin or "default"} for one in held},
    }
    return Result(document=document, text="\n".join(lines))


@command("wheelhouse", "verbose")
def add_toolchain(
    session: Session,
    version: VersionArgument,
) -> Result:
    """Make the environment of a TensorFlow version now, instead of at the first build.

    Example: tfaot-pkg toolchain add 2.21.0
    """
    from tfaot_pkg.frontends.toolchain.environment import ensure

    made = ensure(version, folders=session.folders, progress=session.progress, wheelhouse=session.wheelhouse)
    return Result(
        document={"version": version, "python": str(made.python)}, text=f"TensorFlow {version}: {made.python}"
    )


@command()
def list_toolchains(session: Session) -> Result:
    """List known toolchains and which of them are installed.

    Example: tfaot-pkg toolchain list --json
    """
    from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, TOOLCHAINS
    from tfaot_pkg.frontends.toolchain.environment import installed

    present = {made.toolchain.version: made for made in installed(session.folders)}
    rows = [
        {
            "version": version,
            "default": version == DEFAULT_VERSION,
            "python": str(present[version].python) if version in present else None,
        }
        for version in TOOLCHAINS
    ]
    lines = [
        f"{row['version']}{' (default)' if row['default'] else ''}: {row['python'] or 'not installed'}" for row in rows
    ]
    return Result(document={"toolchains": rows}, text="\n".join(lines))


@command()
def remove_toolchain(session: Session, version: VersionArgument) -> Result:
    """Delete the environments of a TensorFlow version.

    Example: tfaot-pkg toolchain remove 2.21.0
    """
    from tfaot_pkg.frontends.toolchain.environment import remove

    removed = remove(version, folders=session.folders)
    return Result(
        document={"removed": [str(path) for path in removed]}, text="\n".join(f"removed {path}" for path in removed)
    )


@command("unconfined", "verbose")
def try_toolchain(
    session: Session,
    version: VersionArgument,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="The report's folder. (default: try-VERSION)")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the environment for the next trial.")] = False,
) -> Result:
    """Try a TensorFlow release that is not a toolchain yet, and compare it with the default toolchain.

    Its packages are resolved, locked with hashes, and installed into an environment of its own (a download of 250 MB or
    more), which is removed at the end. Nine small models are built with it and with the default, each by the compiler
    and by XLA alone, verified, and timed. The folder gets report.md, report.json and requirements.txt, the lock file.
    Exit code 13 if a model fails that the default toolchain builds.

    Example: tfaot-pkg toolchain try 2.22.0rc0
    """
    from tfaot_pkg.errors import ToolchainError
    from tfaot_pkg.ground.documents import write_indented
    from tfaot_pkg.ground.storage import storage_errors, write_file
    from tfaot_pkg.ground.temporary import temporary_folder
    from tfaot_pkg.measure.inside.candidate import candidate
    from tfaot_pkg.measure.inside.trial import report_text
    from tfaot_pkg.measure.inside.trial import try_toolchain as try_all

    # It becomes part of a requirement for pip, where 2.* or 2.19,<3 would mean some other release than the report says.
    if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+)?", version):
        raise typer.BadParameter("must be a full version such as 2.19.0 or 2.22.0rc0", param_hint="TENSORFLOW")
    folder = output or Path(f"try-{version}")
    require_writable(folder / "report.md")
    with (
        temporary_folder(prefix="tfaot-try-") as models,
        candidate(version, folders=session.folders, progress=session.progress, keep=keep) as found,
    ):
        made = try_all(found, session.pipeline(), models)
    text = report_text(made)
    with storage_errors(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "requirements.txt", found.lock.encode())
        write_file(folder / "report.json", write_indented(made))
        write_file(folder / "report.md", text.encode())
    code = ToolchainError.exit_code if made.worse else 0
    return Result(document=made, text=f"{text}\nwrote {folder}", exit_code=code)


@command()
def schema(
    session: Session,
    fields: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIELD]...", help="Fields to describe, such as model.name. (default: print the whole schema)"
        ),
    ] = None,
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file. (default: print)")] = None,
    registry: Annotated[
        bool, typer.Option("--registry", help="Print the schema of registry.yaml, the definition of a nightly.")
    ] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="Print the schema of settings.yaml, your settings.")
    ] = False,
) -> Result:
    """Print the JSON Schema of a spec, with which editors complete and check specs; or describe some of its fields.

    Examples: tfaot-pkg schema -o spec.schema.json; tfaot-pkg schema compilation.batch_sizes
    """
    from tfaot_pkg.ground import settings_form as of_settings
    from tfaot_pkg.ground.forms.fields import described_field, find_field
    from tfaot_pkg.ground.storage import storage_errors, write_file
    from tfaot_pkg.nightly import form as of_registries
    from tfaot_pkg.spec import form as of_specs

    if registry and settings:
        raise typer.BadParameter("--registry and --settings are schemas of two files: give one")
    made = (of_settings if settings else of_registries if registry else of_specs).json_schema()
    if fields and output:
        raise typer.BadParameter("--output takes the whole schema, no fields")
    if fields:
        text = "\n".join(described_field(made, name) for name in fields)
        return Result(document={name: find_field(made, tuple(name.split(".")))[1] for name in fields}, text=text)
    text = json.dumps(made, indent=2) + "\n"
    if output is None:
        return Result(document=made, text=text)
    with storage_errors(f"write {output}"):
        write_file(output.absolute(), text.encode())
    return Result(document={"written": str(output)}, text=f"wrote {output}")


@command()
def doctor(session: Session) -> Result:
    """Check this machine: compiler, toolchains, Conan, targets that its CPU runs, confinement; exit code 0 or 1.

    Example: tfaot-pkg doctor --json
    """
    from tfaot_pkg.pipeline.doctor import examine

    findings = examine(session.folders)
    lines = [f"{'ok  ' if f.good else 'no  '} {f.subject:<12} {f.finding}" for f in findings]
    hints = dict.fromkeys(f.hint for f in findings if f.hint and not f.good)  # several may have one remedy
    lines += [f"hint: {hint}" for hint in hints]
    return Result(
        document={"findings": findings},
        text="\n".join(lines),
        # Only what every build needs: most machines lack something else, such as toolchains that nobody has used yet.
        exit_code=1 if any(f.needed and not f.good for f in findings) else 0,
    )
