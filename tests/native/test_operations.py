"""C++ of operations that a model's author supplies: what is compiled, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.compiler.program import OperationCall
from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.compiled.authored import own_text
from tfaot_pkg.native.compiled.operations import OperationCode, wrapper_text
from tfaot_pkg.native.cxx.compiler import Compiler, find_compiler
from tfaot_pkg.native.operations import compile_operation
from tfaot_pkg.package.binary.elf import opened, read_elf, symbols_of

pytestmark = pytest.mark.timeout(120)
_HEAD = '#include <cmath>\n#include "tfaot/operation.h"\nusing namespace tfaot::operation;\n'
_SIGNATURE = "void smooth(Input<float> x, Output<float> y, const Attributes& attributes = {})"


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None)


def _compiled(
    text: str, folder: Path, compiler: Compiler, attributes: dict[str, tuple[float, ...]] | None = None
) -> Path:
    call = OperationCall(
        target="tfaot_operation_0",
        operation="smooth",
        node="here",
        attributes=attributes or {},
        inputs=(("f32", (4,)),),
        outputs=(("f32", (4,)),),
        batched=(True,),
    )
    code = OperationCode(
        name="smooth",
        source=folder / "smooth.cpp",
        wrapper=folder / "operation_smooth.cc",
        constants=folder / "none.npz",
        calls=(call,),
    )
    own = own_text("smooth", text.encode())
    code.source.write_text(own.text)
    code.wrapper.write_text(wrapper_text("smooth", code.calls, own))
    return compile_operation(code, TARGETS["x86-64-v3"], compiler, folder / "made")


def test_an_operation_becomes_an_object_that_needs_mathematics_alone(tmp_path: Path, compiler: Compiler) -> None:
    """Names of its own, also those of the C library, stay inside of it."""
    text = _HEAD + (
        "void erase(float* free) { *free = std::tanh(*free); }\n"
        f"{_SIGNATURE} {{\n"
        '  for (std::int64_t i = 0; i < y.size(); ++i) { y[i] = x[i] * attributes.number("slope", 2); erase(&y[i]); }\n'
        "}\n"
    )
    made = _compiled(text, tmp_path, compiler, {"slope": (0.5,), "sizes": (1.0, 2.0)})
    with opened(made) as data:
        symbols = symbols_of(read_elf(data))
    assert {each.name for each in symbols if not each.is_local and not each.is_undefined} == {"tfaot_operation_0"}
    assert {each.name for each in symbols if each.is_undefined and each.name} <= {"tanhf", "_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("void smooth(Input<float> x, Output<float> y) { y[0] = x; }\n", id="an-error-in-its-line"),
        pytest.param("void smooth(Input<double> x, Output<float> y) { y[0] = x[0]; }\n", id="another-type"),
        pytest.param("void other(Input<float> x, Output<float> y) { y[0] = x[0]; }\n", id="no-such-function"),
        pytest.param('#include "/etc/passwd"\n', id="a-file-of-the-system"),
        pytest.param('#include "../../../../../../../../../../etc/hostname"\n', id="a-file-above"),
        pytest.param('#include "/usr/lib/os-release"\n', id="no-header"),
        pytest.param("#em\\\nbed </etc/passwd>\n", id="embed"),
        pytest.param(f'{_SIGNATURE} {{ asm(".incbin \\"/etc/passwd\\""); y[0] = x[0]; }}\n', id="assembler"),
        pytest.param(
            f'#define A as##m\n#define B __a ## sm__\n{_SIGNATURE} {{ B("syscall"); }}\n', id="assembler-by-macro"
        ),
        pytest.param(f'#pragma GCC optimize("fast-math")\n{_SIGNATURE} {{ y[0] = x[0]; }}\n', id="pragma"),
        pytest.param(f'_Pragma("GCC optimize(3)")\n{_SIGNATURE} {{ y[0] = x[0]; }}\n', id="pragma-by-operator"),
        pytest.param(
            f'# /* */ l\\ \nine 1 "/usr/include/math.h"\n{_SIGNATURE} {{ asm("syscall"); }}\n', id="lines-of-others"
        ),
        pytest.param(f"static int n;\n{_SIGNATURE} {{ y[0] = x[0] + ++n; }}\n", id="variable"),
        pytest.param(f"thread_local int n;\n{_SIGNATURE} {{ y[0] = x[0] + ++n; }}\n", id="variable-of-a-thread"),
        pytest.param(
            f"struct A {{ A(); float x; }};\nA::A() {{ x = std::tanh(x); }}\nA a;\n{_SIGNATURE} {{ y[0] = a.x; }}\n",
            id="constructor",
        ),
        pytest.param(f'extern "C" int system(const char*);\n{_SIGNATURE} {{ y[0] = system("id"); }}\n', id="system"),
        pytest.param(f"{_SIGNATURE} {{ float* a = new float[9]; y[0] = *a; }}\n", id="memory"),
        pytest.param(f'extern "C" void tfaot_program();\n{_SIGNATURE} {{ tfaot_program(); }}\n', id="our-names"),
        pytest.param(f"{_SIGNATURE} {{ throw 1; }}\n", id="exception"),
        pytest.param("template <int n> struct A { A<n + 1> a; };\nA<0> a;\n", id="templates-without-end"),
    ],
)
def test_code_that_is_wrong_or_does_more_is_refused(text: str, tmp_path: Path, compiler: Compiler) -> None:
    with reported(ModelError, varies=r"(?s)(?<=compile:\n).*|(?<=includes ).*?(?=:)"):
        _compiled(_HEAD + text, tmp_path, compiler)
