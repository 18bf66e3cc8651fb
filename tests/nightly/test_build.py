"""What a build of the nightly refuses before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nightly.plans import SPEC, Lab
from tests.wording import reported
from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.build import build
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.outcome import Request, kind_of
from tfaot_pkg.nightly.types import Policy


def test_what_is_not_as_it_was_planned_is_not_built_and_what_changed_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.model("a")
    lab.define()
    (decision,) = lab.plan()
    lab.model("a", SPEC.replace("[1, 4]", "[1, 8]"))
    request = Request(
        decision=decision, night="2026-11-21.1", state=tmp_path / "state", log=tmp_path / "log",
        cache=tmp_path / "home" / "cache", policy=Policy(),
    )  # fmt: skip
    with reported(StorageError):
        build(request, tmp_path / "scratch")


def test_a_machine_without_the_compiler_says_nothing_about_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    lab.model("a")
    lab.define()
    (decision,) = lab.plan()
    request = Request(
        decision=decision, night="2026-11-21.1", state=tmp_path / "state", log=tmp_path / "log",
        cache=tmp_path / "home" / "cache", policy=Policy(),
    )  # fmt: skip
    monkeypatch.setenv("CXX", "no-such-compiler")
    with reported(StorageError) as caught:
        build(request, tmp_path / "scratch")
    assert kind_of(caught.value) == "infrastructure failed"


@pytest.mark.parametrize("change", [("1.0.0", "1.1.0"), ("{name}", "b")])
def test_a_spec_of_another_version_or_model_is_not_built_though_the_key_would_be_the_same(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    """The version in the key is that of the release, which the plan gives."""
    lab = Lab(tmp_path)
    lab.model("a")
    lab.define()
    (decision,) = lab.plan()
    lab.model("a", SPEC.replace(*change))
    with reported(StorageError):
        spec_for(decision.task, decision.release)
