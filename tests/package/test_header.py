"""model.h and the tfaot/ headers, compiled. What they do is tested in test_interface.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.compilers import EVERY, knows
from tests.package.conftest import HERE, WARNINGS, make_contents, make_spec
from tests.wording import reported
from tfaot_pkg.errors import CompilerError
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.native.common import check_headers
from tfaot_pkg.native.cxx.compiler import Compiler, find_compiler
from tfaot_pkg.package.tree import PackageTree, names_note, render

pytestmark = pytest.mark.slow

COMPILERS = ["g++", "clang++"]


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


ONE = Signature(
    inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 2)),),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2)),),
)
X = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 8), axes=("", "n"))
SIZED = Signature(
    inputs=(X,),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 8), axes=("", "n")),),
    symbols=(Symbol(name="n", minimum=1, maximum=8),),
)
CONSTANT = Signature(inputs=(), outputs=ONE.outputs)
# Calls of generated classes, and whether they compile.
CALLS = {
    "one": (
        ONE,
        ("x, y", "{x}, {y}", "x, {y}", "in, out", "{x}, out", "in, {y}", "{x.data(), 4}, {y.data(), 4}", "{{x}}, {y}"),
        ("{}, {y}", "{x}, {}", "{}, {}", "{x, x}, {y}", "{}, out", "in, {}"),
    ),
    "sized": (
        SIZED,
        ("x, y", "{x}, {y}", "in, out", "{4}, in, out", "{4}, {x}, {y}", "{4}, x, y", "{x}, out"),
        ("{}, {y}", "{4}, {}, {y}", "{4}, {x}, {}", "{4}, in, {}"),
    ),
    "constant": (CONSTANT, ("y", "{y}", "out"), ("{}", "{y, y}")),
}  # fmt: skip
_CALL = """
    #include <tfaot-model-%s/model.h>
    #include <vector>
    void use(tfaot_model::%s& model, const tfaot_model::%s::Inputs& in, const tfaot_model::%s::Outputs& out,
             const std::vector<float>& x, std::vector<float>& y);
    void use(tfaot_model::%s& model, [[maybe_unused]] const tfaot_model::%s::Inputs& in,
             [[maybe_unused]] const tfaot_model::%s::Outputs& out,
             [[maybe_unused]] const std::vector<float>& x, [[maybe_unused]] std::vector<float>& y) {
"""


@pytest.mark.sweep("one-g++", night=["one-g++-11", "sized-clang++-13", "constant-clang++-19"])
@pytest.mark.parametrize("compiler", EVERY)
@pytest.mark.parametrize("name", CALLS)
def test_calls_with_buffers_in_braces_compile_if_none_is_missing(
    name: str, compiler: str, tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    require_program(compiler)
    signature, right, wrong = CALLS[name]
    files, code = render(make_contents(make_spec(name), signature=signature)), _CALL.replace("%s", name)
    calls = [f"model.run(2, {call});" for call in right]
    compile_model(files, tmp_path, "".join([code, *calls, "}"]), compiler=compiler)
    if signature.inputs and knows(compiler, "c++2a"):
        designated = "model.run(2, {.x = x}, {.y = y}); model.run(2, {.x = x}, out); model.run(2, in, {.y = y});"
        compile_model(files, tmp_path, f"{code}{designated}}}", "-std=c++2a", compiler=compiler)
    for call in wrong:
        with pytest.raises(CommandFailed) as failed:
            compile_model(files, tmp_path, f"{code}model.run(2, {call});}}", compiler=compiler)
        first = next(line for line in failed.value.output.splitlines() if "error:" in line)
        assert "tfaot: give as many buffers" in first, call


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
    files[version] = files[version].replace(b"VERSION 10700", b"VERSION 10699")
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


def test_headers_of_one_model_on_several_toolchains_are_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They differ in comments and in the version. A header that no compiler takes is found each time."""
    compiled: list[Path] = []
    real = Compiler.check

    def noted(self: Compiler, source: Path, **options: Any) -> None:
        compiled.append(source)
        real(self, source, **options)

    monkeypatch.setattr(Compiler, "check", noted)
    compiler = find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None)
    cache, first = BuildCache(root=tmp_path / "builds"), make_contents()

    def check(name: str, *, version: str = "1.2.0", toolchain: str = "tensorflow 2.17.1", more: str = "") -> int:
        contents = replace(first, spec=make_spec(version=version), toolchain=toolchain)
        for path, data in render(contents).items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(data)
        with (tmp_path / name / "include" / contents.package_name / "model.h").open("a") as header:
            header.write(more)
        check_headers(contents.spec, compiler, cache, toolchain, tmp_path / name)
        return len(compiled)

    assert check("first") == 1
    assert check("second", version="1.2.0+tf2.21.0.b1", toolchain="tensorflow 2.21.0") == 1
    assert check("third", more="extern int more;\n") == 2
    for name in ("fourth", "fifth"):
        with pytest.raises(CompilerError, match="on generated code"):
            check(name, more="not C++;\n")
    assert len(compiled) == 4
