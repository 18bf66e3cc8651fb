"""The command that measures a model beside other inference engines: bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Session, defines_of
from tfaot_pkg.cli.options import (
    DebugFlag,
    DefinesOption,
    JsonFlag,
    OfflineFlag,
    RegistryOption,
    ToolchainPythonOption,
    UnconfinedFlag,
    VerboseFlag,
    WheelhouseOption,
    require_writable,
)
from tfaot_pkg.errors import SpecError

if TYPE_CHECKING:
    from tfaot_pkg.bench.results import Bench
    from tfaot_pkg.bench.run import Request

# The stages are imported inside of the command: `--help` must not pay for them.

SLOWER = 28
"""The exit code where --since finds that our library became slower."""


ModelArgument = Annotated[
    str,
    typer.Argument(help="The model's spec (YAML), or a published package: NAME, NAME@VERSION.", metavar="SPEC|NAME"),
]
PeersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--peers",
        metavar="NAME,...",
        help="Engines to compare with: xla, incumbent, litert, onnxruntime, openvino, iree, tensorflow, "
        "tensorflow_jit; all, or none. Repeatable. (default: all)",
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
        help="Measure our library's code for this target, built where the spec has it not. "
        "Repeatable. (default: the spec's best that runs here)",
    ),
]
RoundsOption = Annotated[
    int, typer.Option(min=1, max=1000, help="How often every engine gets its turn at every batch size.")
]
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
    Path | None, typer.Option("--output", "-o", metavar="FILE.json", help="Keep the results, for --since.")
]
SinceOption = Annotated[
    Path | None,
    typer.Option(metavar="OLD.json", help="Compare with the results of an earlier run, as far as noise allows."),
]
SourceOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The model's files, for a package. (default: fetched as published)"),
]


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
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
    registry: RegistryOption = None,
    offline: OfflineFlag = False,
    source: SourceOption = None,
    defines: DefinesOption = None,
    toolchain_python: ToolchainPythonOption = None,
    wheelhouse: WheelhouseOption = None,
    unconfined: UnconfinedFlag = False,
    json_: JsonFlag = False,
    verbose: VerboseFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Measure a model's library beside other inference engines on this machine: latency, memory, sizes, errors.

    Every engine runs in one process of its own, with one thread on one core, inputs bound beforehand; all take turns,
    so that what disturbs the machine disturbs each of them. Answers are compared with TensorFlow's, times with what
    the core can do at most (the roofline), measured in the same turns.

    Engines that are not installed beside this tool are installed on demand, pinned, each into an environment of its own
    in the folder of toolchains: litert 160 MB, onnxruntime 170 MB, openvino 280 MB, iree 610 MB, and 110 MB for the
    conversion to ONNX. xla, incumbent, tensorflow and tensorflow_jit need nothing but the toolchain. An engine that
    cannot be installed or cannot take the model is a line of the table that says why; the exit code is 0.

    Exit code 28: with --since, our library became slower than noise explains.

    Examples: tfaot-pkg bench spec.yaml; tfaot-pkg bench spec.yaml --peers litert,onnxruntime --plot latency.svg;
    tfaot-pkg bench spec.yaml -o new.json --since old.json; tfaot-pkg bench digits@1.0.0 --source recipes/digits
    """
    from tfaot_pkg.bench.published import published
    from tfaot_pkg.bench.run import bench as measured
    from tfaot_pkg.bench.since import compare
    from tfaot_pkg.cli.benched import text
    from tfaot_pkg.rebuild import Means
    from tfaot_pkg.spec import load_spec
    from tfaot_pkg.temporary import temporary_folder

    session = Session()
    request = _request(peers, batch_sizes, target, rounds, core)
    _require_places(output, plot)
    old = _read(since) if since else None
    pipeline = session.pipeline(toolchain_python, wheelhouse, source)
    with temporary_folder(prefix="tfaot-bench-") as folder:
        library = None
        if _means_a_spec(model):
            spec = load_spec(Path(model), defines_of(defines))
        else:
            means = Means(folders=session.folders, progress=session.progress, source=source)
            package = published(session.open_registry(registry, offline=offline), model, means, folder)
            spec, library = package.spec, package.library
        if old and old.model != spec.model.name:
            raise SpecError(f"--since {since}: its results are of the model {old.model}, not of {spec.model.name}")
        found = measured(spec, request, pipeline, library=library)
    comparison = compare(found, old) if old else None
    written = _write(found, output, plot)
    document = {**found.as_dict(), "since": comparison.as_dict() if comparison else None, "files": written}
    session.result(document, text(found, comparison, written))
    if comparison and comparison.slower:
        raise typer.Exit(SLOWER)


def _means_a_spec(model: str) -> bool:
    """A file, or what is written like one; everything else is a package."""
    return model.endswith((".yaml", ".yml")) or "/" in model or Path(model).is_file()


def _request(
    peers: list[str] | None, batch_sizes: str | None, targets: list[str] | None, rounds: int, core: int | None
) -> Request:
    import os

    from tfaot_pkg.bench.peers import peers_named
    from tfaot_pkg.bench.run import Request
    from tfaot_pkg.targets import TARGETS

    names = [word.strip() for text in peers or ["all"] for word in text.split(",") if word.strip() not in ("", "none")]
    if unknown := [name for name in targets or () if name not in TARGETS]:
        raise typer.BadParameter(f"no such target: {', '.join(unknown)}; targets: {', '.join(TARGETS)}")
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
    if not all(word.isascii() and word.isdecimal() and 1 <= int(word) <= MAX_BATCH_SIZE for word in words):
        raise typer.BadParameter(
            f"{text!r} is no list of numbers from 1 to {MAX_BATCH_SIZE}, such as 1,4,64", param_hint="--batch-sizes"
        )
    return tuple(sorted(set(map(int, words))))


def _read(path: Path) -> Bench:
    """The results of an earlier run. Raises SpecError."""
    from tfaot_pkg.bench.results import Bench

    try:
        return Bench.from_dict(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not what --output writes"
        raise SpecError(f"--since {path}: {reason}", hint="name a file that `tfaot-pkg bench -o` wrote") from error


def _require_places(output: Path | None, plot: Path | None) -> None:
    """What would fail after the measurement fails before it. Raises typer.BadParameter, StorageError."""
    import importlib.util

    if plot and plot.suffix not in (".svg", ".png", ".pdf"):
        raise typer.BadParameter(f"{plot}: plots are .svg, .png or .pdf", param_hint="--plot")
    if plot and importlib.util.find_spec("matplotlib") is None:
        raise typer.BadParameter("plots need matplotlib: pip install 'tfaot-pkg[bench]'", param_hint="--plot")
    for path in filter(None, (output, plot)):
        require_writable(path)


def _write(found: Bench, output: Path | None, plot: Path | None) -> list[str]:
    from tfaot_pkg.storage import storage_errors, write_file

    files: dict[Path, bytes] = {}
    if output:
        files[output] = (json.dumps(found.as_dict(), indent=1) + "\n").encode()
    if plot:
        from tfaot_pkg.bench.plot import latency_plot, resources_plot

        files[plot] = latency_plot([found], plot.suffix)
        files[plot.with_stem(f"{plot.stem}-resources")] = resources_plot([found], plot.suffix)
    for path, content in files.items():
        with storage_errors(f"write {path}"):
            write_file(path.absolute(), content)
    return [str(path) for path in files]
