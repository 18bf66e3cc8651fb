"""The shared parts of commands: flags, the decorator `command`, and the `Session` that a running command uses.

A flag that several commands take is a field of `Flags`. A command names the flags that it takes:

    @command("registry", "offline")
    def search(session: Session, text: ...) -> Result: ...

Errors become exit codes in `run.py`, which also sees those of parsing a command line.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args, get_origin, get_type_hints

import typer

from tfaot_pkg.cli.values import VALUES
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.progress import PlainProgress, Progress
from tfaot_pkg.ground.settings import DEFAULT_PREFIX, Folders
from tfaot_pkg.ground.settings_file import KEYS_VARIABLE, Settings
from tfaot_pkg.ground.wording import say, say_json

if TYPE_CHECKING:
    from tfaot_pkg.pipeline.pipeline import Pipeline
    from tfaot_pkg.registry.commit import Keys
    from tfaot_pkg.registry.places import Place
    from tfaot_pkg.registry.static import StaticRegistry
    from tfaot_pkg.registry.trust.keys import Secrets
    from tfaot_pkg.registry.writable import WritableRegistry

# Modules of commands are imported for every command line, `--help` included: they import the stages inside functions.


@dataclass(slots=True)
class Said:
    """The flags that matter even if a command fails before it has its arguments."""

    json: bool = False
    verbose: bool = False
    debug: bool = False

    def forget(self) -> None:
        """A command line begins without any: a process may run several (cms_tfaot)."""
        self.json = self.verbose = self.debug = False


# A global, because run.py also reports errors of a command line that could not be parsed, and so has no session.
said = Said()


# The callbacks are eager: an error in a later option is reported as these flags ask.
# A flag may stand before the command or after it, and its callback runs for both: its absence in one resets nothing.
def _remember_json(value: bool) -> bool:
    said.json = said.json or value
    return value


def _remember_verbose(value: bool) -> bool:
    said.verbose = said.verbose or value
    return value


def _remember_debug(value: bool) -> bool:
    said.debug = said.debug or value
    return value


def _allow_unconfined(value: bool) -> bool:
    if value:
        os.environ["TFAOT_UNCONFINED"] = "1"  # an environment variable, so that subprocesses inherit it
    return value


JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", callback=_remember_json, is_eager=True)
]
DebugFlag = Annotated[
    bool, typer.Option("--debug", help="Show Python's traceback of an error.", callback=_remember_debug, is_eager=True)
]
SpecArgument = Annotated[Path, typer.Argument(help="The model's spec (YAML).", metavar="SPEC")]
PackageArgument = Annotated[
    str, typer.Argument(help="A package: NAME, NAME@VERSION or 'NAME>=1,<2'.", metavar="PACKAGE")
]
TensorFlowOption = Annotated[
    str | None, typer.Option("--tensorflow", metavar="TENSORFLOW", help="The toolchain. (default: the spec's)")
]
PrefixOption = Annotated[
    Path | None,
    typer.Option("--prefix", metavar="DIR", help=f"The prefix of the installation. (default: {DEFAULT_PREFIX})"),
]
PrefixArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PREFIX", help=f"A prefix with installed packages. (default: {DEFAULT_PREFIX})", show_default=False
    ),
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]

FlagName = Literal[
    "registry_argument", "registry", "offline", "keys", "passphrase_file", "no_passphrase", "defines",
    "toolchain_python", "wheelhouse", "unconfined", "verbose",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The shared flags, in the order in which `--help` lists them; defaults if a command does not take a flag."""

    registry_argument: Annotated[
        str | None,
        typer.Argument(metavar="REGISTRY", help="The registry: its folder or name. (default: in your data folder)"),
    ] = None
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="NAME|DIR|URL",
            help="A registry: a name (registry add), its folder, or its address. (default: TFAOT_REGISTRY; else the "
            "first of yours that has the package, see registry list)",
        ),
    ] = None
    offline: Annotated[
        bool | None,
        typer.Option(help="Use only the registry's cache, no network. (default: no-offline)", show_default=False),
    ] = None
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--keys",
            metavar="FOLDER",
            envvar=KEYS_VARIABLE,  # Click divides its value at ":", as in PATH
            help="The folder with the keys of a signed registry. Repeatable.",
        ),
    ] = None
    no_passphrase: Annotated[
        bool,
        typer.Option("--no-passphrase", help="Do not encrypt new keys: everybody who can read the files can sign."),
    ] = False
    passphrase_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--passphrase-file",
            metavar="FILE",
            help="The file with the keys' passphrase: one for all, or one for each --keys. (default: ask for it)",
        ),
    ] = None
    defines: Annotated[
        list[str] | None,
        typer.Option("--define", "-D", metavar="KEY=VALUE", help="Give {{ env.KEY }} in the spec a value. Repeatable."),
    ] = None
    toolchain_python: Annotated[
        Path | None,
        typer.Option(
            "--toolchain-python",
            metavar="PATH",
            help="Use TensorFlow of this Python, and install none. (default: a toolchain)",
        ),
    ] = None
    wheelhouse: Annotated[
        Path | None,
        typer.Option(
            "--wheelhouse",
            metavar="DIR",
            help="Install TensorFlow from the wheels in DIR, without a network. (default: download)",
        ),
    ] = None
    unconfined: Annotated[
        bool,
        typer.Option(
            "--unconfined",
            help="Run the model and the code compiled from it without a sandbox, with all your permissions.",
            callback=_allow_unconfined,
        ),
    ] = False
    json_: JsonFlag = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show what compilers print, and details of results.",
            callback=_remember_verbose,
            is_eager=True,
        ),
    ] = False
    debug: DebugFlag = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a command: `document` is printed as JSON with --json, else `text`."""

    document: object
    text: str
    exit_code: int = 0

    def show(self) -> None:
        if said.json:
            say_json(plain(self.document))
        elif self.text:
            # `say` ends the line; some texts, such as published documents, have that newline already.
            say(self.text.rstrip("\n"), to=sys.stdout)


class Session:
    """One run of a command: its flags, and the objects that they name."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        self.folders = Folders.of_user()
        self.progress: Progress = make_progress(verbose=said.verbose)
        self.opened_as: str | None = None
        """What the registry that was opened last is called: a name, a folder or an address."""

    @cached_property
    def defines(self) -> dict[str, str]:
        """The values of `-D KEY=VALUE`. Raises SpecError."""
        return defines_of(self.flags.defines)

    @cached_property
    def settings(self) -> Settings:
        """The user's settings.yaml, for what no option says. Raises SpecError, StorageError."""
        return Settings.of_file(self.folders)

    def prefix(self, given: Path | None) -> Path:
        """The prefix that an option or argument names, or else the user's."""
        return self.settings.prefix if given is None else given

    @property
    def offline(self) -> bool:
        return self.settings.offline if self.flags.offline is None else self.flags.offline

    @property
    def wheelhouse(self) -> Path | None:
        return self.settings.wheelhouse if self.flags.wheelhouse is None else self.flags.wheelhouse

    def pipeline(self, source_folder: Path | None = None) -> Pipeline:
        """The stages, with the toolchain that `--toolchain-python` and `--wheelhouse` name."""
        from tfaot_pkg.pipeline.pipeline import Pipeline

        return Pipeline(
            folders=self.folders,
            progress=self.progress,
            toolchain_python=self.flags.toolchain_python,
            wheelhouse=self.wheelhouse,
            source_folder=source_folder,
        )

    @property
    def registry(self) -> str | None:
        """The registry that the user names, as an argument or with `--registry`."""
        return self.flags.registry_argument if self.flags.registry is None else self.flags.registry

    def registry_place(self) -> Place:
        """The folder or bucket of the registry, to write to it. Raises RegistryError if it is on a server."""
        from tfaot_pkg.registry.named import place_meant

        return place_meant(self.registry, self.folders)

    def open_registry(self, meant: str | None = None, *, having: Sequence[str] = ()) -> StaticRegistry:
        """The registry, to read from it; `meant` names another one than the flags do. If neither names one: the first
        of the user's registries that has all packages of `having`.
        """
        from tfaot_pkg.registry.named import open_registry, open_with

        name = self.registry if meant is None else meant
        if name is not None:
            self.opened_as = name
            return open_registry(name, self.folders, progress=self.progress, offline=self.offline)
        found = open_with(having, self.folders, progress=self.progress, offline=self.offline)
        self.opened_as, opened = found
        return opened

    def open_registry_of(self, package: str) -> StaticRegistry:
        """The registry, to read `package` from it, which is written as in a requirement. Raises as `open_registry`."""
        from tfaot_pkg.registry.reader import Requirement

        return self.open_registry(having=[Requirement.parse(package).package])

    def open_registries(self) -> dict[str, StaticRegistry]:
        """The registry that the flags name, or else all registries of the user, by their names."""
        from tfaot_pkg.registry.named import standing

        names = standing(self.folders) if self.registry is None else (self.registry,)
        return {name: self.open_registry(name) for name in names} or {"": self.open_registry()}

    def writable_registry(self) -> WritableRegistry:
        """The registry in a folder or bucket, with the keys that the user names."""
        from tfaot_pkg.registry.places import open_at

        return open_at(self.registry_place(), keys=self.keys())

    def keys(self) -> Keys:
        """The keys that `--keys` and `--passphrase-file` name. Raises TrustError."""
        from tfaot_pkg.registry.commit import open_keys
        from tfaot_pkg.registry.trust.keys import secrets_from

        folders, files = self.flags.keys or self.settings.keys, self.flags.passphrase_file
        if files:
            return open_keys(folders, *(secrets_from(file) for file in files))
        # One for each folder: each remembers the passphrase that was typed, and folders may have different ones.
        return open_keys(folders, *(secrets_from() for _ in folders))

    def new_passphrase(self) -> tuple[Callable[[], str | None], Secrets]:
        """A function that returns the passphrase of new keys (None: they get none), and what unlocks them later."""
        from tfaot_pkg.registry.trust.keys import secrets_from

        files = self.flags.passphrase_file
        # New keys go into the first folder of --keys, so its passphrase is the first one.
        secrets = secrets_from(files[0] if files else None, new=True)
        return lambda: None if self.flags.no_passphrase else secrets("the new keys"), secrets


def command(*names: FlagName, json: bool = True) -> Callable[[Callable[..., Result | None]], Callable[..., None]]:
    """A command for Typer: gives the function a Session with the shared flags `names`, and prints its result.

    Every command takes `--debug`, and `--json` unless `json` is false.
    """

    def decorate(function: Callable[..., Result | None]) -> Callable[..., None]:
        taken = {*names, "debug", *(["json_"] if json else [])}
        shared = [each for each in _shared_parameters() if each.name in taken]
        hints = _hints(function)
        # Not the signature's own annotations: they are strings, because of `from __future__ import annotations`.
        own = [
            each.replace(annotation=_completed(hints[name]))
            for name, each in inspect.signature(function).parameters.items()
            if name != "session"
        ]

        @wraps(function)
        def run(**given: object) -> None:
            flags = {each.name: given.pop(each.name) for each in shared}
            result = function(Session(Flags(**flags)), **given)  # type: ignore[arg-type]
            if result is not None:
                result.show()
                # Not an error: `check`, for example, has an answer to print also if the model cannot be compiled.
                if result.exit_code:
                    raise typer.Exit(result.exit_code)

        # Typer makes arguments and options of the signature: the function's own parameters before the shared ones. The
        # sort is stable, and only puts arguments before options, as Python requires.
        parameters = sorted([*own, *shared], key=lambda each: each.kind)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _hints(owner: object) -> dict[str, object]:
    """The annotations of a function's parameters or of a class's fields."""
    hints = get_type_hints(owner, include_extras=True)
    # Python 3.10 gives Optional[Annotated[...]] for a parameter whose default is None, and Typer would not see inside.
    inside = {name: [each for each in get_args(hint) if get_origin(each) is Annotated] for name, hint in hints.items()}
    return {name: inside[name][0] if inside[name] else hint for name, hint in hints.items()}


def _completed(annotation: object) -> object:
    """`annotation` of a parameter, with the values that shells offer for its metavar."""
    for said_of_it in getattr(annotation, "__metadata__", ()):
        if said_of_it.metavar in VALUES:
            said_of_it.autocompletion = VALUES[said_of_it.metavar]
    return annotation


@cache  # every command of the program asks for them at every start
def _shared_parameters() -> tuple[inspect.Parameter, ...]:
    """The fields of Flags as parameters of a function."""
    hints = _hints(Flags)
    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return tuple(
        inspect.Parameter(
            field.name,
            positional if field.name == "registry_argument" else keyword,
            default=field.default,
            annotation=_completed(hints[field.name]),
        )
        for field in fields(Flags)
    )


def defines_of(words: list[str] | None) -> dict[str, str]:
    """`-D KEY=VALUE` words as a mapping. Raises SpecError."""
    defines = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        # A key is what `{{ env.KEY }}` in a spec can name (spec/expand.py).
        if not equals or not key.isidentifier():
            raise SpecError(f"-D {word}: write KEY=VALUE, with a KEY of letters, digits and _")
        defines[key] = value
    return defines


def make_progress(*, verbose: bool) -> Progress:
    """Bars if standard error is a terminal, else lines: standard output is for results."""
    if not sys.stderr.isatty():
        return PlainProgress(verbose=verbose)
    from tfaot_pkg.cli.progress import TerminalProgress  # importing Rich's bars takes as long as a short command

    return TerminalProgress(verbose=verbose)


def require_writable(path: Path) -> None:
    """Fail before minutes of work whose result could not be written. Raises StorageError."""
    from tfaot_pkg.errors import StorageError

    # Missing folders are made when the file is written: the nearest existing one decides.
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir():
        raise StorageError(f"cannot write {path}: it is a folder", hint="name a file")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise StorageError(f"cannot write {path}: {parent} is not a writable folder")
