"""Homes in which little is installed."""

from __future__ import annotations

from pathlib import Path

from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.formats import Format


def home_with_frontend(wanted: Format, shared_home: Path, home: Path) -> Path:
    """`home`, made with the environment of one front-end alone, which is that of `shared_home`."""
    folders = Folders(cache=shared_home / "cache", data=shared_home / "data")
    found = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS[wanted])
    folder, toolchains = found.python.parents[1], home / "cache" / "toolchains"
    toolchains.mkdir(parents=True)
    (toolchains / folder.name).symlink_to(folder)
    return home
