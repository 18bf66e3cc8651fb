"""Programs as text: what is printed can be read, and gives the same text, with the same bits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import Networks
from tests.compiler.random_programs import Grower
from tests.compiler.test_trees import program_of, small
from tests.kept import REPOSITORY
from tests.toolchains import VERSIONS
from tfaot_pkg.compiler.attributes import Constant
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.pipeline import UnknownPass, recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Literal, Operation, Program, Region, Shape, Size
from tfaot_pkg.compiler.text import TextError, outline_of, parse, text_of
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.ground.process import run
from tools import run_passes


def renumbered(text: str) -> str:
    """With values named in the order of their first lines."""
    names: dict[str, str] = {}
    return re.sub(r"%\d+", lambda found: names.setdefault(found[0], f"%{len(names)}"), text)


def _require_round_trip(program: Program, *, is_finished: bool = True) -> None:
    text = text_of(program)
    read = parse(text)
    verify(read)
    assert text_of(read) == text
    if not is_finished:  # only then code can be written
        return
    first, second = (emit(each, "f") for each in (program, read))
    sources = [re.sub(r"\n *//.*", "", each.source) for each in (first, second)]  # comments name nodes
    assert sources[0] == sources[1]
    for (at, one), (place, two) in zip(first.constants, second.constants, strict=True):
        assert at == place and one.tobytes() == two.tobytes()


@pytest.mark.sweep("0", "1", "2", "3", "4", "5", "6", "7")
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_are_read_as_they_were_written(seed: int) -> None:
    program = Grower(np.random.default_rng(seed), symbolic=seed % 2 == 1).program()
    _require_round_trip(program)
    _require_round_trip(recognize(simplify(program)))


@pytest.mark.sweep("2.17.1-attention")
@pytest.mark.parametrize("name", ["attention", "images", "lstm", "residual", "towers"])
@pytest.mark.parametrize("version", VERSIONS)
def test_networks_are_read_as_they_were_written(networks: Networks, version: str, name: str) -> None:
    program = networks(version, name).program
    _require_round_trip(program, is_finished=False)
    _require_round_trip(recognize(simplify(program)))


def test_a_forest_is_read_as_it_was_written() -> None:
    _require_round_trip(program_of(small()))


def _constant(values: np.ndarray, dtype: str) -> Program:
    shape = Shape(dtype, tuple(map(Size, values.shape)))
    made = Operation(id=0, opcode="constant", type=shape, attributes=Constant(literal=Literal(values)))
    return Program(entry=Region(operations=(made,), results=(0,)))


@pytest.mark.parametrize(("dtype", "kind"), [("f32", "u4"), ("f64", "u8")])
@pytest.mark.parametrize("count", [1, 8, 64, 65, 3000])
def test_floats_of_any_bits_are_exact(dtype: str, kind: str, count: int) -> None:
    """Random bits: NaN of all kinds, infinities, subnormal numbers."""
    random = np.random.default_rng(count)
    bits = random.integers(0, np.iinfo(kind).max, count, kind, endpoint=True)
    bits[: count // 4] |= 0x7F800000 << (32 if kind == "u8" else 0)
    values = bits.view("f4" if dtype == "f32" else "f8")
    found = parse(text_of(_constant(values, dtype))).entry.operations[0]
    assert Constant.of(found).literal.constant.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array([0.1, -0.0, np.nan, -np.inf], np.float32), "{0.1,-0.0,nan,-inf}"),
        (np.array([True, False]), "{True,False}"),
        (np.full(1000, 0.5, np.float32), "{0.5...}"),
        (np.array(-np.nan, np.float32), "{0xffc00000}"),
        (np.zeros((0, 3), np.float32), "{}"),
    ],
)
def test_constants_are_short(values: np.ndarray, text: str) -> None:
    program = _constant(values, "pred" if values.dtype == np.bool_ else "f32")
    assert text_of(program).splitlines()[0].endswith(f"literal={text}")
    assert text_of(parse(text_of(program))) == text_of(program)


def test_an_outline_leaves_out_elements_and_cannot_be_read() -> None:
    program = _constant(np.arange(100, dtype=np.float32), "f32")
    assert "{100 values}" in outline_of(program)
    with pytest.raises(TextError, match="were left out"):
        parse(outline_of(program))


_LINES = "%0 f32[batch,4] = parameter number=0\n%1 f32[batch,4] = negate %0\ngive %1\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("negate", "frobnicate", "line 2.*there is no such operation"),
        (" number=0", "", "line 1.*lacks number"),
        ("number=0", "number=0 size=3", "line 1.*no attribute size"),
        ("number=0", "number=x", "line 1.*invalid literal"),
        ("%1 f32[batch,4]", "%1 f32[batch,]", "line 2.*is no size"),
        ("%1 f32[batch,4]", "%1 f32", "line 2.*is no type"),
        ("give %1\n", "", "line 3.*end of its region"),
        ("give %1\n", "give %1\n%2 f32[] = parameter number=1\n", "line 4.*after the end"),
        ("%1 f32[batch,4] =", "  %1 f32[batch,4] =", "line 2.*neither an operation"),
        ("negate %0", "constant literal={1.0}", "line 2.*sizes that are numbers"),
    ],
)
def test_text_that_is_no_program_is_rejected_with_its_line(old: str, new: str, reason: str) -> None:
    assert parse(_LINES) is not None
    with pytest.raises(TextError, match=reason):
        parse(_LINES.replace(old, new, 1))


def test_regions_that_are_nested_too_deeply_are_rejected() -> None:
    lines = (f"{'    ' * depth}%{depth} f32[] = call\n{'    ' * depth}  region:\n" for depth in range(5000))
    with pytest.raises(TextError, match="too deeply"):
        parse("".join(lines))


def test_no_change_of_a_text_ends_in_another_error() -> None:
    """Characters removed, repeated and exchanged at random."""
    random = np.random.default_rng(0)
    text = text_of(recognize(simplify(Grower(np.random.default_rng(3), symbolic=True).program())))
    for _ in range(1500):
        place, many = int(random.integers(len(text))), int(random.integers(1, 4))
        other = int(random.integers(len(text)))
        changed = (
            text[:place] + str(random.choice(["", text[place], text[other : other + many]])) + text[place + many :]
        )
        try:
            parse(changed)
        except TextError:
            continue


_TOOL = REPOSITORY / "tools" / "run_passes.py"


def test_the_developers_command_runs_passes_on_text(tmp_path: Path) -> None:
    file = tmp_path / "program.txt"
    file.write_text(_LINES.replace("give %1", "%2 f32[batch,4] = copy %1\ngive %2"))
    assert run([sys.executable, _TOOL, file, "simplify", "fuse-epilogues"]).stdout == _LINES
    assert 'extern "C" void program(' in run_passes.main(["--emit", str(file), "simplify"])
    with pytest.raises(UnknownPass, match="there is no pass fold: simplify"):
        run_passes.main([str(file), "fold"])
