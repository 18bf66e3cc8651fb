"""The hook for pre-commit, and the command that it runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.commands import run_command
from tests.release.conftest import ROOT

GOOD = "model: {name: dense, version: 1.0.0, saved_model: dense}\ncompilation: {batch_sizes: [1]}\n"
WRONG = "model:\n  name: class\n  version: 1.0.0\n  saved_model: dense\ncompilation: {batch_sizes: [0]}\n"


@pytest.fixture(name="specs")
def _specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", GOOD), ("wrong", WRONG), ("other", GOOD.replace("dense,", "'{{ env.NAME }}',"))):
        Path(name).mkdir()
        Path(name, "spec.yaml").write_text(text)
    return tmp_path


def test_the_hook_runs_a_command_that_exists_on_files_named_as_specs(specs: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["language"]) == ("tfaot-spec", "python")
    program, *words = hook["entry"].split()
    assert program == "tfaot-pkg"
    paths = [path.relative_to(specs).as_posix() for path in sorted(specs.rglob("*.yaml"))]
    assert all(re.search(hook["files"], path) for path in paths)
    assert not re.search(hook["files"], "models/myspec.yaml") and not re.search(hook["files"], "spec.yaml.j2")
    assert run_command([*words, "good/spec.yaml"], cwd=specs).returncode == 0
    assert run_command([*words, *paths], cwd=specs).returncode == 10


def test_faults_of_several_specs_are_lines_with_file_and_line(specs: Path) -> None:
    done = run_command(["check", "--spec-only", "wrong/spec.yaml", "good/spec.yaml", "none.yaml", "."], cwd=specs)
    assert done.returncode == 10 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        "wrong/spec.yaml:2:",
        "wrong/spec.yaml:5:",
        "none.yaml:",
        ".:",
    ]
    assert "model.name" in lines[0] and "compilation.batch_sizes[0]" in lines[1] and "init" in lines[2]


def test_expressions_get_values_and_a_missing_one_is_a_fault(specs: Path) -> None:
    argv = ["check", "--spec-only", "other/spec.yaml", "good/spec.yaml"]
    assert run_command([*argv, "-D", "NAME=dense"], cwd=specs).returncode == 0
    done = run_command([*argv, "--json"], cwd=specs)
    document = json.loads(done.stdout)
    assert done.returncode == 10 and len(document["specs"]) == 2
    (fault,) = document["faults"]
    assert (fault["file"], fault["line"], fault["path"]) == ("other/spec.yaml", 1, "model.name")


@pytest.mark.parametrize("words", [["good/spec.yaml", "wrong/spec.yaml"], ["--spec-only", "--table", "good/spec.yaml"]])
def test_what_needs_a_toolchain_takes_one_model_and_is_not_asked_of_specs_alone(words: list[str], specs: Path) -> None:
    assert run_command(["check", *words], cwd=specs).returncode == 2
