"""The conda recipe of a release, made from what its wheel says, and the package that rattler-build makes of it.

The recipe's source is the archive beside it; who puts it into a feedstock replaces `path` by the archive's address.
"""

from __future__ import annotations

import configparser
import email.parser
import sys
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement


def _metadata(wheel: Path) -> tuple[Message, list[str]]:
    """The metadata and the commands (`NAME = MODULE:FUNCTION`) of `wheel`."""
    with zipfile.ZipFile(wheel) as archive:
        (folder,) = {name.partition("/")[0] for name in archive.namelist() if name.endswith(".dist-info/METADATA")}
        metadata = email.parser.Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        entries = configparser.ConfigParser(delimiters="=")
        entries.read_string(archive.read(f"{folder}/entry_points.txt").decode())
    return metadata, [f"{name} = {value}" for name, value in entries["console_scripts"].items()]


def _depends(metadata: Message) -> list[str]:
    """What every installation needs, as conda writes it."""
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    return [f"{each.name} {each.specifier}" for each in needed if each.marker is None]


def recipe(wheel: Path, source: Path, sha256: str) -> dict[str, Any]:
    """The recipe of the release that has `wheel`; `source` is its archive, relative to the recipe."""
    metadata, commands = _metadata(wheel)
    page = dict(each.split(", ", 1) for each in metadata.get_all("Project-URL", [])).get("Homepage")
    python = f"python {metadata['Requires-Python']}"
    return {
        "schema_version": 1,
        "package": {"name": metadata["Name"], "version": metadata["Version"]},
        "source": {"path": source.as_posix(), "sha256": sha256},
        "build": {
            "number": 0,
            "noarch": "python",
            "script": "${{ PYTHON }} -m pip install . --no-deps --no-build-isolation --no-index",
            "python": {"entry_points": commands},
        },
        "requirements": {"host": [python, "pip", "hatchling"], "run": ["__linux", python, *_depends(metadata)]},
        "tests": [{"script": ["tfaot-pkg --version", "tfaot-pkg sample digits"]}],
        "about": {
            "summary": metadata["Summary"],
            "license": metadata["License-Expression"],
            "license_file": ["LICENSE", "NOTICE"],
            **({"homepage": page, "repository": page} if page else {}),
        },
    }


def write_recipe(folder: Path, wheel: Path, source: Path, sha256: str) -> Path:
    """Write recipe.yaml into `folder`, which is beside `source`."""
    folder.mkdir()
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe(wheel, Path("..") / source.name, sha256), sort_keys=False, width=120))
    return path


def build(path: Path, channel: str, output: Path) -> Path:
    """The package of the recipe at `path`, whose tests have passed in an environment of their own from `channel`."""
    from rattler_build import RattlerBuildError, Stage0Recipe, ToolConfiguration

    try:
        (made,) = Stage0Recipe.from_file(path).run_build(
            tool_config=ToolConfiguration(test_strategy="native"),
            output_dir=output,
            channels=[channel],
            no_build_id=True,
        )
    except RattlerBuildError as error:
        logs = [log.read_text(errors="replace")[-4000:] for log in sorted(output.rglob("conda_build.log"))]
        sys.exit("\n".join([*logs, f"the conda package of {path}: {error}"]))
    (package,) = made.packages
    return Path(package)


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
