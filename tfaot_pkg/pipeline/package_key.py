"""The named components of a package's key, which also explain why a key changed.

Names are `spec.SECTION.FIELD`, `defines.NAME`, `source/FILE` and the constants below. Values are strings: short ones
unchanged, so that the former value can be shown, long ones as SHA-256. No value contains a path of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfaot_pkg._version import __version__
from tfaot_pkg.frontends.frozen.model import worker_program_digest
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import canonical_json, sha256_bytes
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.source.tree import SourceTree
from tfaot_pkg.spec.tuning import tuning_document
from tfaot_pkg.spec.types import ModelSpec

SPEC, DEFINES, SOURCE, TEMPLATES, CODE = "spec.", "defines.", "source/", "templates/", "code/"
"""Prefixes of components' names."""

INPUTS, TUNING = "validation inputs", "tuning file"
TOOLCHAIN, COMPILER, FLAGS = "toolchain", "compiler", "compiler flags"
TOOL, WORKER, HEADERS, KERNELS = "tool", "worker program", "headers", "kernel library"

STAGES = {
    "freeze": "tfaot_pkg.frontends.frozen.model",
    "compile": "tfaot_pkg.native.compiled.model",
    "runtime parts": "tfaot_pkg.native.xla_runtime",
    "link": "tfaot_pkg.native.build",
    "tools": "tfaot_pkg.native.tools",
    "validate": "tfaot_pkg.verify.validate",
    "package": "tfaot_pkg.pipeline.pipeline",
}
"""The module of each stage, by the name that users read, in the order in which they run."""

TEMPLATES_OF_PACKAGES = ("package", "native", "source", "tools", "notices")
"""The folders of templates whose output is part of packages."""


def components(
    spec: ModelSpec,
    source: SourceTree,
    *,
    toolchain: str,
    compiler: Compiler,
    inputs: Mapping[str, object],
) -> dict[str, str]:
    """All components; `toolchain` is its identity, `inputs` describes the inputs of validation (`inputs_document`)."""
    parts = spec_components(spec) | {f"{DEFINES}{name}": value for name, value in spec.defines.items()}
    # One component per file, so that a changed key can name the file that changed.
    parts |= {f"{SOURCE}{name}": digest for name, digest in source.files.items()}
    return parts | {INPUTS: _text(inputs), TOOLCHAIN: toolchain, **_of_machine(compiler), **tool_components()}


def spec_components(spec: ModelSpec) -> dict[str, str]:
    """Those of the spec and its tuning file, without its values of `env.*`."""
    parts = {
        f"{SPEC}{section}.{field}": _text(value)
        for section, fields in spec_document(spec).items()
        if isinstance(fields, dict)
        for field, value in fields.items()
    }
    if spec.tuning is not None:
        parts[TUNING] = sha256_bytes(canonical_json(tuning_document(spec.tuning)))
    return parts


def _of_machine(compiler: Compiler) -> dict[str, str]:
    return {COMPILER: compiler.identity, FLAGS: " ".join(compiler.all_flags)}


def tool_components() -> dict[str, str]:
    """Those of this tool, whatever it builds."""
    templates = resources.templates()
    return {
        TOOL: __version__,
        WORKER: worker_program_digest(),
        HEADERS: resources.digest(resources.headers()),
        KERNELS: resources.digest(resources.kernels()),
        **{f"{TEMPLATES}{name}": resources.digest(templates / name) for name in TEMPLATES_OF_PACKAGES},
        **{f"{CODE}{name}": code_digest(module) for name, module in STAGES.items()},
    }


def _text(value: object) -> str:
    return canonical_json(value).decode()
