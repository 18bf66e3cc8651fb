"""Which CPU this is: by what decides its speed, not by its brand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfaot_pkg.ground.cpu import Busy, isolated, pinned, this_cpu

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: {model}
model name\t: Some Brand
stepping\t: {stepping}
microcode\t: {microcode}
flags\t\t: {flags}

processor\t: 1
model name\t: Another One
"""
USUAL = {"model": "143", "stepping": "8", "microcode": "0x2b", "flags": "fpu avx2 fma"}


def cpu_of(folder: Path, **fields: str) -> str:
    (folder / "cpuinfo").write_text(X86.format(**{**USUAL, **fields}))
    return this_cpu(folder / "cpuinfo").id


@pytest.mark.parametrize("field", USUAL)
def test_cpus_of_one_brand_differ_by_what_decides_their_speed(field: str, tmp_path: Path) -> None:
    assert cpu_of(tmp_path).startswith("GenuineIntel-6-143-8/0x2b/")
    assert cpu_of(tmp_path, **{field: "7"}) != cpu_of(tmp_path)
    assert cpu_of(tmp_path, flags="fma fpu avx2") == cpu_of(tmp_path)


def test_a_cpu_without_a_brand_has_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(
        "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
    )
    assert this_cpu(tmp_path / "cpuinfo").model == "0x41-0xd0c-1"


def test_a_measurement_gets_one_core_and_gives_it_back() -> None:
    before = os.sched_getaffinity(0)
    with pinned() as core:
        assert os.sched_getaffinity(0) == {core} <= before
        start = Busy.now(core)
        assert 0 <= Busy.now(core).others_since(start) <= 1
    assert os.sched_getaffinity(0) == before


def test_isolated_cores_are_read_as_the_kernel_lists_them(tmp_path: Path) -> None:
    (tmp_path / "isolated").write_text("2-4,7\n")
    assert isolated(tmp_path / "isolated") == {2, 3, 4, 7}
    assert isolated(tmp_path / "none") == set()
