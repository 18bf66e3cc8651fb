"""The code that tells a library of its program (templates/native/units.cc.j2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.compiled.program import ProgramCode

_NAMES = ("x86-64-v3", "x86-64-v4")


def printed(folder: Path, program: ProgramCode, names: Sequence[str], tiles: Mapping[str, str], body: str) -> str:
    """What a program prints that has the units of `program` for targets, and `body`, which looks at them."""
    targets = [TARGETS[name] for name in names]
    units = {
        "targets": targets, "selectable": False, "program": program, "memories": {each.name: [] for each in targets},
        "symbols": {each.name: "the_program" for each in targets}, "tiles": tiles,
    }  # fmt: skip
    source = folder / "units.cc"
    source.write_text(
        render("native/units.cc.j2", units)
        + f"""
#include <cstdio>
int main() {{ {body} }}
namespace tfaot_native {{
extern "C" {{
void the_program(std::size_t, {"const std::size_t*, " if program.has_sizes else ""}const void* const*, void* const*,
                 const unsigned char*, unsigned char*, const tfaot_kernels::Team*) {{}}
unsigned permitted(bool) {{ return 1; }}
}}
}}
"""
    )
    native = resources.templates() / "native"
    run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{native}", source, "-o", folder / "units"])
    return run([folder / "units"]).stdout


@pytest.mark.parametrize("has_sizes", [False, True])
@pytest.mark.parametrize(
    ("member_scratch", "told"), [(None, "false, 0"), (0, "true, 0"), (1, "true, 64"), (200, "true, 256")]
)
def test_a_target_says_whether_teams_can_divide_its_layers(
    tmp_path: Path, member_scratch: int | None, told: str, *, has_sizes: bool
) -> None:
    program = ProgramCode(folder=tmp_path, scratch=640, has_sizes=has_sizes, member_scratch=member_scratch)
    pointer = "sized_program" if has_sizes else "program"
    body = f"""
  const tfaot_native::Target& target = *tfaot_native::tfaot_units_{TARGETS[_NAMES[0]].identifier}();
  const bool good = target.is_program() && target.{pointer} == &tfaot_native::the_program && target.scratch_size == 640;
  std::printf("%s %s, %zu", good ? "good" : "bad", target.divides_layers ? "true" : "false", target.member_scratch_size);
"""
    assert printed(tmp_path, program, _NAMES[:1], {}, body) == f"good {told}"


def test_only_a_target_that_may_have_tiles_has_a_function_that_permits_them(tmp_path: Path) -> None:
    program = ProgramCode(folder=tmp_path, scratch=64, uses_tiles=True)
    found = (f"tfaot_native::tfaot_units_{TARGETS[name].identifier}()->permit_tiles" for name in _NAMES)
    body = 'std::printf("%d %d", {} != nullptr, {} == &tfaot_native::permitted);'.format(*found)
    assert printed(tmp_path, program, _NAMES, {_NAMES[1]: "permitted"}, body) == "0 1"
    assert [TARGETS[name].may_have_tiles for name in _NAMES] == [False, True]
