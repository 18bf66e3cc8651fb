"""model.h and the tfaot/ headers, compiled. What they do is tested in test_interface.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import HERE, WARNINGS, make_contents, make_spec
from tests.wording import reported
from tfaot_pkg import resources
from tfaot_pkg.package.tree import PackageTree, render
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.signature import DType, Signature, Tensor

pytestmark = pytest.mark.slow

COMPILERS = ["g++", "clang++"]
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


def compile_model(files: dict[str, bytes], folder: Path, code: str, *flags: str) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    source = folder / "use.cpp"
    source.write_text(code)
    run(["g++", "-std=c++17", *WARNINGS, *flags, f"-I{folder}/include", "-fsyntax-only", source])


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
    files[version] = files[version].replace(b"VERSION 10500", b"VERSION 10499")
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
