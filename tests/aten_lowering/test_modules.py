"""Files of PyTorch modules become programs that give the answers that PyTorch left in the files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.aten_lowering.aten_files import ARTIFACTS, difference_from_pytorch, lowered, symbols_of
from tests.frozen.test_torch_files import HELPER, python_with_pytorch
from tests.kept import kept
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.frontends.aten_lowering import ends
from tfaot_pkg.frontends.frozen.aten_file import read_classes, read_module
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run

_CONSTANTS = Path(__file__).with_name("torch_constants.py")
_MAKER = Path(__file__).with_name("torch_modules.py")
_SAMPLES = Path(__file__).with_name("torch_samples.py")
_FROZEN = Path(__file__).resolve().parents[1] / "frozen"


@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem) for each in sorted(ARTIFACTS.glob("*.aten"))])
def test_modules_give_pytorchs_answers(path: Path) -> None:
    """Files that PyTorch 2.13 wrote (torch_modules.py), with no PyTorch here."""
    assert difference_from_pytorch(path) <= 1e-5


def test_what_all_rows_share_may_be_read_at_the_number_of_the_row() -> None:
    module = read_module(ARTIFACTS / "positions_by_row.aten")
    assert ends.lowered(module, symbols_of(module.document)).rows.meetings == ()


def test_systems_with_known_matrices_keep_rows_apart() -> None:
    """The rows of a batch are the right sides of one matrix, side by side."""
    assert ends.lowered(read_module(ARTIFACTS / "densities.aten"), []).rows.meetings == ()


def test_the_largest_of_a_window_with_nan_is_nan_as_in_pytorch() -> None:
    """Windows of 3 x 3, every second one of which begins before the image, and of four elements of the flat image."""
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    x[0, 1, 3, 3] = np.nan
    (found,) = interpret.run(lowered(read_module(ARTIFACTS / "kinds_of_pooling.aten")), 1, [x], {})
    squares, lines = found[0, :64].reshape(4, 4, 4), found[0, 388:452].reshape(4, 16)
    assert np.argwhere(np.isnan(squares)).tolist() == [[1, i, j] for i in (1, 2) for j in (1, 2)]
    assert np.argwhere(np.isnan(lines)).tolist() == [[1, (3 * 8 + 3) // 4]]
    # The last of several, as max_pool2d(return_indices=True) of PyTorch 2.13.
    x[0, 1, 4, 3:5] = np.nan
    (found,) = interpret.run(lowered(read_module(ARTIFACTS / "kinds_of_pooling.aten")), 1, [x], {})
    assert found[0, 64:128].reshape(4, 4, 4)[1, 1:3, 1:3].tolist() == [[27, 27], [35, 36]]


def test_the_largest_difference_of_points_leaves_nan_out_as_in_pytorch() -> None:
    """Distances of order 1, 3 and infinity between seven points and four: torch.cdist([[nan]], [[0]], p=inf) is 0."""
    x = np.array([[np.nan, 0, 0, 0, 0, 0, 0]], np.float32)
    (found,) = interpret.run(lowered(read_module(ARTIFACTS / "distances.aten")), 1, [x], {})
    assert np.isnan(found[0, :14]).all() and found[0, 14:21].tolist() == [0, 3, 3, 3, 3, 3, 3]


def test_points_that_are_nowhere_are_at_the_edge_as_in_pytorch() -> None:
    """torch.nn.functional.grid_sample of PyTorch 2.13: NaN, and an infinity that is reflected, is the first element."""
    module = read_module(ARTIFACTS / "places_beyond_images.aten")
    x, y = np.arange(1, 41, dtype=np.float32).reshape(1, 2, 4, 5), np.zeros((1, 3, 6, 2), np.float32)
    y[0, 0, 0], y[0, 0, 1, 0], y[0, 0, 2, 0] = np.nan, np.inf, -np.inf
    (found,) = interpret.run(lowered(module), 1, [x, y], {})
    bilinear, reflected, nearest, nearest_reflected, volume = found[0, :, 0, 0]
    assert bilinear[:3].tolist() == [1, 12.5, 8.5]
    assert reflected[:3].tolist() == [1, 8.5, 8.5]
    assert nearest[0] == nearest_reflected[0] == 1
    assert volume[0] == 20


def test_points_at_halves_far_away_and_beside_nan_are_as_in_pytorch() -> None:
    """torch.nn.functional.grid_sample of PyTorch 2.13.

    Halves go to even places, reflections are counted in float32, and elements of weight zero count unless outside.
    """
    module, nan, inf = read_module(ARTIFACTS / "places_beyond_images.aten"), float("nan"), float("inf")
    x, y = np.arange(1, 41, dtype=np.float32).reshape(1, 2, 4, 5), np.zeros((1, 3, 6, 2), np.float32)
    x[0, 0, 1, 2], x[0, 0, 3, 3] = nan, inf
    points = [(0, -0.25), (0.4, 0.25), (1e7, 3e9), (12345.678, -777.7), (1, 1), (0.2, -0.5)]
    y[0, 0] = np.array(points, np.float32) / 2
    (found,) = interpret.run(lowered(module), 1, [x, y], {})
    bilinear, reflected, nearest, nearest_reflected, volume = found[0, :, :, 0]
    np.testing.assert_allclose(bilinear, [[nan, nan, 20, 5, 20, nan], [28.0, 34, 40, 25, 40, 26]])
    np.testing.assert_allclose(reflected, [[nan, nan, nan, nan, 20, nan], [28.0, 34, 22.5, 28.30481, 40, 26]], 1e-6)
    np.testing.assert_array_equal(nearest, [[nan, 14, 20, 5, 20, 3], [28, 34, 40, 25, 40, 23]])
    np.testing.assert_array_equal(nearest_reflected, [[nan, 14, 3, 9, 20, 3], [28, 34, 23, 29, 40, 23]])
    np.testing.assert_allclose(volume, [[nan, nan, 20, 5, inf, nan], [29.25, 32.25, 40, 25, 36.75, 28.25]])


def test_images_of_equal_numbers_have_no_deviation() -> None:
    """Numbers below 1e-38 leave nothing but the biases of the network, which PyTorch gives in float64."""
    path = ARTIFACTS / "answered" / "empty_images.aten"
    (empty,) = (each for each in read_classes(path) if each.name == "subnormal")
    (exact,) = (run.beside["exact/output"][0] for run in empty.runs if run.beside)
    (found,) = interpret.run(lowered(read_module(path)), len(exact), [empty.inputs["x"]], {})
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_nan_and_infinity_are_pytorchs() -> None:
    """torch.floor_divide, div and copysign of PyTorch 2.13."""
    module = read_module(ARTIFACTS / "rounded_numbers.aten")
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 0.3, -0.25]], np.float32)
    (found,) = interpret.run(lowered(module), 1, [x], {})
    by_tenths, by_negative, copied, negative, *_, angle, _, _ = found[0]
    nan = np.nan
    np.testing.assert_array_equal(by_tenths, [nan, nan, nan, 0, -0.0, 4, 1, -1])
    np.testing.assert_array_equal(by_negative, [nan, nan, nan, -0.0, 0, -4, -1, 0])
    np.testing.assert_array_equal(np.signbit(copied[1:]), np.signbit(x[0, 1:]))
    assert negative.tolist()[1:] == [0, 1, 0, 1, 0, 0, 1]
    np.testing.assert_allclose(angle, [nan, 0, np.pi, 0, 0, 0, 0, np.pi], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.timeout(3600)
def test_modules_that_pytorch_exports_now_give_its_answers(shared_home_folder: Path) -> None:
    """All modules and networks, exported by one process: with PyTorch 2.13, or the Python in TFAOT_TEST_TORCH."""
    python = python_with_pytorch(shared_home_folder)
    makers = [
        _MAKER,
        *sorted(HELPER.glob("*.py")),
        *(_FROZEN / name for name in ("torch_files.py", "torch_networks.py")),
    ]
    exported = kept(
        shared_home_folder,
        "aten_files",
        {"python": str(python), "digests": [sha256_file(each) for each in makers]},
        lambda folder: run([python, "-I", _MAKER, HELPER, folder], timeout=3000),
    )
    found = {path.stem: difference_from_pytorch(path) for path in sorted(exported.glob("*.aten"))}
    assert len(found) >= 100
    assert {name: difference for name, difference in found.items() if difference > 1e-5} == {}


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.timeout(7200)
def test_pytorchs_own_samples_of_its_operators_give_its_answers(shared_home_folder: Path) -> None:
    """Up to four of each of 650 operators, of which a third needs what programs have not: eigenvalues, random numbers."""
    python = python_with_pytorch(shared_home_folder)
    makers = [_SAMPLES, *sorted(HELPER.glob("*.py")), _FROZEN / "torch_files.py"]
    exported = kept(
        shared_home_folder,
        "aten_samples",
        {"python": str(python), "digests": [sha256_file(each) for each in makers]},
        lambda folder: run([python, "-I", _SAMPLES, HELPER, folder], timeout=5000),
    )
    read, differences = set(), {}
    for path in sorted(exported.glob("*.aten")):
        name = path.stem.rpartition(".")[0]
        try:
            difference = difference_from_pytorch(path, finite=False)
        except Unsupported:
            continue
        read.add(name)
        # PyTorch leaves open what is in new memory.
        if difference > 2e-5 and not name.startswith(("empty", "new_empty")):
            differences[path.stem] = difference
    assert differences == {}
    assert len(read) >= 480


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.timeout(600)
def test_constants_are_computed_by_pytorch_within_limits(shared_home_folder: Path, tmp_path: Path) -> None:
    python = python_with_pytorch(shared_home_folder)
    found = json.loads(run([python, "-I", _CONSTANTS, HELPER, tmp_path], timeout=500).stdout)
    assert found.pop("state_of_earlier_calls").startswith("the model changes state in each call")
    assert found.pop("a_branch_on_the_batch").startswith("the model uses torch.ops.higher_order.cond, which takes")
    assert found == {
        "state_that_is_only_written": [["slice", "sum", "sum", "add"], []],
        "random": [["add", "rand", "add"], ["slice_1"]],
        "not_set": [["empty", "full_like", "add"], []],
        "no_larger_than_weights": [["matmul"], ["exp"]],
        "too_large_to_store": [["slice", "unsqueeze", "unsqueeze", "expand", "add", "mean"], ["exp"]],
        "too_large_to_compute": [["full", "sum", "add"], []],
        "of_no_input_at_all": [[], ["exp"]],
    }
