"""`registry render`: a registry as a web site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.options import DebugFlag, JsonFlag, RegistryOption
from tfaot_pkg.wording import counted

if TYPE_CHECKING:
    from tfaot_pkg.catalogue.render import Rendered


def render(
    registry: RegistryOption = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where. (default: catalogue/ in the registry's folder)"),
    ] = None,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Write the catalogue: a static web site of all packages. Publications keep it up to date.

    Examples: tfaot-pkg registry render --registry /srv/models; tfaot-pkg registry render --registry hep -o site
    """
    from tfaot_pkg.catalogue.render import FOLDER
    from tfaot_pkg.catalogue.render import render as render_catalogue

    session = Session()
    folder = output.absolute() if output is not None else session.registry_folder(registry) / FOLDER
    done = render_catalogue(session.open_registry(registry), folder, progress=session.progress)
    session.result(done.as_dict(), _rendered_text(done))


def _rendered_text(done: Rendered) -> str:
    lines = [f"{done.folder}: {counted(done.packages, 'package')}, {counted(done.files, 'file')}"]
    return "\n".join([*lines, *(f"left out: {message}" for message in done.damaged)])
