"""What is read from tfcompile's headers, and how weights lie in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frontends.toolchain.definition import toolchain
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.native.compiled.header import correct, number_of_buffers, require_object, require_plain, require_shapes
from tfaot_pkg.native.compiled.model import weight_offsets
from tfaot_pkg.worker_program.messages.graph import Weight

# As tfcompile of TensorFlow 2.17 and 2.21 writes them, shortened; the first size is 4 * 12 bytes.
CLASSIC = """
  static constexpr size_t kNumBuffers = 3;
::xla::cpu_function_runtime::BufferInfo(::xla::cpu_function_runtime::EncodedBufferInfo{{{size}ULL, ~0U, 0U}}),
::xla::cpu_function_runtime::BufferInfo(::xla::cpu_function_runtime::EncodedBufferInfo{{17ULL, ~0U, 1U}}),
::xla::cpu_function_runtime::BufferInfo(::xla::cpu_function_runtime::EncodedBufferInfo{{434ULL, 0U, ~0U}})
    static constexpr ::tensorflow::int32 kResultIndexToBufferIndex[kNumResults] = {{
0, 1
    }};
  static constexpr int32_t kResult0Shapes[] = {{
{shape}
  }};
  static constexpr int32_t kResult1Shapes[] = {{
-1
  }};
"""
SIGNATURE = Signature(
    inputs=(),
    outputs=(
        Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 4)),
        Tensor(name="total", dtype=DType.FLOAT32, shape=()),
    ),
)


def _header(folder: Path, *, shape: str = "3, 4", size: int = 48 << 2 | 1) -> Path:
    path = folder / "unit.h"
    path.write_text(CLASSIC.format(shape=shape, size=size))
    return path


def test_shapes_as_promised_pass_those_of_scalars_too(tmp_path: Path) -> None:
    require_shapes(_header(tmp_path), SIGNATURE, 3)


def test_another_shape_than_promised_is_the_models_fault(tmp_path: Path) -> None:
    with reported(ModelError):
        require_shapes(_header(tmp_path), SIGNATURE, 2)
    with reported(ModelError):
        require_shapes(_header(tmp_path, shape="12"), SIGNATURE, 3)


def test_a_result_with_its_size_behind_it_is_refused(tmp_path: Path) -> None:
    with reported(ModelError):
        require_shapes(_header(tmp_path, size=(48 + 8) << 2 | 1), SIGNATURE, 3)


def test_a_header_of_an_unknown_form_is_the_toolchains_fault(tmp_path: Path) -> None:
    path = tmp_path / "unit.h"
    path.write_text("class Unit {};")
    with reported(ToolchainError):
        number_of_buffers(path)
    with reported(ToolchainError):
        require_shapes(path, SIGNATURE, 3)


def test_the_number_of_buffers_is_read(tmp_path: Path) -> None:
    assert number_of_buffers(_header(tmp_path)) == 3


def test_products_of_complex_matrices_get_their_missing_bracket(tmp_path: Path) -> None:
    path = tmp_path / "unit.h"
    wrong = "::xla::cpu::internal::TypedMatMul<std::complex<float>, std::complex<float>, std::complex<float>(\n"
    other = "::xla::cpu::internal::TypedMatMul<float, float, float>(\n"
    path.write_text(wrong + other)
    for _ in range(2):
        correct(path, toolchain("2.21.0"))
        assert path.read_text() == wrong.replace(">(", ">>(") + other


def test_weights_are_aligned_and_do_not_overlap() -> None:
    weights = [
        Weight(node="a", dtype="float32", shape=(300,), offset=0),
        Weight(node="b", dtype="int8", shape=(1025,), offset=0),
        Weight(node="c", dtype="bool", shape=(3,), offset=0),
    ]
    assert weight_offsets(weights) == [0, 1216, 1216 + 1088]
    assert weight_offsets([]) == []


@pytest.mark.parametrize(
    "line",
    [
        '#include "/home/someone/.netrc"',
        '#include "xla/../../../home/someone/.netrc"',
        "  #include </etc/shadow>",
        '#inc\\\nlude "/etc/passwd"',
        '/**/ #include "/etc/passwd"',
        '%:include "/etc/passwd"',
        '??=include "/etc/passwd"',
        '#embed "/etc/passwd"',
        'asm(".incbin \\"/home/someone/.netrc\\"");',
        '__asm__ (".incbin \\"/home/someone/.netrc\\"");',
        '_Pragma("GCC dependency")',
    ],
)
def test_a_header_that_makes_the_compiler_read_other_files_is_refused(tmp_path: Path, line: str) -> None:
    header = tmp_path / "unit.h"
    good = (
        "#ifndef TFCOMPILE_GENERATED_tfaot_b1_run_H_  // NOLINT(build/header_guard)\n"
        '#include "tensorflow/core/platform/types.h"\n'
        'extern "C" char __tfcompile_x[] asm("__tfcompile_x");\nint plasma = 1;\n'
        "#endif  // TFCOMPILE_GENERATED_tfaot_b1_run_H_\n"
    )
    header.write_text(good)
    require_plain(header)
    header.write_text(good + line + "\n")
    with reported(ToolchainError):
        require_plain(header)


def test_a_linker_script_is_no_object_file(tmp_path: Path) -> None:
    code = tmp_path / "unit.o"
    code.write_text("TARGET(binary) INPUT(/home/someone/.netrc)")
    with reported(ToolchainError):
        require_object(code)
