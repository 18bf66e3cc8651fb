"""Commands for CMS's distribution: import-cmsdist and export-cmsdist, and the program cms_tfaot_compile."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session, SpecArgument, command, defines_of
from tfaot_pkg.cli.run import run_program

if TYPE_CHECKING:
    from tfaot_pkg.cmsdist.compiling import Tool
    from tfaot_pkg.pipeline.pipeline import Build
    from tfaot_pkg.spec.types import ModelSpec


def register(app: typer.Typer) -> None:
    for each in (import_cmsdist, export_cmsdist):
        app.command()(each)


@command("verbose")
def import_cmsdist(
    session: Session,
    file: Annotated[Path, typer.Argument(help="A tfaot-model-*.spec of CMSDIST.", metavar="FILE.spec")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The spec to write.")] = Path("spec.yaml"),
    defines: Annotated[
        list[str] | None,
        typer.Option("--define", "-D", metavar="NAME=VALUE", help="Give the RPM macro NAME a value. Repeatable."),
    ] = None,
    model_files: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder with the model's aot_config.yaml. (default: beside the spec file)"
        ),
    ] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="Fetch the source, to read its aot_config.yaml.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a line cannot be translated.")] = False,
) -> Result:
    """Make a spec from a spec file of CMSDIST, and list what could not be translated. Nothing in it is run.

    An existing file is not overwritten.

    Example: tfaot-pkg import-cmsdist tfaot-model-tagger.spec --model-files data/tagger -D era=Run3
    """
    from tfaot_pkg.cmsdist.importing import ModelFiles, import_spec
    from tfaot_pkg.errors import Fault, SpecError
    from tfaot_pkg.ground.storage import storage_errors, write_file
    from tfaot_pkg.spec.source.tree import fetch as fetch_source

    # Before the source is fetched.
    if output.exists():
        raise SpecError(f"{output} exists already", hint="remove it, or name another file with --output")
    fetcher = partial(fetch_source, folders=session.folders, progress=session.progress) if fetch else None
    files = ModelFiles(folder=model_files, fetch=fetcher)
    imported = import_spec(file, output, defines=defines_of(defines), files=files)
    if strict and imported.notes:
        faults = [Fault(file=note.file, line=note.line, path="", message=note.message) for note in imported.notes]
        raise SpecError(faults, hint="nothing was written; without --strict these are notes")
    with storage_errors(f"write {output}"):
        write_file(output, imported.text.encode())
    model = imported.spec.model
    document = {
        "spec": str(output),
        "name": model.name,
        "version": model.version,
        "notes": [{"file": note.file, "line": note.line, "message": note.message} for note in imported.notes],
    }
    lines = [f"note: {note}" for note in imported.notes]
    return Result(document=document, text="\n".join([*lines, f"wrote {output}", f"next: tfaot-pkg check {output}"]))


@command("defines", "verbose")
def export_cmsdist(
    session: Session,
    spec: SpecArgument,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for the files.")] = Path(
        "cmsdist"
    ),
    data_package: Annotated[
        str | None, typer.Option(metavar="NAME", help="If the source is a folder: the data package with its files.")
    ] = None,
    data_path: Annotated[
        str,
        typer.Option(metavar="PATH", help="The folder in the data package. (default: SUBSYSTEM/PACKAGE/data/MODEL)"),
    ] = "",
    branch: Annotated[
        str, typer.Option(metavar="NAME", help="If the source is a git repository: the branch of the commit.")
    ] = "master",
) -> Result:
    """Make the spec file of CMSDIST and the aot_config.yaml for a model, and print the line for the list of models.

    Files of these names are replaced.

    Example: tfaot-pkg export-cmsdist spec.yaml --data-package data-PhysicsTools-Taggers
    """
    from tfaot_pkg.cmsdist.exporting import MODELS_FILE, DataPackage, export_spec
    from tfaot_pkg.ground.storage import storage_errors, write_file
    from tfaot_pkg.spec.parse import load_spec

    if data_path and data_package is None:
        raise typer.BadParameter("--data-path is a folder in the data package: also give --data-package")
    data = DataPackage(name=data_package, path=data_path) if data_package is not None else None
    exported = export_spec(load_spec(spec, session.defines), data=data, branch=branch)
    with storage_errors(f"write into {output}"):
        for name, text in exported.texts.items():
            write_file(output / name, text.encode())
    written = [str(output / name) for name in exported.texts]
    document = {"files": written, "models": list(exported.models_lines), "notes": list(exported.notes)}
    lines = [
        *(f"wrote {path}" for path in written),
        *(f"note: {note}" for note in exported.notes),
        f"for {MODELS_FILE}:",
        *(f"  {line}" for line in exported.models_lines),
    ]
    return Result(document=document, text="\n".join(lines))


# A program that CMSDIST's scripts call in place of cms-tfaot's: with its options, and none for a shell's completion.
compile_app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def compile_main() -> None:
    """Run `cms_tfaot_compile` and exit."""
    run_program(compile_app, program="cms_tfaot_compile")


@compile_app.command()
@command("unconfined", "verbose", json=False)
def compile_(
    session: Session,
    *,
    aot_config: Annotated[
        Path, typer.Option("--aot-config", "-c", metavar="FILE", help="The model's aot_config.yaml.")
    ],
    output: Annotated[Path, typer.Option("--output-directory", "-o", metavar="DIR", help="The folder for the files.")],
    tool_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the tool. (default: tfaot-model-MODEL)")
    ] = None,
    tool_base: Annotated[str | None, typer.Option(metavar="BASE", help="Where the tool will be installed.")] = None,
    dev: Annotated[bool, typer.Option("--dev", help="Make a tool that is used from the output directory.")] = False,
    additional_flags: Annotated[
        str,
        typer.Option(
            metavar="FLAGS",
            help="--target_triple and --target_cpu: which targets to compile for; --cpp_class: the class.",
        ),
    ] = "",
    # With environment variables, because the scripts' command line is fixed.
    toolchain_python: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", envvar="TFAOT_TOOLCHAIN_PYTHON", help="Use TensorFlow of this Python, install none."
        ),
    ] = None,
    wheelhouse: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="TFAOT_WHEELHOUSE", help="Install TensorFlow from the wheels in DIR."),
    ] = None,
) -> Result:
    """Compile a model for CMSSW: object files, headers, and a tool file for SCRAM, as CMSDIST's build scripts expect.

    Example: cms_tfaot_compile -c aot_config.yaml -o compiled_model --tool-name tfaot-model-tagger --tool-base "$PWD"
    """
    from tfaot_pkg.cmsdist.compiling import layout, tool, write_layout
    from tfaot_pkg.pipeline.pipeline import Pipeline
    from tfaot_pkg.spec.parse import load_spec

    # Variables and `~` as in cms-tfaot's program, which CMSDIST's scripts were written for.
    folder = Path(os.path.abspath(os.path.expanduser(os.path.expandvars(output))))
    spec = _wanted(load_spec(aot_config), additional_flags, session)
    area = os.environ.get("CMSSW_BASE", "")
    wanted = tool(tool_name, tool_base, model=spec.model.name, dev=dev, folder=folder, cmssw_base=area)
    pipeline = Pipeline(
        folders=session.folders, progress=session.progress, toolchain_python=toolchain_python, wheelhouse=wheelhouse
    )
    made = pipeline.build(pipeline.plan(spec))
    write_layout(layout(made, wanted, dev=dev), folder, spec.model.name)
    # No document: this program has no --json.
    return Result(document={}, text=_compiled_text(made, wanted, folder, dev=dev))


def _wanted(spec: ModelSpec, flags: str, session: Session) -> ModelSpec:
    """`spec` with objects in its package, for the targets and with the class that `flags` name."""
    from tfaot_pkg.cmsdist.compiling import targets_wanted

    wanted = targets_wanted(flags, spec.compilation)
    for note in wanted.notes:
        session.progress.note(f"note: {note}")
    compilation = replace(
        spec.compilation,
        targets=wanted.targets or spec.compilation.targets,
        namespace=wanted.namespace or spec.compilation.namespace,
        class_name=wanted.class_name or spec.compilation.class_name,
    )
    return replace(spec, compilation=compilation, package=replace(spec.package, objects=True))


def _compiled_text(made: Build, tool: Tool, folder: Path, *, dev: bool) -> str:
    from tfaot_pkg.cli.build import built_text
    from tfaot_pkg.cli.cmssw import DevTool

    spec = made.plan.spec
    lines = [built_text(made), f"wrote the tool {tool.name} into {folder}"]
    if dev:
        place = tool.base if tool.base.startswith("$CMSSW_BASE") else str(folder)
        files, headers = (f"{place}/{tool.file}",), (f"{tool.name}/model.h",)
        lines.append(DevTool(files=files, package=tool.name, headers=headers, cpp_class=spec.cpp_class).text())
    return "\n".join(lines)
