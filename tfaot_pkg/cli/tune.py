"""The command that measures what builds take as input: tune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tfaot_pkg.cli.command import Session, defines_of
from tfaot_pkg.cli.options import (
    DebugFlag,
    DefinesOption,
    JsonFlag,
    SpecArgument,
    ToolchainPythonOption,
    UnconfinedFlag,
    VerboseFlag,
    WheelhouseOption,
    require_writable,
)

# The stages are imported inside of the command: `--help` must not pay for them.


def register(app: typer.Typer) -> None:
    app.command()(tune)


def tune(
    spec: SpecArgument,
    *,
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Choose the layers that the kernel library computes instead of XLA.")
    ] = False,
    xla_flags: Annotated[
        bool, typer.Option("--xla-flags", help="Choose flags of XLA where it computes layers.")
    ] = False,
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
    unconfined: UnconfinedFlag = False,
    json_: JsonFlag = False,
    verbose: VerboseFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Measure a model on this machine and write the file beside its spec that the next build takes the findings from.

    Without options all is measured: which layers the kernel library computes and which XLA does, and flags of XLA, for
    each batch size and target; then what a run of each batch size costs with that, by which batches of other sizes are
    composed. Commit `spec.tune.json` with the spec: a package is the same wherever it is built. Without the file a cost
    model chooses, and the costs are estimated.

    Examples: tfaot-pkg tune spec.yaml; tfaot-pkg tune spec.yaml --batch-costs --target x86-64-v3
    """
    from tfaot_pkg.cli.tuned import document, text
    from tfaot_pkg.spec import load_spec
    from tfaot_pkg.spec.tuning import tuning_bytes, tuning_path
    from tfaot_pkg.storage import storage_errors, write_file
    from tfaot_pkg.tuning.measure import Wanted
    from tfaot_pkg.tuning.measure import tune as measure

    session = Session()
    loaded = load_spec(spec, defines_of(defines))
    if foreign := [name for name in target or () if name not in loaded.compilation.targets]:
        known = ", ".join(loaded.compilation.targets)
        raise typer.BadParameter(
            f"{', '.join(foreign)} is not among the spec's targets: {known}", param_hint="--target"
        )
    everything = not (kernels or xla_flags or batch_costs)
    wanted = Wanted(
        kernels=kernels or everything, xla_flags=xla_flags or everything, batch_costs=batch_costs or everything
    )
    file = output or tuning_path(spec)
    require_writable(file)
    tuned = measure(loaded, target or (), wanted, session.pipeline(toolchain_python, wheelhouse))
    with storage_errors(f"write {file}"):
        write_file(file.absolute(), tuning_bytes(tuned.tuning))
    session.result(document(tuned, file), text(tuned, file))
