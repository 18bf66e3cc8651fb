"""C++ of a program: one function that computes any number of rows, in blocks, with the kernel library.

Operations that compute element by element, or move elements, become part of the loop that uses them. Results of loops,
layers and reductions are in scratch memory of known size. All addresses are linear in the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.compiler import (
    batched,
    bfloat16_layers,
    control,
    layers,
    moving,
    plain,
    quantized_layers,
    reductions,
    segments,
    window_reductions,
    windows,
)
from tfaot_pkg.compiler.affine import cpp, variable
from tfaot_pkg.compiler.attributes import Trees, parts_of
from tfaot_pkg.compiler.bounds import check_bounds
from tfaot_pkg.compiler.chains import fused, without_dead_stores
from tfaot_pkg.compiler.divide import are_in_parts, divided
from tfaot_pkg.compiler.emitter import DIVIDED_FROM, Emitter, Tables
from tfaot_pkg.compiler.expressions import C_TYPES, c_type
from tfaot_pkg.compiler.forests import pack
from tfaot_pkg.compiler.loops import Block, Function, Lowered, Nest, lowered, text_lines
from tfaot_pkg.compiler.memory import ALIGNMENT, Layer, Memory, lifetimes
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import (
    NUMPY_TYPES,
    ZERO,
    Border,
    Called,
    Operation,
    Program,
    Shape,
    Size,
    Unsupported,
    only,
)
from tfaot_pkg.compiler.steps import with_comments, with_steps
from tfaot_pkg.compiler.towers import with_towers
from tfaot_pkg.compiler.vectorize import vectorized
from tfaot_pkg.compiler.weights import Constants
from tfaot_pkg.compiler.work import work_of_loops
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.rendering import render

_MOST_SCRATCH = 1 << 31
"""The limit of scratch memory in bytes, which each thread has beside the weights."""
TILES_SUFFIX = "_permit_tiles"
"""Ends the name of the function that is told whether the process may use tiles of the CPU (program.cc.j2)."""
_DENSE = ("bfloat16_dense", "dense", "narrow_dense", "quantized_dense")


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """`source` defines the function `name`; `constants` are the arrays in its weights, each with its offset.

    `scratch` is the size of its scratch memory in bytes; it computes at most `block` rows at a time. `segments` are
    functions of XLA's code that it calls for single rows; their memory follows the scratch memory. `called` are
    operations of the model's author, which it calls for single rows as well. If threads of a team can compute layers
    together, each needs `member_scratch` bytes; it is None if not. With `uses_tiles` layers may be computed by tiles of
    the CPU (AMX), if the function with TILES_SUFFIX has said that the process may use them.
    """

    source: str
    constants: tuple[tuple[int, Array], ...]
    scratch: int
    block: int
    segments: tuple[str, ...]
    called: tuple[Called, ...]
    member_scratch: int | None = None
    uses_tiles: bool = False


def emit(
    program: Program,
    name: str,
    block: int | None = None,
    *,
    profile: bool = False,
    divided_from: int = DIVIDED_FROM,
) -> Emitted:
    """The code for at most `block` rows at a time; by default as many as fit the caches.

    With `profile` it writes a trace if its user asks for one (templates/native/profile.h). Teams compute layers of
    `divided_from` multiply-adds in a row or more. Raises Unsupported for operations and types that it does not know.
    """
    emitter = Emitter(program, _TABLES, Constants(), divided_from=divided_from)
    source, scratch, block = _function(emitter, name, block, profile=profile)
    return Emitted(
        source=source,
        constants=tuple(emitter.constants.placed),
        scratch=scratch,
        block=block,
        segments=tuple(sorted(emitter.segments)),
        called=tuple(emitter.called),
        member_scratch=emitter.member_scratch,
        uses_tiles=emitter.uses_tiles,
    )


def emit_parts(program: Program, parts: Sequence[Border], name: str, *, profile: bool = False) -> Emitted:
    """The code of a program of several signatures, each with the inputs and outputs of one of `parts`.

    A call computes those whose outputs are not null. They share constants. Raises Unsupported.
    """
    constants, functions, segments, called = Constants(), [], set[str](), list[Called]()
    scratch = block = 0
    members: list[int] = []
    uses_tiles = False
    for number, part in enumerate(parts):
        emitter = Emitter(only(program, part), _TABLES, constants)
        emitter.called = called  # one list, because their functions are numbered
        function = f"{name}_{number}"
        source, its_scratch, its_block = _function(emitter, function, None, profile=profile, alone=False)
        functions.append({"name": function, "source": source, "border": part})
        # Signatures are computed one after the other, so they share the memory.
        scratch, block = max(scratch, its_scratch), max(block, its_block)
        segments |= emitter.segments
        members += [] if emitter.member_scratch is None else [emitter.member_scratch]
        uses_tiles |= emitter.uses_tiles
    symbols = [variable(symbol.name) for symbol in program.symbols]
    source = render(
        "native/programs.cc.j2",
        {
            "name": name,
            "functions": functions,
            "symbols": symbols,
            "profile": profile,
            "tiles": _tiles(name, uses_tiles),
        },
    )
    return Emitted(
        source=source,
        constants=tuple(constants.placed),
        scratch=scratch,
        block=block,
        segments=tuple(sorted(segments)),
        called=tuple(called),
        member_scratch=max(members, default=None),
        uses_tiles=uses_tiles,
    )


def _tiles(name: str, uses_tiles: bool) -> str:
    return f"{name}{TILES_SUFFIX}" if uses_tiles else ""


LoopPass = Callable[[Function, Constants], Function]
LOOP_PASSES: Mapping[str, LoopPass] = {
    "vectorize": vectorized,
    "fuse-loops": lambda function, _: fused(function),
    "eliminate-dead-scratch": lambda function, _: without_dead_stores(function),
}
"""Passes on loops, in their order."""


def loops_of(program: Program, passes: Mapping[str, LoopPass] = LOOP_PASSES) -> Function:
    """The loops of a program after passes on them, by default all; C++ is printed of these. Raises Unsupported."""
    return _loops(Emitter(program, _TABLES, Constants()), passes)


def _loops(emitter: Emitter, passes: Mapping[str, LoopPass]) -> Function:
    function = emitter.write()
    for pass_ in passes.values():
        function = pass_(function, emitter.constants)
    function = divided(function, emitter.divided_from)
    check_bounds(function)
    return function


def _function(
    emitter: Emitter, name: str, block: int | None, *, profile: bool, alone: bool = True
) -> tuple[str, int, int]:
    """The source that defines `name`, the bytes of scratch memory, and the rows of a block.

    If it is not `alone`, other source includes the headers.
    """
    program = emitter.program
    function = _loops(emitter, LOOP_PASSES)
    if are_in_parts(function):
        emitter.member_scratch = emitter.member_scratch or 0
    nodes, memory, block = _placed(emitter, function, block)
    check_bounds(replace(function, nodes=nodes))
    if any(isinstance(node, Block) and node.is_at_once for node in nodes):
        emitter.member_scratch = emitter.member_scratch or 0
    offsets, size = memory.planned(block)
    scratch = -(-size // ALIGNMENT) * ALIGNMENT
    if scratch > _MOST_SCRATCH:
        raise Unsupported(f"{scratch >> 20} MiB of memory for {block} rows")
    written, steps = with_steps(nodes) if profile else (with_comments(nodes), [])
    context: dict[str, object] = {
        "name": name,
        "alone": alone,
        "steps": steps,
        "block": block,
        "symbols": [variable(symbol.name) for symbol in program.symbols],
        "reached": list(emitter.reached),
        "segments": sorted(emitter.segments),
        "called": [each.target for each in emitter.called],
        "memory": scratch,
        "inputs": [_border(parameter.shape) for parameter in program.entry.parameters],
        "outputs": [_border(emitter.known[result].shape) for result in program.entry.results],
        "buffers": [
            {"name": each.name, "type": C_TYPES[each.dtype], "offset": offsets[each.name]} for each in memory.buffers
        ],
        "statements": [*text_lines(written)],
        "tiles": _tiles(name, emitter.uses_tiles and alone),
    }
    return render("native/program.cc.j2", context), scratch, block


def _placed(emitter: Emitter, function: Function, block: int | None) -> tuple[tuple[Lowered, ...], Memory, int]:
    """The lowered nodes, their memory, and the rows of a block: as many loops are side by side as one thread affords.

    These are in memory at the same time. Ten LSTMs at once had blocks of 8 rows instead of 32, and a call by one thread
    took 1.13 to 1.36 of its time.
    """
    program = emitter.program

    def planned(nodes: tuple[Lowered, ...]) -> tuple[Memory, int]:
        memory = Memory(
            buffers=function.buffers,
            lifetimes=lifetimes(nodes, function.sharing.aliases),
            symbols=program.symbols,
            weights=emitter.constants.end,
            layers=[*_layers(program)],
            entries=sum(isinstance(node, Nest | Block) for node in function.nodes),
            repeats=any(each.opcode == "while" for each in program.entry.everything()),
        )
        return memory, block or memory.chosen_block(
            multiplies_in_loops=_multiplies_in_loops(program), takes_steps=_takes_steps(program)
        )

    large = _large_loops(program, emitter.divided_from)
    nodes = lowered(function.nodes)
    memory, rows = planned(nodes)
    most = len(large)
    while most > 1:
        beside = lowered(with_towers(function, large, most))
        larger, its_rows = planned(beside)
        if its_rows == rows and larger.is_affordable(memory, rows):
            return beside, larger, rows
        most = -(-most // 2) if most > 2 else 1
    return nodes, memory, rows


def _large_loops(program: Program, least: int) -> frozenset[int]:
    """The loops of the program with at least `least` multiply-adds in a row of a batch."""
    found = work_of_loops(program)
    return frozenset(value for value, operations in found.items() if operations >= 2 * least)


def _multiplies_in_loops(program: Program) -> bool:
    loops = [each for each in program.entry.everything() if each.opcode == "while"]
    return any(each.opcode in _DENSE for loop in loops for part in loop.regions for each in part.everything())


def _layers(program: Program) -> Iterator[Layer]:
    """The layers of a program whose products have the more rows, the more rows a block has."""
    known = {each.id: each for each in program.entry.everything()}
    for each in program.entry.everything():
        if each.opcode == "trees":
            yield Layer(weights=sum(array.nbytes for array in pack(Trees.of(each).forest).arrays.values()), places=1)
        elif each.opcode in _DENSE or (
            each.opcode in ("bfloat16_conv2d", "conv2d") and layers.is_pointwise(each, known[each.operands[1]].shape)
        ):
            weights, rows = known[each.operands[1]].shape, Shape("f32", each.shape.sizes[:-1]).elements
            is_short = each.opcode.startswith(("bfloat16", "narrow")) and weights.dtype == "f32"
            parts = parts_of(each) if each.opcode.startswith("bfloat16") else 1
            size = 2 * parts if is_short else NUMPY_TYPES[weights.dtype].itemsize
            yield Layer(weights=size * weights.elements.at(0), places=max(1, rows.per_row.most(1, program.symbols)))


def _takes_steps(program: Program) -> bool:
    """Whether loops take arrays step by step, and nothing multiplies matrices, which takes as many rows as it can."""
    every = [*program.entry.everything()]
    inside = {
        each.opcode for loop in every if loop.opcode == "while" for part in loop.regions for each in part.everything()
    }
    is_by_steps = not inside.isdisjoint({"dynamic-slice", "dynamic-update-slice"})
    return is_by_steps and all(OPERATIONS[each.opcode].multiply_adds is None for each in every)


def _border(shape: Shape) -> dict[str, object]:
    """An input or output for the template. Raises Unsupported if its rows are not contiguous."""
    row_bytes = shape.elements.per_row * Size(NUMPY_TYPES[shape.dtype].itemsize)
    if row_bytes != ZERO and not shape.sizes[0].grows:
        raise Unsupported("an input or output whose first axis is not the batch")
    return {"type": c_type(shape), "row_bytes": cpp(row_bytes)}


_STORED: Mapping[str, Callable[[Emitter, Operation], str]] = {
    "bfloat16_conv2d": bfloat16_layers.bfloat16_conv2d,
    "bfloat16_dense": bfloat16_layers.bfloat16_dense,
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
    "look_up": quantized_layers.look_up,
    "max_pool": layers.max_pool,
    "narrow_dense": layers.narrow_dense,
    "pad": moving.pad,
    "quantized_conv2d": quantized_layers.quantized_conv2d,
    "quantized_dense": quantized_layers.quantized_dense,
    "reduce": reductions.reduce,
    "reduce-window": window_reductions.reduce_window,
    "scatter": plain.scatter,
    "interpolate": windows.interpolate,
    "resample": windows.resample,
    "softmax": layers.softmax,
    "sort": plain.sort,
    "transposed_conv2d": layers.transposed_conv2d,
    "trees": layers.trees,
}
"""Functions that write an operation's result to memory, and return its address."""

_SEVERAL: Mapping[str, Callable[[Emitter, Operation], None]] = {
    "conditional": control.conditional_values,
    "custom-call": segments.calls,
    "reduce": reductions.reduce_together,
    "reduce-window": window_reductions.reduce_windows,
    "scatter": plain.scatter_together,
    "sort": plain.sort_together,
    "top_k": layers.top_k,
    "while": control.while_loop,
}
"""Functions for operations with several results."""

_TABLES = Tables(stored=_STORED, several=_SEVERAL)
