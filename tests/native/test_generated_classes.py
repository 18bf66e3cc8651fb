"""Classes as tfcompile generates them, over our stand-in of their base class: their tables arrive in a unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

# One argument, two results and a tuple of them: buffers 0 to 3.
_CLASS = """
#include "adapter.h"
using Base = tensorflow::XlaCompiledCpuFunction;

void* Base::StaticData::operator new(std::size_t) {{
  alignas(Base::StaticData) static unsigned char memory[sizeof(Base::StaticData)];
  return memory;
}}

void compute(void* result, const xla::ExecutableRunOptions*, const void**, void** table, XlaCustomCallStatus* status,
             std::int64_t*) {{
  status->failed = result != table[{result}];
}}

struct Unit final : Base {{
  static const Base::StaticData& StaticData() {{
    using Info = xla::cpu_function_runtime::BufferInfo;
    static const Info infos[] = {{Info({{8 << 2 | 2, 0, ~0u}}), Info({{4 << 2, ~0u, 0}}), Info({{4 << 2, ~0u, 1}}), Info({{16 << 2, ~0u, ~0u}})}};
    static const std::int32_t results[] = {{2, 1}}, arguments[] = {{0}};
    static auto* data = new Base::StaticData;
    set_static_data_raw_function(data, compute);
    set_static_data_buffer_infos(data, infos);
    set_static_data_num_buffers(data, 4);
    set_static_data_result_index_table(data, results);
    set_static_data_num_results(data, 2);
    set_static_data_arg_index_table(data, arguments);
    set_static_data_num_args(data, 1);
    {further}
    return *data;
  }}
  {members}
}};

int main() {{
  tfaot_native::Buffer buffers[4];
  tfaot_native::describe<Unit>(buffers);
  char memory[4];
  void* table[] = {{memory, memory + 1, memory + 2, memory + 3}};
  const bool described = buffers[0].kind == tfaot_native::BufferKind::kArgument && buffers[3].size == 16;
  return described && tfaot_native::run<Unit>(table) ? 0 : 1;
}}
"""

_RELEASES = {
    "2.17": {"result": 3, "further": "set_static_data_result_index(data, 3);", "members": ""},
    "2.20": {
        "result": 1,
        "further": """
            set_static_data_function_library_symbol_map(data, absl::flat_hash_map<std::string, void*>());
            set_static_data_temp_allocation_index(data, std::nullopt);
            set_static_data_thunk_run_impl(data, nullptr);
            set_static_data_compilation_result_proto(data, nullptr);""",
        "members": "bool is_thunk_mode() const override { return false; }",
    },
}


@pytest.mark.parametrize("release", _RELEASES)
def test_the_function_gets_the_buffer_of_the_result_that_its_release_means(release: str, tmp_path: Path) -> None:
    native = resources.templates() / "native"
    source, program = tmp_path / "unit.cc", tmp_path / "unit"
    source.write_text(_CLASS.format(**_RELEASES[release]))
    includes = [f"-I{native / name}" for name in ("", "classic", "absl")]
    run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *includes, source, "-o", program])
    run([program])
