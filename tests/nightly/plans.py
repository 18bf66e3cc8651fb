"""A place with models, a definition, a registry and past nights, in which one thing after the other is changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from tests.provenance.materials import TREE, make_materials
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.nightly.definition import load_definition
from tfaot_pkg.nightly.depends import dependencies_of
from tfaot_pkg.nightly.inputs import cache_file
from tfaot_pkg.nightly.planning import plan_night, state_folder
from tfaot_pkg.nightly.state import State
from tfaot_pkg.nightly.types import Decision, Outcome, OutcomeKind
from tfaot_pkg.provenance.statement import statement
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import PROVENANCE, VALIDATION
from tfaot_pkg.spec.rules import package_name

TARGETS = ("x86-64-v2", "x86-64-v3")
DAY = date(2026, 11, 20)
SPEC = """\
model:
  name: {name}
  version: 1.0.0
compilation:
  batch_sizes: [1, 4]
  targets: [x86-64-v2, x86-64-v3]
"""
DEFINITION = """\
registry: registry
models:
  - spec: models/*/spec.yaml
toolchains: [2.17.1]
"""
_SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 4)),),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2)),),
)


@dataclass(frozen=True)
class Lab:
    """Everything below `root`. Planning reads bytes only, so the models' files are no models."""

    root: Path

    @property
    def definition(self) -> Path:
        return self.root / "registry.yaml"

    def define(self, text: str = DEFINITION) -> None:
        self.definition.write_text(text)

    def model(self, name: str, text: str = SPEC, files: Mapping[str, str] | None = None) -> Path:
        """Write a model; its spec's path."""
        folder = self.root / "models" / name
        for path, content in (files or {"saved_model.pb": "graph", "variables/variables.index": "weights"}).items():
            file = folder / "saved_model" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        (folder / "spec.yaml").write_text(text.format(name=name))
        return folder / "spec.yaml"

    def plan(
        self,
        *,
        model: str = "*",
        toolchains: tuple[str, ...] = (),
        changed_since: str | None = None,
        retry: bool = False,
    ) -> tuple[Decision, ...]:
        definition = load_definition(self.definition)
        return plan_night(
            definition,
            state=state_folder(definition),
            folders=self.folders,
            progress=Silent(),
            model=model,
            toolchains=toolchains,
            changed_since=changed_since,
            retry=retry,
        ).decisions

    @property
    def folders(self) -> Folders:
        return Folders(cache=self.root / "home" / "cache", data=self.root / "home" / "data")

    @property
    def plan_cache(self) -> Path:
        """What planning remembers."""
        return cache_file(self.folders, self.state.root)

    @property
    def state(self) -> State:
        return State(root=self.root / "nightly-state")

    def night(
        self,
        decisions: Sequence[Decision],
        kind: OutcomeKind = "published",
        *,
        recorded: bool = True,
        not_run: Sequence[str] = (),
        error_class: str = "",
    ) -> None:
        """What a night leaves in which the builds of `decisions` all end as `kind`."""
        building = [one for one in decisions if one.action == "build"]
        if recorded:
            night = self.state.new_night(decisions, DAY)
            night.add(*(_outcome(one, kind, error_class) for one in building))
        if kind == "published":
            for one in building:
                self.publish(one, not_run)

    def publish(self, decision: Decision, not_run: Sequence[str] = (), *, source: str = "") -> None:
        """Publish something for `decision`; with `source` its provenance names that digest of the model's files."""
        task = decision.task
        blobs = {PREFIX: b"package", VALIDATION: json.dumps({"not_run": list(not_run)}).encode()}
        if source:
            made = statement(replace(make_materials(), source=source), TREE)
            blobs[PROVENANCE] = json.dumps(made).encode()
        entry = RegistryEntry(
            name=package_name(task.model),
            model=task.model,
            version=decision.release,
            key=decision.key,
            tree="0" * 64,
            toolchain=f"tensorflow {task.toolchain}",
            targets=task.targets,
            batch_sizes=(1, 4),
            signature=_SIGNATURE,
            license="",
            description="",
            blobs={role: BlobRef.of(content) for role, content in blobs.items()},
            dependencies=dependencies_of(task),
            published=f"{DAY}T03:00:00Z",
        )
        FolderRegistry.create(self.root / "registry").publish(entry, blobs)


def _outcome(decision: Decision, kind: OutcomeKind, error_class: str) -> Outcome:
    task = decision.task
    return Outcome(
        task=task.id, model=task.model, toolchain=task.toolchain, kind=kind, release=decision.release,
        key=decision.key, error_class=error_class,
    )  # fmt: skip


def said(decisions: Sequence[Decision]) -> list[tuple[str, str, list[str]]]:
    """Task, action and reasons of each."""
    return [(one.task.id, one.action, list(map(str, one.reasons))) for one in decisions]
