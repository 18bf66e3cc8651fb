"""Early cut-off: what a library consists of, whichever toolchain read its model.

If two toolchains lead to the same program, the same interface and the same data, there is one library: it is compiled
and linked once, and compared with the answers of each toolchain. XLA's code is always that of its toolchain.
"""

from __future__ import annotations

from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.toolchain.definition import OWN, Toolchain
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import Key, files_below, key_of, sha256_bytes, sha256_tree
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.compiled.program import Engine, ProgramCode
from tfaot_pkg.native.model_source import ModelSource, state_offset
from tfaot_pkg.spec.types import ModelSpec

STAGE = "code"


def toolchain_of(engine: Engine, found: Toolchain) -> Toolchain:
    """The toolchain of a library's code: `found`, which read the model, if XLA computes it or a part of it."""
    return OWN if engine.is_program and not engine.segments else found


def code_key(
    spec: ModelSpec,
    frozen: FrozenModel,
    engine: Engine,
    program: ProgramCode | None,
    *,
    key: Key,
    toolchain: Toolchain,
) -> Key:
    """The key of a library's code: that of its content for a program, else `key`, that of the compiled model.

    `toolchain` is that of `toolchain_of`.
    """
    if program is None or engine.segments:
        return key
    model = ModelSource(
        spec=spec,
        frozen=frozen,
        toolchain=toolchain,
        uid="",
        symbol="",
        any_batch_size=True,
        weight_offsets=(0,),
        state_offset=state_offset(program.constants.stat().st_size, frozen),
    )
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            # Code, constants, the author's operations, and the facts that the tables of units are made of.
            "program": sha256_tree(program.folder, files_below(program.folder)),
            # Everything else that the library says of itself.
            "model": sha256_bytes(model.text([TARGETS[name] for name in spec.compilation.targets]).encode()),
            "state": sha256_bytes(frozen.state_values),
        },
    )
