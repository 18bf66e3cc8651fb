"""C++ of a program: one function that computes any number of rows, in blocks, over the kernel library.

Operations that only compute element by element, or move elements, become part of the loop that uses them. What a loop,
a layer or a reduction gives lies in scratch memory, whose size is known. All addresses are linear in the number of
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler import (
    batched,
    control,
    layers,
    moving,
    ordering,
    reductions,
    scattering,
    segments,
    trees,
    windows,
)
from tfaot_pkg.compiler.affine import variable
from tfaot_pkg.compiler.emitter import Called, Emitter, Tables
from tfaot_pkg.compiler.program import Border, Operation, Program, only
from tfaot_pkg.compiler.writer import Constants
from tfaot_pkg.package.render import render


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """`source` defines the function `name`; `constants` are what it reads from its weights, each at its offset.

    `scratch` is the memory that it works in, in bytes; it computes at most `block` rows at a time. `segments` are
    functions of XLA's code that it calls, for one row each; memory for these follows the scratch memory.
    `called` are operations of the model's author, which it calls for one row each, too.
    """

    source: str
    constants: tuple[tuple[int, Array], ...]
    scratch: int
    block: int
    segments: tuple[str, ...]
    called: tuple[Called, ...]


def emit(program: Program, name: str, block: int | None = None, *, profile: bool = False) -> Emitted:
    """The code for at most `block` rows at a time, by default as many as suit the caches.

    With `profile` it writes a trace if its user wants one (templates/native/profile.h). Raises Unsupported for what it
    does not know.
    """
    emitter = Emitter(program, _TABLES, Constants())
    source, scratch, block = emitter.function(name, block, profile=profile)
    return Emitted(
        source=source,
        constants=tuple(emitter.constants.placed),
        scratch=scratch,
        block=block,
        segments=tuple(sorted(emitter.segments)),
        called=tuple(emitter.called),
    )


def emit_parts(program: Program, parts: Sequence[Border], name: str, *, profile: bool = False) -> Emitted:
    """The code of a program of several signatures, each with the inputs and outputs of its part of `parts`.

    A call computes those whose outputs are not null. Their constants are there once. Raises Unsupported.
    """
    constants, functions, segments, called = Constants(), [], set[str](), list[Called]()
    scratch = block = 0
    for number, part in enumerate(parts):
        emitter = Emitter(only(program, part), _TABLES, constants)
        emitter.called = called  # one list, because their functions are numbered
        function = f"{name}_{number}"
        source, its_scratch, its_block = emitter.function(function, None, profile=profile, alone=False)
        functions.append({"name": function, "source": source, "border": part})
        scratch, block = max(scratch, its_scratch), max(block, its_block)
        segments |= emitter.segments
    symbols = [variable(symbol.name) for symbol in program.symbols]
    source = render(
        "native/programs.cc.j2", {"name": name, "functions": functions, "symbols": symbols, "profile": profile}
    )
    return Emitted(
        source=source,
        constants=tuple(constants.placed),
        scratch=scratch,
        block=block,
        segments=tuple(sorted(segments)),
        called=tuple(called),
    )


_STORED: Mapping[str, Callable[[Emitter, Operation], str]] = {
    "concatenate": moving.concatenate,
    "conditional": control.conditional,
    "conv2d": layers.conv2d,
    "conv2d_max_pool": layers.conv2d_max_pool,
    "convolution": windows.convolution,
    "custom-call": segments.call,
    "dense": layers.dense,
    "dot": batched.dot,
    "dynamic-update-slice": moving.dynamic_update_slice,
    "gather": moving.gather,
    "get-tuple-element": control.element_of,
    "max_pool": layers.max_pool,
    "pad": moving.pad,
    "reduce": reductions.reduce,
    "reduce-window": windows.reduce_window,
    "scatter": scattering.scatter,
    "softmax": layers.softmax,
    "sort": ordering.sort,
    "trees": trees.trees,
}
"""What computes an operation into memory, and gives the address."""

_SEVERAL: Mapping[str, Callable[[Emitter, Operation], None]] = {
    "conditional": control.conditional_values,
    "custom-call": segments.calls,
    "reduce": reductions.reduce_together,
    "reduce-window": windows.reduce_windows,
    "scatter": scattering.scatter_together,
    "sort": ordering.sort_together,
    "top_k": layers.top_k,
    "while": control.while_loop,
}
"""What computes operations that give several arrays."""

_TABLES = Tables(stored=_STORED, several=_SEVERAL)
