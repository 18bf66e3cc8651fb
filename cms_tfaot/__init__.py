"""The part of cms-tfaot's Python package that CMSSW's tests and scripts use, implemented by this tool.

A release finds the test models by this file's path (`share/test_models/` of the same prefix), and compiles them with
`cms_tfaot_compile`. Do not install it beside cms-tfaot, whose package has the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfaot_pkg._version import __version__ as __version__

__all__ = ["tfaot_compile"]


def tfaot_compile(
    config_file: str | Path,
    output_dir: str | Path,
    tool_name: str | None = None,
    tool_base: str | None = None,
    dev: bool = False,
    additional_flags: Sequence[str] | str | None = None,
) -> None:
    """Do what the program `cms_tfaot_compile` does with these options; raise RuntimeError if it fails."""
    from tfaot_pkg.cli.cmsdist import compile_app
    from tfaot_pkg.cli.run import run_commands

    flags = additional_flags if isinstance(additional_flags, str) else " ".join(additional_flags or ())
    words = ["--aot-config", str(config_file), "--output-directory", str(output_dir)]
    words += [f"--tool-name={tool_name}"] if tool_name else []
    words += [f"--tool-base={tool_base}"] if tool_base else []
    words += ["--dev"] if dev else []
    words += [f"--additional-flags={flags}"] if flags else []
    code = run_commands(compile_app, words, program="cms_tfaot_compile")
    if code != 0:
        raise RuntimeError(f"cms_tfaot_compile failed: exit code {code}; its message is above")
