"""Trees of this tool with parts of another version: kernels, headers, templates, the worker program, its own code."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import RebuildError
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.bisect.ends import OF_TOOL, TEMPLATE
from tfaot_pkg.pipeline.package_key import HEADERS, KERNELS, TOOLCHAIN, WORKER, tool_components

_PACKAGE, _BUNDLED = "tfaot_pkg", "tfaot_pkg/_bundled"
_OF_PARTS: Mapping[str, str] = {
    KERNELS: "recipes/tfaot-kernels/all",
    HEADERS: "recipes/tfaot/all",
    TEMPLATE: "templates",
    WORKER: f"{_PACKAGE}/worker_program",
    TOOLCHAIN: f"{_PACKAGE}/frontends/toolchain/requirements",
}
"""The folders of the parts; the tool's code is the rest of the package."""
_OTHER = ("LICENSE", "conanfile.py")
_ASK = (
    "import json; from tfaot_pkg.pipeline import package_key as key; "
    "print(json.dumps(getattr(key, 'tool_components', None) and key.tool_components() or key._of_tool()))"
)
_SECONDS = 120.0

SWAPPED = (*OF_TOOL, TOOLCHAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A version of this tool: `root` is a checkout, or the folder of an installed package; `components` its digests."""

    root: Path
    components: Mapping[str, str]

    def is_of(self, inputs: Mapping[str, str]) -> bool:
        """Whether it is the one that a package with these inputs was made by."""
        return all(inputs.get(name) == digest for name, digest in self.components.items())

    def place(self, relative: str) -> Path:
        """A part of it, in a checkout or in an installed package."""
        bundled = self.root / _BUNDLED / relative
        return bundled if bundled.exists() else self.root / relative


def this_tool() -> Tool:
    return Tool(root=Path(__file__).resolve().parents[3], components=tool_components())


def tool_at(root: Path) -> Tool:
    """The version in the folder `root`, which runs once to say what it is. Raises RebuildError."""
    root = root.resolve()
    why = "there is no tfaot_pkg in it"
    try:
        # Else Python would take the one that is installed here.
        if (root / _PACKAGE).is_dir():
            told = run([sys.executable, "-c", _ASK], env=environment(root), timeout=_SECONDS).stdout
            return Tool(root=root, components=convert(dict[str, str], read_json(told.encode())))
    except (CommandFailed, ValueError) as error:
        why = str(error)
    raise RebuildError(
        f"{root} is no tfaot-pkg that runs here: {why}",
        hint="name a checkout, or the site-packages folder that it is installed in",
    )


def environment(root: Path) -> dict[str, str]:
    """The environment in which `python -m tfaot_pkg` is the version in `root`."""
    return {**os.environ, "PYTHONPATH": str(root)}


def mix(base: Tool, other: Tool, parts: Sequence[str], into: Path) -> None:
    """Write a tool into the new folder `into`: `base`, with `parts` (of SWAPPED) of `other`. Raises StorageError."""
    whole = other if OF_TOOL[-1] in parts else base
    with storage_errors(f"write {into}"):
        into.mkdir(parents=True)
        _copy(whole.root / _PACKAGE, into / _PACKAGE)
        shutil.rmtree(into / _BUNDLED, ignore_errors=True)
        # Everything, because recipes and templates have further files that no part names.
        for name in ("recipes", "templates"):
            _copy(whole.place(name), into / name)
        for name in _OTHER:
            if (found := whole.place(name)).exists():
                shutil.copyfile(found, into / name)
        for part, relative in _OF_PARTS.items():
            shutil.rmtree(into / relative, ignore_errors=True)
            _copy((other if part in parts else base).place(relative), into / relative)


def _copy(source: Path, target: Path) -> None:
    """With links, also of compiled modules: a variant has thousands of files, of which none is changed."""
    shutil.copytree(source, target, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)
