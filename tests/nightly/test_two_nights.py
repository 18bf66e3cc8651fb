"""Two nights from end to end: 12 models, a real Dask cluster of two workers, real builds, and things that go wrong.

In the first night a worker is killed in the middle of a build, in the second one the coordinator.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bad_input.conftest import write_spec
from tests.nightly.nights import REPOSITORY, builds_below, kill_worker_of, start_coordinator
from tfaot_pkg.nightly.report.report import read_report
from tfaot_pkg.nightly.report.write import write_report
from tfaot_pkg.nightly.run import FAILED
from tfaot_pkg.nightly.state import NightFolder, State
from tfaot_pkg.nightly.types import Outcome
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

_SECRET = "hunter2-planted-secret"
_HOOKED = REPOSITORY / "tests" / "nightly" / "hooked_build.py"


class Farm:
    """A folder with specs, a definition, and the nights of it."""

    def __init__(self, root: Path, home: Path, models: Mapping[str, Path]) -> None:
        self.root, self._home, self._models = root, home, models
        self._entries: dict[str, dict[str, Any]] = {}

    def model(self, name: str, saved_model: str, *, entry: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """Write the model's spec; `entry` is what the definition says of it beside that."""
        spec["model"] = {"name": name, "license": "MIT", **spec.get("model", {})}
        path = write_spec(self.root / "specs" / name / "spec.yaml", self._models[saved_model], **spec)
        self._entries[name] = {"spec": str(path), **(entry or {})}

    def start(self, today: str) -> subprocess.Popen[str]:
        definition = {
            "registry": "registry",
            "models": list(self._entries.values()),
            "toolchains": ["2.17.1"],
            "targets": ["x86-64-v3"],
            "policy": {"changed_source": "build"},
        }
        (self.root / "registry.yaml").write_text(yaml.safe_dump(definition))
        return start_coordinator(
            self.root, self._home, definition=str(self.root / "registry.yaml"), dask=True, today=today,
            program=[sys.executable, str(_HOOKED), str(self.root / "seen")],
            policy={"timeout": 600, "memory": 3 * 2**30, "max_failures": 0.5},
            policies={"hangs": {"timeout": 6.0}, "hungry": {"memory": 700 << 20}},
        )  # fmt: skip

    @property
    def nights(self) -> tuple[NightFolder, ...]:
        return State(root=self.root / "state").nights()

    def outcomes(self, night: int) -> dict[str, Outcome]:
        return {one.model: one for one in self.nights[night].outcomes()}

    def told(self, night: int) -> str:
        """What failed, for whoever reads that it should not have."""
        lines = [f"{one.model}: {one.kind}, {one.attempts} tries: {one.error}" for one in self.nights[night].outcomes()]
        return "\n".join([str(self.nights[night].gate()), *lines, (self.root / "stderr").read_text()])

    def versions(self) -> dict[str, list[str]]:
        registry = FolderRegistry.open(self.root / "registry")
        found: dict[str, list[str]] = {}
        for entry in (entry for name in registry.names() for entry in registry.entries(name)):
            found.setdefault(entry.model, []).append(entry.version)
        return found


@pytest.mark.release
def test_two_nights(
    shared_home: Path, models: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONAN_PASSWORD_OURS", _SECRET)
    monkeypatch.setenv("TFAOT_REGISTRY_PASSPHRASE", _SECRET)
    farm = Farm(tmp_path / "farm", shared_home, models)
    farm.model("dense", "dense")
    farm.model("twice", "dense", model={"serving_key": "twice"})
    farm.model("retrained", "dense_retrained")
    farm.model("two_inputs", "two_inputs")
    farm.model("worse", "two_inputs", compilation={"batch_sizes": [2]})
    farm.model("flaky", "two_inputs")
    farm.model("above", "dense", entry={"depends": ["dense"]})
    farm.model("unsupported", "unsupported")
    farm.model("follower", "two_inputs", entry={"depends": ["unsupported"]})
    farm.model("hangs", "dense")
    farm.model("hungry", "dense")
    farm.model("imprecise", "dense", validation={"rtol": 0.0, "atol": 1e-12})

    first = farm.start("2026-11-21")
    killed = kill_a_worker(first)
    assert first.wait() == FAILED, farm.told(0)
    assert (farm.root / "stderr").read_text() == "", "on a terminal the night's table is there"
    outcomes = farm.outcomes(0)
    assert {name: one.kind for name, one in outcomes.items()} == {
        **dict.fromkeys(("dense", "twice", "retrained", "two_inputs", "worse", "flaky", "above"), "published"),
        "unsupported": "build failed",
        "follower": "dependency failed",
        "hangs": "timed out",
        "hungry": "out of memory",
        "imprecise": "validation failed",
    }
    assert outcomes["unsupported"].error_class == "unsupported operation FractionalMaxPool"
    assert outcomes["imprecise"].error_class == "answers differ from TensorFlow's"
    assert outcomes["flaky"].attempts >= 2
    assert killed in outcomes and outcomes[killed].attempts >= 2
    good = sorted(name for name, one in outcomes.items() if one.kind == "published")
    assert farm.versions() == {name: ["1.0.0+tf2.17.1.b1"] for name in good}
    for name in ("unsupported", "imprecise"):
        log = farm.nights[0].folder / outcomes[name].log
        assert outcomes[name].error.splitlines()[0] in log.read_text()

    farm.model("two_inputs", "two_inputs", model={"version": "1.1.0"})
    farm.model("retrained", "dense_retrained", compilation={"batch_sizes": [1, 2]})
    farm.model("worse", "unsupported")
    farm.model("unsupported", "two_inputs")
    farm.model("imprecise", "dense")
    broken = {"2.17.1": {"since": "2026-11-01", "issue": "https://example.org/issues/1"}}
    farm.model("hangs", "dense", entry={"known_broken": broken})
    second = farm.start("2026-11-22")
    kill_coordinator(second, after=2)
    assert [night.is_over for night in farm.nights] == [True, False]
    third = farm.start("2026-11-22")
    third.communicate()
    assert third.returncode == FAILED, farm.told(1)
    outcomes = farm.outcomes(1)
    assert {name: one.kind for name, one in outcomes.items()} == {
        **dict.fromkeys(("dense", "twice", "flaky", "above"), "up to date"),
        **dict.fromkeys(("two_inputs", "retrained", "unsupported", "follower", "imprecise"), "published"),
        "worse": "build failed",
        "hangs": "skipped",
        "hungry": "out of memory",
    }
    assert farm.versions() == {
        **{name: ["1.0.0+tf2.17.1.b1"] for name in (*good, "unsupported", "follower", "imprecise")},
        "two_inputs": ["1.0.0+tf2.17.1.b1", "1.1.0+tf2.17.1.b1"],
        "retrained": ["1.0.0+tf2.17.1.b1", "1.0.0+tf2.17.1.b2"],
    }
    history = [(one.night, one.model, one.kind) for one in State(root=farm.root / "state").history.builds()]
    assert len(history) == len(set(history)) == 12 + 7
    assert [night.is_over for night in farm.nights] == [True, True]
    require_reports(farm)
    require_no_secret(farm.root)


def kill_a_worker(coordinator: subprocess.Popen[str]) -> str:
    """Kill a worker in the middle of a build, once another one has ended; the model that it was building."""
    assert coordinator.stdout is not None
    killed = ""
    for line in coordinator.stdout:
        if line.startswith("built ") and not killed:
            for process, worker in builds_below(coordinator.pid, _HOOKED):
                if (model := model_of(process)) and kill_worker_of(process, worker):
                    killed = model
                    break
    coordinator.stdout.close()
    return killed


def model_of(build: int) -> str:
    """The model that this process builds; empty where it has ended."""
    try:
        request = Path(f"/proc/{build}/cmdline").read_bytes().split(b"\0")[-2]
        return str(json.loads(Path(os.fsdecode(request)).read_text())["decision"]["task"]["model"])
    except (OSError, IndexError):
        return ""


def kill_coordinator(coordinator: subprocess.Popen[str], *, after: int) -> None:
    """Kill it when `after` builds have ended."""
    assert coordinator.stdout is not None
    for line in coordinator.stdout:
        after -= line.startswith("built ")
        if after == 0:
            break
    coordinator.kill()
    coordinator.stdout.close()
    assert coordinator.wait() == -signal.SIGKILL


def require_reports(farm: Farm) -> None:
    """What the reports say of both nights."""
    state = State(root=farm.root / "state")
    first, second = (read_report(state, night) for night in farm.nights)
    assert {one.outcome.model: one.hits for one in first.tasks if one.hits} == {
        "unsupported": ("follower@1.0.0+tf2.17.1",)
    }
    marked = {
        one.outcome.model: [line.text for line in one.log.lines if line.is_error]
        for one in first.tasks
        if one.log is not None
    }
    assert "error" in marked["unsupported"][0]
    changes = {one.outcome.model: (one.change.kind, one.change.since) for one in second.tasks}
    quiet = ("dense", "twice", "flaky", "above", "two_inputs", "retrained", "hangs")
    assert changes == {
        **dict.fromkeys(quiet, ("unchanged", "")),
        **dict.fromkeys(("unsupported", "follower", "imprecise"), ("fixed", "2026-11-21")),
        "worse": ("newly failing", "2026-11-22"),
        "hungry": ("still failing", "2026-11-21"),
    }
    assert [str(group) for group in second.groups] == [
        "out of memory: 1 model",
        "unsupported operation FractionalMaxPool: 1 model",
    ]
    assert (first.exit_code, second.exit_code) == (FAILED, FAILED)
    write_report(second, farm.root / "report")


def require_no_secret(root: Path) -> None:
    """The planted secret is in no log, no result, and no environment that a build saw; but the builds were seen."""
    seen = list((root / "seen").iterdir())
    assert len(seen) >= 12
    for path in root.rglob("*"):
        if path.is_file():
            assert _SECRET.encode() not in path.read_bytes(), path
