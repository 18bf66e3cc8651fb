"""The command that gives a registry to others: serve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tfaot_pkg.cli.options import DebugFlag, JsonFlag, said
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.wording import say, say_json


def register(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The registry's folder.")],
    *,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8080,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Serve a registry over HTTP, read-only, until Ctrl-C. Prints the address; a line per request on standard error.

    Speak https in front of it (nginx: registry/nginx.conf); clients take plain http from their own machine only, or
    where they were told to.

    Example: tfaot-pkg serve /srv/models --port 0
    """
    try:
        from tfaot_pkg.server.run import serve as run
    except ModuleNotFoundError as error:
        raise TfaotError(
            f"serving needs a module that is not installed: {error.name}", hint="pip install 'tfaot-pkg[serve]'"
        ) from error

    def ready(url: str) -> None:
        if said.json:
            say_json({"url": url, "folder": str(folder)}, lines=False)
        else:
            say(f"serving {folder} at {url}", to=sys.stdout)

    run(folder, host=host, port=port, ready=ready)
    if not said.json:
        say("stopped", to=sys.stdout)
