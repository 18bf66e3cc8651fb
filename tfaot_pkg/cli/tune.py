"""The command that measures the inputs of later builds: tune."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, SpecArgument, command, require_writable

if TYPE_CHECKING:
    from tfaot_pkg.measure.tuning.choosing import FlagsFound
    from tfaot_pkg.measure.tuning.measure import Tuned, Wanted
    from tfaot_pkg.spec.types import ModelSpec

KernelsFlag = Annotated[bool, typer.Option("--kernels", help="Deprecated, without effect.")]
XlaFlagsFlag = Annotated[bool, typer.Option("--xla-flags", help="Choose flags of XLA, if it compiles the model.")]
BatchCostsFlag = Annotated[bool, typer.Option("--batch-costs", help="Measure what a run of each batch size costs.")]
# Also an environment variable: the tests run `tune` on machines that are busy with other tests.
NoiseFlag = Annotated[
    bool,
    typer.Option(
        "--accept-noise",
        envvar="TFAOT_ACCEPT_NOISE",
        help="Write costs although times vary because the machine is busy.",
    ),
]
PrecisionFlag = Annotated[
    bool,
    typer.Option(
        "--precision",
        help="Instead, build the model in each form of compilation.precision, and print errors and times.",
    ),
]
CalibrationOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.npz", help="With --precision: rows on which scales of int8 are found. (default: the spec's)"
    ),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TARGET", help="Measure this target only. Repeatable. (default: all that this machine runs)"),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file to write; with --precision a plot, .svg or .png. (default: SPEC's stem.tune.json)",
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(tune)


@command("defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def tune(
    session: Session,
    spec: SpecArgument,
    *,
    kernels: KernelsFlag = False,
    xla_flags: XlaFlagsFlag = False,
    batch_costs: BatchCostsFlag = False,
    precision: PrecisionFlag = False,
    calibration: CalibrationOption = None,
    accept_noise: NoiseFlag = False,
    target: TargetOption = None,
    output: OutputOption = None,
) -> Result:
    """Measure a model on this machine, and write the results into a file beside its spec that the next build uses.

    Without options everything is measured: for each batch size and target, flags of XLA if it compiles the model; then
    what a run of each batch size costs with them, from which batches of other sizes are composed. Commit
    `spec.tune.json` with the spec: then a package is the same wherever it is built. Without the file XLA has no further
    flags, and the costs are estimated.

    With --precision, no such file is written: a table has the errors against the framework on the inputs of validation,
    and the times, for float32, bfloat16, float32x3, float32x6 and, with rows of calibration, int8; -o FILE.svg draws it
    (extra `bench`).

    Examples: tfaot-pkg tune spec.yaml; tfaot-pkg tune spec.yaml --batch-costs --target x86-64-v3;
    tfaot-pkg tune spec.yaml --precision --calibration rows.npz -o precision.svg
    """
    from tfaot_pkg.ground.storage import storage_errors, write_file
    from tfaot_pkg.measure.tuning.measure import tune as measure
    from tfaot_pkg.spec.parse import load_spec
    from tfaot_pkg.spec.tuning import tuning_bytes, tuning_path

    loaded = load_spec(spec, session.defines)
    _require_targets(loaded, target)
    if precision:
        _require_alone(kernels=kernels, xla_flags=xla_flags, batch_costs=batch_costs)
        return _precision(session, loaded, target or [], calibration, output)
    if calibration is not None:
        raise typer.BadParameter("is for --precision", param_hint="--calibration")
    file = output or tuning_path(spec)
    # Now, because the model is built and measured for minutes before the file is written.
    require_writable(file)
    wanted = _wanted(kernels=kernels, xla_flags=xla_flags, batch_costs=batch_costs, noise=accept_noise)
    pipeline = session.pipeline()
    if kernels:
        pipeline.progress.note("note: --kernels has no effect: the compiler chooses what the kernel library computes")
    tuned = measure(loaded, target or (), wanted, pipeline)
    with storage_errors(f"write {file}"):
        write_file(file.absolute(), tuning_bytes(tuned.tuning))
    return Result(document=_document(tuned, file), text=_text(tuned, file))


def _require_alone(**others: bool) -> None:
    if given := [f"--{name.replace('_', '-')}" for name, value in others.items() if value]:
        raise typer.BadParameter(f"excludes {' and '.join(given)}: it writes no tuning file", param_hint="--precision")


def _precision(
    session: Session, spec: ModelSpec, targets: list[str], calibration: Path | None, plot: Path | None
) -> Result:
    from tfaot_pkg.ground.storage import storage_errors, write_file
    from tfaot_pkg.measure.tuning.precision import curve

    if plot is not None:
        if plot.suffix not in (".svg", ".png"):
            raise typer.BadParameter(f"{plot} is no .svg or .png", param_hint="--output")
        require_writable(plot)
        if importlib.util.find_spec("matplotlib") is None:
            raise typer.BadParameter("plots need matplotlib: pip install 'tfaot-pkg[bench]'", param_hint="--output")
    found = curve(spec, targets, calibration, session.pipeline())
    lines = [found.text()]
    if plot is not None:
        with storage_errors(f"write {plot}"):
            write_file(plot.absolute(), found.plot(plot.suffix))
        lines.append(f"wrote {plot}")
    return Result(document=found.as_dict(), text="\n".join(lines))


def _require_targets(spec: ModelSpec, targets: list[str] | None) -> None:
    if foreign := [name for name in targets or () if name not in spec.compilation.targets]:
        known = ", ".join(spec.compilation.targets)
        raise typer.BadParameter(
            f"{', '.join(foreign)} is not among the spec's targets: {known}", param_hint="--target"
        )


def _wanted(*, kernels: bool, xla_flags: bool, batch_costs: bool, noise: bool) -> Wanted:
    from tfaot_pkg.measure.tuning.measure import Wanted

    # --kernels is without effect since decision 040, but `tune --kernels` must not begin to measure everything.
    everything = not (kernels or xla_flags or batch_costs)
    return Wanted(xla_flags=xla_flags or everything, batch_costs=batch_costs or everything, noise=noise)


def _document(tuned: Tuned, file: Path) -> dict[str, object]:
    """The result as JSON values; `file` is the file that was written."""
    from tfaot_pkg.spec.tuning import tuning_document

    return {
        "file": str(file),
        "tuning": tuning_document(tuned.tuning),
        "measured": list(tuned.measured),
        "kept": list(tuned.kept),
        "dropped": list(tuned.dropped),
        "outdated": list(tuned.outdated),
        "not_run": list(tuned.not_run),
        "kernels": [],  # see docs/decisions/040
        "xla_flags": _flags_document(tuned.flags) if tuned.flags is not None else None,
        "compositions": {
            name: {str(rows): list(sizes) for rows, sizes in _compositions(tuned, name).items()}
            for name in tuned.measured
        },
    }


def _flags_document(found: FlagsFound) -> dict[str, object]:
    chosen = [
        {
            "target": target,
            "batch_size": size,
            "flags": list(flags),
            "ratio": found.ratios[size, target].value,
            "error": found.ratios[size, target].error,
        }
        for (size, target), flags in found.flags.items()
    ]
    return {"chosen": chosen, "skipped": dict(found.skipped)}


def _text(tuned: Tuned, file: Path) -> str:
    lines = [f"measured on {tuned.tuning.machine['cpu']}, one thread, interleaved rounds"]
    if tuned.flags is not None:
        lines += _flags_table(tuned.flags)
    for target in tuned.measured:
        lines += _costs_table(tuned, target)
    lines.append("")
    for what, names in (
        ("not measured, because this machine cannot run them", tuned.not_run),
        ("kept unchanged from the file", tuned.kept),
        ("dropped, because they were measured on another CPU", tuned.dropped),
        ("costs dropped, because the code has changed (--batch-costs measures them)", tuned.outdated),
    ):
        if names:
            lines.append(f"{what}: {', '.join(names)}")
    lines.append(f"wrote {file}: commit it with the spec; the next build uses it")
    return "\n".join(lines)


def _flags_table(found: FlagsFound) -> list[str]:
    lines = ["", "flags of XLA"]
    for (size, target), flags in found.flags.items():
        ratio = found.ratios[size, target]
        lines.append(f"{target:<18}{size:>12}{f'x {1 / ratio.value:.2f}':>14}  {' '.join(flags)}")
    lines += [f"  not used: {flags} ({reason})" for flags, reason in found.skipped.items()]
    return lines if len(lines) > 2 else [*lines, "  none is faster"]


def _costs_table(tuned: Tuned, target: str) -> list[str]:
    costs = tuned.tuning.batch_costs.get(target, {})
    if not costs:
        return []
    lines = ["", f"{target:<18}{'batch size':>12}{'ns':>14}{'ns per row':>14}"]
    lines += [f"{size:>30}{cost:>14.0f}{cost / size:>14.1f}" for size, cost in costs.items()]
    from tfaot_pkg.native.batching.planner import written

    lines += [f"{rows:>30} rows are run as {written(sizes)}" for rows, sizes in _compositions(tuned, target).items()]
    return lines


def _compositions(tuned: Tuned, target: str) -> Mapping[int, tuple[int, ...]]:
    """How a few sizes that are not compiled are composed; empty if batches of this model cannot be composed."""
    from tfaot_pkg.native.batching.planner import Planner, unseen

    costs = tuned.tuning.batch_costs.get(target, {})
    frozen = tuned.build.frozen
    # Outputs of the parts are put together by rows, so each output must have a batch axis.
    if (
        not costs
        or not frozen.rows.independent
        or not all(tensor.has_batch_axis for tensor in frozen.signature.outputs)
    ):
        return {}
    planner = Planner(costs)
    return {rows: planner.sizes(rows) for rows in unseen(sorted(costs))}
