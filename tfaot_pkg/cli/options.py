"""Options that commands share, and what the user said with them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tfaot_pkg.registry.commit import Keys
    from tfaot_pkg.trust.keys import Secrets


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


def _allow_unconfined(value: bool) -> bool:
    if value:
        os.environ["TFAOT_UNCONFINED"] = "1"  # also for what this process starts
    return value


UnconfinedFlag = Annotated[
    bool,
    typer.Option(
        "--unconfined",
        help="Run the model and what is made of it without a sandbox: it can do all that you can.",
        callback=_allow_unconfined,
    ),
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
        help="A registry: a name (registry add), its folder, or its address. (default: in your data folder)",
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
    list[Path] | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help="Where the keys' passphrase is: one for all, or one for each --keys. (default: ask for it)",
    ),
]
NoPassphraseFlag = Annotated[
    bool, typer.Option("--no-passphrase", help="Do not encrypt new keys: whoever can read their files can sign.")
]
RegistryArgument = Annotated[
    str | None,
    typer.Argument(metavar="REGISTRY", help="The registry: its folder or name. (default: in your data folder)"),
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


def require_writable(path: Path) -> None:
    """For what is written after minutes of work. Raises StorageError where it cannot be, as far as can be seen now."""
    from tfaot_pkg.errors import StorageError

    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir():
        raise StorageError(f"cannot write {path}: it is a folder", hint="name a file")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise StorageError(f"cannot write {path}: {parent} is no folder that can be written to")


def keys_of(keys: list[Path] | None, passphrase_files: list[Path] | None) -> Keys:
    """The keys that `--keys` and `--passphrase-file` name. Raises TrustError."""
    from tfaot_pkg.registry.commit import open_keys
    from tfaot_pkg.trust.keys import secrets_from

    folders = keys or []
    if passphrase_files:
        return open_keys(folders, *(secrets_from(file) for file in passphrase_files))
    return open_keys(folders, *(secrets_from() for _ in folders))


def new_passphrase(
    passphrase_files: list[Path] | None, no_passphrase: bool
) -> tuple[Callable[[], str | None], Secrets]:
    """What gives the passphrase for new keys (None: they get none), and what unlocks them afterwards."""
    from tfaot_pkg.trust.keys import secrets_from

    secrets = secrets_from(passphrase_files[0] if passphrase_files else None, new=True)
    return lambda: None if no_passphrase else secrets("the new keys"), secrets
