"""The code that tells a library of its program (templates/native/units.cc.j2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.compiled.program import ProgramCode


@pytest.mark.parametrize("has_sizes", [False, True])
@pytest.mark.parametrize(
    ("member_scratch", "told"), [(None, "false, 0"), (0, "true, 0"), (1, "true, 64"), (200, "true, 256")]
)
def test_a_target_says_whether_teams_can_divide_its_layers(
    tmp_path: Path, member_scratch: int | None, told: str, *, has_sizes: bool
) -> None:
    program = ProgramCode(folder=tmp_path, scratch=640, has_sizes=has_sizes, member_scratch=member_scratch)
    targets = [TARGETS["x86-64-v3"]]
    units = {
        "targets": targets, "selectable": False, "program": program, "memories": {each.name: [] for each in targets},
        "symbols": {each.name: "the_program" for each in targets}, "tiles": {},
    }  # fmt: skip
    pointer = "sized_program" if has_sizes else "program"
    source = tmp_path / "units.cc"
    source.write_text(
        render("native/units.cc.j2", units)
        + f"""
#include <cstdio>
int main() {{
  const tfaot_native::Target& target = *tfaot_native::tfaot_units_{targets[0].identifier}();
  const bool good = target.is_program() && target.{pointer} == &tfaot_native::the_program && target.scratch_size == 640;
  std::printf("%s %s, %zu", good ? "good" : "bad", target.divides_layers ? "true" : "false", target.member_scratch_size);
}}
namespace tfaot_native {{
extern "C" void the_program(std::size_t, {"const std::size_t*, " if has_sizes else ""}const void* const*, void* const*,
                            const unsigned char*, unsigned char*, const tfaot_kernels::Team*) {{}}
}}
"""
    )
    native = resources.templates() / "native"
    run(["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{native}", source, "-o", tmp_path / "units"])
    assert run([tmp_path / "units"]).stdout == f"good {told}"


def test_only_a_target_that_may_have_tiles_has_a_function_that_permits_them(tmp_path: Path) -> None:
    program = ProgramCode(folder=tmp_path, scratch=64, uses_tiles=True)
    targets = [TARGETS[name] for name in ("x86-64-v3", "x86-64-v4")]
    units = {
        "targets": targets, "selectable": False, "program": program, "memories": {each.name: [] for each in targets},
        "symbols": {each.name: "the_program" for each in targets}, "tiles": {"x86-64-v4": "permit_of_v4"},
    }  # fmt: skip
    text = render("native/units.cc.j2", units)
    assert '{"x86-64-v3", 0, nullptr, &the_program, 64, false};' in text
    assert '{"x86-64-v4", 0, nullptr, &the_program, 64, false, nullptr, false, 0, &permit_of_v4};' in text
    assert [each.may_have_tiles for each in targets] == [False, True]
