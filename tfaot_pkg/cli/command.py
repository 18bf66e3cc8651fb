"""What every command begins and ends with: folders, progress, and printing a result."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfaot_pkg.cli.options import said
from tfaot_pkg.errors import SpecError
from tfaot_pkg.folders import Folders
from tfaot_pkg.progress import PlainProgress, Progress
from tfaot_pkg.wording import say, say_json

if TYPE_CHECKING:
    from tfaot_pkg.pipeline import Pipeline
    from tfaot_pkg.registry.static import StaticRegistry


class Session:
    """One run of a command."""

    def __init__(self) -> None:
        self.folders = Folders.of_user()
        self.progress: Progress = make_progress(verbose=said.verbose)

    def result(self, document: Mapping[str, object], text: str) -> None:
        """Print the result: `document` with --json, else `text`."""
        if said.json:
            say_json(document)
        elif text:
            say(text.rstrip("\n"), to=sys.stdout)

    def pipeline(
        self, toolchain_python: Path | None, wheelhouse: Path | None, source_folder: Path | None = None
    ) -> Pipeline:
        """The stages, with the toolchain that `--toolchain-python` and `--wheelhouse` mean."""
        from tfaot_pkg.pipeline import Pipeline

        return Pipeline(
            folders=self.folders, progress=self.progress, toolchain_python=toolchain_python, wheelhouse=wheelhouse,
            source_folder=source_folder,
        )  # fmt: skip

    def registry_folder(self, given: str | None) -> Path:
        """The folder that `--registry` means, to write there. Raises RegistryError where it means a server."""
        from tfaot_pkg.remote.named import folder_meant

        return folder_meant(given, self.folders)

    def open_registry(self, given: str | None, *, offline: bool = False) -> StaticRegistry:
        """The registry that `--registry` means, to read from it."""
        from tfaot_pkg.remote.named import open_registry

        return open_registry(given, self.folders, progress=self.progress, offline=offline)


def defines_of(words: list[str] | None) -> dict[str, str]:
    """`-D KEY=VALUE` words as a mapping. Raises SpecError."""
    defines = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise SpecError(f"-D {word}: write KEY=VALUE, with a KEY of letters, digits and _")
        defines[key] = value
    return defines


def make_progress(*, verbose: bool) -> Progress:
    """Bars if standard error is a terminal, else lines: standard output is for results."""
    if not sys.stderr.isatty():
        return PlainProgress(verbose=verbose)
    from tfaot_pkg.cli.progress import TerminalProgress  # takes as long to import as a whole command may

    return TerminalProgress(verbose=verbose)
