"""The programs NAME_test and NAME_benchmark, linked with a fake model: y = 2 x + bias-in, label = position of the largest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.package.conftest import SIGNATURE, build_fake_libraries, make_uid
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import run
from tfaot_pkg.spec.types import Validation
from tfaot_pkg.verify.oracle import reference_bytes

pytestmark = pytest.mark.slow

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
UID = make_uid("1.2.0")
TARGETS = ["x86-64-v2", "x86-64-v3"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    build_fake_libraries(folder, "affine", slope=2)
    return folder / "libtfaot-model-affine.a"


@pytest.fixture(scope="module")
def programs(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with both programs in bin/."""
    prefix = tmp_path_factory.mktemp("a prefix")
    (prefix / "bin").mkdir()
    for tool in ("test", "benchmark"):
        build_program(library, tool, prefix / "bin" / f"affine_{tool}", "g++", "-O1")
    return prefix


def build_program(library: Path, tool: str, output: Path, *command: str) -> None:
    sources = resources.templates() / "tools"
    defines = [f"-DTFAOT_MODEL_SYMBOL=tfaot_model_affine_{UID}", '-DTFAOT_PACKAGE="tfaot-model-affine"']
    flags = [*defines, f"-I{resources.headers()}", *WARNINGS]
    run([*command, *flags, sources / f"{tool}.cc", library, "-o", output])


@pytest.mark.parametrize("tool", ["test", "benchmark"])
@pytest.mark.parametrize(("compiler", "standard"), [("g++", "c++17"), ("clang++", "c++20")])
def test_strict_compilers_take_the_programs(
    tool: str, compiler: str, standard: str, library: Path, require_program: Callable[[str], str], tmp_path: Path
) -> None:
    build_program(library, tool, tmp_path / tool, require_program(compiler), f"-std={standard}")


def answers(x: Array, bias: Array) -> dict[str, Array]:
    """What the model gives, by "SIZE/OUTPUT"."""
    y = 2 * x + bias
    label = np.array([_largest(row) for row in y])
    return {f"{size}/{name}": array[:size] for size in (2, 4) for name, array in (("y", y), ("label", label))}


def _largest(row: Array) -> int:
    found = 0
    for column, value in enumerate(row):
        found = column if value > row[found] else found  # nothing is larger than NaN
    return found


def stored(*, wrong: dict[str, Array] | None = None, uid: str = UID, rtol: float = 1e-5) -> bytes:
    """Stored answers of ten rows, some of them NaN or infinite; `wrong` takes the place of right ones."""
    x = np.random.default_rng(1).standard_normal((10, 3)).astype(np.float32)
    x[1, 2], x[2, 0] = np.nan, np.inf
    bias = np.array([0.5, 0, -1], np.float32)
    return reference_bytes(
        signature=SIGNATURE,
        uid=uid,
        batch_sizes=(2, 4),
        validation=Validation(rtol=rtol, atol=0),
        inputs={"x": x, "bias-in": bias},
        answers={**answers(x, bias), **(wrong or {})},
    )


def call(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def compare(programs: Path, data: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
    share = programs / "share" / "tfaot-model-affine"
    share.mkdir(parents=True, exist_ok=True)
    (share / "reference.bin").write_bytes(data)
    return call(programs / "bin" / "affine_test", *arguments)


def test_right_answers_agree_for_every_target_and_batch_size(programs: Path, tmp_path: Path) -> None:
    done = compare(programs, stored())
    said = "affine 1.2.0 (tensorflow 2.17.1): all 8 comparisons with the framework agree (x86-64-v2, x86-64-v3; largest difference 0)\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    (tmp_path / "link").symlink_to(programs / "bin" / "affine_test")
    assert "all 4 comparisons" in call(tmp_path / "link", "--target", "x86-64-v2").stdout


def test_wrong_answers_are_counted_and_the_first_is_shown(programs: Path) -> None:
    y = np.zeros((4, 3), np.float32)
    done = compare(programs, stored(wrong={"4/y": y, "2/label": np.array([7, 7])}), "--target", "x86-64-v3")
    assert done.returncode == 1
    first, second, last = done.stdout.splitlines()
    assert first.startswith("output 'label', batch size 2, x86-64-v3: 2 of 2 elements differ: element [0] is ")
    assert first.endswith(", and the framework's 7")
    assert second.startswith("output 'y', batch size 4, x86-64-v3: 12 of 12 elements differ: element [0, 0] is 1.19")
    assert "2 of 4 comparisons with the framework fail (rtol 1e-05, atol 0)" in last


def test_the_tolerance_is_that_of_the_spec(programs: Path) -> None:
    right = np.frombuffer(stored()[-48:], "<f4").reshape(4, 3)  # the last tensor: y of four rows
    beside = {"4/y": right * np.float32(1.001)}
    assert compare(programs, stored(wrong=beside, rtol=1e-2)).returncode == 0
    done = compare(programs, stored(wrong=beside, rtol=1e-4))
    assert done.returncode == 1
    assert "10 of 12 elements differ" in done.stdout  # not NaN and infinity


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is damaged, or belongs to another model than affine 1.2.0"),
        (b"not the file that was meant", "is damaged"),
        (stored()[:-1], "is damaged"),
        (stored(uid="ba9876543210"), "belongs to another model"),
    ],
)
def test_answers_that_are_not_the_model_s_are_refused(data: bytes, message: str, programs: Path) -> None:
    done = compare(programs, data)
    assert done.returncode == 2
    assert message in done.stderr and done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--targets"], "unknown argument --targets; see --help"),
        (["--target"], "--target needs a value"),
        (["--target", "vax"], "there is no target vax in this model: there are x86-64-v2, x86-64-v3"),
    ],
)
@pytest.mark.parametrize("tool", ["test", "benchmark"])
def test_wrong_use_is_told(tool: str, arguments: list[str], message: str, programs: Path) -> None:
    done = call(programs / "bin" / f"affine_{tool}", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"affine_{tool}: ") and message in done.stderr


def test_a_missing_file_of_answers_is_named(programs: Path) -> None:
    done = call(programs / "bin" / "affine_test", "--reference", "/nowhere/at-all")
    assert (done.returncode, "/nowhere/at-all: cannot read the stored answers" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch-size", "3"], "batch size 3 was not compiled: there are 2, 4"),
        (["--seconds", "soon"], "--seconds soon: write a number"),
        (["--seconds", "-1"], "--seconds -1: write a number"),
    ],
)
def test_the_benchmark_refuses_values_that_make_no_sense(arguments: list[str], message: str, programs: Path) -> None:
    done = call(programs / "bin" / "affine_benchmark", *arguments)
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.parametrize("tool", ["test", "benchmark"])
def test_help_tells_of_the_model(tool: str, programs: Path) -> None:
    done = call(programs / "bin" / f"affine_{tool}", "--help")
    assert done.returncode == 0
    assert "the model affine" in done.stdout and "x86-64-v2, x86-64-v3" in done.stdout


def test_the_benchmark_times_every_batch_size_of_the_best_target(programs: Path) -> None:
    done = call(programs / "bin" / "affine_benchmark", "--json", "--seconds", "0")
    document = json.loads(done.stdout)
    assert (document["model"], document["version"], document["uid"]) == ("affine", "1.2.0", UID)
    assert document["unit"] == "nanoseconds"
    assert [(m["target"], m["batch_size"]) for m in document["measurements"]] == [("x86-64-v2", 2), ("x86-64-v2", 4)]
    for each in document["measurements"]:
        assert 0 < each["minimum"] <= each["median"] <= each["p95"]
        assert each["count"] >= 5


def test_the_benchmark_times_what_it_is_asked_for(programs: Path) -> None:
    targets = [word for target in TARGETS for word in ("--target", target)]
    done = call(programs / "bin" / "affine_benchmark", "--batch-size", "4", *targets, "--seconds", "0")
    title, _, *rows = done.stdout.splitlines()
    assert title == "affine 1.2.0 (tensorflow 2.17.1): microseconds of one run, one thread"
    assert [row.split()[:2] for row in rows] == [["x86-64-v2", "4"], ["x86-64-v3", "4"]]
