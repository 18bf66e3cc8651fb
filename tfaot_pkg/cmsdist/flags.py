"""`--additional-flags` of `cms_tfaot_compile`: words for TensorFlow's `saved_model_cli aot_compile_cpu`, as targets.

That program compiles for one triple and one CPU; here a library carries code for several targets. What can be told
in targets is, what changes nothing is ignored and said, the rest is refused.
"""

from __future__ import annotations

import platform
import re
import shlex
from dataclasses import dataclass

from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.types import Compilation
from tfaot_pkg.targets import DEFAULT_TARGETS, TARGETS
from tfaot_pkg.wording import shown

_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_DEFAULTS = {"x86_64": DEFAULT_TARGETS, "aarch64": ("aarch64",)}

# The level that each of LLVM's CPUs has, after the x86-64 psABI: the highest of which it has all features.
_LEVELS = {
    "x86-64": "x86-64 core2 penryn nocona k8 opteron athlon64 generic",
    "x86-64-v2": "x86-64-v2 nehalem westmere sandybridge ivybridge silvermont goldmont btver2",
    "x86-64-v3": "x86-64-v3 haswell broadwell skylake znver1 znver2 znver3 alderlake bdver4",
    "x86-64-v4": "x86-64-v4 skylake-avx512 cascadelake cooperlake icelake-client icelake-server sapphirerapids znver4",
}
_CPUS = {cpu: target for target, cpus in _LEVELS.items() for cpu in cpus.split()}

# Flags of the program that are told by the spec.
_IN_THE_SPEC = {
    "signature_def_key": "model.serving_key",
    "tag_set": "model.tags",
    "cpp_class": "compilation.namespace and model.name",
    "dir": "model.saved_model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What flags ask for: `targets` (empty: the spec's), and what is to be told about them."""

    targets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def targets_wanted(flags: str, compilation: Compilation) -> Wanted:
    """The targets that `flags` ask for, given those of the spec. Raises SpecError, with every fault of the flags."""
    values, faults = _values(flags)
    notes: list[str] = []
    architecture, wanted = _architecture(values, faults), _cpu(values, faults)
    for name, value in values.items():
        if name == "target_features":
            notes.append(
                f"--target_features {value} is ignored: the targets of the spec say which instructions are used"
            )
        elif name == "multithreading" and value.lower() == "false":
            notes.append("--multithreading False is ignored: an instance runs on one thread in any case")
        elif name in _IN_THE_SPEC:
            faults.append(f"--{name} belongs into the spec: {_IN_THE_SPEC[name]}")
        elif name not in ("target_triple", "target_cpu"):
            faults.append(f"--{name} {value}".rstrip() + " has no counterpart here")
    if wanted and architecture and TARGETS[wanted].architecture != architecture:
        faults.append(f"--target_cpu {values['target_cpu']} is no CPU of {architecture}")
    if faults:
        raise SpecError(
            "\n".join(f"--additional-flags: {fault}" for fault in faults),
            hint=f"known are --target_triple ARCHITECTURE-... and --target_cpu CPU (targets: {', '.join(TARGETS)})",
        )
    return _wanted(architecture, wanted, compilation, notes)


def _wanted(architecture: str, cpu: str, compilation: Compilation, notes: list[str]) -> Wanted:
    if cpu:
        return Wanted(targets=(cpu,), notes=(*notes, f"--target_cpu: code for the target {cpu} only"))
    if architecture and TARGETS[compilation.targets[0]].architecture != architecture:
        targets = _DEFAULTS[architecture]
        replaced = f"--target_triple: code for {', '.join(targets)} in place of {', '.join(compilation.targets)}"
        return Wanted(targets=targets, notes=(*notes, replaced))
    return Wanted(notes=tuple(notes))


def _values(flags: str) -> tuple[dict[str, str], list[str]]:
    """The flags by name, without dashes; and what cannot be read."""
    try:
        words = shlex.split(flags)
    except ValueError as error:
        return {}, [f"{shown(flags)} cannot be read: {error}"]
    values: dict[str, str] = {}
    faults: list[str] = []
    while words:
        word = words.pop(0)
        found = re.fullmatch(r"--([A-Za-z][\w-]*)(?:=(.*))?", word, re.DOTALL)
        if found is None:
            faults.append(f"{shown(word)} is no flag")
            continue
        value = found[2]
        if value is None:
            value = words.pop(0) if words and not words[0].startswith("--") else ""
        values[found[1].replace("-", "_")] = value
    return values, faults


def _architecture(values: dict[str, str], faults: list[str]) -> str:
    """The architecture of `--target_triple` ("" where it is not given): `x86_64`, `x86_64-pc-linux`, ...

    A triple that begins with `-` is for the architecture of this machine.
    """
    triple = values.get("target_triple")
    if triple is None:
        return ""
    first, *system = triple.split("-")
    if not first and system:  # CMSSW writes what Python's platform.processor() says there, which may be nothing
        first = platform.machine()
    if first.lower() not in _ARCHITECTURES:
        faults.append(f"--target_triple {shown(triple)}: there are no targets for this architecture")
    elif system and "linux" not in system:
        faults.append(f"--target_triple {shown(triple)}: libraries are made for Linux only")
    return _ARCHITECTURES.get(first.lower(), "")


def _cpu(values: dict[str, str], faults: list[str]) -> str:
    """The target of `--target_cpu`; "" where it is not given, or given as empty."""
    cpu = values.get("target_cpu", "")
    if cpu in TARGETS or not cpu:
        return cpu
    if cpu == "native":
        faults.append("--target_cpu native: code must not depend on the machine that compiles it; name a target")
    elif cpu not in _CPUS:
        faults.append(f"--target_cpu {shown(cpu)}: it is not known which target this is")
    return _CPUS.get(cpu, "")
