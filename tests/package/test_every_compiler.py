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
        "#include <cstddef>",  # C++'s library undefines min and max, but only once
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


@pytest.mark.sweep(
    "c++17-g++", "c++2a-clang++", night=["c++17-g++-11", "c++2b-g++", "c++17-clang++-13", "c++2b-clang++-19"]
)
@pytest.mark.parametrize("compiler", EVERY)
@pytest.mark.parametrize("standard", STANDARDS)
def test_every_header_compiles_after_macros_and_all_headers_of_c(
    standard: str, compiler: str, tmp_path: Path, require_program: RequireProgram
) -> None:
    require_program(compiler)
    if not knows(compiler, standard):
        pytest.skip(f"{compiler} does not know {standard}")
    (tmp_path / "prelude.h").write_text(PRELUDE)
    hostile = tmp_path / "hostile.cpp"
    hostile.write_text('#include "prelude.h"\n' + "".join(f"#include <{name}>\n" for name in HEADERS))
    flags = [f"-std={standard}", *WARNINGS, f"-I{resources.headers()}", f"-I{CMSSW}", "-fsyntax-only"]
    run([compiler, *flags, hostile])
    run([compiler, *flags, "-fno-exceptions", hostile])


@pytest.mark.sweep(night=["g++-11"])
@pytest.mark.parametrize("compiler", EVERY)
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
    "parts": Signature(
        inputs=tuple(replace(X, name=f"{part}/x") for part in ("I", "b")),
        outputs=tuple(replace(X, name=f"{part}/y") for part in ("I", "b")),
        parts=tuple(Part(name=part, inputs=(f"{part}/x",), outputs=(f"{part}/y",)) for part in ("I", "b")),
    ),
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with the headers of SIGNATURES, and use.cpp, which compiles all of their members."""
    folder = tmp_path_factory.mktemp("generated")
    classes, includes = [], ["tfaot/tfaot.h"]
    for name, signature in SIGNATURES.items():
        spec = make_spec(name, namespace="my::models")
        has_functions = name in ("names", "types", "in")  # cms-tfaot's classes
        spec = replace(spec, package=replace(spec.package, cmssw=has_functions))
        for path, data in render(make_contents(spec, signature=signature)).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        classes += [name, *(f"{name}_{part.name}" for part in signature.parts)]
        includes += [f"{package_name(name)}/{each}" for each in ("model.h", "entry.h")]
        includes += [f"{package_name(name)}/{name}_bs2.h"] * has_functions
    code = [f"#include <{include}>" for include in includes]
    code += [f"template class tfaot::Shared<my::models::{name}>;" for name in classes]
    code += [f"template class tfaot::Model<my::models::{name}>;" for name in classes]
    code += ["template class tfaot::State<my::models::counter>;"]
    (folder / "use.cpp").write_text("\n".join(['#include "prelude.h"', *code, ""]))
    (folder / "prelude.h").write_text("#pragma GCC system_header\n" + _OF_C)
    return folder


@pytest.mark.sweep("g++", night=["clang++-19"])
@pytest.mark.parametrize("compiler", EVERY)
def test_generated_headers_compile_after_all_headers_of_c_whatever_tensors_are_called(
    compiler: str, generated: Path, require_program: RequireProgram
) -> None:
    require_program(compiler)
    for standard in ("gnu++17", "gnu++17 -fno-exceptions", *filter(lambda each: knows(compiler, each), STANDARDS[1:])):
        flags = [*f"-std={standard}".split(), *WARNINGS, f"-I{generated}/include"]
        run([compiler, *flags, "-fsyntax-only", generated / "use.cpp"])


@pytest.mark.sweep("g++", night=["g++-11", "clang++-19"])
@pytest.mark.parametrize("compiler", EVERY)
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
