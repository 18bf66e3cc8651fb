"""The files that offer the tool elsewhere, and their shell, run as the services run it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SECRET = "correct horse battery staple"


def action() -> dict[str, Any]:
    """action.yml."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return read


def component(**inputs: str) -> dict[str, Any]:
    """The job of GitLab's component with `inputs`, put into its text as GitLab does; other inputs have their defaults."""
    header, _, text = (ROOT / "templates/model/template.yml").read_text().partition("\n---\n")
    known = yaml.safe_load(header)["spec"]["inputs"]
    values = {name: str(given.get("default", "")) for name, given in known.items()} | inputs
    assert set(values) == set(known)
    (job,) = yaml.safe_load(re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: values[found[1]], text)).values()
    return dict(job)


class Runner:
    """A runner of GitHub's composite actions, of which it knows what action.yml uses: `${{ inputs.NAME }}` and `if`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.workspace, self.temp = folder / "workspace", folder / "temp"
        for each in (self.workspace, self.temp):
            each.mkdir()
        self.files = {name: folder / name for name in ("GITHUB_PATH", "GITHUB_OUTPUT")}
        for file in self.files.values():
            file.touch()
        self.environment = {
            "HOME": str(folder), "PATH": os.environ["PATH"], "RUNNER_TEMP": str(self.temp),
            "GITHUB_ACTION_PATH": str(ROOT), **{name: str(file) for name, file in self.files.items()}, **environment,
        }  # fmt: skip

    def run(self, inputs: dict[str, str]) -> list[subprocess.CompletedProcess[str]]:
        """The steps that ran, up to the first that failed."""
        document = action()
        values = {name: str(given.get("default", "")) for name, given in document["inputs"].items()} | inputs
        done = []
        for step in document["runs"]["steps"]:
            if "if" in step and not values[re.fullmatch(r"\$\{\{ inputs\.([\w-]+) != '' \}\}", step["if"])[1]]:  # type: ignore[index]
                continue
            done.append(self._step(step, values))
            if done[-1].returncode:
                break
        return done

    def _step(self, step: Mapping[str, Any], values: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        given = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], text)
            for name, text in step["env"].items()
        }
        path = ":".join([*reversed(self.files["GITHUB_PATH"].read_text().split()), self.environment["PATH"]])
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        return subprocess.run(
            argv,
            cwd=self.workspace,
            env={**self.environment, "PATH": path, **given},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def outputs(self) -> dict[str, str]:
        lines = [line.partition("=") for line in self.files["GITHUB_OUTPUT"].read_text().splitlines()]
        return {name: value for name, _, value in lines}
