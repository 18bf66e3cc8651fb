"""The command that measures what builds take as input: tune."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.options import (
    DebugFlag,
    DefinesOption,
    JsonFlag,
    SpecArgument,
    ToolchainPythonOption,
    VerboseFlag,
    WheelhouseOption,
)
from tfaot_pkg.cli.session import Session, defines_of

if TYPE_CHECKING:
    from tfaot_pkg.tuning.measure import Tuned

# The stages are imported inside of the command: `--help` must not pay for them.


def register(app: typer.Typer) -> None:
    app.command()(tune)


def tune(
    spec: SpecArgument,
    *,
    batch_costs: Annotated[
        bool, typer.Option("--batch-costs", help="Measure what a run of each batch size costs.")
    ] = False,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET", help="Measure this target only. Repeatable. (default: all that this machine runs)"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write. (default: SPEC's stem.tune.json)"),
    ] = None,
    defines: DefinesOption = None,
    toolchain_python: ToolchainPythonOption = None,
    wheelhouse: WheelhouseOption = None,
    json_: JsonFlag = False,
    verbose: VerboseFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Measure a model on this machine and write the file beside its spec that the next build takes the figures from.

    Commit `spec.tune.json` with the spec: batches of sizes that were not compiled are composed by its costs, and
    a package is the same wherever it is built. Without the file the costs are estimated.

    Examples: tfaot-pkg tune spec.yaml --batch-costs; tfaot-pkg tune spec.yaml --batch-costs --target x86-64-v3
    """
    from tfaot_pkg.pipeline import Pipeline
    from tfaot_pkg.spec import load_spec
    from tfaot_pkg.spec.tuning import tuning_bytes, tuning_path
    from tfaot_pkg.storage import storage_errors, write_file
    from tfaot_pkg.tuning.measure import measure_batch_costs

    if not batch_costs:
        raise typer.BadParameter("say what to measure: --batch-costs")
    session = Session()
    loaded = load_spec(spec, defines_of(defines))
    if foreign := [name for name in target or () if name not in loaded.compilation.targets]:
        known = ", ".join(loaded.compilation.targets)
        raise typer.BadParameter(
            f"{', '.join(foreign)} is not among the spec's targets: {known}", param_hint="--target"
        )
    pipeline = Pipeline(
        folders=session.folders, progress=session.progress, toolchain_python=toolchain_python, wheelhouse=wheelhouse
    )
    tuned = measure_batch_costs(loaded, target or (), pipeline)
    file = output or tuning_path(spec)
    with storage_errors(f"write {file}"):
        write_file(file.absolute(), tuning_bytes(tuned.tuning))
    session.result(_document(tuned, file), _text(tuned, file))


def _document(tuned: Tuned, file: Path) -> dict[str, object]:
    from tfaot_pkg.spec.tuning import tuning_document

    return {
        "file": str(file),
        "tuning": tuning_document(tuned.tuning),
        "measured": list(tuned.measured),
        "kept": list(tuned.kept),
        "dropped": list(tuned.dropped),
        "not_run": list(tuned.not_run),
        "compositions": {
            name: {str(rows): list(sizes) for rows, sizes in _compositions(tuned, name).items()}
            for name in tuned.measured
        },
    }


def _compositions(tuned: Tuned, target: str) -> Mapping[int, tuple[int, ...]]:
    """What a few sizes that are not compiled are made of; nothing where no batch can be put together."""
    from tfaot_pkg.tuning.composition import Planner, unseen

    if not all(tensor.has_batch_axis for tensor in tuned.build.frozen.signature.outputs):
        return {}
    costs = tuned.tuning.batch_costs[target]
    planner = Planner(costs)
    return {rows: planner.sizes(rows) for rows in unseen(sorted(costs))}


def _text(tuned: Tuned, file: Path) -> str:
    from tfaot_pkg.tuning.composition import written

    lines = [f"measured on {tuned.tuning.machine['cpu']}, one thread, median of interleaved rounds"]
    for target in tuned.measured:
        lines += ["", f"{target:<14}{'batch size':>12}{'ns':>14}{'ns per row':>14}"]
        lines += [
            f"{size:>26}{cost:>14.0f}{cost / size:>14.1f}" for size, cost in tuned.tuning.batch_costs[target].items()
        ]
        lines += [
            f"{rows:>26} rows are run as {written(sizes)}" for rows, sizes in _compositions(tuned, target).items()
        ]
    lines.append("")
    for what, names in (
        ("not measured, because this machine cannot run them", tuned.not_run),
        ("kept from the file as it was", tuned.kept),
        ("dropped, because they were measured on another CPU", tuned.dropped),
    ):
        if names:
            lines.append(f"{what}: {', '.join(names)}")
    lines.append(f"wrote {file}: commit it with the spec; the next build takes the costs from it")
    return "\n".join(lines)
