"""Hostile operations: C++ that is more than arithmetic, by whichever way of C++ and of compilers, is refused."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.compiler.program import OperationCall
from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.compiled.authored import OwnText, own_text
from tfaot_pkg.native.compiled.operations import OperationCode, wrapper_text
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.native.operations import compile_operation

pytestmark = pytest.mark.timeout(300)

_HEAD = '#include <cmath>\n#include "tfaot/operation.h"\nusing namespace tfaot::operation;\n'
_BODY = "void work(Input<float> x, Output<float> y) { for (std::int64_t i = 0; i < y.size(); ++i) y[i] = x[i]; }\n"
_CALL = OperationCall(
    target="tfaot_operation_0", operation="work", node="here", attributes={},
    inputs=(("f32", (4,)),), outputs=(("f32", (4,)),), batched=(True,),
)  # fmt: skip
_CODE = "0x0f, 0x05, 0xc3"


def _function(body: str) -> str:
    return f"void work(Input<float> x, Output<float> y) {{ {body} y[0] = x[0]; }}\n"


AS_WRITTEN = {
    # Machine code.
    "asm": _function('asm("syscall");'),
    "__asm__": _function('__asm__ volatile("syscall");'),
    "asm at file scope": 'asm(".globl f");\n' + _BODY,
    "a label of a function": 'float f(float) asm("system");\n' + _BODY,
    "asm that a macro of a system header carries": (
        '#undef __BEGIN_DECLS\n#define __BEGIN_DECLS extern "C" { static long f() { __asm__("syscall"); }\n'
        "#define HEADER <aio.h>\n#include HEADER\n" + _BODY
    ),
    "asm in a macro": "#define A asm\n" + _function('A("syscall");'),
    "asm from two words": "#define C(a, b) a##b\n" + _function('C(a, sm)("syscall");'),
    "asm in a continued line": _function('as\\\nm("syscall");'),
    "asm with letters by number": _function('\\u0061sm("syscall");'),
    "asm after a trigraph": "// why??/\n" + _BODY,
    "asm in a raw string that is none": f'#define R\nconst char* s = R"(" asm("syscall") ")";\n{_BODY}',
    "asm after another end of line": '// comment\rasm("syscall");\n' + _BODY,
    "text that turns around": "// \u202e asm\n" + _BODY,
    "letters that look alike": "float \u0430sm;\n" + _BODY,
    # Files and headers.
    "a header of the system": "#include <unistd.h>\n" + _BODY,
    "a header of processes": "#include <csignal>\n" + _BODY,
    "a header of the compiler": "#include <immintrin.h>\n" + _function("_mm_setcsr(0x9fc0);"),
    "the floating-point environment": "#include <cfenv>\n" + _function("std::fesetround(FE_UPWARD);"),
    "a file by its path": '#include "/etc/passwd"\n' + _BODY,
    "a file above": '#include "../../secret.h"\n' + _BODY,
    "a header in a digraph": "%:include <unistd.h>\n" + _BODY,
    "the next header": "#include_next <cmath>\n" + _BODY,
    "an import": "#import <cmath>\n" + _BODY,
    "a module": "import std;\n" + _BODY,
    "an export": "export float f();\n" + _BODY,
    "an embedded file": "const unsigned char a[] = {\n#embed </etc/passwd>\n};\n" + _BODY,
    "a computed header": "#define H <unistd.h>\n#include H\n" + _BODY,
    # Another program elsewhere.
    "a file that decides": f'#if __has_include("/etc/passwd")\n#define X 1\n#endif\n{_BODY}',
    "an ifdef": f"#ifdef X\n#endif\n{_BODY}",
    "the compiler decides": _function("if (__clang_major__ > 14) y[1] = 1;"),
    "the compiler decides in a macro": "#define V __GNUC__\n" + _function("if (V > 12) y[1] = 1;"),
    "the day decides": _function("y[1] = __DATE__[0];"),
    "the time decides": _function("y[1] = __TIME__[0];"),
    "the path decides": _function("y[1] = __FILE__[0];"),
    "a line of another file": '#line 1 "/usr/include/math.h"\n' + _BODY,
    "a marker of another file": '# 1 "/usr/include/math.h" 3\n' + _BODY,
    # Pragmas.
    "pragma optimize": '#pragma GCC optimize("-ffast-math")\n' + _BODY,
    "pragma target": '#pragma GCC target("avx512f")\n' + _BODY,
    "pragma weak": "#pragma weak work = system\n" + _BODY,
    "pragma redefine_extname": "#pragma redefine_extname work system\n" + _BODY,
    "pragma of the standard": "#pragma STDC FENV_ACCESS ON\n" + _BODY,
    "_Pragma": '_Pragma("GCC target(\\"avx512f\\")")\n' + _BODY,
    "_Pragma in a macro": '#define P(x) _Pragma(x)\nP("GCC optimize(3)")\n' + _BODY,
    "__pragma": "__pragma(optimize)\n" + _BODY,
    # Attributes in the compilers' own form.
    **{
        f"attribute {name}": f"__attribute__(({value})) void f() {{}}\n{_BODY}"
        for name, value in {
            "constructor": "constructor",
            "destructor": "destructor",
            "alias": 'alias("work")',
            "ifunc": 'ifunc("r")',
            "naked": "naked",
            "section": 'section(".text\\n.globl x")',
            "target": 'target("avx512f")',
            "optimize": 'optimize("-ffast-math")',
            "no_instrument_function": "no_instrument_function",
            "weak": "weak",
            "visibility": 'visibility("default")',
            "interrupt": "interrupt",
            "cleanup": "cleanup(f)",
            "symver": 'symver("a@B")',
            "used": "used",
            "always_inline": "always_inline",
        }.items()
    },
    "__declspec": "__declspec(thread) int n;\n" + _BODY,
    "code as data": f'__attribute__((section(".text"))) const unsigned char c[] = {{{_CODE}}};\n{_BODY}',
    # Builtins.
    **{
        f"builtin {name}": _function(f"{call};")
        for name, call in {
            "trap": "__builtin_trap()",
            "setcsr": "__builtin_ia32_ldmxcsr(0x9fc0)",
            "alloca": "__builtin_alloca(9)",
            "frame address": "__builtin_frame_address(0)",
            "return address": "__builtin_return_address(0)",
            "longjmp": "__builtin_longjmp(0, 1)",
            "printf": '__builtin_printf("x")',
            "exit": "__builtin_exit(0)",
            "malloc": "__builtin_malloc(1)",
            "clear cache": "__builtin___clear_cache(0, 0)",
            "eh return": "__builtin_eh_return(0, 0)",
            "apply": "__builtin_apply(0, 0, 0)",
            "cpu": '__builtin_cpu_supports("avx")',
            "rdtsc": "__builtin_ia32_rdtsc()",
        }.items()
    },
    "atomics": "float n;\n" + _function("__atomic_store_n(&n, 1, 0);"),
    "a variable of a thread": "thread_local int n;\n" + _BODY,
    "the same of GCC": "static __thread int n;\n" + _BODY,
    "a function of the C library, declared again": 'extern "C" int system(const char*);\n' + _BODY,
    "a function from elsewhere": "extern int f();\n" + _BODY,
    "a file that is no text": "\x00\x01\x02",
    "text without end": "// " + "x" * (2 << 20),
}
"""Refused for their text."""

PREPROCESSED = {
    **{
        f"[[{name}]]": f"[[{name}]] void f() {{}}\n{_BODY}"
        for name in (
            "gnu::constructor", 'gnu::section(".text")', 'gnu::target("avx512f")', 'gnu::optimize("-Ofast")', "gnu::naked",
            'gnu::alias("work")', "using gnu: constructor", "clang::optnone", "gnu::always_inline, gnu::weak",
        )
    },
    "attribute in brackets apart": "[ [gnu::constructor]] void f() {}\n" + _BODY,
    "attribute in brackets on two lines": '[\n[gnu::target("avx512f")]] void f() {}\n' + _BODY,
    "attribute that continues": '[ \\\n[gnu::optimize("-Ofast")]] void f() {}\n' + _BODY,
    "std's function on two lines": "#include <cstdlib>\n" + _function('if (sizeof(long) == 4) std::\nsystem("id");'),
    "a global function on two lines": _function('if (sizeof(long) == 4) ::\nsystem("id");'),
    "attribute by macros": "#define L [\n#define A gnu::constructor\nL L A]] void f() {}\n" + _BODY,
    "the global function": _function('::system("id");'),
    "std's function": "#include <cstdlib>\n" + _function('std::system("id");'),
    "a function in a branch of other machines": "#include <cstdlib>\n"
    + _function('if constexpr (sizeof(long) == 4) std::system("id");'),
    "a function by another name": "#include <cstdlib>\nnamespace s = std;\n" + _function('auto f = &s::system; f("id");'),
    "a function that is imported": "#include <cstdlib>\nusing std::system;\n" + _BODY,
    # By ways of C++ that lead around the names of a scope: also in branches that only another machine compiles.
    **{
        f"{name} elsewhere": "#include <complex>\n#include <cstdlib>\n" + before + _function(f"if (sizeof(long) == 4) {body}")
        for name, before, body in (
            ("a template of std that is none", "", 'std::template system("id");'),
            ("a global function after >", "", "y[1] = x[1] > ::mkdtemp(nullptr)[0];"),
            ("a global function after )", "", "y[1] = (int) ::mkdtemp(nullptr)[0];"),
            ("files of a locale", "", 'std::locale l("/etc");'),
            ("a base of std", "struct L : std::locale { using locale::locale; };\n", 'L l("/etc");'),
            ("an alias of std", "namespace s = std;\n", "s::quick_exit(1);"),
            ("names that a namespace uses", "namespace s { using namespace std; }\n", "s::quick_exit(1);"),
            ("the namespace around", "using namespace std;\n", "authored::quick_exit(1);"),
            ("the namespace around all", "using namespace std;\n", "tfaot_operation_work::authored::quick_exit(1);"),
            ("a namespace of ours", "", "tfaot_native::FloatControl::current();"),
            (
                "a function of its argument's namespace",
                "template <class T> struct Any { operator const char*() const { return nullptr; } };\nvoid system(int) {}\n",
                "system(Any<std::ratio<1>>{});",
            ),
            (
                "a function that a type declares",
                "typedef void F(float);\nF quick_exit;\n",
                "quick_exit(std::true_type{});",
            ),
            ("a function in parentheses", "void (quick_exit)(float) {}\n", "quick_exit(std::true_type{});"),
            ("a function that gives a function", "int (*quick_exit(float))(int);\n", "quick_exit(std::true_type{});"),
            ("a function with an attribute", "void quick_exit [[maybe_unused]] (float) {}\n", "quick_exit(std::true_type{});"),
            ("a function template", "template <class T> void quick_exit(T*) {}\n", "quick_exit(std::true_type{});"),
            (
                "a function of another namespace of its own",
                "namespace s { inline void quick_exit(float) {} }\nusing s::quick_exit;\n",
                "quick_exit(std::true_type{});",
            ),
            ("a type of the C library", "", "auto d = std::div(1, 2);"),
        )
    },
    "the end of its namespace": "} } }\nvoid f() {}\nnamespace { namespace a { namespace b {\n" + _BODY,
    "the end of its namespace by macros": "#define E }\nE E E\nnamespace { namespace a { namespace b {\n" + _BODY,
    "a brace that stays open": _BODY + "namespace a {\n",
}  # fmt: skip
"""Refused after preprocessing."""

COMPILED = {
    "a function that is hidden": "#include <cstdlib>\n" + _function('system("id");'),
    "a hidden function in a branch of other machines": "#include <cstdlib>\n"
    + _function('if (sizeof(long) == 4) system("id");'),
    "a hidden function by using namespace": "#include <cstdlib>\nusing namespace std;\n" + _function("abort();"),
    **{
        f"{name}, in a branch of other machines": "#include <complex>\n#include <cstdlib>\n" + before
        + _function(f"if (sizeof(long) == 4) {body}")
        for name, before, body in (
            ("a folder", "", "mkdtemp(nullptr);"),
            ("another view of the system", "", "unshare(1);"),
            ("a thread", "", "pthread_cancel(0);"),
            ("a link's end", "", "realpath(nullptr, nullptr);"),
            ("files of a locale", "using namespace std;\n", 'locale l("/etc");'),
            ("a function of its argument's namespace", "", "fd_set* s = nullptr; select(1, s, s, s, nullptr);"),
            ("the same by its type's kind", "", "struct timespec t; nanosleep(&t, nullptr);"),
            ("the same of a macro", "", "fclose(stdin);"),
            ("a friend", "struct A { friend int unshare(A); operator int() const { return 1; } };\n", "unshare(A{});"),
        )
    },
    "a special form for other machines": "template <int n> struct P { static float f() { return 1; } };\n"
    "template <> struct P<4> { static float f() { return mkdtemp(nullptr) != nullptr; } };\n"
    + _function("y[1] = P<sizeof(long)>::f();"),
    "a stack of its own size": _function("float a[1 << 20]; for (float& v : a) v = std::sin(x[0] + y[1]); y[1] = a[77];"),
    "an array on the stack of any size": _function("float a[y.size()]; a[0] = 1; y[1] = a[0];"),
    "a constructor": "struct A { A() { volatile float v = 3; n = std::sin(v); } float n; };\nA a;\n" + _function("y[1] = a.n;"),
    "a variable": "int n;\n" + _function("y[1] = ++n;"),
    "memory": _function("float* a = new float[int(x[1])]; for (int i = 0; i < x[1]; ++i) a[i] = x[2] * i; y[1] = a[int(x[3])];"),
    "text that doubles": "".join(f"#define A{n} A{n + 1} A{n + 1}\n" for n in range(40)) + "#define A40 1 +\n"
    + _function("y[1] = A0 1;"),
    "templates that double": "template <int n, int m> struct A { static constexpr int v = A<n - 1, 2 * m>::v "
    "+ A<n - 1, 2 * m + 1>::v; };\ntemplate <int m> struct A<0, m> { static constexpr int v = m; };\n"
    + _function("y[1] = A<30, 0>::v;"),
}  # fmt: skip
"""Refused by the compiler, within its limits, or for what the object holds."""

GOOD = {
    "macros": "#define SLOPE 0.5f  // of the model\n#define SQUARE(v) ((v) * \\\n  (v))\n#undef SLOPE\n#define SLOPE 1\n"
    + _function("y[1] = SLOPE * SQUARE(x[1]) + INFINITY - NAN + FLT_MAX + INT64_C(5);"),
    "names of the C library": "static float same(float signal) { return signal; }\nstruct A { float read, index; "
    "float time() const { return read; } };\nconstexpr float clock = 2, alarm[] = {1};\n"
    "static float sum(Input<float> signal, Output<float> time) { return signal[0] + time[0]; }\n"
    "struct time { static float link(float v) { return v; } };\n"
    + _function("A a{1, 2}; float wait = same(a.read), random = clock * alarm[0]; auto kill = [](float v) { return v; };"
                " y[1] = wait + random + a.index + kill(1) + a.time() + time::link(2) + sum(x, y);"),
    "all of std": "#include <cmath>\n#include <algorithm>\n#include <functional>\n#include <tuple>\nusing namespace std;\n"
    + _function("using namespace std::placeholders; auto f = bind(plus<float>(), _1, 2.0f);"
                " auto [a, b] = make_tuple(x[0], x[1]); y[1] = f(fabs(a)) + max(b, 1.0f) + (x[0] > std::abs(b));"),
    "members after brackets": "template <class T> struct Own { static constexpr T first = 2; static T of(T v) { return v; } };\n"
    + _function("y[1] = Own<float>::first + Own<float>::of(2) + decltype(Own<float>())::of(1)"
                " + std::numeric_limits<float>::epsilon();"),
    "attributes": "[[maybe_unused, gnu::always_inline]] static inline float f(float v) { return v; }\n"
    + _function("switch (int(x[1])) { case 1: y[1] = 2; [[fallthrough]]; default: y[2] = f(1); }"),
    "algorithms": "#include <algorithm>\n#include <array>\n#include <complex>\n#include <limits>\n#include <numeric>\n"
    + _function(
        "std::array<float, 4> a{}; std::copy(x.begin(), x.end(), a.begin()); std::sort(a.begin(), a.end());"
        " std::complex<float> c(a[0], a[1]); c *= c; y[1] = std::abs(c.real()) + std::numeric_limits<float>::max();"
        " y[2] = std::accumulate(a.begin(), a.end(), 0.0f);"
    ),
    "templates": "namespace own { template <typename T> struct Traits { static T two() { return 2; } }; }\n"
    "template <class T>\nstatic T twice(const T* __restrict v) { return own::Traits<T>::two() * *v; }\n"
    + _function("auto f = [&](int i) -> float { return twice(&x[i]); }; y[1] = f(1) + 1'000.5e-1f + 'a' + 0x1p-3f;"),
    "text of all kinds": "/* \u00fc \u2264\n * #if */ // \\u0061\n#pragma once\n#\n"
    + _function('const char* s = "//\\" asm /*"; y[1] = s[0];'),
    "CRLF": _function("y[1] = 2;").replace("; ", ";\r\n"),
}  # fmt: skip


def _compiled(text: str, folder: Path, command: str) -> Path:
    own = own_text("work", (_HEAD + text).encode("utf-8", "surrogatepass"))
    code = OperationCode(
        name="work", source=folder / "work.cpp", wrapper=folder / "operation_work.cc",
        constants=folder / "none.npz", calls=(_CALL,),
    )  # fmt: skip
    code.source.write_text(own.text)
    code.wrapper.write_text(wrapper_text("work", code.calls, own))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CXX", command)
        compiler = find_compiler("x86_64", log=folder / "log", output=lambda _: None)
    return compile_operation(code, TARGETS["x86-64-v3"], compiler, folder / "made")


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_text_that_is_more_than_arithmetic_is_refused_as_it_is_written(name: str) -> None:
    with reported(ModelError):
        own_text("work", (_HEAD + AS_WRITTEN[name]).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", PREPROCESSED)
def test_what_macros_and_names_would_hide_is_refused(name: str, tmp_path: Path) -> None:
    with reported(ModelError):
        _compiled(PREPROCESSED[name], tmp_path, "g++")
    assert not (tmp_path / "made" / "operation_work.unlinked.o").exists()


@pytest.mark.slow
@pytest.mark.sweep("*a function that is hidden*", "*a constructor*", night=["*-g++"])
@pytest.mark.parametrize("command", ["g++", "clang++"])
@pytest.mark.parametrize("name", COMPILED)
def test_what_the_compiler_or_the_object_shows_is_refused(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfaot_pkg.native.operations._SECONDS", 15.0)
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not installed")
    with pytest.raises(ModelError):
        _compiled(COMPILED[name], tmp_path, command)
    assert not (tmp_path / "made" / "operation_work.o").exists() or name in ("a constructor", "a variable", "memory")


@pytest.mark.slow
@pytest.mark.sweep("*algorithms*", "*macros*", night=["*-clang++"])
@pytest.mark.parametrize("command", ["g++", "clang++"])
@pytest.mark.parametrize("name", GOOD)
def test_usual_code_compiles(name: str, command: str, tmp_path: Path) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not installed")
    assert _compiled("#include <cfloat>\n" + GOOD[name], tmp_path, command).stat().st_size


def test_the_callers_arithmetic_stays(tmp_path: Path) -> None:
    """Also after code that no check would let pass: it sets how SSE and x87 round, and flushes subnormal numbers."""
    text = _HEAD + _function(
        '__builtin_ia32_ldmxcsr(0xffc0); short w = 0x0c7f; __asm__ volatile("fldcw %0" : : "m"(w));'
    )
    (tmp_path / "work.cpp").write_text(text.partition("\n")[2].partition("\n")[2])
    (tmp_path / "operation.cc").write_text(
        wrapper_text("work", (_CALL,), OwnText(text=text, headers=("cmath", "tfaot/operation.h"), macros=(), hidden=()))
    )
    (tmp_path / "state.cc").write_text(
        'extern "C" void tfaot_operation_0(const void* const*, void* const*);\n'
        'extern "C" int state(const void* const* x, void* const* y) {\n'
        "  unsigned before = __builtin_ia32_stmxcsr(); unsigned short own = 0, after = 0;\n"
        '  __asm__ volatile("fnstcw %0" : "=m"(own)); tfaot_operation_0(x, y); __asm__ volatile("fnstcw %0" : "=m"(after));\n'
        "  return (before | 63) == (__builtin_ia32_stmxcsr() | 63) && own == after;\n}\n"
    )
    argv = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", f"-I{resources.headers()}"]
    argv += [f"-I{resources.templates() / 'native'}", "operation.cc", "state.cc"]
    subprocess.run([*argv, "-o", "state.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "state.so"))
    values = (ctypes.c_float * 4)(1, 2, 3, 4)
    made = (ctypes.c_float * 4)()
    borders = [(ctypes.c_void_p * 1)(ctypes.addressof(each)) for each in (values, made)]
    assert library.state(*borders) == 1
    assert made[0] == 1
