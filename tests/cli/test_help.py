"""`--help`, `help`, `version`, `list`, the manual page, and what shells complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.commands import run_command
from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tfaot_pkg._version import __version__
from tfaot_pkg.cli.app import app
from tfaot_pkg.cli.groups import Group, first_sentence
from tfaot_pkg.ground import resources
from tfaot_pkg.package.prefix.manifest import Manifest, manifest_path
from tfaot_pkg.registry.folder import FolderRegistry
from tools.make_reference import MANUAL


def _groups(group: Any, path: str = "") -> Iterator[tuple[str, Group]]:
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, Group):
            yield from _groups(command, f"{path} {name}".strip())


GROUPS = dict(_groups(get_command(app)))


@pytest.mark.parametrize("path", GROUPS)
def test_every_command_is_in_one_section(path: str) -> None:
    group = GROUPS[path]
    named = [name for names in group.sections.values() for name in names]
    assert not named or sorted(named) == sorted(group.commands)
    assert set(group.aliases).isdisjoint(group.commands)
    assert set(group.aliases.values()) <= set(group.commands)


def test_the_sections_are_those_of_authors_consumers_registries_and_nights() -> None:
    shown = run_command(["--help"]).stdout
    titles = ["Make a package:", "Use packages:", "Keep a registry:", "Build every night:", "This tool:"]
    assert [line for line in shown.splitlines() if line in titles] == titles
    assert shown.partition("Build every night:")[2].split()[0] == "nightly"


@pytest.mark.parametrize("path", GROUPS)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_description_is_cut_off(path: str, columns: int) -> None:
    environment = {**os.environ, "COLUMNS": str(columns)}
    shown = " ".join(run_command([*path.split(), "--help"], env=environment).stdout.split())
    for name, command in GROUPS[path].commands.items():
        # Lines may end at a hyphen.
        assert f"{name} {first_sentence(command.help or '')}" in shown.replace("- ", "-")
    assert "..." not in shown.partition("Options:")[2].replace("ARGS]...", "")


def test_help_is_that_of_the_command() -> None:
    for words in (["build"], ["registry", "keys", "new"]):
        asked, flag = run_command(["help", *words]).stdout, run_command([*words, "--help"]).stdout
        assert flag.strip() in asked
    assert run_command(["help"]).stdout.startswith(run_command(["--help"]).stdout.strip())


def test_help_prints_pages() -> None:
    pages = resources.pages()
    page = pages["how-to/validation"].read_text()
    for name in ("validation", "how-to/validation", "docs/how-to/validation.md"):
        assert run_command(["help", name]).stdout == page
    # A command comes before a page of its name, and names it.
    assert "tfaot-pkg help how-to/bench" in run_command(["help", "bench"]).stdout
    assert run_command(["help", "how-to/bench"]).stdout == pages["how-to/bench"].read_text()


def test_help_for_nothing_names_what_is_near() -> None:
    done = run_command(["help", "validatoin"])
    assert done.returncode == 2
    assert "did you mean validation" in done.stderr


def test_version() -> None:
    assert json.loads(run_command(["version", "--json"]).stdout)["tfaot_pkg"] == __version__
    assert run_command(["version"]).stdout.startswith(f"{run_command(['--version']).stdout.strip()} (Python 3.")


def test_list_names_what_is_installed(tmp_path: Path) -> None:
    for model, version in (("digits", "1.2"), ("taus", "3.0")):
        _installed(tmp_path, model, version)
    (tmp_path / "share/tfaot-model-taus/pending.json").write_text('{"paths": [], "format": 1}')
    assert run_command(["list", tmp_path]).stdout.splitlines() == [
        "tfaot-model-digits 1.2",
        "tfaot-model-taus 3.0 (interrupted: install it again)",
    ]
    found = json.loads(run_command(["list", tmp_path, "--json"]).stdout)["packages"]
    assert [(one["name"], one["version"], one["damaged"]) for one in found] == [
        ("tfaot-model-digits", "1.2", False),
        ("tfaot-model-taus", "3.0", True),
    ]


def test_list_of_an_empty_and_of_no_prefix(tmp_path: Path) -> None:
    assert "no package is installed" in run_command(["list", tmp_path]).stdout
    done = run_command(["list", tmp_path / "none"])
    assert (done.returncode, done.stdout) == (22, "")


def _installed(prefix: Path, model: str, version: str) -> None:
    name = f"tfaot-model-{model}"
    manifest = Manifest(name=name, version=version, key="k", tree="t", files={}, links={})
    place = prefix / manifest_path(name)
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({field: getattr(manifest, field) for field in Manifest.__dataclass_fields__}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("sample di", ["digits"]),
        ("inspect spec.yaml --what m", ["memory", "mlir-tf"]),
        ("install --target x86-64-v3", ["x86-64-v3"]),
        ("toolchain add 2.17", ["2.17.1"]),
        ("show di", ["digits"]),
        ("update no", []),
        ("help valid", ["validation", "validation-rules"]),
    ],
)
def test_shells_complete_values(words: str, offered: list[str], tmp_path: Path) -> None:
    package = package_of(tmp_path, "digits", "1", tiny_files("digits", "1"))
    FolderRegistry.create(tmp_path / "home/data/registry").publish(package.entry, package.blobs)
    assert _completed(words, tmp_path) == offered


@pytest.mark.slow
def test_shells_complete_nothing_where_nothing_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "home/data/registry").mkdir(parents=True)
    (tmp_path / "home/data/registry/config.json").write_text("{")
    assert _completed("show ", tmp_path) == []


def _completed(words: str, folder: Path) -> list[str]:
    line = f"tfaot-pkg {words}"
    variables = {
        "_TFAOT_PKG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(f"{line}.".split()) - 1),
        "TFAOT_HOME": str(folder / "home"), "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    run = "from tfaot_pkg.cli.app import app; app(prog_name='tfaot-pkg')"
    argv = [sys.executable, "-c", run]
    done = subprocess.run(
        argv, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_the_manual_page_is_one_that_man_reads(require_program: Callable[[str], str]) -> None:
    argv = [require_program("groff"), "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", str(MANUAL)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    assert done.stderr == ""
    for path, group in GROUPS.items():
        for name, command in group.commands.items():
            if not isinstance(command, Group):
                assert f"tfaot-pkg {f'{path} {name}'.strip()}\n" in done.stdout
