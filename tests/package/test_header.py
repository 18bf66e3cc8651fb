"""model.h and the tfaot/ headers, compiled. What they do is tested in test_interface.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import HERE, WARNINGS, make_contents, make_spec
from tests.spec.macros import HEADERS_OF_C
from tests.wording import reported
from tfaot_pkg import resources
from tfaot_pkg.package.tree import PackageTree, names_note, render
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.signature import DType, Signature, Tensor

pytestmark = pytest.mark.slow

COMPILERS = ["g++", "clang++"]
OF_CPP = """
    algorithm array atomic chrono complex condition_variable cstdio cstdlib cstring exception functional initializer_list
    limits memory mutex new numeric optional stdexcept string string_view thread tuple type_traits utility vector
""".split()
CMSSW = resources.headers() / "tfaot" / "cmssw"
HEADERS = [
    *sorted(f"tfaot/{path.name}" for path in (resources.headers() / "tfaot").glob("*.h")),
    *sorted(path.relative_to(CMSSW).as_posix() for path in CMSSW.rglob("*.h")),
]


@pytest.mark.nightly
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_header_compiles_alone(compiler: str, tmp_path: Path, require_program: Callable[[str], str]) -> None:
    require_program(compiler)
    sources = []
    for name in HEADERS:
        source = tmp_path / f"{name.replace('/', '-')}.cpp"
        source.write_text(f"#include <{name}>\n#include <{name}>\n")
        sources.append(source)
    run([compiler, "-std=c++17", *WARNINGS, f"-I{resources.headers()}", f"-I{CMSSW}", "-fsyntax-only", *sources])


PRELUDE = "\n".join(
    [
        "#include <cstddef>",  # before the macros: the C++ library itself has template parameters of one letter
        *(f"#include <{name}>" for name in OF_CPP),
        *(f"#if __has_include(<{name}.h>)\n#include <{name}.h>\n#endif" for name in HEADERS_OF_C),
        "#undef I",
        *(f"#define {letter} 1 +;" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        "#define min(a, b) ((a) < (b) ? (a) : (b))",
        "#define max(a, b) ((a) < (b) ? (b) : (a))",
        "",
    ]
)
"""What a program may include and define before our headers: C's, POSIX' and X11's, and macros as Windows has them."""


@pytest.mark.sweep("c++17-g++", "c++20-clang++")
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("standard", ["c++17", "c++20", "c++2b"])
def test_every_header_compiles_after_macros_of_one_letter_and_all_headers_of_c(
    standard: str, compiler: str, tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    require_program(compiler)
    source = tmp_path / "use.cpp"
    source.write_text(PRELUDE + "".join(f"#include <{name}>\n" for name in HEADERS))
    for mode in ((), ("-fno-exceptions",)):
        # -w: X11's headers are not free of warnings.
        flags = [f"-std={standard}", "-w", *mode, f"-I{resources.headers()}", f"-I{CMSSW}"]
        run([compiler, *flags, "-fsyntax-only", source])


@pytest.mark.parametrize("mode", ["-std=gnu++17", "-std=gnu++17 -fno-exceptions"])
def test_a_models_header_compiles_after_all_headers_of_c_whatever_its_tensors_are_called(
    mode: str, tmp_path: Path
) -> None:
    names = ["I", "B0", "M_PI", "min", "max", "Bool", "Index", "Index_", "N", "None", "T", "complex", "unix", "stdin"]
    tensors = tuple(Tensor(name=name, dtype=DType.FLOAT32, shape=(None, 2)) for name in names)
    signature = Signature(inputs=tensors, outputs=tensors)
    spec = make_spec("std", namespace="my::models")
    heads = "".join(f"#if __has_include(<{name}.h>)\n#include <{name}.h>\n#endif\n" for name in HEADERS_OF_C)
    uses = "#include <tfaot-model-std/model.h>\n#include <tfaot/shared.h>\ntemplate class tfaot::Shared<my::models::std>;\n"
    compile_model(render(make_contents(spec, signature=signature)), tmp_path, uses)
    run(
        ["g++", *mode.split(), f"-I{tmp_path}/include", "-fsyntax-only", "-x", "c++", "-"],
        stdin=(heads + uses).encode(),
    )


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("standard", ["c++98", "c++14"])
def test_an_older_standard_is_one_error_that_says_what_is_needed(
    standard: str, compiler: str, tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    require_program(compiler)
    code = "#include <tfaot-model-affine/model.h>\nint main() { tfaot_model::affine model; }\n"
    with pytest.raises(CommandFailed) as failed:
        compile_model(render(make_contents()), tmp_path, code, f"-std={standard}", compiler=compiler)
    errors = [line for line in failed.value.output.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert "tfaot needs C++17 or newer" in errors[0]


def test_a_package_with_link_time_optimization_gives_no_warning(
    make_tree: Callable[..., PackageTree], tmp_path: Path
) -> None:
    tree, sources = make_tree(tmp_path / "prefix"), [tmp_path / "one.cpp", tmp_path / "other.cpp"]
    use = "#include <tfaot-model-affine/model.h>\n#include <tfaot/tfaot.h>\n"
    sources[0].write_text(f"{use}int other(); int main() {{ tfaot::Shared<tfaot_model::affine> m; return other(); }}\n")
    sources[1].write_text(f"{use}int other(); int other() {{ tfaot::Model<tfaot_model::affine> m; return 0; }}\n")
    flags = ["-std=c++17", "-O2", "-flto=auto", *WARNINGS, f"-I{tree.root}/include", "-pthread"]
    run(["g++", *flags, *sources, tree.static_library, "-o", tmp_path / "program"])
    run([tmp_path / "program"])


_WITHOUT_EXCEPTIONS = r"""
    #include <cstdio>
    #include <cstring>
    #include <tfaot-model-affine/model.h>
    #include <tfaot/shared.h>
    int main(int count, char**) {
      using Affine = tfaot::Shared<tfaot_model::affine>;
      std::printf("%s\n", Affine::try_target("m68k").message());
      const Affine model;
      const float bias[3] = {}, x[] = {1, 1, 1};
      float y[3];
      std::int64_t label[1];
      const tfaot::Outcome good = model.try_run(1, {bias, x}, {label, y});
      std::printf("%d %g\n", good.ok(), double(y[0]));
      const tfaot::Outcome bad = model.try_run(2, {bias, x}, {label, y});
      std::printf("%d %s\n", bad.ok(), bad.message());
      if (count > 1) model.run(2, {bias, x}, {label, y});
    }
"""


def test_programs_without_exceptions_get_errors_as_an_outcome(
    make_tree: Callable[..., PackageTree], tmp_path: Path
) -> None:
    tree, source, program = make_tree(tmp_path / "prefix"), tmp_path / "use.cpp", tmp_path / "program"
    source.write_text(_WITHOUT_EXCEPTIONS)
    flags = ["-std=c++17", "-fno-exceptions", *WARNINGS, f"-I{tree.root}/include"]
    run(["g++", *flags, source, tree.static_library, "-o", program])
    no_target, good, bad = run([program]).stdout.splitlines()
    assert no_target.startswith("affine: ")
    assert good == "1 2"
    assert bad == '0 affine: input "x": expected 6 elements (2 rows of 3), got 3'
    # What throws elsewhere ends the program with the same words.
    with pytest.raises(CommandFailed, match='input "x": expected 6 elements'):
        run([program, "throw"])


def test_objects_with_and_without_exceptions_share_no_functions(
    make_tree: Callable[..., PackageTree], tmp_path: Path
) -> None:
    tree = make_tree(tmp_path / "prefix")
    use = "#include <tfaot-model-affine/model.h>\n#include <tfaot/shared.h>\n"
    body = "const float v[3] = {}; float y[3]; std::int64_t label[1]; tfaot::Shared<tfaot_model::affine> m;"
    one, other, program = tmp_path / "one.cpp", tmp_path / "other.cpp", tmp_path / "program"
    one.write_text(f"{use}void plain(); void plain() {{ {body} m.run(1, {{v, v}}, {{label, y}}); }}\n")
    other.write_text(
        f"{use}void plain(); int main() {{ plain(); {body} try {{ m.run(2, {{v, v}}, {{label, y}}); }}"
        " catch (const tfaot::Error&) { return 0; } return 1; }\n"
    )
    flags = ["-std=c++17", "-O0", f"-I{tree.root}/include"]
    # First the one without: a linker keeps the first of several inline functions.
    run(["g++", *flags, "-fno-exceptions", "-c", one, "-o", tmp_path / "one.o"])
    run(["g++", *flags, tmp_path / "one.o", other, tree.static_library, "-o", program])
    run([program])


def test_names_that_change_are_reported() -> None:
    names = ("größe", "I", "x:0", "plain")
    tensors = tuple(Tensor(name=name, dtype=DType.FLOAT32, shape=(None,)) for name in names)
    assert names_note(Signature(inputs=tensors, outputs=())) == "names in C++: 'größe' is gr_e, 'I' is I_"
    assert names_note(Signature(inputs=tensors[2:], outputs=())) == ""


def compile_model(files: dict[str, bytes], folder: Path, code: str, *flags: str, compiler: str = "g++") -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    source = folder / "use.cpp"
    source.write_text(code)
    run([compiler, "-std=c++17", *WARNINGS, *flags, f"-I{folder}/include", "-fsyntax-only", source])


STRANGE = Signature(
    inputs=tuple(
        Tensor(name=name, dtype=dtype, shape=(None, 2))
        for name, dtype in zip(
            ["Inputs", "a/b", "a_b", "batch_size", "class", "in", "input", 'quote"', "run", "x\\"],
            list(DType),
            strict=False,
        )
    ),
    outputs=tuple(
        Tensor(name=name, dtype=DType.BOOL, shape=()) for name in ("OutputInfo", "a/b", "out", "outputs", "table")
    ),
)


def test_any_names_of_tensors_make_a_class_that_compiles(tmp_path: Path) -> None:
    spec = make_spec(
        "std", description='*/ /* "??/\n#error\\', homepage="https://x/'\"", namespace="my::models", batch_sizes=(1,)
    )
    compile_model(
        render(make_contents(spec, signature=STRANGE)),
        tmp_path,
        "#include <tfaot-model-std/model.h>\n"
        "void use(my::models::std& model, const my::models::std::Inputs& in, const my::models::std::Outputs& out);\n"
        "void use(my::models::std& model, const my::models::std::Inputs& in, const my::models::std::Outputs& out)\n"
        "{ model.run(3, in, out); }\n",
    )


def test_a_model_without_inputs_makes_a_class_that_compiles(tmp_path: Path) -> None:
    signature = Signature(inputs=(), outputs=(Tensor(name="y", dtype=DType.FLOAT64, shape=(2, 2)),))
    compile_model(
        render(make_contents(signature=signature)),
        tmp_path,
        "#include <tfaot-model-affine/model.h>\n"
        "void use(tfaot_model::affine& model, const tfaot_model::affine::Outputs& out);\n"
        "void use(tfaot_model::affine& model, const tfaot_model::affine::Outputs& out) { model.run(2, out); }\n",
    )


def test_two_versions_of_a_model_work_in_one_program(make_tree: Callable[..., PackageTree], tmp_path: Path) -> None:
    """Each translation unit sees one version: without a namespace per version they would share inline functions."""
    objects = []
    for version, slope in (("1.2.0", 2), ("2.0.0", 5)):
        tree = make_tree(tmp_path / version, slope=slope, version=version)
        source, result = tmp_path / f"use-{version}.cpp", tmp_path / f"{version}.o"
        source.write_text(
            f"#include <tfaot-model-affine/model.h>\nfloat slope_{slope}();\nfloat slope_{slope}() {{\n"
            "  const float bias[3] = {}, x[] = {1, 1, 1};\n  float y[3];\n  std::int64_t label[1];\n"
            "  tfaot_model::affine model;\n  model.run(1, bias, x, label, y);\n  return y[0];\n}\n"
        )
        run(["g++", "-std=c++17", *WARNINGS, f"-I{tree.root}/include", "-c", source, "-o", result])
        objects += [result, tree.static_library]
    main = tmp_path / "main.cpp"
    main.write_text(
        "#include <cstdio>\nfloat slope_2();\nfloat slope_5();\n"
        'int main() { std::printf("%g %g\\n", double(slope_2()), double(slope_5())); }\n'
    )
    run(["g++", main, *objects, "-o", tmp_path / "program"])
    assert run([tmp_path / "program"]).stdout == "2 5\n"


def test_the_example_compiles_against_the_class_of_the_sample_model(tmp_path: Path) -> None:
    signature = Signature(
        inputs=(Tensor(name="image", dtype=DType.FLOAT32, shape=(None, 64)),),
        outputs=(
            Tensor(name="digit", dtype=DType.INT64, shape=(None,)),
            Tensor(name="probability", dtype=DType.FLOAT32, shape=(None, 10)),
        ),
    )
    example = HERE.parent.parent / "examples" / "cmake-consumer" / "main.cpp"
    compile_model(render(make_contents(make_spec("digits"), signature=signature)), tmp_path, example.read_text())


def test_headers_that_are_too_old_are_refused(tmp_path: Path) -> None:
    files = render(make_contents())
    version = "include/tfaot/version.h"
    files[version] = files[version].replace(b"VERSION 10600", b"VERSION 10599")
    with reported(CommandFailed):
        compile_model(files, tmp_path, "#include <tfaot-model-affine/model.h>\n")


def test_the_headers_draw_in_no_stream_and_no_tensorflow(prefix: Path, tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text("#include <tfaot-model-affine/model.h>\n")
    included = run(["g++", "-std=c++17", "-M", f"-I{prefix}/include", source]).stdout.split()
    names = {Path(name).name for name in included}
    assert not names & {"iostream", "ostream", "sstream", "locale", "map", "functional", "memory", "regex"}
    assert not [name for name in included if "tensorflow" in name or "absl" in name or "Eigen" in name]


def test_short_floats_and_complex_numbers_are_spans_of_their_types(tmp_path: Path) -> None:
    types = (DType.FLOAT16, DType.BFLOAT16, DType.COMPLEX64, DType.COMPLEX128)
    signature = Signature(
        inputs=tuple(Tensor(name=dtype.value, dtype=dtype, shape=(None, 2)) for dtype in types),
        outputs=(Tensor(name="y", dtype=DType.COMPLEX64, shape=(None,)),),
    )
    code = """
        #include <tfaot-model-affine/model.h>
        #include <tfaot/tfaot.h>
        void use(tfaot_model::affine& model) {
          std::vector<tfaot::float16> half(2, tfaot::float16(1.5f));
          std::vector<tfaot::bfloat16> brain(2);
          std::vector<std::complex<float>> wave{{1, 2}, {3, 4}}, y(1);
          std::vector<std::complex<double>> wide(2);
          model.run(1, {half, brain, wave, wide}, {y});
          static_assert(tfaot::dtype_of<std::complex<double>> == tfaot::DType::complex128);
          tfaot::Model<tfaot_model::affine> any;
          any.run<tfaot::ComplexArrays>(1, tfaot::Float16Arrays{half}, tfaot::BFloat16Arrays{brain},
                                        tfaot::ComplexArrays{wave}, tfaot::DoubleComplexArrays{wide});
        }
        """
    files = render(make_contents(make_spec("affine"), signature=signature))
    compile_model(files, tmp_path, code)
