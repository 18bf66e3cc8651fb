"""Commands that start something: sample, new-app."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tfaot_pkg.cli.command import DEFAULT_PREFIX, PrefixOption, Result, Session, command


def register(app: typer.Typer) -> None:
    for each in (sample, new_app):
        app.command()(each)


@command()
def sample(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The sample. (default: list all samples)", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder to write. (default: NAME)", show_default=False)
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
    files = write_sample(name, place)
    return Result(
        document={"sample": name, "folder": str(place), "files": files}, text=f"wrote {place}: {counted(files, 'file')}"
    )


@command()
def new_app(
    session: Session,
    package: Annotated[str, typer.Argument(metavar="NAME", help="An installed package.")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder to write. (default: NAME-app)", show_default=False)
    ] = None,
    *,
    prefix: PrefixOption = DEFAULT_PREFIX,
) -> Result:
    """Write a first C++ program for an installed package: main.cpp and CMakeLists.txt in a new folder.

    The program runs the model on inputs of its validation, and prints its answers beside those of its framework.

    Example: tfaot-pkg new-app digits --prefix external
    """
    from tfaot_pkg.pipeline.starters import new_app as write_app

    made = write_app(package, folder or Path(f"{package}-app"), prefix)
    place = made.folder
    lines = [
        f"wrote {place}/main.cpp and {place}/CMakeLists.txt for {made.package} {made.version}",
        "next:",
        f"  cmake -S {place} -B {place}/build",
        f"  cmake --build {place}/build",
        f"  {place}/build/app",
    ]
    return Result(document=made, text="\n".join(lines))
