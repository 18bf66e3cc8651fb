"""Code that threads of a team compute together has no data races: each part runs on a thread of its own, under TSan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler import test_teams as teams
from tests.compiler.conftest import FLAGS, INCLUDES, kernel_object
from tests.compiler.test_few_rows import layers_of
from tests.compiler.test_operations import N, Writer
from tests.compiler.test_pruned import layer, weights
from tests.sanitizers import CATCH_RACES, run_sanitized
from tfaot_pkg.compiler import towers
from tfaot_pkg.compiler.emit import Emitted, emit
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program
from tfaot_pkg.ground.process import CommandFailed, run

pytestmark = pytest.mark.slow  # compiles its code

_FLAGS = (*FLAGS, *CATCH_RACES, "-Wno-tsan")  # GCC warns of fences, which TSan does not see
_BLOCK = 4
_MAIN = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "tfaot_kernels/team.h"

using Bytes = std::vector<unsigned char>;
using Program = void(std::size_t, const void* const*, void* const*, const unsigned char*, unsigned char*, const tfaot_kernels::Team*);

namespace {

std::size_t memberScratch = 0;

unsigned char* aligned(Bytes& bytes, std::size_t size) {
  bytes.assign(size + 64, 0);
  return bytes.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64);
}

void run(const tfaot_kernels::Team&, std::size_t parts, tfaot_kernels::Team::Part* part, void* argument) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i != parts; ++i) {
    threads.emplace_back([=] {
      Bytes memory;
      part(argument, i, aligned(memory, memberScratch));
    });
  }
  for (auto& each : threads) each.join();
}

std::vector<Bytes> called(Program* program, const char* file, std::size_t rows, const std::vector<std::size_t>& in,
                          const std::vector<std::size_t>& out, std::size_t scratch, const tfaot_kernels::Team* team) {
  std::ifstream stream(file, std::ios::binary);
  const Bytes stored{std::istreambuf_iterator<char>(stream), {}};
  Bytes weights, memory;
  auto* const at = aligned(weights, stored.size());
  if (!stored.empty()) std::memcpy(at, stored.data(), stored.size());
  std::vector<std::vector<float>> inputs;
  std::vector<Bytes> outputs;
  std::vector<const void*> read;
  std::vector<void*> written;
  std::srand(1);
  for (const auto size : in) {
    inputs.emplace_back(size * rows);
    for (auto& each : inputs.back()) each = static_cast<float>(std::rand()) / static_cast<float>(RAND_MAX) - 0.5f;
  }
  for (const auto size : out) outputs.emplace_back(size * rows);
  for (auto& each : inputs) read.push_back(each.data());
  for (auto& each : outputs) written.push_back(each.data());
  program(rows, read.data(), written.data(), at, aligned(memory, scratch), team);
  return outputs;
}

void check(Program* program, const char* name, const char* file, std::vector<std::size_t> in, std::vector<std::size_t> out,
           std::size_t scratch, std::size_t member) {
  memberScratch = member;
  const tfaot_kernels::Team team{2, run};
  for (const std::size_t rows : {1, 3, 5}) {
    if (called(program, file, rows, in, out, scratch, &team) == called(program, file, rows, in, out, scratch, nullptr)) continue;
    std::printf("%s: other bits for %zu rows\n", name, rows);
    std::exit(1);
  }
}

}  // namespace
"""


def _sizes(program: Program, emitted: Emitted) -> str:
    """The inputs, outputs and memory of a program as arguments in C++."""
    known, entry = program.entry.by_id(), program.entry
    inputs = [str(each.shape.elements.per_row.constant) for each in entry.parameters]
    shapes = [known[each].shape for each in entry.results]
    outputs = [str(each.elements.per_row.constant * NUMPY_TYPES[each.dtype].itemsize) for each in shapes]
    return f"{{{', '.join(inputs)}}}, {{{', '.join(outputs)}}}, {emitted.scratch}, {emitted.member_scratch or 0}"


def _stored(emitted: Emitted) -> bytes:
    weights = np.zeros(max((start + each.nbytes for start, each in emitted.constants), default=0), np.uint8)
    for start, each in emitted.constants:
        weights[start:][: each.nbytes] = np.frombuffer(each.tobytes(), np.uint8)
    return weights.tobytes()


def _run(programs: Mapping[str, tuple[Program, int]], home: Path, folder: Path) -> None:
    """Compute each program, with the least multiply-adds of what is divided, by threads and alone."""
    kernels = kernel_object(home, "g++", _FLAGS)
    text, calls = [_MAIN], []
    for number, (name, (program, least)) in enumerate(programs.items()):
        emitted = emit(program, f"program_{number}", _BLOCK, divided_from=least)
        file = folder / f"{number}.bin"
        file.write_bytes(_stored(emitted))
        (folder / f"{number}.cc").write_text(emitted.source)
        run(["g++", *_FLAGS, *INCLUDES, "-c", folder / f"{number}.cc", "-o", folder / f"{number}.o"], timeout=300)
        text.append(f'extern "C" Program program_{number};')
        calls.append(f'  check(program_{number}, "{name}", "{file}", {_sizes(program, emitted)});')
    (folder / "main.cc").write_text("\n".join([*text, "int main() {", *calls, "}"]))
    objects = [folder / f"{number}.o" for number in range(len(programs))]
    run(["g++", *_FLAGS, *INCLUDES, folder / "main.cc", *objects, kernels, "-pthread", "-o", folder / "main"])
    run_sanitized([folder / "main"])


def _towers(*names: str) -> dict[str, tuple[Program, int]]:
    found = {}
    for name in names:
        made = teams.Towers()
        found[name] = made.program(*getattr(teams, name)(made)), teams.LEAST
    return found


def _of_bytes_and_bfloat16() -> dict[str, Program]:
    random, found = np.random.default_rng(1), {}
    window = (12, 14, 8, 12, 14, 3, 3, 1, 1, 1, 1, 1, 1)
    made = (N, 12, 14, 70)
    for parts in (1, 3):
        writer = Writer()
        operands = (writer.input(60, 80), *(writer.constant(random.normal(size=size)) for size in ((80, 100), (100,))))
        layer = writer.add("bfloat16_dense", (N, 60, 100), *operands, activation="tanh", parts=parts)
        found[f"bfloat16 in {parts}"] = writer.program(layer)
        writer = Writer()
        x, filters = writer.input(12, 14, 8), writer.constant(random.normal(size=(3, 3, 8, 70)))
        images = writer.add(
            "bfloat16_conv2d", made, x, filters, window=window, groups=1, activation="relu", parts=parts
        )
        found[f"images of bfloat16 in {parts}"] = writer.program(images)
    writer = Writer()
    x, layer_ = writer.input(60, 80, dtype="u8"), teams.of_bytes(writer, (80,), 100, is_requantized=True)
    dense = writer.add("quantized_dense", (N, 60, 100), x, *layer_, dtype="u8", zero=3, low=0, high=255)
    found["bytes"] = writer.program(dense)
    writer = Writer()
    x, layer_ = writer.input(12, 14, 8, dtype="u8"), teams.of_bytes(writer, (3, 3, 8), 70, is_requantized=False)
    images = writer.add("quantized_conv2d", made, x, *layer_, dtype="s32", window=window, padding=5)
    found["images of bytes"] = writer.program(images)
    return found


def test_towers_have_no_races(shared_home_folder: Path, tmp_path: Path) -> None:
    names = (
        "two_towers", "three_towers_and_what_joins_two", "one_behind_the_other",
        "one_over_what_the_other_writes_as_an_output", "two_that_write_outputs",
    )  # fmt: skip
    _run(_towers(*names), shared_home_folder, tmp_path)


def test_races_are_seen(shared_home_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If loops that run side by side shared their memory, as those do that follow one another."""
    side_by_side = towers._side_by_side
    monkeypatch.setattr(towers, "_side_by_side", lambda nodes: replace(side_by_side(nodes), is_at_once=False))
    with pytest.raises(CommandFailed, match="data race"):
        _run(_towers("two_towers"), shared_home_folder, tmp_path)


def test_parts_of_layers_and_loops_have_no_races(shared_home_folder: Path, tmp_path: Path) -> None:
    programs = {"dense": (layers_of("relu")[0], 0), "pruned": (layer(weights(0.75, 512, 256)), 0)}
    programs |= {name: (program, 0) for name, program in _of_bytes_and_bfloat16().items()}
    programs |= {name: (teams.image_layer(name), 0) for name in ("padded", "depthwise", "few lines, many filters")}
    programs["pooled"] = (teams.image_layer("padded", (2, 2)), 0)
    for make in teams.LOOPS:
        writer = Writer()
        programs[make.__name__] = (writer.program(*make(writer)), 0)
    _run(programs, shared_home_folder, tmp_path)
