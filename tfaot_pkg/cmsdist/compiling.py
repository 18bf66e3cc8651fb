"""The output and the flags of `cms_tfaot_compile`: a model's files in the places where CMS's build scripts expect them.

    NAME_bsN.o, NAME_common.o            with --dev below lib/
    model.h, NAME.h, NAME_tfaot.h,
    NAME_cmssw.h, NAME_bsN.h             with --dev below include/TOOL/
    TOOL.xml                             the tool file of SCRAM, which links the objects

With --dev the tool can be used in place, and include/tfaot/ holds our headers. Without it CMSDIST moves the files:
objects to lib/, headers to include/TOOL/, the tool file to etc/scram.d/.

`targets_wanted` reads `--additional-flags`: words for TensorFlow's `saved_model_cli aot_compile_cpu`, as targets. That
program compiles for one triple and one CPU; here a library has code for several targets. Flags that name a target
select it, `--cpp_class` names the class; flags that change nothing are ignored with a note; all others are errors.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.errors import PrefixError, SpecError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.ground.targets import DEFAULT_TARGETS, TARGETS
from tfaot_pkg.ground.wording import shown
from tfaot_pkg.package.cmssw import alias_header, cmssw_area, function_headers, tool_file
from tfaot_pkg.pipeline.pipeline import Build
from tfaot_pkg.spec.rules import class_name_fault, namespace_fault, package_name
from tfaot_pkg.spec.types import Compilation

TOOL_BASE = "@TOOL_BASE@"
"""The base of a tool that is not installed yet: CMSDIST's scripts replace this text."""

_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")  # SCRAM makes a variable of it, in capitals
_BASE = re.compile(r"[A-Za-z0-9._+/@$~%{}-]+")  # SCRAM splits values at blanks; quotes would end the attribute
_TEMPLATES = "cmsdist/include"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool of SCRAM: its name, and the folder in which it says it is installed."""

    name: str
    base: str

    @property
    def file(self) -> str:
        return f"{self.name}.xml"


def tool(name: str | None, base: str | None, *, model: str, dev: bool, folder: Path, cmssw_base: str) -> Tool:
    """The tool that the options ask for; by default that of `model`, and with --dev its base is `folder`.

    Raises PrefixError for names that SCRAM cannot read, and if `folder` is not a folder.
    """
    name = name or package_name(model)
    base = base or (_place(folder, cmssw_base) if dev else TOOL_BASE)
    if folder.exists() and not folder.is_dir():
        raise PrefixError(f"--output-directory: {folder} is not a folder", hint="name a folder, or one yet to be made")
    if not _TOOL_NAME.fullmatch(name):
        raise PrefixError(
            f"--tool-name: {shown(name)} cannot name a tool of SCRAM",
            hint="use letters, digits, _ and - only, such as tfaot-model-tagger",
        )
    if not _BASE.fullmatch(base):
        raise PrefixError(
            f"SCRAM cannot read the tool's base: {shown(base)}", hint="choose a folder without blanks and quotes"
        )
    return Tool(name=name, base=base)


def _place(folder: Path, cmssw_base: str) -> str:
    """`folder` relative to $CMSSW_BASE if it is inside the CMSSW area, else its path."""
    try:
        return cmssw_area(cmssw_base, folder).base
    except PrefixError:
        return str(folder)


def layout(build: Build, tool: Tool, *, dev: bool) -> dict[str, bytes]:
    """All files by their paths in the output folder, the tool file last. Needs a package with objects."""
    objects = {path.name: path.read_bytes() for path in build.tree.objects}
    include, lib = (f"include/{tool.name}/", "lib/") if dev else ("", "")
    files = {lib + name: data for name, data in objects.items()}
    files |= {include + name: text.encode() for name, text in _headers(build, tool).items()}
    if dev:
        folder = resources.headers()
        files |= {f"include/{p.relative_to(folder).as_posix()}": p.read_bytes() for p in sorted(folder.glob("**/*.h"))}
    model = build.plan.spec.model
    text = tool_file(tool.name, model.version, model.homepage, tool.base, tuple(objects))
    return {**files, tool.file: text}


def _headers(build: Build, tool: Tool) -> dict[str, str]:
    spec, package = build.plan.spec, build.tree.package_name
    signature = build.frozen.signature
    name = spec.model.name
    context = {
        "tool": tool.name,
        "version": spec.model.version,
        "name": name,
        "class_name": spec.class_name,
        "namespace": spec.compilation.namespace,
        "symbol": build.library.symbol,
        "uid": build.library.uid,
        "unbatched": not all(tensor.has_batch_axis for tensor in (*signature.inputs, *signature.outputs)),
    }
    ours = our_headers()
    functions = function_headers(spec, signature, symbol=build.library.symbol, uid=build.library.uid, tool=tool.name)
    generated = (build.tree.root / "include" / package / "model.h").read_text()
    return {
        **{file: standalone(text, ours) for file, text in functions.items()},
        **alias_header(spec, tool.name),
        # After alias_header, which also gives this file if the model's name is `model`.
        "model.h": render(f"{_TEMPLATES}/model.h.j2", context),
        f"{name}_tfaot.h": standalone(generated, ours, also=("tfaot/version.h", "tfaot/model.h")),
        f"{name}_cmssw.h": standalone(render(f"{_TEMPLATES}/NAME_cmssw.h.j2", context), ours),
    }


def write_layout(files: Mapping[str, bytes], folder: Path, name: str) -> None:
    """Write `files` into `folder`, and remove the model's objects and headers of other batch sizes from there.

    The tool file is written last, when the files that it links exist. Raises StorageError.
    """
    stale = re.compile(rf"{re.escape(name)}_bs\d+\.[oh]")
    with storage_errors(f"write into {folder}"):
        for place in {(folder / path).parent for path in files if stale.fullmatch(path.rpartition("/")[2])}:
            for old in place.glob("*_bs*"):
                if stale.fullmatch(old.name) and old.relative_to(folder).as_posix() not in files:
                    old.unlink()
        for path, data in files.items():
            write_file(folder / path, data)


_INCLUDE = re.compile(r"^#include <(tfaot/(?!macros_)[\w/]+\.h)>\n", re.MULTILINE)
_IN_PLACE = re.compile(r"^#include <(tfaot/macros_(?:off|on)\.h)>\n", re.MULTILINE)
_CMSSW_WRAPPER = "tfaot/cmssw_wrapper.h"


def our_headers() -> dict[str, str]:
    """The text of every header of ours, by the name in its `#include`."""
    folder = resources.headers()
    headers = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.glob("tfaot/**/*.h"))}
    return headers | {_CMSSW_WRAPPER: (resources.templates() / "cmsdist" / "cmssw_wrapper.h").read_text()}


def standalone(text: str, headers: Mapping[str, str], *, also: tuple[str, ...] = ()) -> str:
    """The header `text`, with `headers` that it includes (and those named in `also`) copied into it.

    CMSDIST moves single files, without a folder `tfaot/` beside them. Each copied header keeps its include guard and
    comes before those that need it, so a program may include it from elsewhere as well.
    """
    order: list[str] = []
    for name in (*_INCLUDE.findall(text), *also):
        _collect(name, headers, order)
    texts = [*(headers[name] for name in order), text]
    return "\n".join(_IN_PLACE.sub(lambda include: headers[include[1]], _INCLUDE.sub("", each)) for each in texts)


def _collect(name: str, headers: Mapping[str, str], order: list[str]) -> None:
    """Append `name` to `order`, after all headers that it includes. Includes have no cycles: headers compile alone."""
    for needed in _INCLUDE.findall(headers[name]):
        if needed not in order:
            _collect(needed, headers, order)
    if name not in order:
        order.append(name)


_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_DEFAULTS = {"x86_64": DEFAULT_TARGETS, "aarch64": ("aarch64",)}

# LLVM's names of CPUs, by the highest level of the x86-64 psABI all of whose features they have.
_LEVELS = {
    "x86-64": "x86-64 core2 penryn nocona k8 opteron athlon64 generic",
    "x86-64-v2": "x86-64-v2 nehalem westmere sandybridge ivybridge silvermont goldmont btver2",
    "x86-64-v3": "x86-64-v3 haswell broadwell skylake znver1 znver2 znver3 alderlake bdver4",
    "x86-64-v4": "x86-64-v4 skylake-avx512 cascadelake cooperlake icelake-client icelake-server sapphirerapids znver4",
}
_CPUS = {cpu: target for target, cpus in _LEVELS.items() for cpu in cpus.split()}

# Flags of the program whose values are fields of the spec.
_IN_THE_SPEC = {
    "signature_def_key": "model.serving_key",
    "tag_set": "model.tags",
    "dir": "model.saved_model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What flags name: `targets`, and a class (what is empty is the spec's); and notes for the user."""

    targets: tuple[str, ...] = ()
    namespace: str = ""
    class_name: str = ""
    notes: tuple[str, ...] = ()


def targets_wanted(flags: str, compilation: Compilation) -> Wanted:
    """The targets and the class that `flags` ask for, given those of the spec.

    Raises SpecError, with every fault of the flags.
    """
    values, faults = _values(flags)
    notes: list[str] = []
    architecture, wanted = _architecture(values, faults), _cpu(values, faults)
    namespace, class_name = _class(values, faults)
    for name, value in values.items():
        if name == "target_features":
            notes.append(
                f"--target_features {value} is ignored: the targets of the spec say which instructions are used"
            )
        elif name == "multithreading" and value.lower() == "false":
            notes.append("--multithreading False is ignored: an instance runs on one thread in any case")
        elif name in _IN_THE_SPEC:
            faults.append(f"--{name} belongs in the spec: {_IN_THE_SPEC[name]}")
        elif name not in ("target_triple", "target_cpu", "cpp_class"):
            faults.append(f"--{name} {value}".rstrip() + " has no equivalent in tfaot-pkg")
    if wanted and architecture and TARGETS[wanted].architecture != architecture:
        faults.append(f"--target_cpu {values['target_cpu']} is not a CPU of {architecture}")
    if faults:
        raise SpecError(
            "\n".join(f"--additional-flags: {fault}" for fault in faults),
            hint="known are --target_triple ARCHITECTURE-..., --cpp_class NAMESPACE::NAME and --target_cpu CPU "
            f"(targets: {', '.join(TARGETS)})",
        )
    return replace(_wanted(architecture, wanted, compilation, notes), namespace=namespace, class_name=class_name)


def _wanted(architecture: str, cpu: str, compilation: Compilation, notes: list[str]) -> Wanted:
    if cpu:
        return Wanted(targets=(cpu,), notes=(*notes, f"--target_cpu: code for the target {cpu} only"))
    if architecture and TARGETS[compilation.targets[0]].architecture != architecture:
        targets = _DEFAULTS[architecture]
        replaced = f"--target_triple: code for {', '.join(targets)} in place of {', '.join(compilation.targets)}"
        return Wanted(targets=targets, notes=(*notes, replaced))
    return Wanted(notes=tuple(notes))


def _values(flags: str) -> tuple[dict[str, str], list[str]]:
    """The flags by name, without dashes; and the faults of words that cannot be read."""
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
            faults.append(f"{shown(word)} is not a flag")
            continue
        value = found[2]
        if value is None:
            # A flag without a value may be followed by another flag.
            value = words.pop(0) if words and not words[0].startswith("--") else ""
        # One spelling: the flags of saved_model_cli have `_`, but the options of this program `-`.
        values[found[1].replace("-", "_")] = value
    return values, faults


def _architecture(values: dict[str, str], faults: list[str]) -> str:
    """The architecture of `--target_triple` ("" if it is not given): `x86_64`, `x86_64-pc-linux`, ...

    A triple that begins with `-` stands for the architecture of this machine.
    """
    triple = values.get("target_triple")
    if triple is None:
        return ""
    first, *system = triple.split("-")
    if not first and system:  # CMSSW puts platform.processor() there, which is empty on some systems
        first = platform.machine()
    if first.lower() not in _ARCHITECTURES:
        faults.append(f"--target_triple {shown(triple)}: there are no targets for this architecture")
    elif system and "linux" not in system:
        faults.append(f"--target_triple {shown(triple)}: libraries are made for Linux only")
    return _ARCHITECTURES.get(first.lower(), "")


def _class(values: dict[str, str], faults: list[str]) -> tuple[str, str]:
    """Namespace and name of `--cpp_class`: `ns::Name`, or `Name` in the spec's namespace. "" for what is not given."""
    given = values.get("cpp_class")
    if given is None:
        return "", ""
    namespace, separator, name = given.rpartition("::")
    fault = class_name_fault(name) if name else "must be a class such as ns::MatMulComp"
    if separator:
        fault = namespace_fault(namespace) or fault
    if fault:
        faults.append(f"--cpp_class {shown(given)}: {fault}")
    return namespace, name


def _cpu(values: dict[str, str], faults: list[str]) -> str:
    """The target of `--target_cpu`; "" if it is not given or empty."""
    cpu = values.get("target_cpu", "")
    if cpu in TARGETS or not cpu:
        return cpu
    if cpu == "native":
        faults.append("--target_cpu native: code must not depend on the machine that compiles it; name a target")
    elif cpu not in _CPUS:
        faults.append(f"--target_cpu {shown(cpu)}: the target of this CPU is not known")
    return _CPUS.get(cpu, "")
