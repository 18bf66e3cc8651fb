"""Commands for CMS's distribution: import-cmsdist and export-cmsdist, and the program cms_tfaot_compile."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.options import DebugFlag, VerboseFlag
from tfaot_pkg.cli.session import Session

if TYPE_CHECKING:
    from tfaot_pkg.cmsdist.layout import Tool
    from tfaot_pkg.pipeline import Build
    from tfaot_pkg.spec.types import ModelSpec


def register(app: typer.Typer) -> None:
    """Put the commands of `tfaot-pkg` into `app`."""


compile_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def compile_main() -> None:
    """Run `cms_tfaot_compile` and exit."""
    from tfaot_pkg.cli.app import run

    sys.exit(run(sys.argv[1:], "cms_tfaot_compile", compile_app))


@compile_app.command()
def compile_(
    *,
    aot_config: Annotated[
        Path, typer.Option("--aot-config", "-c", metavar="FILE", help="The model's aot_config.yaml.")
    ],
    output: Annotated[Path, typer.Option("--output-directory", "-o", metavar="DIR", help="Where the files go.")],
    tool_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the tool. [default: tfaot-model-MODEL]")
    ] = None,
    tool_base: Annotated[
        str | None, typer.Option(metavar="BASE", help="Where the tool is going to be installed.")
    ] = None,
    dev: Annotated[bool, typer.Option("--dev", help="Make a tool that can be used where its files lie.")] = False,
    additional_flags: Annotated[
        str, typer.Option(metavar="FLAGS", help="--target_triple and --target_cpu: which targets to compile for.")
    ] = "",
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
    verbose: VerboseFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Compile a model for CMSSW: object files, headers, and a tool file for SCRAM, as CMSDIST's build scripts expect.

    Example: cms_tfaot_compile -c aot_config.yaml -o compiled_model --tool-name tfaot-model-tagger --tool-base "$PWD"
    """
    from tfaot_pkg.cmsdist.layout import layout, tool, write_layout
    from tfaot_pkg.pipeline import Pipeline
    from tfaot_pkg.spec import load_spec

    session = Session()
    folder = Path(os.path.abspath(os.path.expanduser(os.path.expandvars(output))))
    spec = _wanted(load_spec(aot_config), additional_flags, session)
    wanted = tool(
        tool_name, tool_base,
        model=spec.model.name, dev=dev, folder=folder, cmssw_base=os.environ.get("CMSSW_BASE", ""),
    )  # fmt: skip
    pipeline = Pipeline(
        folders=session.folders,
        progress=session.progress,
        toolchain_python=toolchain_python,
        wheelhouse=wheelhouse,
    )
    made = pipeline.build(pipeline.plan(spec))
    write_layout(layout(made, wanted, dev=dev), folder, spec.model.name)
    session.result({}, _compiled_text(made, wanted, folder, dev=dev))


def _wanted(spec: ModelSpec, flags: str, session: Session) -> ModelSpec:
    """`spec` with objects in its package, for the targets that `flags` ask for."""
    from tfaot_pkg.cmsdist.flags import targets_wanted

    wanted = targets_wanted(flags, spec.compilation)
    for note in wanted.notes:
        session.progress.note(f"note: {note}")
    compilation = replace(spec.compilation, targets=wanted.targets or spec.compilation.targets)
    return replace(spec, compilation=compilation, package=replace(spec.package, objects=True))


def _compiled_text(made: Build, tool: Tool, folder: Path, *, dev: bool) -> str:
    from tfaot_pkg.cli.build import built_text
    from tfaot_pkg.cli.cmssw import DevTool

    spec = made.plan.spec
    lines = [built_text(made), f"wrote the tool {tool.name} into {folder}"]
    if dev:
        place = tool.base if tool.base.startswith("$CMSSW_BASE") else str(folder)
        cpp_class = f"{spec.compilation.namespace}::{spec.model.name}"
        lines.append(DevTool(files=(f"{place}/{tool.file}",), package=tool.name, cpp_class=cpp_class).text())
    return "\n".join(lines)
