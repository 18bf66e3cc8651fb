"""The C++ interface, tfaot/*.h, over fake models: what it computes and refuses, errors of the compiler, allocations."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.package.conftest import HERE, WARNINGS, make_contents, make_spec
from tests.sanitizers import CATCH_ERRORS, CATCH_RACES, run_sanitized
from tfaot_pkg.analysis.rows import INDEPENDENT, Meeting, Rows
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.package.tree import render
from tfaot_pkg.spec.rules import package_name

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RequireProgram = Callable[[str], str]

NAMES = {
    "b": DType.BOOL,
    "d": DType.FLOAT64,
    "f": DType.FLOAT32,
    "i16": DType.INT16,
    "i32": DType.INT32,
    "i64": DType.INT64,
    "i8": DType.INT8,
    "u16": DType.UINT16,
    "u32": DType.UINT32,
    "u64": DType.UINT64,
    "u8": DType.UINT8,
}
PAIRS = [Tensor(name=name, dtype=dtype, shape=(None, 2)) for name, dtype in NAMES.items()]
SHIFT = Tensor(name="shift", dtype=DType.INT32, shape=())

DEPENDENT = Rows(meetings=(Meeting(output="y", node="mean", operation="reduce", reason="rows interact"),))

# The models of fake_others.cpp.
OTHERS = {
    "types": ((1, 3), Signature(inputs=(*PAIRS[:7], SHIFT, *PAIRS[7:]), outputs=tuple(PAIRS))),
    "total": (
        (1, 2),
        Signature(
            inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 2)),),
            outputs=(
                Tensor(name="total", dtype=DType.FLOAT64, shape=()),
                Tensor(name="y", dtype=DType.FLOAT32, shape=(None,)),
            ),
        ),
    ),
    "centred": (
        (1, 4),
        Signature(
            inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None,)),),
            outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None,)),),
        ),
    ),
    "any": (
        (1, 4),
        Signature(
            inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None,)),),
            outputs=(Tensor(name="size", dtype=DType.INT64, shape=(None,)),),
        ),
    ),
    "fixed": (
        (1, 4),
        Signature(
            inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None,)),),
            outputs=(
                Tensor(name="size", dtype=DType.INT64, shape=(None,)),
                Tensor(name="whole", dtype=DType.FLOAT64, shape=()),
            ),
        ),
    ),
    "source": ((1,), Signature(inputs=(), outputs=(Tensor(name="y", dtype=DType.FLOAT64, shape=(2,)),))),
}


@pytest.fixture(scope="module")
def fakes(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with `affine` and `steep` as libraries, and with the headers of fake_others.cpp."""
    folder = tmp_path_factory.mktemp("fakes") / "prefix"
    shutil.copytree(prefix, folder)
    for name, (batch_sizes, signature) in OTHERS.items():
        spec = make_spec(name, batch_sizes=batch_sizes)
        header = f"include/{package_name(name)}/model.h"
        path = folder / header
        path.parent.mkdir()
        rows = DEPENDENT if name == "centred" else INDEPENDENT
        contents = make_contents(spec, signature=signature, rows=rows, any_batch_size=name in ("any", "fixed"))
        path.write_bytes(render(contents)[header])
    return folder


@dataclass(frozen=True)
class Configuration:
    """How the tests of the headers are compiled: every compiler, standard and sanitizer once."""

    compiler: str
    standard: str
    flags: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.compiler, self.standard, *self.flags))


CONFIGURATIONS = [
    Configuration("g++", "c++17", ("-O1", *CATCH_RACES)),  # GCC warns of more where it optimizes
    Configuration("clang++", "c++20", ("-O0", *CATCH_ERRORS)),
]


@pytest.mark.sweep("clang++ c++20 -O0 -fsanitize=address*")
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_the_headers_do_what_their_comments_say(
    configuration: Configuration, fakes: Path, tmp_path: Path, require_sanitizers: Callable[[str], Path]
) -> None:
    require_sanitizers(configuration.compiler)
    sources = [path for path in sorted((HERE / "cpp").glob("*.cpp")) if path.name != "allocations.cpp"]
    program = tmp_path / "program"
    run([configuration.compiler, f"-std={configuration.standard}", "-g1", *configuration.flags,
         *WARNINGS, f"-I{fakes}/include", f"-I{fakes}/include/tfaot/cmssw", *sources, HERE / "fake_others.cpp", fakes / "lib/libtfaot-model-affine.a",
         "-pthread", "-o", program])  # fmt: skip
    finished = run_sanitized([program])
    assert (finished.stdout, finished.stderr) == ("", "")


def test_nothing_is_allocated_after_the_first_calls(fakes: Path, tmp_path: Path) -> None:
    program = tmp_path / "allocations"
    run(["g++", "-std=c++17", "-O1", *WARNINGS, f"-I{fakes}/include", HERE / "cpp" / "allocations.cpp",
         fakes / "lib/libtfaot-model-affine.a", "-pthread", "-o", program])  # fmt: skip
    assert run([program]).stdout == ""


# Calls that must not compile, and what the first error has to say.
MISTAKES = {
    "model.run<FloatArrays>(2, x, x)": "tfaot: this is not the number of the model's outputs",
    "model.run<Int64Arrays, FloatArrays>(2, x)": "tfaot: this is not the number of the model's inputs",
    "model.run<Int64Arrays, FloatArrays>(2, x, x, x)": "tfaot: this is not the number of the model's inputs",
    "model.run<Int64Arrays, DoubleArrays>(2, x, x)": "tfaot: an output has another element type than the model's output",
    "model.run<Int32Arrays, FloatArrays>(2, x, x)": "tfaot: an output has another element type than the model's output",
    "model.run<std::vector<float>, FloatArrays>(2, x, x)": "tfaot: an output is not tfaot::Arrays",
    "model.run<Int64Arrays, FloatArrays>(2, x, d)": "tfaot: an input has another element type than the model's input",
    "model.run<Int64Arrays, FloatArrays>(2, x, x[0])": "tfaot: an input is not nested vectors",
    "model.run(2, x)": "tfaot: give as many buffers",
    "in.x = d[0]": "tfaot: a buffer has another element type than the tensor",
    "in.x = truths": "tfaot: a buffer has another element type than the tensor",
    "out.y = x[0]": "tfaot: a buffer has another element type than the tensor, or is an output that cannot be written",
    "out.y = std::vector<float>(6)": "or is an output that cannot be written",
    "compiled.run(2, x[0], d[0], l, f)": "tfaot: a buffer has another element type than the tensor",
    "model.run(2, {x[0], d[0]})": "tfaot: a buffer has another element type than the tensor",
    "model.run(2, {x[0], x[0], x[0]})": "tfaot: give as many buffers",
    "model.run(2, {x[0]})": "tfaot: give as many buffers",
    "model.run(2, {})": "tfaot: give as many buffers",
    "model.run(2, {x[0], x[0]}, {l})": "tfaot: give as many buffers",
    "shared.run(2, {})": "tfaot: give as many buffers",
    "shared.run(2, {x[0]})": "tfaot: give as many buffers",
    "shared.run(2, {x[0], x[0], x[0]}, {l, f})": "tfaot: give as many buffers",
    "static_cast<void>(shared.try_run(2, {x[0], x[0]}, {l}))": "tfaot: give as many buffers",
    "static_cast<void>(shared.try_run(2, {x[0]}, out))": "tfaot: give as many buffers",
    "shared.run(2, in, {l})": "tfaot: give as many buffers",
    "model.run(2, {x[0]}, out)": "tfaot: give as many buffers",
    "compiled.run(2, {x[0]}, {l, f})": "tfaot: give as many buffers",
    "compiled.run(2, {x[0], x[0], x[0]}, {l, f})": "tfaot: give as many buffers",
    "compiled.run(2, {x[0], x[0]}, {})": "tfaot: give as many buffers",
    "compiled.run(2, {x[0]}, out)": "tfaot: give as many buffers",
    "compiled.run(2, in, {l})": "tfaot: give as many buffers",
    "compiled.run(2, {x[0], d[0]}, {l, f})": "tfaot: a buffer has another element type than the tensor",
    "model.run(2, {x[0], x[0]}, {f, f})": "tfaot: a buffer has another element type than the tensor",
    "model.run(2, {x[0], x[0]}, {l, x[0]})": "or is an output that cannot be written",
    "in.get<2>()": "",
    "tfaot::NamedInput(name, names)": "tfaot: this type is no element type of a tensor",
    "static_cast<void>(tfaot::team_of(batch))": "tfaot: no executor that says how many threads it has: add their number",
    "static_cast<void>(tfaot::team_of(f, 2))": "tfaot: an executor is called with a number and a function of numbers",
    "batch.set_thread_pool(&f)": "tfaot: an executor is called with a number and a function of numbers",
}
# What the lines behind it have to say.
DETAILS = {
    "in.x = d[0]": "const float",
    "out.y = x[0]": "const std::vector<float",
    "model.run<FloatArrays>(2, x, x)": "NumberOfOutputs<1, 2>",
    "model.run<Int64Arrays, FloatArrays>(2, x)": "NumberOfInputs<1, 2>",
    "model.run<Int64Arrays, DoubleArrays>(2, x, x)": "Output<1, double, float>",
    "model.run<Int64Arrays, FloatArrays>(2, x, d)": "Input<1, double, float>",
    "compiled.run(2, x[0], d[0], l, f)": "std::vector<double",
    "model.run(2, {x[0], d[0]})": "std::vector<double",
    "model.run(2, {x[0], x[0]}, {f, f})": "std::vector<float",
}
PRECOMPILED = {"g++": "gch", "clang++": "pch"}
HEADERS = "#include <tfaot-model-affine/model.h>\n#include <tfaot/compiled_function.h>\n#include <tfaot/tfaot.h>\n"
MISTAKE = """\
using namespace tfaot;
void use(Model<tfaot_model::affine>& model, tfaot_model::affine& compiled, tfaot_model::affine::Inputs& in,
         tfaot_model::affine::Outputs& out, const FloatArrays& x, const DoubleArrays& d, std::vector<float>& f,
         std::vector<std::int64_t>& l, const std::string& name, const std::vector<std::string>& names,
         const std::vector<bool>& truths, const Shared<tfaot_model::affine>& shared,
         tfaot_cmssw::CompiledFunction& batch) {
  %s;
}
"""


@pytest.mark.sweep(night=["clang++"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_mistakes_are_errors_of_the_compiler_that_say_which(
    compiler: str, fakes: Path, tmp_path: Path, require_program: RequireProgram
) -> None:
    flags = ["-std=c++17", "-fsyntax-only"]
    check = [require_program(compiler), *flags, f"-I{fakes}/include"]
    headers = tmp_path / "headers.h"  # compiled once, as they are the same for all mistakes
    headers.write_text(HEADERS)
    run([*check[:2], *check[3:], "-x", "c++-header", headers, "-o", f"{headers}.{PRECOMPILED[compiler]}"])
    check += ["-include", str(headers)]
    for number, (call, message) in enumerate({"model.run(2, in)": "", **MISTAKES}.items()):
        source = tmp_path / f"mistake{number}.cpp"
        source.write_text(MISTAKE % call)
        if number == 0:  # this one is none
            run([*check, source])
            continue
        with pytest.raises(CommandFailed) as caught:
            run([*check, source])
        lines = caught.value.output.splitlines()
        first = next(i for i, line in enumerate(lines) if "error:" in line)
        assert message in lines[first], call
        assert first <= 8, call
        assert DETAILS.get(call, "") in "\n".join(lines[: first + 12]), call
