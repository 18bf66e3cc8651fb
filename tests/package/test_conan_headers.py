"""The Conan package of the headers (recipes/tfaot)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import yaml

from tests.package.conftest import TOOLS
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import files_below
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.listing import headers_version

RECIPE = resources.headers().parent


def recipe_version() -> str:
    (version,) = yaml.safe_load((RECIPE.parent / "config.yml").read_text())["versions"]
    return str(version)


def test_the_recipe_has_the_version_of_the_headers() -> None:
    major, minor, patch = map(int, recipe_version().split("."))
    text = (resources.headers() / "tfaot" / "version.h").read_text()
    assert headers_version(text) == 10000 * major + 100 * minor + patch


def test_conan_makes_one_package_for_all_compilers(tmp_path: Path) -> None:
    env = {**os.environ, "CONAN_HOME": str(tmp_path)}
    profile = tmp_path / "profile"
    profile.write_text("[settings]\nos=Linux\narch=x86_64\n")
    create: list[str | Path] = [
        TOOLS / "conan",
        "create",
        RECIPE,
        "--version",
        recipe_version(),
        f"-pr:a={profile}",
        "--format=json",
    ]
    nodes = json.loads(run(create, env=env).stdout)["graph"]["nodes"]
    (package,) = [node for node in nodes.values() if node["name"] == "tfaot"]
    assert package["info"] == {}
    include = Path(package["package_folder"]) / "include"
    assert {path.relative_to(include) for path in files_below(include)} == {
        path.relative_to(resources.headers()) for path in files_below(resources.headers())
    }
