"""Commands that start something: sample, new-app, run."""

from __future__ import annotations

import platform
import shlex
import textwrap
from pathlib import Path
from typing import Annotated

import typer

from tfaot_pkg.cli.channels import FollowOption
from tfaot_pkg.cli.command import PackageArgument, PrefixOption, Result, Session, command


def register(app: typer.Typer) -> None:
    for each in (sample, new_app, run):
        app.command()(each)


@command()
def sample(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="SAMPLE", help="The sample. (default: list all samples)", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder to write. (default: SAMPLE)", show_default=False)
    ] = None,
) -> Result:
    """Write a sample, a trained model or an example project, into a new folder. Without a name: list all samples.

    Examples: tfaot-pkg sample digits; tfaot-pkg sample cmake-consumer
    """
    from tfaot_pkg.ground.wording import counted
    from tfaot_pkg.pipeline.starters import sample_names, write_sample

    if name is None:
        names = sample_names()
        return Result(document={"samples": names}, text="\n".join(names))
    place = folder or Path(name)
    made = write_sample(name, place)
    lines = [f"wrote {place}: {counted(len(made.files), 'file')}"]
    if made.steps:
        lines += ["next (README.md has more):", f"  cd {shlex.quote(str(place))}", textwrap.indent(made.steps, "  ")]
    document = {"sample": name, "folder": str(place), "files": len(made.files), "steps": made.steps.splitlines()}
    return Result(document=document, text="\n".join(lines))


@command()
def new_app(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="INSTALLED", help="An installed package.")],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The folder to write. (default: INSTALLED-app)", show_default=False),
    ] = None,
    *,
    prefix: PrefixOption = None,
) -> Result:
    """Write a first C++ program for an installed package: main.cpp and CMakeLists.txt in a new folder.

    The program runs the model on inputs of its validation, and prints its answers beside those of its framework.

    Example: tfaot-pkg new-app digits --prefix external
    """
    from tfaot_pkg.pipeline.starters import new_app as write_app

    made = write_app(package, folder or Path(f"{package}-app"), session.prefix(prefix))
    place = made.folder
    lines = [
        f"wrote {place}/main.cpp and {place}/CMakeLists.txt for {made.package} {made.version}",
        "next:",
        f"  cmake -S {place} -B {place}/build",
        f"  cmake --build {place}/build",
        f"  {place}/build/app",
    ]
    return Result(document=made, text="\n".join(lines))


@command("registry", "offline")
def run(
    session: Session,
    package: PackageArgument,
    rows: Annotated[
        Path | None,
        typer.Argument(
            metavar="ROWS",
            help="The rows: a .csv, .json, .npz or .npy file, or - for CSV on standard input. (default: those of its "
            "example)",
            show_default=False,
        ),
    ] = None,
    *,
    given: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="ROWS", help="The rows, as an option.", show_default=False)
    ] = None,
    prefix: Annotated[
        Path | None,
        typer.Option(
            "--prefix", metavar="DIR", help="Take what is installed in this prefix. (default: from the registry)"
        ),
    ] = None,
    channel: FollowOption = "",
    signature: Annotated[str, typer.Option(help="The signature, if the package has several.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the answers: FILE.csv or FILE.npz.")
    ] = None,
) -> Result:
    """Run a package on rows and print its answers, to look at a model before a program is written.

    Columns of a CSV file have the names of inputs, or NAME[0], NAME[1], ... for inputs of several numbers; a file
    without names has all numbers of a row in that order. Without ROWS it runs its stored example, and prints the
    framework's answers too.

    Examples: tfaot-pkg run digits rows.csv; tfaot-pkg run digits@1.0.0 --prefix external --json
    """
    from tfaot_pkg.ground.wording import counted
    from tfaot_pkg.pipeline.trial import trial

    if rows is not None and given is not None:
        raise typer.BadParameter("name the rows once: as ROWS or with --input", param_hint="--input")
    if prefix is not None and (session.registry is not None or session.flags.offline or channel):
        raise typer.BadParameter("--prefix asks no registry: leave out --registry, --offline and --channel")
    if output is not None and output.suffix not in (".csv", ".npz"):
        raise typer.BadParameter("the file's name must end in .csv or .npz", param_hint="--output")
    place = prefix if prefix is not None else _unpacked(session, package, channel)
    answers = trial(package, place, rows or given, signature)
    if output is not None:
        answers.write(output)
    note = f"note: columns that the model does not take: {', '.join(answers.unused)}"
    parts = [f"{answers.name} {answers.version} ({answers.target}):", answers.text()]
    if output is not None:
        parts = [f"wrote {output}: {counted(answers.rows, 'row')}"]
    return Result(document=answers.as_dict(), text="\n".join(parts + [note] * bool(answers.unused)))


def _unpacked(session: Session, package: str, channel: str) -> Path:
    """A prefix in the cache with the version that `package` means in the registry."""
    from tfaot_pkg.registry.dependencies.install import install_entries
    from tfaot_pkg.registry.dependencies.resolution import Constraints, resolve
    from tfaot_pkg.registry.reader import Requirement

    wanted = Requirement.parse(package)
    opened = session.open_registry(having=[wanted.package])
    found = resolve(opened, [wanted], Constraints.parse((), "", channel, "").used_on(platform.machine()))
    # By content: registries may have other packages of the same name and version.
    tree = next(entry.tree for entry in found.entries if entry.package == wanted.package)
    place = session.folders.cache / "run" / tree
    # Nothing compiles the files that only builds of programs read.
    install_entries(opened, found.entries, place, custom=True)
    return place
