"""Which level a machine reaches, and what happens if it reaches none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.conftest import Place, without_namespaces
from tests.wording import reported
from tfaot_pkg.errors import SandboxError
from tfaot_pkg.ground.sandbox import Level, Reached, Sandbox, policy

REPOSITORY = Path(__file__).resolve().parents[2]
_ASK = (
    "from tfaot_pkg.ground.sandbox import reached; found = reached(); print(found.level.value, *found.reasons, sep='|')"
)


def ask(*wrapper: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [*wrapper, sys.executable, "-c", _ASK],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().split("|")


def test_namespaces_are_best(require_program: Callable[[str], str]) -> None:
    require_program("bwrap")
    assert ask() == ["namespaces"]


def test_without_namespaces_it_is_landlock_and_says_why() -> None:
    reached, why = ask(*without_namespaces())
    assert reached == "landlock"
    assert "namespace" in why


def test_without_bubblewrap_it_is_landlock_and_says_why(tmp_path: Path) -> None:
    assert ask(PATH=str(tmp_path)) == ["landlock", "bubblewrap (bwrap) is not installed"]


def test_what_is_remembered_is_true_of_the_bubblewrap_that_path_names(
    require_program: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap = Path(require_program("bwrap"))
    elsewhere = tmp_path / "bwrap"
    elsewhere.symlink_to(bubblewrap)
    with monkeypatch.context() as changed:
        changed.setenv("PATH", str(tmp_path))
        assert policy.reached().bubblewrap == elsewhere
    elsewhere.unlink()
    assert policy.reached().bubblewrap == bubblewrap


@pytest.fixture
def no_confinement(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Reached(level=Level.NONE, reasons=("no bubblewrap", "no Landlock"))
    monkeypatch.setattr(policy, "reached", lambda: found)
    monkeypatch.delenv("TFAOT_UNCONFINED", raising=False)


@pytest.mark.usefixtures("no_confinement")
class TestNone:
    def test_a_program_is_refused_and_the_error_says_why(self, tmp_path: Path) -> None:
        with reported(SandboxError) as error:
            Sandbox(writable=(tmp_path,)).native(["true"])
        assert error.value.exit_code == 29

    def test_who_agrees_runs_it_without_a_sandbox_but_with_limits(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TFAOT_UNCONFINED", "1")
        program = place.scratch / "program.py"
        program.write_text(f"print(open({str(place.secret)!r}).read())\nimport resource, os, signal\n"
                           "print(resource.getrlimit(resource.RLIMIT_CORE), 'TFAOT_TEST_SECRET' in os.environ)")  # fmt: skip
        printed = Sandbox(writable=(place.scratch,)).python(Path(sys.executable), program).run().stdout
        assert printed.splitlines() == [place.secret.read_text(), "(0, 0) False"]

    def test_zero_is_no_agreement(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TFAOT_UNCONFINED", "0")
        with pytest.raises(SandboxError):
            Sandbox().native(["true"])


def test_a_kernel_without_anything_is_told(tmp_path: Path) -> None:
    old = [sys.executable, str(Path(__file__).with_name("old_kernel.py"))]
    level_reached, namespaces, landlock = ask(*without_namespaces(), *old)
    assert level_reached == "none"
    assert "namespace" in namespaces
    assert landlock == "no Landlock"
