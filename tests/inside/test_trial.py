"""`toolchain try`: a release of TensorFlow that is no toolchain yet, beside the default one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands import run_command
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.measure.inside.candidate import Candidate, lock_of, nearest
from tfaot_pkg.measure.inside.trial import Compared, Outcome, Trial, report_text, try_toolchain
from tfaot_pkg.pipeline.pipeline import Pipeline


def outcome(times: Mapping[int, float] | None = None, fault: str = "") -> Outcome:
    return Outcome(fault=fault, engine="" if fault else "xla", microseconds=times or {})


def compared(before: Outcome, now: Outcome) -> Compared:
    return Compared(model="dense", engine="xla", before=before, now=now, same_bits=None)


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        (outcome({1: 4.0, 16: 9.0}), outcome({1: 4.1, 16: 8.0}), "good"),
        (outcome({1: 4.0, 16: 9.0}), outcome({1: 4.1, 16: 18.0}), "slower"),
        (outcome({1: 0.1}), outcome({1: 0.2}), "good"),
        (outcome({1: 4.0}), outcome(fault="undefined symbol"), "worse: fails"),
        (outcome(fault="no kernel"), outcome({1: 4.0}), "better: builds"),
        (outcome(fault="no kernel"), outcome(fault="no kernel"), "fails with both"),
    ],
)
def test_a_model_gets_a_verdict(before: Outcome, now: Outcome, verdict: str) -> None:
    assert compared(before, now).verdict == verdict


def test_the_report_names_what_got_worse_and_why() -> None:
    worse = compared(outcome({1: 4.0, 16: 9.0}), outcome(fault="g++ failed on generated code"))
    trial = Trial(version="2.99.0", default="2.17.1", note="tried as 2.21.0", processor="a CPU", compared=(worse,))
    text = report_text(trial)
    assert "1 worse: fails" in text and "Note: tried as 2.21.0." in text
    assert "| dense | xla | 4.0 / 9.0 | - |" in text and "- dense, engine xla, 2.99.0: g++ failed" in text
    assert trial.as_dict()["worse"] == ["dense (xla)"]


def test_the_nearest_known_release_says_how_a_new_one_is_tried() -> None:
    toolchain, note = nearest("2.19.0")
    assert (toolchain.version, toolchain.alignment, note) == ("2.19.0", 64, "")
    toolchain, note = nearest("2.22.0rc0")
    assert (toolchain.version, toolchain.interface) == ("2.22.0rc0", "thunks") and "2.21.0" in note
    with pytest.raises(ToolchainError) as caught:
        nearest("2.10.0")
    assert "2.17.1" in caught.value.hint


def test_what_pip_would_install_is_locked_with_its_hashes(tmp_path: Path) -> None:
    def package(name: str, version: str, digest: str) -> dict[str, object]:
        info = {"archive_info": {"hashes": {"sha256": digest}}}
        return {"metadata": {"name": name, "version": version}, "download_info": info}

    found = [package("tensorflow_cpu", "2.22.0", "b" * 64), package("absl-py", "2.1", "a" * 64)]
    text = lock_of(json.dumps({"install": found}).encode(), tmp_path / "log")
    assert text.splitlines()[1:] == [
        "absl-py==2.1 \\",
        f"    --hash=sha256:{'a' * 64}",
        "tensorflow-cpu==2.22.0 \\",
        f"    --hash=sha256:{'b' * 64}",
    ]
    for wrong in (
        package("x", "1", "a"),
        package("x\n--index-url evil", "1", "a" * 64),
        package("x", "1\nevil", "a" * 64),
    ):
        with pytest.raises(ToolchainError):
            lock_of(json.dumps({"install": [wrong]}).encode(), tmp_path / "log")


@pytest.mark.parametrize("version", ["2.3", "newest", "../2.17.1"])
def test_what_is_no_version_is_an_error_of_usage(version: str, tmp_path: Path) -> None:
    done = run_command(["toolchain", "try", version], cwd=tmp_path)
    assert done.returncode == 2 and list(tmp_path.iterdir()) == []


@pytest.mark.nightly
@pytest.mark.slow
def test_a_release_that_does_not_exist_is_an_error_with_those_that_do(tmp_path: Path, shared_home: Path) -> None:
    done = run_command(["toolchain", "try", "9.9.9", "--json"], cwd=tmp_path)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"]) == (13, "toolchain") and "2." in error["hint"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_a_release_under_another_number_gives_the_same_bits(
    tmp_path: Path, shared_home_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.21.0 as if nobody knew it, on two models."""
    # Its process says the number that it has, which is not believed otherwise.
    monkeypatch.setattr(Original, "require_version", lambda _self, told, _tensorflow: told)
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    known = ensure("2.21.0", folders=folders, progress=Silent())
    toolchain, note = nearest("2.21.99")
    environment = replace(known, toolchain=toolchain)
    found = Candidate(toolchain=toolchain, environment=environment, lock="", note=note)
    trial = try_toolchain(found, Pipeline(folders=folders, progress=Silent()), tmp_path, only=["dense", "moves"])
    assert [(each.model, each.engine) for each in trial.compared] == [
        (model, engine) for model in ("dense", "moves") for engine in ("auto", "xla")
    ]
    assert not any(each.before.fault or each.now.fault for each in trial.compared), report_text(trial)
    assert [each.same_bits for each in trial.compared] == [True, None, True, None]
    assert all(set(each.now.microseconds) == {1, 16} for each in trial.compared)
