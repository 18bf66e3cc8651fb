"""`tfaot-pkg`: all of its commands."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from typer.completion import install_callback, show_callback

from tfaot_pkg._version import __version__
from tfaot_pkg.cli import (
    bench,
    build,
    channels,
    cmsdist,
    depending,
    inside,
    machine,
    mirroring,
    nightly,
    packages,
    registries,
    remotes,
    starting,
    tune,
)
from tfaot_pkg.cli.command import DebugFlag, JsonFlag
from tfaot_pkg.cli.groups import Group
from tfaot_pkg.cli.run import run_commands, run_program
from tfaot_pkg.ground.wording import say

if TYPE_CHECKING:
    from typer._click import Context

_NAME = "tfaot-pkg"
_HELP = """A package manager for compiled models: one YAML spec in, a verified native library package out.

\b
    tfaot-pkg init path/to/saved_model        write a first spec
    tfaot-pkg check spec.yaml                 can it be compiled?
    tfaot-pkg publish spec.yaml               build, verify, publish
    tfaot-pkg install NAME --prefix DIR       use it from C++: find_package(tfaot-model-NAME)

Exit codes: 0 done; 2 wrong usage; 10 spec; 11 source; 12 model; 13 toolchain; 14 compiler; 15 validation; 16 registry;
17 network; 18 trust; 19 Conan; 20 storage; 21 running a library; 22 prefix; 23 cannot rebuild;
24 to 27 nightly; 28 bench: slower; 29 sandbox; 130 interrupted.
"""

# With the alias `toolchains`: Click looks up a group's defaults by the name that was typed.
_GROUPS = ("toolchain", "toolchains", "registry", "nightly", "conan-remote")
_NOT_GIVEN = {
    "help": False,
    "install_completion": False,
    "show_completion": False,
    **{group: {"help": False} for group in _GROUPS},
}
"""Typer's own flags. Without these defaults it imports pydantic to convert None: 0.1 of 0.27 s of `COMMAND --help`."""


_COMPLETION = {"--install-completion": install_callback, "--show-completion": show_callback}


class _Commands(Group):
    sections: ClassVar[Mapping[str, Sequence[str]]] = {
        "Make a package": (
            "sample", "init", "check", "build", "publish", "convert", "tune", "bench", "inspect", "timeline",
            "import-cmsdist", "export-cmsdist",
        ),
        "Use packages": (
            "search", "show", "run", "install", "list", "new-app", "uninstall", "verify-install", "export", "cmake-dir",
            "resolve", "outdated", "update",
        ),
        "Keep a registry": (
            "registry", "serve", "yank", "unyank", "deprecate", "promote", "hold", "rollback", "log", "rebuild-check",
            "conan-remote", "conan-home",
        ),
        "Build every night": ("nightly",),
        "This tool": ("help", "version", "settings", "doctor", "toolchain", "schema"),
    }  # fmt: skip
    # What other package managers call these commands.
    aliases: ClassVar[Mapping[str, str]] = {
        "info": "show",
        "add": "install",
        "pull": "install",
        "remove": "uninstall",
        "toolchains": "toolchain",
    }

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        # Typer's flags find out which shell runs, and take no name: in bash, `--show-completion zsh` printed bash's.
        # Options of this program's own with a name would make it import pydantic at each start.
        if len(args) == 2 and args[0] in _COMPLETION:
            _COMPLETION[args[0]](ctx, ctx.command.params[0], args[1])
        return super().parse_args(ctx, args)


app = typer.Typer(
    name=_NAME,
    help=_HELP,
    cls=_Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "default_map": _NOT_GIVEN},
)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"tfaot-pkg {__version__}", to=sys.stdout)
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Flags that stand before a command."""


starting.register(app)
build.register(app)
cmsdist.register(app)
tune.register(app)
bench.register(app)
inside.register(app)
packages.register(app)
depending.register(app)
machine.register(app)
registries.register(app)
nightly.register(app)
remotes.register(app, registries.app)
mirroring.register(registries.app)
channels.register(app, registries.app)


def main() -> None:
    """Run the command line and exit."""
    run_program(app, program=_NAME)


def run(arguments: list[str]) -> int:
    """Run the command line and return the exit code."""
    return run_commands(app, arguments, program=_NAME)
