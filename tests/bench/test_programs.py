"""The C++ programs: that they compile without a warning, call what they are told, and measure what is possible."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RunError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.measure.bench.peers import Programs, compile_programs
from tfaot_pkg.measure.bench.results import free_core
from tfaot_pkg.measure.bench.serving import Serving, native_program
from tfaot_pkg.native.cxx.compiler import Compiler, find_compiler

pytestmark = pytest.mark.slow

HERE = [name for name, target in TARGETS.items() if runs_here(target)]
_COUNTS = """
static long count, last;
int narrow(void) { ++count; return 0; }
int sum(long a, long b, long c, long d) { ++count; last = a + 10 * b + 100 * c + 1000 * d; return 0; }
int fails(long a) { return a == 7 ? -1 : 0; }
long half(long a) { return 1L << 32; }  /* zero as an int */
int reads(const long* x) { last = 10 * last + *x; return 0; }
long counted(void) { return count; }
long given(void) { return last; }
"""


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return find_compiler(platform.machine(), log=tmp_path_factory.mktemp("log") / "log", output=lambda _: None)


@pytest.fixture(scope="module")
def programs(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compile_programs(compiler, HERE, (), tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def calls(programs: Programs) -> ctypes.CDLL:
    return ctypes.CDLL(str(programs.calls))


@pytest.fixture(scope="module")
def counts(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("counts")
    (folder / "counts.c").write_text(_COUNTS)
    run([*compiler.command, "-x", "c", "-shared", "-fPIC", folder / "counts.c", "-o", folder / "counts.so"])
    return ctypes.CDLL(str(folder / "counts.so"))


def _timed(
    calls: ctypes.CDLL, function: object, *words: int, shortest: int = 1000, duration: int = 0
) -> tuple[int, int]:
    """(what it returned, runs of a chunk)."""
    runs, times = ctypes.c_int64(1), (ctypes.c_double * 10)()
    calls.tfaot_bench_calls.restype = ctypes.c_ssize_t
    found = calls.tfaot_bench_calls(
        ctypes.cast(function, ctypes.c_void_p), ctypes.c_size_t(len(words)),  # type: ignore[arg-type]  # a function of a library
        (ctypes.c_void_p * 12)(*words), ctypes.c_int64(shortest), ctypes.c_int64(duration), ctypes.byref(runs), times,
        ctypes.c_size_t(10), None, None, ctypes.c_size_t(0), ctypes.c_size_t(0),
    )  # fmt: skip
    return int(found), runs.value


@pytest.mark.parametrize("source", ["library.cc", "calls.cc", "limits.cc", "onnxruntime.cc", "openvino.cc"])
def test_the_programs_compile_without_a_warning(compiler: Compiler, source: str, tmp_path: Path) -> None:
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    run(
        [*compiler.command, "-std=c++17", "-O2", *warnings, "-I", resources.headers(), "-c",
         resources.templates() / "bench" / source, "-o", tmp_path / "out.o"]
    )  # fmt: skip


def test_a_chunk_has_as_many_runs_as_its_time_takes(calls: ctypes.CDLL, counts: ctypes.CDLL) -> None:
    before = counts.counted()
    # 20 ms: more than a first call takes, also if another process runs in between.
    found, runs = _timed(calls, counts.narrow, shortest=20_000_000)
    # 1 + 2 + 4 + ... runs to find out; the last of them were the chunk.
    assert found == 1 and runs > 1 and counts.counted() - before == 2 * runs - 1


def test_arguments_arrive_in_their_order(calls: ctypes.CDLL, counts: ctypes.CDLL) -> None:
    assert _timed(calls, counts.sum, 1, 2, 3, 4)[0] == 1 and counts.given() == 4321


def test_each_run_reads_the_next_rows_and_the_first_ones_stay(calls: ctypes.CDLL, counts: ctypes.CDLL) -> None:
    pool, place = (ctypes.c_long * 3)(1, 2, 3), (ctypes.c_long * 1)(9)
    _timed(calls, counts.sum, 0, 0, 0, 0)
    words, times = (ctypes.c_void_p * 1)(ctypes.addressof(place)), (ctypes.c_double * 10)()
    found = calls.tfaot_bench_calls(
        ctypes.cast(counts.reads, ctypes.c_void_p), ctypes.c_size_t(1), words, ctypes.c_int64(0), ctypes.c_int64(0),
        ctypes.byref(ctypes.c_int64(5)), times, ctypes.c_size_t(10), place, pool, ctypes.c_size_t(8),
        ctypes.c_size_t(24),
    )  # fmt: skip
    assert found == 1 and counts.given() == 12312 and place[0] == 1


def test_a_call_that_fails_is_told(calls: ctypes.CDLL, counts: ctypes.CDLL) -> None:
    assert _timed(calls, counts.fails, 7)[0] == -1 and _timed(calls, counts.fails, 8)[0] == 1
    assert _timed(calls, counts.half, 1)[0] == 1


def test_no_more_times_are_written_than_there_is_room_for(calls: ctypes.CDLL, counts: ctypes.CDLL) -> None:
    assert _timed(calls, counts.narrow, duration=20_000_000)[0] == 10


@pytest.mark.parametrize("target", HERE)
def test_limits_are_rates(programs: Programs, target: str, tmp_path: Path) -> None:
    program = native_program(programs.limits[target])
    with Serving(program, core=free_core(), writable=tmp_path, log=tmp_path / "log") as serving:
        near, far = (serving.rate(f"{what} 1000000") for what in ("read 16384", "read 4194304"))
        peaks = {each: serving.rate(f"peak {each} 3000000") for each in ("float32", "float64", "bfloat16", "int8")}
    # A second; no core of today does 64 multiply-adds or reads 256 bytes a cycle at 8 GHz, nor 1,024 of bytes by tiles.
    assert 0 < far < 256 * 8e9 and 0 < near < 256 * 8e9
    assert 0 < peaks["float64"] < 32 * 8e9 and 0 < peaks["float32"] < 64 * 8e9
    assert 0 < peaks["bfloat16"] < 512 * 8e9 and 0 < peaks["int8"] < 1024 * 8e9
    assert peaks["float64"] < peaks["float32"] < 1.5 * peaks["int8"]


def test_a_library_that_cannot_be_loaded_is_told(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "inputs").write_bytes(bytes(64))
    program = native_program(
        programs.library,
        tmp_path / "none.so",
        tmp_path / "copy",
        "x86-64",
        tmp_path / "inputs",
        "1",
        readable=[tmp_path / "inputs"],
    )
    with (
        Serving(program, core=free_core(), writable=tmp_path, log=tmp_path / "log") as serving,
        reported(RunError),
    ):
        serving.start(1)
