"""The line that builds a task by hand, run by a shell as a reader of a report would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.nightly.plans import DEFINITION, SPEC, Lab
from tfaot_pkg.nightly.outcome import command_for
from tfaot_pkg.nightly.types import Decision

STUB = '#!/bin/sh\nprintf "%s\\n" "$@"\ncat "$2"\n'


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "lab")
    lab.model("here")
    lab.define()
    return lab


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=N", "-c", "user.email=n@example.org")
    return subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def elsewhere(lab: Lab, spec: str, path: str = "tagger/spec.yaml") -> Decision:
    """The decision about a spec in another repository, which has moved on since the commit that the definition names."""
    repository = lab.root / "theirs.git"
    file = repository / "tagger" / "spec.yaml"
    file.parent.mkdir(parents=True)
    git(lab.root, "init", "--quiet", str(repository))
    for text in (spec, "nonsense\n"):
        file.write_text(text)
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "--message=a spec")
    revision = git(repository, "rev-parse", "HEAD~1")
    entry = f"  - spec: {{git: '{repository.as_uri()}', revision: '{revision}', path: {path}}}\n"
    lab.define(DEFINITION.replace("models:\n", f"models:\n{entry}"))
    return next(one for one in lab.plan() if one.task.model != "here")


def by_hand(decision: Decision, folder: Path) -> list[str]:
    """What tfaot-pkg is called with, and the lines of the spec that it is given."""
    (folder / "bin").mkdir(parents=True)
    stub = folder / "bin" / "tfaot-pkg"
    stub.write_text(STUB)
    stub.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    for _ in range(2):  # it may be repeated
        done = subprocess.run(
            ["sh", "-c", command_for(decision.task)], cwd=folder, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_spec_of_another_repository_is_fetched_at_its_commit(lab: Lab, tmp_path: Path) -> None:
    spec = SPEC.format(name="tagger")
    decision = elsewhere(lab, spec)
    assert decision.task.model == "tagger"
    said = by_hand(decision, tmp_path / "reader")
    assert said[:5] == ["build", "tagger-repository/tagger/spec.yaml", "--tensorflow", "2.17.1", "--target"]
    assert "\n".join(said).endswith(spec.rstrip())


def test_a_faulty_spec_of_another_repository_is_fetched_all_the_same(lab: Lab, tmp_path: Path) -> None:
    faulty = SPEC.format(name="tagger").replace("[1, 4]", "[0]")
    decision = elsewhere(lab, faulty)
    assert (decision.action, decision.task.id) == ("fail", "tagger@1.0.0+tf2.17.1")
    assert "\n".join(by_hand(decision, tmp_path / "reader")).endswith(faulty.rstrip())


def test_a_spec_that_is_not_in_its_repository_is_told_by_repository_and_commit(lab: Lab) -> None:
    decision = elsewhere(lab, SPEC.format(name="tagger"), path="tagger/spec.yml")
    (reason,) = decision.reasons
    origin = decision.task.origin
    assert origin is not None
    assert reason.detail == f"tagger/spec.yml is not in {origin.url} at {origin.revision}"
    assert origin.revision in command_for(decision.task), "the same error can be had by hand"


def test_a_toolchain_that_only_an_unreadable_spec_names_is_left_to_the_spec(lab: Lab, tmp_path: Path) -> None:
    lab.model("here", "nonsense\n")
    lab.define(DEFINITION.replace("toolchains: [2.17.1]\n", ""))
    (decision,) = lab.plan()
    assert (decision.task.id, decision.release) == ("models_here_spec_yaml", "")
    said = by_hand(decision, tmp_path / "reader")
    assert said == ["build", str(decision.task.spec), "-o", f"{decision.task.model}-prefix", "nonsense"]
