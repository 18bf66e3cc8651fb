"""A model as machine code: its instructions, the memory that a call uses, and the size of each part."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfaot_pkg.frontends.frozen.model import weight_size
from tfaot_pkg.ground.targets import TARGETS, Target
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.ground.wording import table
from tfaot_pkg.measure.inside.forms import emitted_code
from tfaot_pkg.measure.inside.stages import Stages
from tfaot_pkg.measure.inside.view import View
from tfaot_pkg.native.compiled.header import scratch_bytes
from tfaot_pkg.native.compiled.model import CompiledModel
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.native.library import program_flags
from tfaot_pkg.package.binary.archive import members_of
from tfaot_pkg.package.binary.elf import opened, read_elf

# Numbers of the ELF specification (gABI, "Sections").
_IN_MEMORY = 2
"""The flag of sections that are in memory when the program runs (SHF_ALLOC)."""
_NO_BITS = 8
"""The type of sections that take no space in the file (SHT_NOBITS)."""
_SHOWN = 30
# Mangled names (Itanium C++ ABI): a number is the length of the name of a namespace or function that follows it.
_KERNEL = re.compile(r"tfaot_kernels\d+(x86_64(?:_v\d)?|aarch64)\d+")
# -ffunction-sections and -fdata-sections append a symbol's name to its section's; merged constants have no symbol.
_FUNCTION = re.compile(
    r"\.(?:text|rodata|data\.rel\.ro|data|bss)(?:\.(?:unlikely|hot|startup|local))*\.(?!cst\d|str1|local)(.+)"
)


def asm_view(stages: Stages, target: Target, batch_size: int) -> View:
    """The instructions of the program, or of XLA's code of one batch size."""
    compiled, compiler = stages.compiled(), stages.plan.compiler
    if compiled.program is not None:
        text = _program_text(stages, target)
    else:
        (unit,) = [each for each in compiled.of_target(target) if each.batch_size == batch_size]
        text = "\n".join(compiler.disassembled(code) for code in unit.objects)
    text = "\n".join(line.rstrip() for line in text.splitlines() if "file format" not in line).strip() + "\n"
    return View(text=text, document={"target": target.name, "text": text})


def _program_text(stages: Stages, target: Target) -> str:
    compiler = stages.plan.compiler
    # Compiled again, because a build keeps only the object that is linked with the rest of the library.
    with temporary_folder(prefix="tfaot-asm-") as folder:
        source, code = folder / "program.cc", folder / "program.o"
        source.write_text(emitted_code(stages).source)
        compiler.compile(source, code, flags=program_flags(target, compiler), folder=folder)
        return compiler.disassembled(code)


def memory_view(stages: Stages, target: Target, batch_sizes: Sequence[int]) -> View:
    """Bytes of arguments, results and scratch memory of a call by batch size, and of the weights."""
    compiled, signature = stages.compiled(), stages.frozen.signature
    weights = _weight_bytes(compiled)
    rows = [
        {
            "batch_size": size,
            "arguments": sum(tensor.nbytes_at(size) for tensor in signature.inputs),
            "results": sum(tensor.nbytes_at(size) for tensor in signature.outputs),
            "scratch": _scratch(compiled, target, size),
        }
        for size in batch_sizes
    ]
    heads = ("batch size", "argument bytes", "result bytes", "scratch bytes")
    engine = "program" if compiled.engine.is_program else "xla"
    said = [
        table(heads, [tuple(row.values()) for row in rows]),
        f"weights: {weights:,} bytes, once for all batch sizes and targets",
    ]
    if compiled.program is not None:
        said.append(f"scratch memory is for {compiled.engine.block} rows at a time, whatever the batch size")
    document = {"engine": engine, "target": target.name, "weights": weights, "batch_sizes": rows}
    return View(text="\n".join(said), document=document)


def _weight_bytes(compiled: CompiledModel) -> int:
    if compiled.program is not None:
        return compiled.program.constants.stat().st_size
    return sum(map(weight_size, compiled.weights))


def _scratch(compiled: CompiledModel, target: Target, size: int) -> int:
    """The scratch memory of a program and all its segments, or XLA's temporary buffers."""
    if compiled.program is None:
        (unit,) = [each for each in compiled.of_target(target) if each.batch_size == size]
        return scratch_bytes(unit.folder / f"{unit.prefix}.h")
    segments = [each for each in compiled.segments if each.target == target]
    # A segment's arguments are copied into its own memory for each row, so they count too.
    parts = [scratch_bytes(each.folder / f"{each.prefix}.h", arguments=True) for each in segments]
    return compiled.program.scratch + sum(parts)


def sizes_view(stages: Stages) -> View:
    """The sizes of the static library's parts, by kind of code and by function, and of the shared one's sections."""
    library, compiler = stages.library(), stages.plan.compiler
    found = _sections(library.static)
    kinds: Counter[str] = Counter()
    functions: Counter[tuple[str, str]] = Counter()
    for name, size in found:
        kind = kind_of(name)
        kinds[kind] += size
        # Weights are one section, and would only repeat the line of their kind.
        if kind != "weights":
            functions[kind, name] += size
    names = _shown_names(compiler, [name for _, name in functions])
    rows = [
        {"kind": kind, "name": names[name], "bytes": size}
        for (kind, name), size in sorted(functions.items(), key=lambda item: (-item[1], item[0]))
    ]
    with opened(library.shared) as data:
        sections = read_elf(data).sections
    shared = {each.name: each.size for each in sections if each.flags & _IN_MEMORY and each.size}
    document: dict[str, object] = {
        "static": {"file": library.static.stat().st_size, "kinds": dict(kinds.most_common()), "functions": rows},
        "shared": {"file": library.shared.stat().st_size, "sections": shared},
        "targets": list(stages.plan.spec.compilation.targets),
    }
    return View(text=_sizes_text(document, rows, kinds, shared), document=document)


def _sizes_text(
    document: Mapping[str, object], rows: list[dict[str, object]], kinds: Counter[str], shared: Mapping[str, int]
) -> str:
    listed: list[tuple[object, ...]] = [(row["bytes"], row["kind"], row["name"]) for row in rows[:_SHOWN]]
    parts = [
        table(("bytes", "in both libraries"), [(size, kind) for kind, size in kinds.most_common()]),
        table(("bytes", "kind", "function or data"), listed),
    ]
    if len(rows) > _SHOWN:
        parts[-1] += f"\nand {len(rows) - _SHOWN} smaller ones (--json lists all)"
    largest = sorted(shared.items(), key=lambda item: -item[1])
    parts.append(table(("bytes", "section of the shared library"), [(size, name) for name, size in largest]))
    for kind in ("static", "shared"):
        file = document[kind]
        assert isinstance(file, dict)
        parts[-1] += f"\n{kind} library: {file['file']:,} bytes"
    return "\n\n".join(parts)


def _sections(archive: Path) -> list[tuple[str, int]]:
    """Name and size of the sections that the objects of a static library add to a program: one per function."""
    with opened(archive) as data:
        return _sections_in(data)


def _sections_in(data: memoryview) -> list[tuple[str, int]]:
    return [
        (section.name, section.size)
        for _, content in members_of(data)
        for section in read_elf(content).sections
        if section.flags & _IN_MEMORY and section.size and section.kind != _NO_BITS
    ]


def kind_of(section: str) -> str:
    """The part of a library that a section of its object belongs to."""
    # By name: the objects are linked into one (decision 005), which keeps no other trace of where code came from.
    if section == ".rodata.tfaot_weights":
        return "weights"
    if _KERNEL.search(section):
        return "kernel library"
    if "_GLOBAL__N_15block" in section or "tfaot_program" in section or "_GLOBAL__N_1L8dispatch" in section:
        return "program"
    if section.startswith(".eh_frame"):
        return "unwinding"
    # _Zn and _Zd are the operators new and delete, of which the library has its own.
    if "tfaot_native" in section or section.startswith(
        (".text.tfaot_model", ".text.tfaot_units", ".text._Zn", ".text._Zd")
    ):
        return "interface"
    if "Eigen" in section or "__xla_cpu_runtime" in section or "xla3cpu" in section:
        return "XLA's runtime"
    return "other code and data"


def _shown_names(compiler: Compiler, sections: Sequence[str]) -> dict[str, str]:
    """A readable name for each section: that of its function, if it has one."""
    symbols = {name: match[1] for name in sections if (match := _FUNCTION.fullmatch(name))}
    # All at once, because each call starts a program.
    plain = dict(zip(symbols, compiler.demangled([*symbols.values()]), strict=True))
    return {name: plain.get(name, name) for name in sections}


def target_named(name: str | None, targets: Sequence[str]) -> Target:
    """The target to look at; by default the highest of the spec's."""
    return TARGETS[name or targets[-1]]
