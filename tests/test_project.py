"""The project's own files: what is installed is pinned, the version stands once, a wheel is complete."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import tfaot_pkg
from tfaot_pkg.spec.form import json_schema

ROOT = Path(__file__).resolve().parent.parent
LOCK_FILES = sorted([*ROOT.glob("requirements/*.txt"), *ROOT.glob("tfaot_pkg/frontends/toolchain/requirements/*.txt")])
PYTHONS = ("3.10", "3.11", "3.12")


def locked(file: Path) -> list[tuple[Requirement, int]]:
    """The requirements of a lock file, each with its number of hashes."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line.partition(" --hash") for line in text.splitlines() if line.strip()]
    return [(Requirement(name), (mark + rest).count("--hash=sha256:")) for name, mark, rest in lines]


def pinned_version(requirement: Requirement) -> Version:
    (specifier,) = requirement.specifier
    assert specifier.operator == "=="
    return Version(specifier.version)


def project_requirements() -> list[Requirement]:
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert listed
    return [Requirement(line) for line in re.findall(r'"(.+)"', listed[1])]


@pytest.mark.parametrize("file", LOCK_FILES, ids=lambda file: file.name)
def test_a_lock_file_names_no_host(file: Path) -> None:
    assert not re.search(r"://|^-", file.read_text(), re.MULTILINE)


@pytest.mark.parametrize("file", LOCK_FILES, ids=lambda file: file.name)
def test_everything_in_a_lock_file_is_pinned_with_hashes(file: Path) -> None:
    for requirement, hashes in locked(file):
        pinned_version(requirement)
        assert hashes, requirement


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", ["run", "test", "tools", "release", "s3"])
def test_every_python_gets_one_version_of_every_dependency_within_its_range(name: str, python: str) -> None:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    found: dict[str, list[Version]] = {}
    for requirement, _ in locked(ROOT / "requirements" / f"{name}.txt"):
        if requirement.marker is None or requirement.marker.evaluate(dict(environment)):
            found.setdefault(requirement.name.lower(), []).append(pinned_version(requirement))
    assert [name for name, versions in found.items() if len(versions) > 1] == []
    for wanted in project_requirements() if name in ("run", "test") else ():
        assert wanted.specifier.contains(found[wanted.name.lower()][0]), wanted


def test_what_runs_and_what_is_tested_are_the_same_versions() -> None:
    # Markers may differ: what runs needs some package for old Pythons only, and a test's tool for all.
    run, buckets, tested = (
        {(requirement.name, pinned_version(requirement)) for requirement, _ in locked(ROOT / "requirements" / name)}
        for name in ("run.txt", "s3.txt", "test.txt")
    )
    assert run | buckets <= tested


def test_the_version_stands_in_one_file_and_the_index_of_recipes_has_it() -> None:
    version = tfaot_pkg.__version__
    assert 'dynamic = ["version", ' in (ROOT / "pyproject.toml").read_text()
    index = yaml.safe_load((ROOT / "recipes" / "tfaot-pkg" / "config.yml").read_text())
    assert list(index["versions"]) == [version]
    assert Version(version) in SpecifierSet(">=0.1,<1"), "recipes require tfaot-pkg/[>=0.1 <1]"


def test_the_citation_names_the_version_and_the_day_of_the_newest_dated_section_of_the_changelog() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (version, day), *_ = re.findall(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert (citation["version"], str(citation["date-released"])) == (version, day) and version == tfaot_pkg.__version__


def test_the_schema_that_samples_name_is_the_current_one() -> None:
    schema = ROOT / "docs" / "spec.schema.json"
    assert json.loads(schema.read_text()) == json.loads(json.dumps(json_schema())), "outdated: make reference"
    for spec in ROOT.glob("recipes/tfaot-model-*/all/spec.yaml"):
        named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", spec.read_text())
        assert named and (spec.parent / named[1]).resolve() == schema, spec


def build(target: str, folder: Path) -> Path:
    argv = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


def committed(*paths: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, check=True, capture_output=True, text=True)
    return {path for path in listed.stdout.splitlines() if (ROOT / path).is_file()}


def test_a_wheel_holds_the_package_the_templates_the_headers_and_the_base_recipe(tmp_path: Path) -> None:
    with zipfile.ZipFile(build("wheel", tmp_path)) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    bundled = {f"tfaot_pkg/_bundled/{path}" for path in committed("templates", "recipes/tfaot", "conanfile.py")}
    assert bundled <= names
    assert committed("tfaot_pkg") <= names
    assert not any("__pycache__" in name or name.startswith("tests/") for name in names)
    assert f"Version: {tfaot_pkg.__version__}\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata
    assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_a_release_names_its_repository_and_other_wheels_name_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = []
    for folder, repository in (("plain", ""), ("release", "https://example.org/group/tfaot-pkg/")):
        monkeypatch.setenv("TFAOT_REPOSITORY", repository)
        with zipfile.ZipFile(build("wheel", tmp_path / folder)) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
            metadata.append(wheel.read(name).decode())
    plain, release = metadata
    assert "Project-URL" not in plain and "](docs/" not in plain
    page = f"https://example.org/group/tfaot-pkg/blob/v{tfaot_pkg.__version__}"
    assert f"Project-URL: Changelog, {page}/CHANGELOG.md\n" in release
    assert f"]({page}/docs/how-to/make-a-package.md)" in release and "](docs/" not in release
    assert "![" not in plain and f"]({page.replace('/blob/', '/raw/')}/docs/chain.svg)" in release


@pytest.mark.slow
def test_a_source_distribution_can_build_the_wheel(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert committed("templates", "recipes", "conanfile.py", "tfaot_pkg", "pyproject.toml", "README.md") <= names


def test_an_installed_wheel_finds_its_templates_headers_and_base_recipe(tmp_path: Path) -> None:
    with zipfile.ZipFile(build("wheel", tmp_path / "dist")) as wheel:
        wheel.extractall(tmp_path / "site")
    program = (
        "from tfaot_pkg.ground import resources as r\n"
        "assert (r.templates() / 'recipe/config.yml.j2').is_file()\n"
        "assert (r.headers() / 'tfaot/c_api.h').is_file()\n"
        "assert (r.base_recipe() / 'conanfile.py').is_file()\n"
        "print(r.__file__)\n"
    )
    argv = [sys.executable, "-c", program]
    result = subprocess.run(argv, cwd=tmp_path / "site", check=True, capture_output=True, text=True)
    assert result.stdout.startswith(str(tmp_path / "site"))


def test_continuous_integration_does_what_the_readme_says() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    commands = re.findall(r"^(?:TFAOT_TEST_MINUTES=\$\(\(.*\)\) )?(make .*)", script, re.MULTILINE)
    assert commands == [f"make {target} || status=$?" for target in ("test", "test-nightly", "docs")]


def test_no_module_gives_one_of_its_names_twice() -> None:
    """A second constant of a name changes what functions above it read."""
    twice = []
    for path in sorted((ROOT / "tfaot_pkg").rglob("*.py")):
        assigned: set[str] = set()
        for statement in ast.parse(path.read_text()).body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
            twice += [f"{path.relative_to(ROOT)}:{statement.lineno}: {name}" for name in sorted(names & assigned)]
            assigned |= names
    assert twice == []
