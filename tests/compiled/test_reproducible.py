"""Whether the bits of a program's results depend on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.catalogue.registries import entry_of, publish
from tests.commands import run_command
from tests.compiler.test_operations import N, Writer
from tests.compiler.test_quantize_layers import made_of, program_of
from tfaot_pkg.catalogue.card import badges_of
from tfaot_pkg.compiler.work import Counted
from tfaot_pkg.ground.reproducible import told_by
from tfaot_pkg.native.compiled.program import Engine, difference, may_fuse, unfused
from tfaot_pkg.registry.folder import FolderRegistry


@pytest.mark.parametrize(
    ("targets", "other"),
    [
        (["x86-64-v3"], ()),
        (["x86-64-v3", "x86-64-v4"], ()),
        (["aarch64"], ()),
        (["x86-64", "x86-64-v2"], ()),
        (["x86-64-v2", "x86-64-v3"], ("x86-64-v2",)),
    ],
    ids=str,
)
def test_targets_that_cannot_fuse_give_other_bits_than_those_that_can(
    targets: list[str], other: tuple[str, ...]
) -> None:
    assert unfused(targets) == other


def test_work_is_that_of_a_row_or_of_a_call() -> None:
    work = Counted(products=2, kernels=1, operations=2000.0, in_kernels=1000.0)
    by_row, by_call = (
        Engine(operations=3, work=work),
        Engine(operations=3, work=work, by_row=False, symbols=("n <= 8",)),
    )
    assert "for any number of rows; kernels: 1 of 2 products, 50% of 2 kFLOP a row" in str(by_row)
    assert "a program of 3 operations for n <= 8; kernels: 1 of 2 products, 50% of 2 kFLOP a call" in str(by_call)
    assert (by_row.as_dict()["operations_per_row"], by_call.as_dict()["operations_per_call"]) == (2000.0, 2000.0)


def test_float32_gives_the_same_bits() -> None:
    writer = Writer()
    assert difference(writer.program(writer.add("log", (N, 3), writer.input(3)))) == ""


def test_programs_that_round_each_result_alone_need_no_fused_multiply_add() -> None:
    """Sums of bytes and what is made of them; dense layers and functions of floats are others."""
    assert not may_fuse(made_of(program_of("dense, relu")))
    assert may_fuse(made_of(program_of("dense, tanh"))) and may_fuse(program_of("dense, relu"))


def test_functions_of_float64_that_are_the_c_librarys_are_named() -> None:
    writer = Writer()
    x = writer.input(3, dtype="f64")
    results = [writer.add(opcode, (N, 3), x, dtype="f64") for opcode in ("log", "negate", "cosine", "sine")]
    assert "calls cos, sin of" in difference(writer.program(*results))


def test_a_bitcast_of_floats_shows_which_nan_a_nan_is() -> None:
    writer = Writer()
    program = writer.program(writer.add("bitcast-convert", (N, 3), writer.input(3), dtype="s32"))
    assert "NaN" in difference(program)


def test_an_engine_says_whether_it_is_reproducible() -> None:
    same, other, xla = Engine(), Engine(difference="it calls sin of the C library"), Engine(reason="it has an fft")
    assert [each.as_dict()["reproducible"] for each in (same, other, xla)] == ["cpus", "no", "no"]
    assert str(same).endswith("reproducible: cpus")
    assert str(other).endswith("reproducible: no, because it calls sin of the C library")
    older = Engine(unfused=("x86-64-v2",))
    assert older.bits == {"reproducible": "cpus", "other_bits": ["x86-64-v2"]}
    assert "reproducible: cpus, except x86-64-v2, which" in str(older)
    assert "x86-64 and x86-64-v2, which lack fused" in str(Engine(unfused=("x86-64", "x86-64-v2")))


@pytest.mark.parametrize(
    "engine",
    [Engine(), Engine(unfused=("x86-64-v2",)), Engine(difference="it calls sin of the C library")],
    ids=["everywhere", "where it fuses", "no"],
)
def test_the_page_and_show_say_what_the_build_said(engine: Engine, tmp_path: Path) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    entry = publish(registry, entry_of("tagger"), info=engine.bits)
    badges = badges_of(entry, engine.bits, is_signed=True)
    [badge] = [each for each in badges if each.text.startswith("reproducible")]
    assert str(engine).endswith(f"; {badge.text}")
    assert badge.is_good == (engine.difference == "")
    done = run_command(["show", "tagger", "--registry", registry.root])
    assert f"\nbits:        {badge.text}\n" in done.stdout
    done = run_command(["show", "tagger", "--registry", registry.root, "--json"])
    assert json.loads(done.stdout)["bits"] == badge.text


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({}, ""),
        ({"reproducible": ["cpus"]}, ""),
        ({"reproducible": "no", "difference": "\x1b[2J"}, ""),
        ({"reproducible": "no", "difference": 7}, ""),
        ({"reproducible": "cpus", "other_bits": 7}, "reproducible: cpus"),
        (
            {"reproducible": "cpus", "other_bits": [[], {}, "\x1b", "x86-64"]},
            "reproducible: cpus, except x86-64, which lacks fused multiply-add",
        ),
    ],
    ids=str,
)
def test_of_what_a_publisher_wrote_only_what_is_of_the_form_is_said(info: dict[str, object], told: str) -> None:
    assert told_by(info) == told
    assert [
        each.text for each in badges_of(entry_of("tagger"), info, is_signed=True) if "reproducible" in each.text
    ] == ([told] if told else [])
