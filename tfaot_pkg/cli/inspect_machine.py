"""Commands about the tool itself: schema, doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tfaot_pkg.cli.command import Session
from tfaot_pkg.cli.options import DebugFlag, JsonFlag


def register(app: typer.Typer) -> None:
    for command in (schema, doctor):
        app.command()(command)


def schema(
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file to write it to.")] = None,
    registry: Annotated[bool, typer.Option("--registry", help="That of a nightly's registry.yaml.")] = False,
    json_: JsonFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Print the JSON Schema of a spec: editors complete and check specs with it.

    Example: tfaot-pkg schema -o spec.schema.json
    """
    from tfaot_pkg.nightly import form as of_registries
    from tfaot_pkg.spec import schema as of_specs
    from tfaot_pkg.storage import storage_errors, write_file

    session = Session()
    made = (of_registries if registry else of_specs).json_schema()
    text = json.dumps(made, indent=2) + "\n"
    if output is None:
        session.result(made, text)
        return
    with storage_errors(f"write {output}"):
        write_file(output.absolute(), text.encode())
    session.result({"written": str(output)}, f"wrote {output}")


def doctor(*, json_: JsonFlag = False, debug: DebugFlag = False) -> None:
    """Look at this machine: compiler, toolchains, Conan, targets that its CPU runs, confinement; exit code 0 or 1.

    Example: tfaot-pkg doctor --json
    """
    from tfaot_pkg.doctor import examine

    session = Session()
    findings = examine(session.folders)
    lines = [f"{'ok  ' if f.good else 'no  '} {f.subject:<12} {f.finding}" for f in findings]
    lines += [f"hint: {f.hint}" for f in findings if f.hint and not f.good]
    session.result({"findings": [f.as_dict() for f in findings]}, "\n".join(lines))
    if any(f.needed and not f.good for f in findings):
        raise typer.Exit(1)
