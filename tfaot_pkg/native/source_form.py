"""The sources of a library, which any C++17 compiler builds without this tool: for models that are a program.

The sources are those that `build` compiles, except two: weights.cc includes the weights without an assembler, and
runtime.cc leaves memory and exceptions to the C++ runtime, because other people's static libraries must not replace it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.compiled.program import FUNCTION, TILES_FUNCTION, ProgramCode
from tfaot_pkg.native.model_source import ModelSource, with_state

_COPIED = (
    "cpu.cc", "float_control.h", "library.cc", "model.h", "runtime.h", "state.cc", "thread_pool.cc", "unit.h",
)  # fmt: skip
"""Files of templates/native that all libraries contain."""
_OWN = ("runtime.cc", "weights.cc")
"""Files of templates/source that replace those of templates/native."""


def code_files(model: ModelSource, program: ProgramCode) -> dict[str, bytes]:
    """The code of the library and its weights, by path: `src/`, `kernels/`, `licenses/` and `weights.bin`."""
    templates = resources.templates()
    # All targets, whatever the spec names: macros choose those that the compiler's flags allow (native/targets.j2).
    targets = sorted(TARGETS.values(), key=lambda target: (target.architecture, target.level))
    units: dict[str, object] = {
        "targets": targets,
        "selectable": True,
        "program": program,
        "memories": {target.name: [] for target in targets},  # of segments: such a model has no source form
        "symbols": {target.name: f"{FUNCTION}_{target.identifier}" for target in targets},
        "tiles": {
            target.name: f"{TILES_FUNCTION}_{target.identifier}"
            for target in targets
            if program.uses_tiles and target.may_have_tiles
        },
    }
    entry: dict[str, object] = {"symbol": model.symbol}
    texts = {
        "src/model.cc": model.text(targets, selectable=True),
        "src/units.cc": render("native/units.cc.j2", units),
        "src/entry.cc": render("native/entry.cc.j2", entry),
        "src/exports.map": render("native/exports.map.j2", entry),
    }
    return {
        **{name: text.encode() for name, text in texts.items()},
        **{f"src/{name}": (templates / "native" / name).read_bytes() for name in _COPIED},
        **{f"src/{name}": (templates / "source" / name).read_bytes() for name in _OWN},
        "src/program.cc": program.source.read_bytes(),
        **{
            f"src/{path.name}": path.read_bytes() for each in program.operations for path in (each.wrapper, each.source)
        },
        **{f"kernels/{path.relative_to(resources.kernels()).as_posix()}": path.read_bytes() for path in _kernels()},
        # This licence covers generated code and the kernel library; a program contains no code of other projects.
        "licenses/tfaot-pkg-LICENSE.txt": resources.licence().read_bytes(),
        "weights.bin": with_state(program.constants.read_bytes(), model.frozen),
    }


def _kernels() -> Iterator[Path]:
    for folder in ("include", "src"):
        yield from sorted(path for path in (resources.kernels() / folder).rglob("*") if path.suffix in (".h", ".cpp"))
