"""Commands that look inside of a model: inspect, timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, SpecArgument, TensorFlowOption, command, require_writable
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.wording import unknown_of

if TYPE_CHECKING:
    from tfaot_pkg.measure.inside.inspect import Look
    from tfaot_pkg.measure.inside.timeline import Timeline
    from tfaot_pkg.measure.inside.view import View


def register(app: typer.Typer) -> None:
    for each in (inspect, timeline):
        app.command()(each)


_What = Annotated[
    str,
    typer.Option(
        "--what",
        metavar="STAGE",
        help="The stage: signature, ops, lowered, mlir-tf, stablehlo, hlo, program, cpp, asm, memory, sizes or "
        "precision.",
    ),
]
_Batch = Annotated[
    int | None, typer.Option("--batch", metavar="N", help="A batch size. (default: the spec's smallest, or all)")
]
_Target = Annotated[
    str | None, typer.Option("--target", metavar="TARGET", help="A target. (default: the spec's highest, or all)")
]
_After = Annotated[
    str | None,
    typer.Option("--after", metavar="PASS", help="A program after this pass; import: before all. (default: the last)"),
]
_Constants = Annotated[bool, typer.Option("--constants", help="A program with the elements of all constants.")]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file: .svg a drawing, .json JSON, others text. (default: print)",
    ),
]


@command("defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def inspect(
    session: Session,
    model: Annotated[
        Path, typer.Argument(help="A spec, the folder of a SavedModel, or a model's file.", metavar="SPEC|MODEL")
    ],
    *,
    what: _What,
    batch: _Batch = None,
    target: _Target = None,
    after: _After = None,
    constants: _Constants = False,
    output: _Output = None,
    signature: Annotated[str, typer.Option(help="For a SavedModel: the signature.")] = "serving_default",
    tensorflow: TensorFlowOption = None,
) -> Result:
    """Show what a model is at one stage on its way to a library.

    signature: inputs and outputs. ops: operations of the graph. mlir-tf, stablehlo, hlo: what the toolchain makes of
    it for one batch size, weights as arguments. program: our own operations. lowered: the same of an ONNX file, made
    of its operators one by one, without TensorFlow. cpp: the code that is written from a program. asm: machine code
    for a target. memory: bytes of arguments, results, scratch memory and weights by batch size. sizes: what takes the
    space in the libraries. precision: what bytes cost and gain in each layer (compilation.precision). signature, ops,
    program and lowered can be drawn (-o FILE.svg).

    Examples: tfaot-pkg inspect spec.yaml --what program; tfaot-pkg inspect spec.yaml --what hlo --batch 4;
    tfaot-pkg inspect spec.yaml --what program -o program.svg; tfaot-pkg inspect spec.yaml --what sizes --json;
    tfaot-pkg inspect spec.yaml --what program --after raise-dense --constants
    """
    from tfaot_pkg.measure.inside.inspect import inspect as look_at
    from tfaot_pkg.pipeline.check import spec_of

    look = _look(what, batch, target, after, has_constants=constants)
    if output is not None:
        _require_form(output, look)
    spec = spec_of(model, session.defines, signature=signature, tensorflow=tensorflow)
    view = look_at(spec, look, session.pipeline())
    document = {"what": look.what, "model": spec.model.name, **view.document}
    if output is None:
        return Result(document=document, text=view.text)
    _write(output, view, document, spec.model.name)
    return Result(document={"written": str(output)}, text=f"wrote {output}")


def _look(what: str, batch: int | None, target: str | None, after: str | None, *, has_constants: bool) -> Look:
    from tfaot_pkg.ground.targets import TARGETS
    from tfaot_pkg.measure.inside.inspect import Look
    from tfaot_pkg.measure.inside.view import WHATS
    from tfaot_pkg.spec.rules import MAX_BATCH_SIZE

    # Not `what in WHATS`: this has the type of the literals, and needs no cast.
    chosen = next((each for each in WHATS if each == what), None)
    if chosen is None:
        raise typer.BadParameter(unknown_of(what, WHATS), param_hint="--what")
    if batch is not None and not 1 <= batch <= MAX_BATCH_SIZE:
        raise typer.BadParameter(f"{batch} is not from 1 to {MAX_BATCH_SIZE}", param_hint="--batch")
    if target is not None and target not in TARGETS:
        raise typer.BadParameter(f"no such target: {target}; targets: {', '.join(TARGETS)}", param_hint="--target")
    if (after is not None or has_constants) and chosen not in ("lowered", "program"):
        raise typer.BadParameter(f"only a program has passes and constants, not {chosen}", param_hint="--what")
    if after is not None:
        _require_pass(after)
    return Look(what=chosen, batch_size=batch, target=target, after=after, has_constants=has_constants)


def _require_pass(name: str) -> None:
    from tfaot_pkg.compiler.passes.pipeline import UnknownPass, until

    try:
        until(name)
    except UnknownPass as error:
        raise typer.BadParameter(str(error), param_hint="--after") from None


def _require_form(output: Path, look: Look) -> None:
    """Fail before the work if its result could not be written."""
    if output.suffix == ".svg" and look.what not in ("signature", "ops", "program", "lowered"):
        raise typer.BadParameter(
            f"{look.what} is no graph; drawn are signature, ops, program and lowered", param_hint="--output"
        )
    require_writable(output)


def _write(output: Path, view: View, document: dict[str, object], name: str) -> None:
    from tfaot_pkg.ground.storage import storage_errors, write_file
    from tfaot_pkg.package.svg import svg

    match output.suffix:
        case ".svg":
            content = svg(view.nodes, f"{name}: {document['what']}")
        case ".json":
            content = json.dumps(plain(document), indent=1).encode() + b"\n"
        case _:
            content = view.text.encode() + b"\n"
    with storage_errors(f"write {output}"):
        write_file(output.absolute(), content)


@command("defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def timeline(
    session: Session,
    spec: SpecArgument,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder for the traces. (default: timeline-NAME)"),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", help="The batch size of the traces. (default: the spec's smallest)"),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(min=1, max=1000, help="How often each of the three runs at each batch size, for the latencies."),
    ] = 5,
) -> Result:
    """Run a model in TensorFlow, in TensorFlow with XLA, and as a package; write a trace of each, and print latencies.

    The traces are in Chrome's trace event format (chrome://tracing, ui.perfetto.dev); index.html in the same folder
    draws one call of each. Latencies are medians over rounds in which the three take turns on one core, each with one
    thread, as `bench` measures them; they come from runs without traces.

    Examples: tfaot-pkg timeline spec.yaml; tfaot-pkg timeline spec.yaml --batch 16 -o traces --rounds 15
    """
    from tfaot_pkg.measure.inside.timeline import timeline as make
    from tfaot_pkg.spec.parse import load_spec
    from tfaot_pkg.spec.rules import MAX_BATCH_SIZE

    if batch is not None and not 1 <= batch <= MAX_BATCH_SIZE:
        raise typer.BadParameter(f"{batch} is not from 1 to {MAX_BATCH_SIZE}", param_hint="--batch")
    loaded = load_spec(spec, session.defines)
    folder = output or Path(f"timeline-{loaded.model.name}")
    # Any file of the folder: all are written after the build and the runs.
    require_writable(folder / "index.html")
    made = make(loaded, folder, session.pipeline(), batch_size=batch, rounds=rounds)
    return Result(document=made, text=_timeline_text(made))


def _timeline_text(made: Timeline) -> str:
    from tfaot_pkg.ground.wording import table

    sizes = list(dict.fromkeys(size for way in made.ways for size in way.medians))
    rows: list[tuple[object, ...]] = [
        (way.title, *(f"{way.medians[size]:.1f}" if size in way.medians else "-" for size in sizes))
        for way in made.ways
    ]
    lines = [table(("µs per call, by batch size", *map(str, sizes)), rows)]
    lines.append(f"medians of {made.rounds} rounds on core {made.machine['core']} of {made.machine['cpu']}")
    lines += [f"{way.title}: {way.reason}" for way in made.ways if way.reason]
    traces = [f"{way.file} ({way.events:,} spans)" for way in made.ways if way.file]
    lines.append(f"traces of {made.calls} calls of batch size {made.batch_size} in {made.folder}: {', '.join(traces)}")
    return "\n".join([*lines, f"wrote {made.page}"])
