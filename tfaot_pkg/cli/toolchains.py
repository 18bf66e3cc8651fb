"""Commands about TensorFlow environments: toolchain add, list, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.options import DebugFlag, JsonFlag, VerboseFlag, WheelhouseOption

VersionArgument = Annotated[str, typer.Argument(help="A TensorFlow version, such as 2.17.1.", metavar="VERSION")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="TensorFlow environments: made on demand, shared by all projects.", no_args_is_help=True)
    group.command()(add)
    group.command("list")(list_)
    group.command()(remove)
    app.add_typer(group, name="toolchain")


def add(
    version: VersionArgument,
    *,
    wheelhouse: WheelhouseOption = None,
    json_: JsonFlag = False,
    verbose: VerboseFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Make the environment of a TensorFlow version now, instead of at the first build.

    Example: tfaot-pkg toolchain add 2.21.0
    """
    from tfaot_pkg.toolchain.environment import ensure

    session = Session()
    made = ensure(version, folders=session.folders, progress=session.progress, wheelhouse=wheelhouse)
    session.result({"version": version, "python": str(made.python)}, f"TensorFlow {version}: {made.python}")


def list_(*, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """List known toolchains and which of them are installed.

    Example: tfaot-pkg toolchain list --json
    """
    from tfaot_pkg.toolchain.definition import DEFAULT_VERSION, TOOLCHAINS
    from tfaot_pkg.toolchain.environment import installed

    session = Session()
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
    session.result({"toolchains": rows}, "\n".join(lines))


def remove(version: VersionArgument, *, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """Delete the environments of a TensorFlow version.

    Example: tfaot-pkg toolchain remove 2.21.0
    """
    from tfaot_pkg.toolchain.environment import remove as remove_toolchain

    session = Session()
    removed = remove_toolchain(version, folders=session.folders)
    session.result({"removed": [str(path) for path in removed]}, "\n".join(f"removed {path}" for path in removed))
