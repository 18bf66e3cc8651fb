"""Options that commands share, and what the user said with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer


@dataclass(slots=True)
class Said:
    """The flags that concern every command, also when it fails."""

    json: bool = False
    verbose: bool = False
    debug: bool = False


said = Said()


def _remember_json(value: bool) -> bool:
    said.json = said.json or value
    return value


def _remember_verbose(value: bool) -> bool:
    said.verbose = said.verbose or value
    return value


def _remember_debug(value: bool) -> bool:
    said.debug = said.debug or value
    return value


JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Print the result as JSON.", callback=_remember_json, is_eager=True),
]
VerboseFlag = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Show what compilers print.", callback=_remember_verbose, is_eager=True),
]
DebugFlag = Annotated[
    bool,
    typer.Option("--debug", help="Show Python's traceback of an error.", callback=_remember_debug, is_eager=True),
]
SpecArgument = Annotated[Path, typer.Argument(help="The model's spec (YAML).", metavar="SPEC")]
DefinesOption = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="KEY=VALUE", help="Give {{ env.KEY }} in the spec a value. Repeatable."),
]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="NAME|DIR|URL",
        help="A registry: a name (registry add), its folder, or its address. [default: in your data folder]",
    ),
]
OfflineFlag = Annotated[
    bool, typer.Option("--offline", help="Ask no server: use what is in the cache of the registry.")
]
KeysOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--keys", metavar="FOLDER", envvar="TFAOT_REGISTRY_KEYS", help="The keys of a signed registry. Repeatable."
    ),
]
PassphraseFileOption = Annotated[
    Path | None,
    typer.Option("--passphrase-file", metavar="FILE", help="Where the keys' passphrase is. [default: ask for it]"),
]
ToolchainPythonOption = Annotated[
    Path | None,
    typer.Option("--toolchain-python", metavar="PATH", help="Use TensorFlow of this Python, install none."),
]
WheelhouseOption = Annotated[
    Path | None,
    typer.Option("--wheelhouse", metavar="DIR", help="Install TensorFlow from the wheels in DIR, without network."),
]
PrefixOption = Annotated[Path, typer.Option("--prefix", metavar="DIR", help="Where to install.")]
PackageArgument = Annotated[
    str, typer.Argument(help="A package: NAME, NAME@VERSION or 'NAME>=1,<2'.", metavar="PACKAGE")
]
