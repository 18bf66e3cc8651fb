"""The oldest C library that a shared library loads with, whatever functions its code calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tfaot_pkg.ground.process import run
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.native.library import rename
from tfaot_pkg.package.binary.elf import opened
from tfaot_pkg.package.binary.findings import SHARED_LIBRARY, above_floor, glibc_floor

LIMIT = "2.28"
OF_LIBM = sorted(
    name
    for name in SHARED_LIBRARY
    if not name.startswith(("_", "pthread", "mem", "str")) and name not in {"roundeven", "roundevenf"}  # 2.25 and C23
)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_no_function_needs_a_newer_c_library(
    architecture: str, tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    require_program(f"{architecture}-linux-gnu-g++")
    compiler = find_compiler(architecture, log=tmp_path / "log", output=lambda _: None)
    calls = "".join(f'extern "C" void {name}();\nvoid* use_{name}() {{ return (void*)&{name}; }}\n' for name in OF_LIBM)
    table = ", ".join(f"(void*)&{name}" for name in OF_LIBM)
    (tmp_path / "a.cc").write_text(f'{calls}extern "C" void* volatile entry[] = {{ {table} }};\n')
    (tmp_path / "map").write_text("{ global: entry; local: *; };\n")
    flags = [*compiler.library_flags, "-fno-builtin", "-fvisibility=default"]
    compiler.compile(tmp_path / "a.cc", tmp_path / "a.o", flags=flags, folder=tmp_path)
    compiler.rename_symbols(tmp_path / "a.o", compiler.first_versions)
    library = tmp_path / "a.so"
    compiler.link_shared([tmp_path / "a.o"], library, soname="a.so", exports=tmp_path / "map")
    with opened(library) as data:
        assert above_floor(data, LIMIT) == ()
        assert glibc_floor(data)


def test_an_object_without_such_functions_is_not_written_again(tmp_path: Path) -> None:
    compiler = find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None)
    for name, body in (("with", "return exp(x);"), ("without", "return x + x;")):
        source, code = tmp_path / f"{name}.cc", tmp_path / f"{name}.o"
        source.write_text(f'#include <math.h>\nextern "C" double entry(double x) {{ {body} }}\n')
        compiler.compile(source, code, flags=[], folder=tmp_path)
        before = code.read_bytes(), code.stat().st_mtime_ns
        rename(code, compiler.first_versions, compiler)
        written = (code.read_bytes(), code.stat().st_mtime_ns) != before
        assert written == (name == "with")


def test_a_function_in_its_first_version_computes_the_same(tmp_path: Path) -> None:
    compiler = find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None)
    renamed = {"exp": ("x",), "exp2": ("x",), "log": ("x",), "log2": ("x",), "pow": ("x", "y"), "fmod": ("x", "y")}
    code = "#include <math.h>\n"
    for name, arguments in renamed.items():
        code += f'extern "C" double entry_{name}(double x, double y) {{ (void)y; return {name}({", ".join(arguments)}); }}\n'
    (tmp_path / "a.cc").write_text(code)
    (tmp_path / "map").write_text("{ global: entry_*; local: *; };\n")
    flags = ["-fno-builtin", "-fvisibility=default"]
    compiler.compile(tmp_path / "a.cc", tmp_path / "a.o", flags=flags, folder=tmp_path)
    libraries = []
    for name in ("newest", "first"):
        if name == "first":
            compiler.rename_symbols(tmp_path / "a.o", compiler.first_versions)
        libraries.append(tmp_path / f"{name}.so")
        compiler.link_shared([tmp_path / "a.o"], libraries[-1], soname=name, exports=tmp_path / "map")
    script = (
        "import ctypes, struct, sys\n"
        "values = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-310, 700.0, 710.0, -745.2, 1e300, float('inf'), float('-inf'), float('nan')]\n"
        "values += [0.37 * i * i - 11 for i in range(200)]\n"
        "for path in sys.argv[1:]:\n"
        "    library = ctypes.CDLL(path); out = b''\n"
        f"    for name in {list(renamed)}:\n"
        "        f = getattr(library, 'entry_' + name); f.restype = ctypes.c_double; f.argtypes = [ctypes.c_double] * 2\n"
        "        for x in values:\n"
        "            r = f(x, 1.7); out += struct.pack('d', r if r == r else float('nan'))\n"
        "    print(out.hex())\n"
    )
    newest, first = run(["python3", "-c", script, *libraries]).stdout.split()
    assert newest == first
