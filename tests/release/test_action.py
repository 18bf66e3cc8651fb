"""The GitHub action, its release workflow and the GitLab component: by the schemas of their services, and run."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import tfaot_pkg
from tests.commands import run_command
from tests.nightly.test_ci import keys_archive
from tests.release.conftest import ROOT, SECRET, Runner, action, component

WORKFLOW = ROOT / ".github/workflows/release.yml"
STUB = """#!/bin/sh
printf '%s|%s\\n' "$*" "${TFAOT_REGISTRY_PASSPHRASE:-}" >> "$CALLS"
if [ "$1" = build ]; then echo '{"package": "tfaot-model-digits", "version": "1.0.0"}'; fi
if [ "$1" = publish ] && [ -n "${TFAOT_REGISTRY_KEYS:-}" ]; then cat "$TFAOT_REGISTRY_KEYS/root.pem" >> "$CALLS"; fi
exit "${CODE:-0}"
"""


def faults(document: object, schema: str) -> list[str]:
    wanted = json.loads(files("check_jsonschema.builtin_schemas").joinpath(f"vendor/{schema}.json").read_text())
    return [error.message for error in jsonschema.validators.validator_for(wanted)(wanted).iter_errors(document)]


def typed(path: Path) -> dict[str, Any]:
    return {("on" if name is True else name): value for name, value in yaml.safe_load(path.read_text()).items()}


def test_the_files_fit_the_schemas_of_their_services() -> None:
    assert faults(action(), "github-actions") == []
    assert faults(typed(WORKFLOW), "github-workflows") == []
    header, job = yaml.safe_load_all((ROOT / "templates/model/template.yml").read_text())
    assert faults(header, "gitlab-ci") == [] and set(header) == {"spec"}
    assert len(job) == 1 and faults({"model": component(spec="spec.yaml")}, "gitlab-ci") == []
    assert faults({**action(), "runs": {"using": "composite"}}, "github-actions")


def test_actions_of_others_are_pinned_by_commit_and_only_the_upload_identifies_itself() -> None:
    jobs = typed(WORKFLOW)["jobs"]
    used = re.findall(r"uses: (.*)$", WORKFLOW.read_text(), re.MULTILINE)
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[0-9.]+", each) for each in used)
    assert typed(WORKFLOW)["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"},
        "publish": {"id-token": "write"},
    }
    assert not any("run" in step for step in jobs["publish"]["steps"]) and jobs["publish"]["environment"] == "pypi"
    assert "secrets." not in WORKFLOW.read_text() and "password" not in WORKFLOW.read_text()


def test_inputs_reach_the_shell_as_variables_only() -> None:
    steps = action()["runs"]["steps"]
    assert not any("${{" in step["run"] for step in steps)
    assert {value for step in steps for value in step["env"].values()} == {
        f"${{{{ inputs.{name} }}}}" for name in action()["inputs"]
    }
    (script,) = yaml.safe_load((ROOT / "templates/model/template.yml").read_text().partition("\n---\n")[2]).popitem()[
        1
    ]["script"]
    assert "$[[" not in script


def test_the_component_installs_the_version_that_it_stands_beside() -> None:
    assert component(spec="spec.yaml")["variables"]["TFAOT_INSTALL"]["value"] == f"tfaot-pkg=={tfaot_pkg.__version__}"


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_shellcheck_finds_no_fault(shell: str, require_program: Callable[[str], str], tmp_path: Path) -> None:
    steps = action()["runs"]["steps"] if shell == "bash" else [{"run": component(spec="s")["script"][0]}]
    for number, step in enumerate(steps):
        (tmp_path / f"{number}.sh").write_text(step["run"])
        # SC2086: words of the defines are meant to be divided.
        argv = [require_program("shellcheck"), f"--shell={shell}", "--exclude=SC2086", str(tmp_path / f"{number}.sh")]
        assert subprocess.run(argv, capture_output=True, text=True, check=False).stdout == ""


@pytest.fixture
def stub(tmp_path: Path) -> dict[str, str]:
    """Variables with which tfaot-pkg is a program that notes its calls in `calls`."""
    program = tmp_path / "bin/tfaot-pkg"
    program.parent.mkdir()
    program.write_text(STUB)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls"), "TMPDIR": str(tmp_path)}


def later_steps(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the installation: Python alone stands where it would."""
    document = action()
    document["runs"]["steps"] = document["runs"]["steps"][1:]
    monkeypatch.setattr("tests.release.conftest.action", lambda: document)
    (runner.temp / "tfaot-pkg/bin").mkdir(parents=True)
    (runner.temp / "tfaot-pkg/bin/python").symlink_to("/usr/bin/python3")


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_the_action_gives_keys_to_the_publication_alone_and_removes_them(
    signed: bool, stub: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(tmp_path, stub)
    later_steps(runner, monkeypatch)
    inputs = {"spec": "a spec.yaml", "defines": "A=1\nB=$(id)", "registry": "models"}
    if signed:
        inputs |= {"registry-keys": keys_archive(), "registry-passphrase": SECRET}
    done = runner.run(inputs)
    assert [step.returncode for step in done] == [0, 0], done
    assert runner.outputs == {"package": "tfaot-model-digits", "version": "1.0.0"}
    words = "--define=A=1 --define=B=$(id)"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"build a spec.yaml --output prefix {words} --json|",
        f"publish a spec.yaml --registry models {words}|{SECRET if signed else ''}",
        *(["the root key"] if signed else []),
    ]
    assert SECRET not in "".join(step.stdout + step.stderr for step in done)
    assert not (runner.temp / "tfaot-pkg/keys").exists()


def test_a_failed_build_publishes_nothing_and_its_error_is_in_the_log(
    stub: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(tmp_path, {**stub, "CODE": "12"})
    later_steps(runner, monkeypatch)
    (failed,) = runner.run({"spec": "spec.yaml", "registry": "models"})
    assert failed.returncode == 1 and '"package"' in failed.stdout and runner.outputs == {}


def run_component(stub: dict[str, str], tmp_path: Path, inputs: dict[str, str], **variables: str) -> list[str]:
    job = component(spec="spec.yaml", **inputs)
    given = {name: each["value"] for name, each in job["variables"].items() if isinstance(each, dict)}
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(job["script"])], cwd=tmp_path, env={**stub, **given, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == int(variables.get("CODE", 0)), done.stderr
    assert SECRET not in done.stdout + done.stderr
    return (tmp_path / "calls").read_text().splitlines()


def test_the_component_publishes_from_protected_branches_with_keys_that_it_removes(
    stub: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text(keys_archive())
    secrets = {"TFAOT_KEYS_ARCHIVE": str(tmp_path / "keys"), "TFAOT_REGISTRY_PASSPHRASE": SECRET}
    calls = run_component(
        stub, tmp_path, {"registry": "models", "defines": "A=1 B=*"}, CI_COMMIT_REF_PROTECTED="true", **secrets
    )
    assert [call.partition("|")[0] for call in calls] == [
        "build spec.yaml --output prefix --define A=1 --define B=*",
        "publish spec.yaml --registry models --define A=1 --define B=*",
        "the root key",
    ]
    assert {each.name for each in tmp_path.iterdir()} == {"bin", "calls", "keys"}


@pytest.mark.parametrize("case", ["no registry", "not protected", "failed"])
def test_the_component_publishes_nothing_otherwise(case: str, stub: dict[str, str], tmp_path: Path) -> None:
    inputs = {} if case == "no registry" else {"registry": "models"}
    variables = {"CODE": "12", "CI_COMMIT_REF_PROTECTED": "true"} if case == "failed" else {}
    (call,) = run_component(stub, tmp_path, inputs, **variables)
    assert call.startswith("build ")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_the_action_builds_and_publishes_a_sample_in_a_clean_environment(shared_home: Path, tmp_path: Path) -> None:
    """The installation too: from the lock file, into an environment that has nothing else."""
    runner = Runner(tmp_path, {"TFAOT_HOME": str(shared_home), "PIP_CACHE_DIR": str(shared_home / "pip")})
    assert run_command(["sample", "wine", runner.workspace / "wine"]).returncode == 0
    keys = tmp_path / "keys"
    made = run_command(
        ["registry", "init", runner.workspace / "models", "--keys", keys],
        env={**os.environ, "TFAOT_REGISTRY_PASSPHRASE": SECRET},
    )
    assert made.returncode == 0, made.stderr
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(keys, ".")
    done = runner.run(
        {
            "spec": "wine/spec.yaml", "registry": "models", "registry-keys": base64.encodebytes(data.getvalue()).decode(),
            "registry-passphrase": SECRET,
        }
    )  # fmt: skip
    assert [step.returncode for step in done] == [0, 0, 0], done[-1].stdout + done[-1].stderr
    assert runner.outputs["package"] == "tfaot-model-wine"
    assert (runner.workspace / "prefix/share/tfaot-model-wine").is_dir()
    assert "signed" in done[-1].stdout and SECRET not in "".join(step.stdout + step.stderr for step in done)
    shown = run_command(["show", "wine", "--registry", runner.workspace / "models", "--json"])
    assert json.loads(shown.stdout)["version"] == runner.outputs["version"]
