"""Building one task: its verified package, and the figures that reports compare. Runs in build_task.py."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.errors import RebuildError, StorageError, TfaotError
from tfaot_pkg.frontends.toolchain.fork_servers import KeptServers
from tfaot_pkg.ground.progress import PlainProgress
from tfaot_pkg.ground.rendering import load_templates
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.outcome import Attempt, Request, builder
from tfaot_pkg.nightly.reasons import changes
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.types import Decision, Figures
from tfaot_pkg.pipeline.package_key import TEMPLATES_OF_PACKAGES, tool_components
from tfaot_pkg.pipeline.pipeline import Build, Pipeline, Plan
from tfaot_pkg.pipeline.publish import Release, release_of
from tfaot_pkg.pipeline.rebuild import differences
from tfaot_pkg.registry.files.layout import LATENCY
from tfaot_pkg.spec.types import CALIBRATION_KEY, INPUTS_KEY, LABELS_KEY, ModelSpec
from tfaot_pkg.verify.hashes import combined
from tfaot_pkg.verify.runs import may_be_unverified, not_run_targets, require_verified

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folders(Folders):
    """Toolchains and downloads are shared, logs are this build's own; so is the build cache if `own` is given."""

    scratch: Path
    own: Path | None = None

    @property
    def builds(self) -> Path:
        return self.own or self.cache / "builds"

    @property
    def logs(self) -> Path:
        return self.scratch / "logs"


def prepare() -> None:
    """Do what each build of a forked process would do again: imports, digests of the tool's files, templates."""
    from tfaot_pkg.provenance import sbom  # noqa: F401 (for the builds)

    tool_components()
    load_templates(*TEMPLATES_OF_PACKAGES)


def build(request: Request, scratch: Path, servers: KeptServers | None = None) -> None:
    """Put the verified result of `request` into its state folder; `servers` fork workers. Raises all errors of a build.

    Also StorageError if the task's files changed since the night was planned or this machine cannot plan it, and
    RebuildError if the policy asks for two builds and they differ.
    """
    start = time.monotonic()
    decision = request.decision
    folders = _Folders(cache=request.cache, data=scratch / "data", scratch=scratch)
    pipeline = Pipeline(
        folders=folders, progress=PlainProgress(verbose=True), source_folder=request.source, servers=servers
    )
    try:
        spec = _with_data(spec_for(decision.task, decision.release), request.data)
        plan = pipeline.plan(spec)
    except TfaotError as error:
        # The coordinator could: a compiler that is missing here must not be remembered as the model's fault.
        raise StorageError(f"this machine cannot plan {decision.task.id}: {error.message}", hint=error.hint) from error
    # A night signs what it planned: files that changed since then are the next night's business.
    if plan.key != decision.key:
        raise _changed(decision, plan)
    # Before the build, because it needs only the spec and this machine's CPU.
    require_verified(not_run_targets(spec), may_be_unverified(spec, request.policy.unverified_targets))
    made = pipeline.build(plan)
    if request.policy.reproduce:
        own = _Folders(cache=request.cache, data=folders.data, scratch=scratch, own=scratch / "b")
        _require_same(made, spec, replace(pipeline, folders=own, progress=PlainProgress(verbose=False)))
    with storage_errors("pack the package"):
        release = release_of(made, pipeline.cache)
    _require_small(release, request.policy.output)
    seconds = time.monotonic() - start
    attempt = Attempt(
        kind="verified",
        night=request.night,
        seconds=seconds,
        figures=_figures(made, release, seconds),
        builder=builder(),
    )
    Results(root=request.state).put(decision.key, attempt, release)


def _changed(decision: Decision, plan: Plan) -> StorageError:
    """The error for a task whose files, compiler or tool changed since it was planned."""
    name, tensorflow = decision.task.spec.name, decision.task.tensorflow
    found = changes(decision.inputs, plan.components, tensorflow=tensorflow, where=lambda _: name)
    return StorageError(
        f"{decision.task.id} changed since the night was planned: {'; '.join(map(str, found))}",
        hint="the next night builds it as it is then",
    )


def _with_data(spec: ModelSpec, data: Mapping[str, Path]) -> ModelSpec:
    """`spec` with other files of rows: `data`, by the keys that name them."""
    validation, precision = spec.validation, spec.compilation.precision
    return replace(
        spec,
        validation=replace(
            validation,
            inputs=data.get(INPUTS_KEY, validation.inputs),
            labels=data.get(LABELS_KEY, validation.labels),
        ),
        compilation=replace(
            spec.compilation,
            precision=replace(precision, calibration=data.get(CALIBRATION_KEY, precision.calibration)),
        ),
    )


def _require_same(made: Build, spec: ModelSpec, pipeline: Pipeline) -> None:
    """Build again in `pipeline`, whose cache is empty. Raises RebuildError if any file differs."""
    again = pipeline.build(pipeline.plan(spec))
    found = differences(made.tree.root, again.tree.root)
    if found:
        lines = "\n".join(f"  {one}" for one in found[:_SHOWN])
        raise RebuildError(
            f"two builds of {made.tree.package_name} differ in {len(found)} files:\n{lines}",
            hint="`tfaot-pkg rebuild-check` compares what is published with a new build",
        )


def _require_small(release: Release, limit: int) -> None:
    # RLIMIT_FSIZE limits each file of a build, but all blobs together are published.
    size = sum(blob.size for blob in release.entry.blobs.values())
    if size > limit:
        # By the words "larger than this process may write" outcome.py knows that the model is at fault.
        raise StorageError(
            f"the package has {size:,} bytes: larger than this process may write ({limit:,})",
            hint="policy.output in the definition of the registry allows more",
        )


def _figures(made: Build, release: Release, seconds: float) -> Figures:
    return Figures(
        library_size=made.library.shared.stat().st_size,
        build_time=seconds,
        error=made.report.max_absolute,
        latency=_latency(release.blobs),
        processor=_processor(release.blobs),
        answers=combined(made.report.hashes),
    )


def _processor(blobs: Mapping[str, Path | bytes]) -> str:
    """The CPU that the latencies were measured on, "" if none were."""
    content = blobs.get(LATENCY)
    document = json.loads(content) if isinstance(content, bytes) else {}
    return " ".join(str(document[name]) for name in ("processor", "cpu") if name in document)


def _latency(blobs: Mapping[str, Path | bytes]) -> dict[str, dict[str, float]]:
    """Nanoseconds of one run by target and batch size; empty if this machine could time nothing."""
    content = blobs.get(LATENCY)
    if not isinstance(content, bytes):
        return {}
    found: dict[str, dict[str, float]] = {}
    for one in json.loads(content)["measurements"]:
        found.setdefault(one["target"], {})[str(one["batch_size"])] = one["nanoseconds"]
    return found
