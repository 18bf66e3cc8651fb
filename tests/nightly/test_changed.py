"""`--changed-since`: models that were touched in git."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.nightly.plans import DEFINITION, SPEC, Lab
from tests.wording import reported
from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.process import run
from tfaot_pkg.nightly.definition import load_definition
from tfaot_pkg.nightly.models import touched_since


def git(lab: Lab, *words: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    return run(["git", "-C", lab.root, *identity, *words]).stdout.strip()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Three models in a repository; the third shares its files with no spec's folder."""
    made = Lab(tmp_path / "a place with blanks ä")
    for name in ("a", "b"):
        made.model(name)
    made.model("c", SPEC + "source: ../../files\nvalidation: {{inputs: ../../x.npz}}\n")
    (made.root / "x.npz").write_bytes(b"")
    (made.root / "files" / "saved_model").mkdir(parents=True)
    (made.root / "files" / "saved_model" / "saved_model.pb").write_text("graph")
    (made.root / ".gitignore").write_text("home\nnightly-state\nignored\n")
    made.define()
    git(made, "init", "-q", "-b", "main")
    git(made, "add", ".")
    git(made, "commit", "-qm", "all")
    return made


def touched(lab: Lab, revision: str = "main") -> list[str]:
    return [one.task.model for one in lab.plan(changed_since=revision)]


def test_nothing_is_touched_at_first(lab: Lab) -> None:
    assert touched(lab) == []


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "spec": (lambda root: (root / "models/a/spec.yaml").write_text(SPEC.format(name="a") + "# x\n"), ["a"]),
    "model": (lambda root: (root / "models/b/saved_model/saved_model.pb").write_text("x"), ["b"]),
    "new file": (lambda root: (root / "models/b/saved_model/ä\nö").write_text("x"), ["b"]),
    "lost file": (lambda root: (root / "models/b/saved_model/variables/variables.index").unlink(), ["b"]),
    "tuning": (lambda root: (root / "models/a/spec.tune.json").write_text('{"format": 1, "model": "a"}'), ["a"]),
    "files elsewhere": (lambda root: (root / "files/saved_model/saved_model.pb").write_text("x"), ["c"]),
    "inputs": (lambda root: (root / "x.npz").write_text("x"), ["c"]),
    "read me": (lambda root: (root / "models/a/README.md").write_text("x"), []),
    "definition": (lambda root: (root / "registry.yaml").write_text(DEFINITION + "# x\n"), []),
    "ignored": (lambda root: (root / "models/a/saved_model/ignored").write_text("x"), []),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("commit", [True, False], ids=["committed", "not committed"])
def test_a_model_is_touched_where_a_file_of_it_is(name: str, commit: bool, lab: Lab) -> None:
    change, models = CHANGES[name]
    before = git(lab, "rev-parse", "HEAD")
    change(lab.root)
    if commit:
        git(lab, "add", ".")
        git(lab, "commit", "-qm", name, "--allow-empty")
    assert touched(lab, before) == models


def test_a_faulty_spec_that_was_touched_is_told(lab: Lab) -> None:
    (lab.root / "models/a/spec.yaml").write_text("nonsense")
    assert [one.action for one in lab.plan(changed_since="main")] == ["fail"]


@pytest.mark.parametrize("revision", ["nope", "--output=x", "", "main..main"])
def test_unknown_revisions_are_refused(lab: Lab, revision: str) -> None:
    with reported(SourceError):
        touched(lab, revision)


def test_outside_of_a_repository_there_is_no_answer(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.define()
    lab.model("a")
    with reported(SourceError):
        touched(lab)


def test_a_folder_of_the_content_that_looks_like_a_repository_configures_nothing(lab: Lab, tmp_path: Path) -> None:
    """Whoever commits these files could name a program there; git found such a repository before that of the folder."""
    mark = tmp_path / "mark"
    folder = lab.root / "definitions"
    git(lab, "init", "-q", "--bare", str(folder))
    inside = (f"--git-dir={folder}", f"--work-tree={folder}")
    (folder / "registry.yaml").write_text(DEFINITION)
    git(lab, *inside, "add", "registry.yaml")
    git(lab, *inside, "commit", "-qm", "x")
    for name, value in (("bare", "false"), ("worktree", str(folder))):
        git(lab, *inside, "config", f"core.{name}", value)
    git(lab, *inside, "config", "filter.it.clean", f"touch '{mark}'; cat")
    (folder / "registry.yaml").write_text(f"{DEFINITION}# x\n")
    (folder / ".gitattributes").write_text("* filter=it\n")
    with suppress(SourceError):
        touched_since(replace(load_definition(lab.definition), path=folder / "registry.yaml"), "HEAD")
    assert not mark.exists()


def test_a_hooks_environment_does_not_lead_to_another_repository(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    assert touched(lab) == []
