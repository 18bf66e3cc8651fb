"""Sizes that each call brings: networks over a variable number of particles give TensorFlow's answers at each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import WORKER_PROGRAM, Code, compiled_together, constants_of
from tests.kept import REPOSITORY, kept
from tests.samples import tfaot
from tests.wording import reported
from tfaot_pkg.analysis.program import hlo
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.fitting import Fit, Point, check_extents
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program, Size, Symbol, Unsupported
from tfaot_pkg.compiler.verifier import InvalidProgram, verify
from tfaot_pkg.errors import RunError
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.keys import files_below, sha256_file, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.worker_program.messages.graph import Frozen
from tfaot_pkg.worker_program.messages.listing import Literals
from tfaot_pkg.worker_program.messages.wire import decoded

MAKER = REPOSITORY / "tests" / "models" / "symbolic.py"
N, M, ROWS = Size.symbol("n"), Size.symbol("m"), Size(0, 1)


def test_sizes_are_polynomials() -> None:
    assert str(Size(3)) == "3"
    assert str(ROWS * N * Size(2) + N + Size(-1)) == "2*batch*n + n - 1"
    assert (N + Size(1)) * (N + Size(-1)) == N * N + Size(-1)
    assert (ROWS * N * Size(4)).per_row == N * Size(4)
    assert (N * M + Size(2)).at(7, {"n": 3, "m": 5}) == 17
    assert (N * Size(6)).divided(3) == N * Size(2)
    assert (N * Size(6) + Size(1)).divided(3) is None
    with pytest.raises(Unsupported, match="square of the batch"):
        ROWS * (ROWS + N)


def test_a_bound_of_a_size_holds_at_all_sizes_of_symbols() -> None:
    size, symbols = N * N + N * Size(-3) + M, (Symbol("n", 6), Symbol("m", 4, 2))
    most = size.most(1, symbols)
    assert all(size.at(1, {"n": n, "m": m}) <= most for n in range(1, 7) for m in range(2, 5))


def _points(*sizes: Mapping[str, int]) -> list[Point]:
    return [Point(batch, each) for each in sizes for batch in (5, 7)]


_GRID = [{"n": 11}, {"n": 13}, {"n": 17}]


@pytest.mark.parametrize("size", [Size(4), N, ROWS * N, N * N + N * Size(-1), ROWS * N * N + ROWS * Size(3) + Size(2)])
def test_sizes_are_found_from_what_they_are_at_several(size: Size) -> None:
    points = [*_points(*_GRID), Point(11, {"n": 24})]
    assert Fit(points).size(tuple(size.at(point.batch, point.sizes) for point in points)) == size


def test_what_is_no_polynomial_is_unsupported_with_what_was_seen() -> None:
    points = [*_points(*_GRID), Point(11, {"n": 24})]
    halves = tuple((point.sizes["n"] + 1) // 2 for point in points)
    with pytest.raises(Unsupported, match=r"a size is 6 at n 11 and 7 at n 13, .* give n a number"):
        Fit(points).size(halves)
    with pytest.raises(Unsupported, match="do not determine how shapes depend"):
        Fit(_points({"n": 11}, {"n": 13}))


def test_the_symbol_that_a_size_depends_on_is_named() -> None:
    """Not one that varies beside it."""
    sizes = [(64, 64), (63, 63), (64, 63), (63, 64), (62, 64), (64, 62), (61, 64), (64, 61)]
    points = _points(*({"m": m, "n": n} for m, n in sizes))
    with pytest.raises(Unsupported, match=r"a size is 32 at n 64 and 31 at n 63, .* give n a number"):
        Fit(points).size(tuple(point.sizes["n"] // 2 for point in points))
    with pytest.raises(Unsupported, match=r"a size is 2 at batch 5 and 3 at batch 7, which"):
        Fit(points).size(tuple(point.batch // 2 for point in points))


def test_a_constant_that_repeats_for_each_row_is_spread() -> None:
    """Learned queries of attention: TensorFlow folds the batch into them."""
    tile = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)

    def constant(*arrays: Array) -> hlo.Instruction:
        literals = tuple(Literals(digest="", values=tuple(each.reshape(-1).tolist())) for each in arrays)
        shape = hlo.Shape("f32", tuple(zip(*(each.shape for each in arrays), strict=True)))
        return hlo.Instruction(
            id=0, opcode="constant", node="", operation="", shape=shape, operands=(), called=(),
            attributes=(literals[0], literals[1]),
        )  # fmt: skip

    def imported(*arrays: Array) -> Program:
        computation = hlo.Computation(instructions=(constant(*arrays),), root=0)
        return import_program(hlo.Program(batch_sizes=(5, 7), computations={0: computation}, entry=0), 0, [])

    tiled = [np.concatenate([tile] * batch, axis=1) for batch in (5, 7)]
    (found,) = interpret.run(imported(*tiled), 3, [])
    np.testing.assert_array_equal(found, np.concatenate([tile] * 3, axis=1))
    tiled[1][0, -1, 0] += 1
    with pytest.raises(Unsupported, match="is not the same for each row"):
        imported(*tiled)


@dataclass(frozen=True, kw_only=True)
class Network:
    """A program, and by the number of particles inputs of 5 rows and TensorFlow's outputs. `model` is the SavedModel."""

    model: Path
    program: Program
    axes: tuple[str, ...]
    answers: Mapping[int, tuple[Array, Array]]


@pytest.fixture(scope="module")
def networks(shared_home_folder: Path) -> Mapping[str, Network]:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = ensure("2.17.1", folders=folders, progress=Silent()).python
    worker = sha256_tree(WORKER_PROGRAM, [path for path in files_below(WORKER_PROGRAM) if path.suffix == ".py"])
    parts = {"maker": sha256_file(MAKER), "python": str(python), "worker": worker}
    folder = kept(
        shared_home_folder, "symbols", parts, lambda made: run([python, "-I", MAKER, made, WORKER_PROGRAM], timeout=900)
    )
    return {path.name: _network(path) for path in sorted(folder.iterdir()) if path.is_dir()}


def _network(folder: Path) -> Network:
    frozen = decoded(Frozen, json.loads((folder / "frozen.json").read_text()), "frozen.json")
    symbols = [Symbol(each.name, each.maximum, each.minimum) for each in frozen.model.symbols]
    read, samples = hlo.read_program(frozen.hlo.modules), hlo.read_samples(frozen.hlo)
    program = import_program(read, len(frozen.model.inputs), constants_of(folder), samples, symbols)
    verify(program)
    found = np.load(folder / "answers.npz")
    sizes = [int(name.split("_")[1]) for name in found.files if name.startswith("in_")]
    return Network(
        model=folder / "model",
        program=program,
        axes=frozen.model.outputs[0].axes,
        answers={n: (found[f"in_{n}_x"], found[f"out_{n}_y"]) for n in sizes},
    )


def _answer(code: Code, x: Array, size: int) -> Array:
    (made,) = code.at_sizes([size], x)
    return made


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_networks_over_particles_give_tensorflows_answers_for_any_number_of_them(
    networks: Mapping[str, Network], kernels: Path
) -> None:
    """A set with a mask, attention, an LSTM, convolutions, EdgeConv: each row to the bit alone and among others."""
    programs = {name: recognize(simplify(network.program)) for name, network in networks.items()}
    assert set(programs) >= {"attention", "convolved", "flat_neighbours", "lstm", "neighbours", "sets", "summed"}
    codes = compiled_together(programs, kernels, 3)
    for name, network in networks.items():
        check_extents(simplify(network.program))
        for size, (x, wanted) in network.answers.items():
            (plain,) = interpret.run(network.program, len(x), [x], {"n": size})
            np.testing.assert_allclose(plain, wanted, rtol=1e-4, atol=1e-5, err_msg=f"{name} at {size}")
            ours = _answer(codes[name], x, size)
            np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5, err_msg=f"{name} at {size}")
            np.testing.assert_array_equal(_answer(codes[name], x[2:3], size), ours[2:3], err_msg=f"{name} at {size}")


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_sizes_of_outputs_may_be_computed_from_symbols(networks: Mapping[str, Network]) -> None:
    """The worker finds from traced shapes what the program computes from its listing."""
    axes = {name: networks[name].axes for name in ("windowed", "pairs", "lstm")}
    assert axes == {"windowed": ("", "n - 2", ""), "pairs": ("", "n*n + 3*n"), "lstm": ()}
    for name in ("windowed", "pairs"):
        program = networks[name].program
        (result,) = (program.entry.by_id()[each] for each in program.entry.results)
        assert str(result.shape.sizes[1]) == networks[name].axes[1]


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_a_size_at_which_a_part_is_larger_than_its_array_is_rejected(networks: Mapping[str, Network]) -> None:
    """Four nearest neighbours of three particles: code would read what is not there."""
    imported = networks["neighbours"].program
    for program in (imported, simplify(imported)):
        few = Program(entry=program.entry, symbols=(Symbol("n", 24, 3),))
        with pytest.raises(Unsupported, match="4 of 3 elements at n = 3: allow fewer sizes"):
            check_extents(few)
        with pytest.raises(InvalidProgram):  # so it comes second: it cannot say which sizes to allow
            verify(few)


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_layers_over_particles_are_computed_by_the_kernel_library(networks: Mapping[str, Network]) -> None:
    attention, convolved = (
        [each.opcode for each in recognize(simplify(networks[name].program)).entry.operations]
        for name in ("attention", "convolved")
    )
    assert {"softmax", "dense"} <= {*attention}
    assert convolved.count("conv2d") == 2
    small, large = (
        emit(Program(entry=each.entry, symbols=(Symbol("n", most),)), "program", 4).scratch
        for each in [recognize(simplify(networks["sets"].program))]
        for most in (12, 24)
    )
    assert small < large <= 2 * small + 64


CALLS = r"""
#include <tfaot-model-sets/model.h>
#include <tfaot/shared.h>

#include <algorithm>
#include <cstdio>
#include <vector>

template <class Call>
void failing(Call&& call) {
  try {
    call();
  } catch (const tfaot::Error& error) {
    std::puts(error.what());
  }
}

int main() {
  tfaot_model::sets model;
  const tfaot::Shared<tfaot_model::sets> shared;
  std::vector<float> x(3 * 7 * 4), first(9), second(9), third(9);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i % 13) - 0.5f;
  model.run(3, x, first);
  model.run(3, tfaot_model::sets::Sizes{7}, x, second);
  shared.run(3, {x}, {third});
  const auto own = shared.run(3, {x});
  const bool equal = own.get<0>().size() == 9 && std::equal(first.begin(), first.end(), own.get<0>().begin());
  std::puts(first == second && second == third && equal ? "same" : "different");
  for (const float value : first) std::printf("%a\n", static_cast<double>(value));
  failing([&] { model.run(3, tfaot_model::sets::Sizes{6}, x, first); });
  x.resize(3 * 25 * 4);
  failing([&] { model.run(3, x, first); });
  x.resize(3 * 7 * 4 - 1);
  failing([&] { shared.run(3, {x}, {first}); });
}
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
def test_a_package_takes_arrays_of_any_size_in_python_and_in_cpp(
    networks: Mapping[str, Network], shared_home_folder: Path, tmp_path: Path
) -> None:
    """From a spec with `n <= 24` to answers: shapes and lengths give the size, wrong ones are reported."""
    network = networks["sets"]
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"model: {{name: sets, version: 1.0.0, saved_model: {network.model}, shapes: {{x: [batch, n <= 24, 4]}}}}\n"
        "compilation: {batch_sizes: [1, 4], tensorflow: 2.17.1, targets: [x86-64-v3]}\n"
    )
    document = json.loads(tfaot(shared_home_folder, "build", spec, "-o", tmp_path / "prefix", "--json"))
    assert document["engine"]["symbols"] == ["n <= 24"]
    info = json.loads((tmp_path / "prefix/share/tfaot-model-sets/info.json").read_text())
    assert info["symbols"] == [{"name": "n", "minimum": 1, "maximum": 24}]
    assert info["inputs"][0]["axes"] == ["", "n", ""]
    model = load("sets", prefix=tmp_path / "prefix")
    for x, wanted in network.answers.values():
        np.testing.assert_allclose(model(x)["y"], wanted, rtol=1e-4, atol=1e-5)
    x = network.answers[7][0]
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)  # copied in parts
    np.testing.assert_array_equal(model(shifted)["y"], model(x)["y"])
    for wrong in ((2, 25, 4), (2, 0, 4), (2, 5, 3), (2, 5)):
        with reported(RunError):
            model(np.zeros(wrong, np.float32))
    (tmp_path / "calls.cpp").write_text(CALLS)
    prefix, flags = tmp_path / "prefix", "-std=c++17 -Wall -Wextra -Wconversion -Wshadow -Werror".split()
    run(
        ["g++", *flags, f"-I{prefix / 'include'}", tmp_path / "calls.cpp", f"-L{prefix / 'lib'}", "-ltfaot-model-sets",
         f"-Wl,-rpath,{prefix / 'lib'}", "-o", tmp_path / "calls"]
    )  # fmt: skip
    same, *lines = run([tmp_path / "calls"]).stdout.splitlines()
    assert same == "same"
    values = np.array([float.fromhex(line) for line in lines[:9]], np.float32).reshape(3, 3)
    given = (np.float32(0.1) * (np.arange(84) % 13).astype(np.float32) - np.float32(0.5)).reshape(3, 7, 4)
    np.testing.assert_allclose(values, model(given)["y"], rtol=1e-6, atol=1e-7)
    assert lines[9:] == [
        'sets: input "x": expected 72 elements (3 rows of 24), got 84',
        "sets: size n: expected 1 to 24, got 25",
        'sets: input "x": expected 72 elements (3 rows of 24), got 83',
    ]
