"""Public and generated headers with every compiler of tests/compilers.py, after what a program may include before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compilers import EVERY, STANDARDS, knows
from tests.package.conftest import WARNINGS, make_contents, make_spec
from tests.spec.macros import HEADERS_OF_C
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Part, Signature, StateTensor, Symbol, Tensor
from tfaot_pkg.package.tree import PackageTree, render
from tfaot_pkg.spec.rules import package_name

pytestmark = pytest.mark.slow

RequireProgram = Callable[[str], str]
CMSSW = resources.headers() / "tfaot" / "cmssw"
HEADERS = [
    *sorted(f"tfaot/{path.name}" for path in (resources.headers() / "tfaot").glob("*.h") if "macros_" not in path.name),
    *sorted(path.relative_to(CMSSW).as_posix() for path in CMSSW.rglob("*.h")),
]
# In C++, <stdatomic.h> stands beside <atomic> from C++23 on.
_OF_C = "".join(
    f"#if __has_include(<{name}.h>)\n#include <{name}.h>\n#endif\n" for name in HEADERS_OF_C if name != "stdatomic"
)
PRELUDE = "\n".join(
    [
        "#pragma GCC system_header",  # whose warnings are not those of our headers
        "#ifdef __cplusplus",
        "#include <cstddef>",  # C++'s library undefines min and max, but only once
        "#endif",
        _OF_C,
        "#ifdef __cpp_lib_stdatomic_h",
        "#include <stdatomic.h>",
        "#endif",
        "#undef I",
        *(f"#define {letter} 1 +;" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        "#define min(a, b) ((a) < (b) ? (a) : (b))",
        "#define max(a, b) ((a) < (b) ? (b) : (a))",
        "",
    ]
)
"""What a program may include and define before our headers: C's, POSIX' and X11's, and macros as Windows has them."""


each_compiler = pytest.mark.parametrize("compiler", EVERY)
each_standard = pytest.mark.parametrize("standard", STANDARDS)
some = pytest.mark.sweep(
    "c++17-g++", "c++2a-clang++", night=["c++17-g++-11", "c++2b-g++", "c++17-clang++-13", "c++2b-clang++-19"]
)


def compile_all(compiler: str, standard: str, source: Path, *flags: str, mode: str = "c") -> None:
    """With exceptions and without; `mode` gnu is the default one of compilers."""
    if not knows(compiler, standard):
        pytest.skip(f"{compiler} does not know {standard}")
    command = [compiler, f"-std={standard.replace('c', mode, 1)}", *WARNINGS, *flags, "-fsyntax-only"]
    run([*command, source])
    run([*command, "-fno-exceptions", source])


@some
@each_compiler
@each_standard
def test_every_header_compiles_after_macros_and_all_headers_of_c(
    standard: str, compiler: str, tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program(compiler)
    (tmp_path / "prelude.h").write_text(PRELUDE)
    hostile = tmp_path / "hostile.cpp"
    hostile.write_text('#include "prelude.h"\n' + "".join(f"#include <{name}>\n" for name in HEADERS))
    compile_all(compiler, standard, hostile, f"-I{resources.headers()}", f"-I{CMSSW}")


@pytest.mark.sweep(night=["g++-11"])
@each_compiler
def test_every_header_compiles_alone(compiler: str, tmp_path: Path, require_program: RequireProgram) -> None:
    require_program(compiler)
    sources = []
    for name in HEADERS:
        source = tmp_path / f"{name.replace('/', '-')}.cpp"
        source.write_text(f"#include <{name}>\n#include <{name}>\n")
        sources.append(source)
    run([compiler, "-std=c++17", *WARNINGS, f"-I{resources.headers()}", f"-I{CMSSW}", "-fsyntax-only", *sources])


X = Tensor(name="x", dtype=DType.FLOAT64, shape=(None, 3))
STEP = Tensor(name="step", dtype=DType.INT64, shape=())
NAMES = ["I", "B0", "M_PI", "min", "max", "Bool", "Index", "Index_", "N", "None", "T", "complex", "unix", "stdin"]
NAMED = tuple(Tensor(name=name, dtype=DType.FLOAT32, shape=(None, 2)) for name in NAMES)
TYPED = tuple(Tensor(name=dtype.value, dtype=dtype, shape=(None, 2)) for dtype in DType)
SIZED = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 8, 2), axes=("", "n", ""))
NODES = Tensor(name="nodes", dtype=DType.FLOAT32, shape=(32, 4), axes=("V", ""))
EDGES = Tensor(name="edges", dtype=DType.INT64, shape=(2, 64), axes=("", "I"))
# By the names of models, which are those of classes, too.
SIGNATURES = {
    "names": Signature(inputs=NAMED, outputs=NAMED),
    "types": Signature(inputs=TYPED, outputs=TYPED),
    "in": Signature(inputs=(X,), outputs=(X,)),
    "batch_size": Signature(inputs=(), outputs=(X,)),
    "counter": Signature(
        inputs=(STEP, X),
        outputs=(replace(STEP, name="next"), X),
        state=(StateTensor(name="step", input="step", output="next", offset=0),),
    ),
    "sizes": Signature(
        inputs=(SIZED,), outputs=(replace(SIZED, name="y"),), symbols=(Symbol(name="n", minimum=1, maximum=8),)
    ),
    "graph": Signature(
        inputs=(NODES, EDGES),
        outputs=(replace(NODES, name="scores"), replace(EDGES, name="weights", dtype=DType.FLOAT64)),
        symbols=(Symbol(name="V", minimum=1, maximum=32), Symbol(name="I", minimum=0, maximum=64)),
    ),
    "parts": Signature(
        inputs=tuple(replace(X, name=f"{part}/x") for part in ("I", "b")),
        outputs=tuple(replace(X, name=f"{part}/y") for part in ("I", "b")),
        parts=tuple(Part(name=part, inputs=(f"{part}/x",), outputs=(f"{part}/y",)) for part in ("I", "b")),
    ),
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with the headers of SIGNATURES, use.cpp, which compiles all of their members, and use.c."""
    folder = tmp_path_factory.mktemp("generated")
    entries, code = list[str](), ['#include "prelude.h"', "#include <tfaot/tfaot.h>"]
    for name, signature in SIGNATURES.items():
        spec = make_spec(name, namespace="my::models")
        has_functions = name in ("names", "types", "in")  # cms-tfaot's classes
        spec = replace(spec, package=replace(spec.package, cmssw=has_functions))
        for path, data in render(make_contents(spec, signature=signature)).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        entries.append(f"#include <{package_name(name)}/entry.h>")
        code += [f"#include <{package_name(name)}/model.h>", entries[-1]]
        code += [f"#include <{package_name(name)}/{name}_bs2.h>"] * has_functions
        for each in (name, *(f"{name}_{part.name}" for part in signature.parts)):
            code += [f"template class tfaot::{kind}<my::models::{each}>;" for kind in ("Shared", "Model")]
    code += ["template class tfaot::State<my::models::counter>;"]
    (folder / "use.cpp").write_text("\n".join([*code, ""]))
    (folder / "use.c").write_text("\n".join(['#include "prelude.h"', *entries, ""]))
    (folder / "prelude.h").write_text(PRELUDE)
    return folder


@some
@each_compiler
@each_standard
def test_generated_headers_compile_after_them_whatever_tensors_are_called(
    standard: str, compiler: str, generated: Path, require_program: RequireProgram
) -> None:
    require_program(compiler)
    compile_all(compiler, standard, generated / "use.cpp", f"-I{generated}/include", mode="gnu")


@pytest.mark.sweep("g++", night=["clang++-19"])
@each_compiler
def test_headers_for_c_compile_after_them(compiler: str, generated: Path, require_program: RequireProgram) -> None:
    require_program(compiler)
    flags = ["-x", "c", *WARNINGS, f"-I{generated}/include", "-fsyntax-only"]
    run([compiler, "-std=c11", *flags, generated / "use.c"])
    run([compiler, "-std=gnu2x", *flags, generated / "use.c"])


@pytest.mark.sweep("g++", night=["g++-11", "clang++-19"])
@each_compiler
def test_a_package_with_link_time_optimization_gives_no_warning(
    compiler: str, make_tree: Callable[..., PackageTree], tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program(compiler)
    tree, sources = make_tree(tmp_path / "prefix"), [tmp_path / "one.cpp", tmp_path / "other.cpp"]
    use = "#include <tfaot-model-affine/model.h>\n#include <tfaot/tfaot.h>\n"
    sources[0].write_text(f"{use}int other(); int main() {{ tfaot::Shared<tfaot_model::affine> m; return other(); }}\n")
    sources[1].write_text(f"{use}int other(); int other() {{ tfaot::Model<tfaot_model::affine> m; return 0; }}\n")
    # Static: a compiler of a newer system links against libraries that this one lacks.
    flags = ["-std=c++17", "-O2", "-flto", *WARNINGS, f"-I{tree.root}/include", "-pthread", "-static"]
    run([compiler, *flags, *sources, tree.static_library, "-o", tmp_path / "program"])
    run([tmp_path / "program"])
