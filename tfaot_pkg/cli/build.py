"""Commands that make packages: init, check, convert, build, publish."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, SpecArgument, TensorFlowOption, command, said
from tfaot_pkg.cli.packages import installed_text, verified_rows
from tfaot_pkg.cli.remotes import Uploader
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground import reduced
from tfaot_pkg.ground.documents import fields_of
from tfaot_pkg.ground.wording import contains_text, counted

if TYPE_CHECKING:
    from tfaot_pkg.cli.cmssw import DevTool
    from tfaot_pkg.package.prefix.install import Installed
    from tfaot_pkg.pipeline.check import CheckResult
    from tfaot_pkg.pipeline.pipeline import Build
    from tfaot_pkg.pipeline.publish import Measured, Publication
    from tfaot_pkg.spec.types import ModelSpec


_ConfigFile = Annotated[
    Path | None,
    typer.Option(
        help="For a graph: the file of its tf2xla Config. (default: none)", metavar="FILE", show_default=False
    ),
]
_Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="For a graph: the common prefix of its checkpoint's files. (default: none)",
        metavar="NAME",
        show_default=False,
    ),
]
_Unverified = Annotated[
    list[str] | None,
    typer.Option(
        "--unverified-target",
        metavar="TARGET",
        help="Publish this target although neither this machine nor an emulator can run its code. Repeatable.",
    ),
]


def register(app: typer.Typer) -> None:
    for each in (init, check, convert, build, publish):
        app.command()(each)


@command("toolchain_python", "wheelhouse", "unconfined", "verbose")
def init(
    session: Session,
    model: Annotated[
        Path,
        typer.Argument(
            help="The folder of a SavedModel, or a file of Keras, ONNX, PyTorch, JAX, MLIR, decision trees or a graph.",
            metavar="MODEL",
        ),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The spec to write.")] = Path("spec.yaml"),
    name: Annotated[str | None, typer.Option(help="The model's name. (default: from the name of MODEL)")] = None,
    version: Annotated[str, typer.Option(help="The model's version.")] = "1.0.0",
    signature: Annotated[str, typer.Option(help="The signature to compile.")] = "serving_default",
    config: _ConfigFile = None,
    checkpoint: _Checkpoint = None,
    tensorflow: Annotated[
        str | None,
        typer.Option(metavar="TENSORFLOW", help="The toolchain that reads the model. (default: the default toolchain)"),
    ] = None,
) -> Result:
    """Write a first spec for a SavedModel or another model, with comments. An existing file is not overwritten.

    It is tried as `check` does: what is missing is printed, and stands in the spec as a comment.

    Examples: tfaot-pkg init exported/tagger --name tagger; tfaot-pkg init tagger.keras;
    tfaot-pkg init graph.pb --checkpoint model.ckpt-1000
    """
    from tfaot_pkg.pipeline.check import scaffold_spec
    from tfaot_pkg.spec.scaffold import cpp_call

    pipeline = session.pipeline()
    given = {"config": config, "checkpoint": checkpoint}
    spec, found = scaffold_spec(
        model,
        output,
        name=name,
        version=version,
        signature=signature,
        tensorflow=tensorflow,
        beside={field: path for field, path in given.items() if path is not None},
        pipeline=pipeline,
        has_schema=True,
    )
    call = cpp_call(spec.model, found.signature)
    lines = [f"wrote {output}", *(f"note: {note}" for note in found.notes)]
    if found.fault is not None:
        lines += [
            f"to fill in, or `check` refuses it: {found.fault.message}",
            *([f"  {found.fault.hint}"] if found.fault.hint else []),
        ]
    elif call:
        lines += ["C++ programs will call the model like this:", *(f"  {line}" for line in call.splitlines())]
    text = "\n".join([*lines, f"next: tfaot-pkg check {output}; tfaot-pkg publish {output}"])
    document = {
        "spec": str(output),
        "name": spec.model.name,
        "version": spec.model.version,
        **({"notes": [*found.notes]} if found.notes else {}),
        **({} if found.fault is None else {"to_fill_in": found.fault.message}),
    }
    return Result(document=document, text=text)


@command("defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def check(
    session: Session,
    models: Annotated[
        list[Path],
        typer.Argument(
            help="A spec, the folder of a SavedModel, or a model's file. With --spec-only: specs.",
            metavar="SPEC|MODEL",
        ),
    ],
    *,
    spec_only: Annotated[
        bool,
        typer.Option(
            "--spec-only",
            help="Read specs alone, without a toolchain and the models' files, and print one line for each fault; exit "
            "code 0 or 10.",
        ),
    ] = False,
    table: Annotated[bool, typer.Option("--table", help="List all operations that the toolchain compiles.")] = False,
    signature: Annotated[str, typer.Option(help="For a SavedModel: the signature.")] = "serving_default",
    tensorflow: TensorFlowOption = None,
) -> Result:
    """Tell for each operation of a model whether its toolchain can compile it; exit code 0 or 12.

    Notes tell where compiled code silently differs from TensorFlow, which tolerances hardly any model meets, and which
    licences are not SPDX expressions. Flags that the toolchain does not know are an error (10).

    Examples: tfaot-pkg check spec.yaml; tfaot-pkg check exported/tagger --table; tfaot-pkg check tagger.onnx;
    tfaot-pkg check --spec-only models/*/spec.yaml
    """
    if spec_only and (table or tensorflow is not None or signature != "serving_default"):
        raise typer.BadParameter(
            "--table, --tensorflow and --signature ask a model: they cannot be used with --spec-only"
        )
    if spec_only:  # before the stages are imported: a hook of git waits for it
        return _checked_alone(models, session.defines)
    if len(models) > 1:
        raise typer.BadParameter("give one model, or --spec-only to read several specs")
    from tfaot_pkg.errors import ModelError
    from tfaot_pkg.pipeline.check import check_model, spec_of

    spec = spec_of(models[0], session.defines, signature=signature, tensorflow=tensorflow)
    result = check_model(spec, session.pipeline(), table=table)
    return Result(document=result, text=_check_text(result), exit_code=0 if result.compilable else ModelError.exit_code)


@command("defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def convert(
    session: Session,
    model: Annotated[
        Path, typer.Argument(help="A spec, the folder of a SavedModel, or a model's file.", metavar="SPEC|MODEL")
    ],
    output: Annotated[
        Path,
        typer.Argument(
            help="What to write: a .mlir, .stablehlo, .pb or .pbtxt file, or a folder for a SavedModel.",
            metavar="OUTPUT",
        ),
    ],
    *,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", min=1, help="For StableHLO: its batch size.")
    ] = None,
    signature: Annotated[str, typer.Option(help="For a SavedModel: the signature.")] = "serving_default",
    tensorflow: TensorFlowOption = None,
) -> Result:
    """Write a model in another form, with the same names and answers. Nothing is overwritten.

    FILE.mlir gets functions of MLIR's TensorFlow dialect, FILE.pb and FILE.pbtxt a GraphDef (binary and text),
    FILE.stablehlo text of StableHLO for one batch size, all with variables as constants; any other name is the folder
    of a SavedModel.

    Examples: tfaot-pkg convert exported/tagger tagger.mlir; tfaot-pkg convert tagger.mlir saved_model;
    tfaot-pkg convert exported/tagger tagger.stablehlo --batch 16
    """
    from tfaot_pkg.pipeline.check import spec_of
    from tfaot_pkg.pipeline.convert import convert as write
    from tfaot_pkg.pipeline.convert import form_of

    form_of(output, batch)  # before the toolchain is made
    spec = spec_of(model, session.defines, signature=signature, tensorflow=tensorflow)
    form = write(spec, output, session.pipeline(), batch_size=batch)
    return Result(document={"output": str(output), "form": form}, text=f"wrote {output}")


def _checked_alone(specs: list[Path], defines: dict[str, str]) -> Result:
    """What `check --spec-only` prints: lines as compilers write them, which editors and CI services read."""
    from tfaot_pkg.spec.alone import faults_of

    faults = faults_of(specs, defines)
    document = {"specs": [str(spec) for spec in specs], "faults": [fields_of(fault) for fault in faults]}
    text = "\n".join(map(str, faults)) or f"{counted(len(specs), 'spec')}: no fault"
    return Result(document=document, text=text, exit_code=SpecError.exit_code if faults else 0)


def _check_text(result: CheckResult) -> str:
    lines = [f"toolchain: {result.toolchain}", *[f"  {tensor}" for tensor in result.interface]]
    for operation in result.operations:
        mark = "no " if operation.problems else "yes"
        lines.append(f"{mark}  {operation.name}  ({operation.count})")
        lines += [f"       {problem}" for problem in operation.problems]
    lines += [f"note: {warning}" for warning in result.warnings]
    if result.table is not None:
        lines.append(f"all {len(result.table)} operations that {result.toolchain} compiles:")
        lines += [f"  {name}: {'; '.join(dtypes) or 'all dtypes'}" for name, dtypes in result.table.items()]
    lines.append("the model can be compiled" if result.compilable else "the model cannot be compiled")
    return "\n".join(lines)


PrefixOutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="PREFIX", help="The prefix to install into. (default with --dev: $CMSSW_BASE/tfaot)"
    ),
]
DevFlag = Annotated[
    bool,
    typer.Option(
        "--dev", help="Install into your CMSSW area, write a tool file for scram setup, and print the next steps."
    ),
]
NameOption = Annotated[str | None, typer.Option(help="The model's name. (default: the spec's)")]
TargetsOption = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="TARGET", help="A target to compile for. Repeatable. (default: the spec's)"),
]
BatchSizesOption = Annotated[
    list[int] | None,
    typer.Option("--batch-size", metavar="N", help="A batch size. Repeatable. (default: the spec's)"),
]
ToolsFlag = Annotated[bool, typer.Option("--tools", help="Also make bin/NAME_test and bin/NAME_benchmark.")]
DepfileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.d",
        help="For Make and Ninja: write the dependencies of FILE. If the build fails, the package of an earlier build "
        "is removed.",
    ),
]


@command("defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def build(
    session: Session,
    spec: SpecArgument,
    *,
    output: PrefixOutputOption = None,
    dev: DevFlag = False,
    name: NameOption = None,
    targets: TargetsOption = None,
    batch_sizes: BatchSizesOption = None,
    tensorflow: TensorFlowOption = None,
    tools: ToolsFlag = False,
    depfile: DepfileOption = None,
) -> Result:
    """Build and verify a model's package and put it into a prefix; no registry is involved.

    Examples: tfaot-pkg build spec.yaml -o prefix && cmake -DCMAKE_PREFIX_PATH=$PWD/prefix ...;
    tfaot-pkg build spec.yaml --dev
    """
    from tfaot_pkg.cli.cmssw import area_for, write_tools
    from tfaot_pkg.ground.storage import write_file
    from tfaot_pkg.package.prefix.install import install_built
    from tfaot_pkg.spec.parse import load_spec, override

    area = area_for(output) if dev else None
    prefix = area.prefix if area is not None else output
    if prefix is None:
        raise typer.BadParameter("give a prefix to install into: -o PREFIX, or --dev in a CMSSW area")
    _require_depfile(depfile, name)
    pipeline = session.pipeline()
    # Around reading the spec too: Make and Ninja may link the package of an earlier build after any failure.
    with no_leftovers(prefix, name) if depfile is not None else nullcontext():
        given = load_spec(spec, session.defines)
        given = override(
            given, name=name, targets=targets or (), batch_sizes=batch_sizes or (), tools=tools, tensorflow=tensorflow
        )
        made = pipeline.build(pipeline.plan(given))
        done = install_built(made.tree, made.plan.key, prefix)
        # Last: the build has fetched and read the files, so they exist and can be listed.
        if depfile is not None:
            write_file(depfile, depfile_text(depfile.with_suffix(""), given).encode())
    tool = write_tools(area, made.plan.spec, made.tree) if area is not None else None
    lines = [built_text(made), installed_text(done), *([tool.text()] if tool is not None else [])]
    return Result(document=_built_document(made, done, tool), text="\n".join(lines))


def _require_depfile(depfile: Path | None, name: str | None) -> None:
    if depfile is not None and depfile.suffix != ".d":
        raise typer.BadParameter(f"--depfile {depfile}: write FILE.d; it lists the dependencies of FILE")
    if depfile is not None and name is None:
        raise typer.BadParameter("--depfile needs --name, so that a failed build knows which package to remove")


def _built_document(made: Build, done: Installed, tool: DevTool | None) -> dict[str, object]:
    return {
        "package": made.tree.package_name,
        "version": made.tree.version,
        "prefix": str(done.prefix),
        "key": made.plan.key,
        "status": done.status,
        "confinement": made.confinement.value,
        "validation": made.report,
        "engine": made.engine,
        **({"gains": made.gains} if made.gains else {}),
        "kernels": None,  # see docs/decisions/040
        **({"scram": tool.as_dict()} if tool is not None else {}),
    }


@command("registry", "keys", "passphrase_file", "defines", "toolchain_python", "wheelhouse", "unconfined", "verbose")
def publish(
    session: Session,
    spec: SpecArgument,
    *,
    conan: Annotated[
        bool | None, typer.Option(help="Also make the Conan package. (default: conan)", show_default=False)
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Also upload the Conan package to this remote (conan-remote add). (default: none)"
        ),
    ] = None,
    unverified_target: _Unverified = None,
    bench: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Show these times of other engines on the package's page (from `bench -o`)."
        ),
    ] = None,
) -> Result:
    """Build, verify and publish a model. Does nothing if the same content is published already.

    A folder that is missing or empty becomes an unsigned registry, which the first line says (`created` in --json).

    Examples: tfaot-pkg publish spec.yaml; tfaot-pkg publish spec.yaml --registry /srv/models -D release=2026.1
    """
    from tfaot_pkg.pipeline.publish import publish as publish_model
    from tfaot_pkg.spec.parse import load_spec

    loaded = load_spec(spec, session.defines)
    makes_conan = session.settings.conan if conan is None else conan
    if remote is not None and not makes_conan:
        raise typer.BadParameter("--remote uploads the Conan package: it cannot be used with --no-conan")
    # Logs in: a wrong password is reported now, and not after a build of minutes whose upload would be missing.
    uploader = Uploader.of(session, remote, loaded.model.package_name) if remote is not None else None
    # The keys and the file of --bench are read before the build too, as arguments.
    done = publish_model(
        loaded,
        place=session.registry_place(),
        keys=session.keys(),
        pipeline=session.pipeline(),
        conan=makes_conan,
        unverified=unverified_target or (),
        measured=_measured(bench, loaded.model.name) if bench is not None else None,
    )
    uploaded = uploader.upload(done) if uploader is not None else None
    document = {**fields_of(done), "kernels": None, "upload": uploaded}  # see docs/decisions/040
    lines = [published_text(done, session.registry)]
    if uploaded is not None:
        lines.insert(
            0, f"{uploaded.reference}: {uploaded.status} in the Conan remote {uploaded.remote} ({uploaded.url})"
        )
    return Result(document=document, text="\n".join(lines))


def _measured(path: Path, model: str) -> Measured:
    """What `bench -o` wrote. Raises SpecError."""
    from tfaot_pkg.cli.bench import read_results
    from tfaot_pkg.measure.bench.results import page_document
    from tfaot_pkg.pipeline.publish import Measured

    found = read_results(path, "--bench")
    if found.model != model:
        raise SpecError(f"--bench has results of the model {found.model}, not of {model}")
    return Measured(document=json.dumps(page_document(found)).encode(), source=found.source)


def built_text(made: Build) -> str:
    from tfaot_pkg.ground.sandbox import Level
    from tfaot_pkg.package.tree import names_note
    from tfaot_pkg.verify.report import findings  # NumPy takes time to import

    report = made.report
    lines = []
    # There are none if this machine can run code for none of the targets.
    if report.comparisons:
        difference = f"largest difference {report.max_absolute:.2g} (relative {report.max_relative:.2g})"
        lines.append(f"{made.tree.package_name} {made.tree.version}: verified against {report.reference}, {difference}")
        lines += [f"it {contains}"] if (contains := contains_text(report.authored)) else []
        lines += [f"made from {report.origin}"] if report.origin else []
    lines += [f"{name}: verified under {emulator}" for name, emulator in report.emulated.items()]
    if report.not_run:
        lines.append(f"not verified, because this machine cannot run them: {', '.join(report.not_run)}")
    if made.confinement is Level.NONE:
        lines.append("not confined: the model and its library ran without a sandbox")
    lines += findings(report)
    gains = reduced.gain_texts((each.target, each.batch_size, each.times) for each in made.gains)
    lines += [f"gain here: {each}" for each in gains]
    lines.append(str(made.engine))
    if report.hashes is not None:
        lines.append(str(report.hashes))
    notes = [*report.warnings, names_note(made.frozen.signature)]
    lines += [f"note: {note}" for note in notes if note]
    return "\n".join(lines)


def published_text(done: Publication, registry: str | None) -> str:
    # First: a mistyped folder is a new registry, too.
    lines = [f"made a new registry: {done.registry}"] if done.created else []
    lines += [f"{done.entry}: {done.status} in {done.registry} ({'signed' if done.signed else 'unsigned'})"]
    if done.validated is not None:
        rows = verified_rows(done.validated)
        lines.append("; ".join(f"{label}: {names}" for label, names in rows.items() if names))
    # Who publishes reads that it is done, verified, and how it is used; `show` and --json have the details too.
    if said.verbose:
        lines += [str(each) for each in (done.engine, done.hashes) if each is not None]
        lines += [f"Conan: {done.conan['reference']}"] if done.conan is not None else []
    # Quoted, so that users can paste the line into a shell.
    where = f" --registry {shlex.quote(registry)}" if registry is not None else ""
    lines.append(f"use it: tfaot-pkg install {done.entry.model}@{done.entry.version}{where}")
    return "\n".join(lines)


def depfile_text(output: Path, spec: ModelSpec) -> str:
    """The rule of Make that `output` depends on the files that the build of `spec` read, as `gcc -M` writes it."""
    return " \\\n  ".join([f"{_escaped(output)}:", *map(_escaped, files_read(spec))]) + "\n"


@contextmanager
def no_leftovers(prefix: Path, model: str | None) -> Iterator[None]:
    """Remove the package of `model` from `prefix` if the block fails: else an earlier build would be linked."""
    from tfaot_pkg.errors import TfaotError
    from tfaot_pkg.package.prefix.install import uninstall

    try:
        yield
    except BaseException:  # not only errors: after Ctrl-C too, the next `make` must not link the earlier build
        if model is not None:
            with suppress(TfaotError):  # the first error is the one to report
                uninstall(model, prefix)
        raise


def _escaped(path: Path) -> str:
    # Make and Ninja both read this: "$" is doubled, blanks and "#" get a backslash.
    text = str(path).replace("$", "$$")
    return "".join(f"\\{letter}" if letter in " #" else letter for letter in text)


def files_read(spec: ModelSpec) -> list[Path]:
    """The files on this machine that the package of `spec` depends on, after its build.

    Archives and repositories are not among them: the spec pins them.
    """
    from tfaot_pkg import _version
    from tfaot_pkg.spec.source.tree import local_files
    from tfaot_pkg.spec.tuning import tuning_path
    from tfaot_pkg.spec.types import FolderSource

    # The file of the version: another version of this tool may build another package.
    read = [spec.path, Path(_version.__file__)]
    if spec.tuning is not None:
        read.append(tuning_path(spec.path))
    read += [*([] if spec.card_file is None else [spec.card_file]), *spec.data_files.values()]
    if isinstance(spec.source, FolderSource):
        read += [file for place in local_files(spec.source.path, spec.model) for file in _below(place)]
    return read


def _below(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = []
    for folder, folders, files in os.walk(path, followlinks=True):  # no loops: the build has read it
        folders.sort()  # os.walk goes on in this order: the file is the same each time
        # Folders too: their modification time changes if a file is added or removed.
        found += [Path(folder), *(Path(folder, name) for name in sorted(files))]
    return found
