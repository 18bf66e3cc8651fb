"""The command that measures a model beside other inference engines: bench."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, command, require_writable
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.documents import fields_of, plain, read

if TYPE_CHECKING:
    from tfaot_pkg.measure.bench.results import Bench
    from tfaot_pkg.measure.bench.run import Request
    from tfaot_pkg.measure.bench.table import Comparison

SLOWER = 28
"""The exit code if --since finds that our library became slower."""


ModelArgument = Annotated[
    str,
    typer.Argument(help="The model's spec (YAML), or a published package: NAME, NAME@VERSION.", metavar="SPEC|NAME"),
]
PeersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--peers",
        metavar="NAME,...",
        help="Engines to compare with: xla, program, incumbent, litert, onnxruntime, openvino, openvino_default, "
        "iree, tensorflow, tensorflow_jit; for decision trees library, tl2cgen; all, or none. Repeatable. "
        "(default: all)",
    ),
]
BatchSizesOption = Annotated[
    str | None,
    typer.Option("--batch-sizes", metavar="N,...", help="Batch sizes to build and run. (default: the spec's)"),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TARGET",
        help="Measure our code for this target, also if the spec does not list it. "
        "Repeatable. (default: the spec's best that runs here)",
    ),
]
RoundsOption = Annotated[int, typer.Option(min=1, max=1000, help="How often each engine runs at each batch size.")]
CoreOption = Annotated[
    int | None, typer.Option(metavar="N", help="The core to run all engines on. (default: the last one)")
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.svg",
        help="Draw latency per item; FILE-resources.svg gets memory and sizes. Also .png, .pdf. "
        "Needs matplotlib (the extra `bench`).",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE.json", help="Write the results to this file, for --since. (default: only print)"
    ),
]
SinceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="OLD.json",
        help="Compare with the results of an earlier run; differences within the noise do not count.",
    ),
]
SourceOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The model's files, for a package. (default: fetched as published)"),
]


def register(app: typer.Typer) -> None:
    app.command()(bench)


@command("registry", "offline", "defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def bench(
    session: Session,
    model: ModelArgument,
    *,
    peers: PeersOption = None,
    batch_sizes: BatchSizesOption = None,
    target: TargetOption = None,
    rounds: RoundsOption = 15,
    core: CoreOption = None,
    plot: PlotOption = None,
    output: OutputOption = None,
    since: SinceOption = None,
    source: SourceOption = None,
) -> Result:
    """Measure a model's library beside other inference engines on this machine: latency, memory, sizes, errors.

    Each engine runs in its own process, with one thread on one core and its inputs bound beforehand. The engines take
    turns, so that other load on the machine affects all of them. Answers are compared with the source
    framework's, and times with the most that the core can do (the roofline), which is measured in the same turns.

    Engines that are missing are installed on demand, pinned, each into its own environment in the folder of
    toolchains: litert 160 MB, onnxruntime 170 MB, openvino 280 MB, iree 610 MB, and 110 MB for the conversion to ONNX.
    xla, program, incumbent, tensorflow and tensorflow_jit need only the toolchain. Decision trees run beside the
    library that trained them, tl2cgen (270 MB) and ONNX Runtime (270 MB more for the conversion). If an engine cannot
    be installed or cannot run the model, its line of the table says why; the exit code is 0.

    Exit code 28: with --since, our library became slower than noise explains.

    Examples: tfaot-pkg bench spec.yaml; tfaot-pkg bench spec.yaml --peers litert,onnxruntime --plot latency.svg;
    tfaot-pkg bench spec.yaml -o new.json --since old.json; tfaot-pkg bench digits@1.0.0 --source digits
    """
    from tfaot_pkg.measure.bench.table import compare

    # All options are checked first: a measurement takes minutes.
    request = _request(peers, batch_sizes, target, rounds, core)
    _require_places(output, plot)
    old = read_results(since, "--since") if since else None
    found = _measured(session, model, request, source, old)
    comparison = compare(found, old) if old else None
    written = _write(found, output, plot)
    document = {**fields_of(found), "since": comparison, "files": written}
    return Result(
        document=document,
        text=_text(found, comparison, written),
        exit_code=SLOWER if comparison and comparison.slower else 0,
    )


def _measured(session: Session, model: str, request: Request, source: Path | None, old: Bench | None) -> Bench:
    """The results for `model`, a spec or a package. Raises SpecError if `old` has results of another model."""
    from tfaot_pkg.ground.temporary import temporary_folder
    from tfaot_pkg.measure.bench.run import bench as measure
    from tfaot_pkg.measure.bench.run import published
    from tfaot_pkg.pipeline.rebuild import Means
    from tfaot_pkg.spec.parse import load_spec

    # Around the measurement: the library of a published package is in this folder.
    with temporary_folder(prefix="tfaot-bench-") as folder:
        library = None
        if _means_a_spec(model):
            spec = load_spec(Path(model), session.defines)
        else:
            means = Means(folders=session.folders, progress=session.progress, source=source)
            package = published(session.open_registry_of(model), model, means, folder)
            spec, library = package.spec, package.library
        # Before the measurement, which takes minutes.
        if old and old.model != spec.model.name:
            raise SpecError(f"--since has results of the model {old.model}, not of {spec.model.name}")
        return measure(spec, request, session.pipeline(source), library=library)


def _means_a_spec(model: str) -> bool:
    """Whether `model` is a file or looks like the path of one; else it is a package."""
    # The ending too: a spec that is missing is reported as a file, not as an unknown package.
    return model.endswith((".yaml", ".yml")) or "/" in model or Path(model).is_file()


def _request(
    peers: list[str] | None, batch_sizes: str | None, targets: list[str] | None, rounds: int, core: int | None
) -> Request:
    import os

    from tfaot_pkg.ground.targets import TARGETS
    from tfaot_pkg.measure.bench.peers import peers_named
    from tfaot_pkg.measure.bench.run import Request

    # `none` is no engine: it only keeps the default, all engines, from being used.
    names = [word.strip() for text in peers or ["all"] for word in text.split(",") if word.strip() not in ("", "none")]
    if unknown := [name for name in targets or () if name not in TARGETS]:
        raise typer.BadParameter(f"no such target: {', '.join(unknown)}; targets: {', '.join(TARGETS)}")
    # The cores of this process and not of the machine: containers and batch systems give some of them only.
    if core is not None and core not in os.sched_getaffinity(0):
        usable = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise typer.BadParameter(f"this process may not use core {core}; it may use {usable}", param_hint="--core")
    return Request(
        peers=peers_named(names),
        batch_sizes=_sizes(batch_sizes),
        targets=tuple(targets or ()),
        rounds=rounds,
        core=core,
    )


def _sizes(text: str | None) -> tuple[int, ...]:
    from tfaot_pkg.spec.rules import MAX_BATCH_SIZE

    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    # isascii too: for Python the digits of all scripts are decimal.
    if not all(word.isascii() and word.isdecimal() and 1 <= int(word) <= MAX_BATCH_SIZE for word in words):
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers from 1 to {MAX_BATCH_SIZE}, such as 1,4,64", param_hint="--batch-sizes"
        )
    return tuple(sorted(set(map(int, words))))


def read_results(path: Path, option: str) -> Bench:
    """The results of an earlier run. Raises SpecError."""
    from tfaot_pkg.measure.bench.results import Bench

    hint = "name a file that `tfaot-pkg bench -o` wrote"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{option} {path}: {error.strerror}", hint=hint) from error
    return read(Bench, data, f"{option} {path}", error=SpecError, hint=hint)


def _require_places(output: Path | None, plot: Path | None) -> None:
    """Fail before the measurement if its results could not be written. Raises typer.BadParameter, StorageError."""
    import importlib.util

    if plot and plot.suffix not in (".svg", ".png", ".pdf"):
        raise typer.BadParameter(f"{plot}: plots are .svg, .png or .pdf", param_hint="--plot")
    if plot and importlib.util.find_spec("matplotlib") is None:
        raise typer.BadParameter("plots need matplotlib: pip install 'tfaot-pkg[bench]'", param_hint="--plot")
    for path in filter(None, (output, plot)):
        require_writable(path)


def _write(found: Bench, output: Path | None, plot: Path | None) -> list[str]:
    from tfaot_pkg.ground.storage import storage_errors, write_file

    files: dict[Path, bytes] = {}
    if output:
        files[output] = (json.dumps(plain(found), indent=1) + "\n").encode()
    if plot:
        from tfaot_pkg.measure.bench.plot import latency_plot, resources_plot

        files[plot] = latency_plot([found], plot.suffix)
        files[plot.with_stem(f"{plot.stem}-resources")] = resources_plot([found], plot.suffix)
    for path, content in files.items():
        with storage_errors(f"write {path}"):
            write_file(path.absolute(), content)
    return [str(path) for path in files]


def _text(found: Bench, comparison: Comparison | None, written: Sequence[str]) -> str:
    """Tables for people: as wide as the terminal allows, or unlimited if there is none."""
    from tfaot_pkg.measure.bench import table

    # Files and pipes get whole tables: there a width would be that of no window.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    machine = found.machine
    lines = [
        f"{found.model}: median of {found.rounds} rounds on core {machine['core']} of {machine['cpu']}",
        "",
        table.latencies(found).text(width),
        "",
        *([cold.text(width), ""] if (cold := table.cold_calls(found)) else []),
        table.resources(found).text(width),
    ]
    if notes := table.notes(found):
        lines += ["", *notes]
    if comparison:
        lines += ["", *_since(comparison)]
    lines += [f"wrote {path}" for path in written]
    return "\n".join(lines)


def _since(comparison: Comparison) -> list[str]:
    if not comparison.changes:
        return ["nothing to compare: the earlier run measured other engines or batch sizes"]
    where = "" if comparison.same_machine else " (another CPU)"
    lines = [f"the machine itself{where}: {comparison.machine:.2f} times the earlier time; other ratios are corrected"]
    changed = [each for each in comparison.changes if each.verdict != "same"]
    for each in changed:
        lines.append(
            f"{each.engine}, batch size {each.batch_size}: {each.verdict}, {each.ratio:.2f} times the earlier time "
            f"(95 %: {each.low:.2f} to {each.high:.2f})"
        )
    same = len(comparison.changes) - len(changed)
    return [*lines, f"{same} of {len(comparison.changes)} times are the same within the noise"]
