"""The source form of a package: a folder that CMake builds without this tool into the same libraries and headers.

It is in the package, below `share/tfaot-model-NAME/source/`, and `export --source` copies it. Its code comes from
native/source_form.py; headers and build files are the package's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.targets import DEFAULT_TARGETS, TARGETS, Target, lowest

FUNCTION, TILES_FUNCTION = "tfaot_program", "tfaot_program_permit_tiles"
"""The name of a program's function in generated code (native/compiled/program.py)."""

RUNTIME = "@TFAOT_CXX_RUNTIME@"
"""Stands for the library of the C++ runtime in files that CMakeLists.txt completes."""

_CALL = re.compile(r"\bvoid (tfaot_operation_\d+)\(")

# GCC 9 and Clang 11 do not know the levels by their names. SSE3 (Linux's name for it is pni) comes with SSSE3.
_OPTIONS = {
    "cx16": "-mcx16", "lahf_lm": "-msahf", "popcnt": "-mpopcnt", "ssse3": "-mssse3", "sse4_1": "-msse4.1",
    "sse4_2": "-msse4.2", "avx": "-mavx", "avx2": "-mavx2", "bmi1": "-mbmi", "bmi2": "-mbmi2", "f16c": "-mf16c",
    "fma": "-mfma", "movbe": "-mmovbe", "abm": "-mlzcnt", "avx512f": "-mavx512f", "avx512bw": "-mavx512bw",
    "avx512cd": "-mavx512cd", "avx512dq": "-mavx512dq", "avx512vl": "-mavx512vl",
}  # fmt: skip
# CMAKE_SYSTEM_PROCESSOR of the machines that can run code for an architecture.
PROCESSORS = {"x86_64": "^(x86_64|AMD64|amd64)$", "aarch64": "^(aarch64|arm64|ARM64)$"}


def source_files(
    code: Mapping[str, bytes],
    packaged: Mapping[str, bytes],
    context: Mapping[str, object],
    targets: Sequence[str],
    release: str = "",
) -> dict[str, bytes]:
    """The files of the source form, by path in it.

    `code` are the C++ files, `packaged` the other files of the package, `context` the variables of the package's
    templates, `targets` those of the package.
    """
    package = context["package"]
    operations = sorted(path for path in code if re.fullmatch(r"src/operation_\w+\.cc", path))
    known = {
        **context,
        "architectures": [_architecture(name, targets) for name in PROCESSORS],
        "function": FUNCTION,
        "tiles": TILES_FUNCTION if TILES_FUNCTION.encode() in code["src/program.cc"] else "",
        "operations": operations,
        # One library holds the code of all targets, so the functions of each target get names of their own.
        "calls": sorted({name for path in operations for name in _CALL.findall(code[path].decode())}),
    }
    # Of releases, what users run is kept.
    names = ("CMakeLists.txt",) if release else ("CMakeLists.txt", "BUILD.bazel", "README.md")
    texts = {name: render(f"source/{name}.j2", known, release) for name in names}
    cmake = f"lib/cmake/{package}/{package}"
    linked = {**context, "system_libraries": ("m", RUNTIME)}
    for path in (f"{cmake}Targets.cmake", f"lib/pkgconfig/{package}.pc"):
        texts[f"install/{path}.in"] = render(f"package/{_template(path, package)}", linked, release)
    for architecture, processors in PROCESSORS.items():
        version = {**context, "architecture": architecture, "processors": processors}
        path = f"{cmake}ConfigVersion.cmake"
        texts[f"install/{architecture}/{path}"] = render(f"package/{_template(path, package)}", version, release)
    return {
        **{path: text.encode() for path, text in texts.items()},
        **code,
        **{path: data for path, data in packaged.items() if path.startswith("include/")},
        **{f"install/{path}": data for path, data in packaged.items() if _is_installed(path, f"{package}")},
    }


def _template(path: str, package: object) -> str:
    return path.replace(str(package), "tfaot-model-NAME") + ".j2"


def _is_installed(path: str, package: str) -> bool:
    """Whether the installation has the file as the package has it, and it is no header."""
    made = (f"{package}Targets.cmake", f"{package}ConfigVersion.cmake", f"{package}.pc")
    if path.startswith(("lib/cmake/", "lib/pkgconfig/")):
        return not path.endswith(tuple(f"/{name}" for name in made))
    return path == f"etc/scram.d/{package}.xml"


def _architecture(name: str, targets: Sequence[str]) -> dict[str, object]:
    """The templates' variables of an architecture. `default` are the package's targets, if they belong to it."""
    known = sorted((t for t in TARGETS.values() if t.architecture == name), key=lambda target: target.level)
    names = [target.name for target in known]
    default = [each for each in names if each in targets] or [each for each in names if each in DEFAULT_TARGETS]
    return {
        "name": name,
        "processors": PROCESSORS[name],
        "targets": [{"name": t.name, "identifier": t.identifier, "flags": _flags(t)} for t in known],
        "default": default or names,
        "lowest": _flags(lowest(name)),
    }


def _flags(target: Target) -> list[str]:
    """Flags for `target` that compilers of 2019 know."""
    options = [option for name, option in _OPTIONS.items() if name in target.features]
    return [*lowest(target.architecture).flags, *options]
