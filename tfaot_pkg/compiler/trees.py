"""Calls of the kernel library for forests of decision trees."""

from __future__ import annotations

from tfaot_pkg.compiler.affine import cpp
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.forests import pack
from tfaot_pkg.compiler.program import Operation, Size
from tfaot_pkg.worker_program.messages.forest import Forest

_WIDEST = 32
"""Rows of which the kernel library keeps ranks at a time (kWide of trees.h)."""


def trees(emitter: Emitter, operation: Operation) -> str:
    """The call of the kernel library that sums the trees."""
    forest: Forest = operation.attributes["forest"]
    packed = pack(forest)
    source, target = emitter.stored(operation.operands[0]), emitter.target(operation)
    keys = emitter.buffer("s8", Size(_WIDEST * max(1, packed.columns)))
    at = {name: emitter.constant(values) for name, values in packed.arrays.items()}
    number, total = emitter.known[operation.operands[0]].shape.dtype, operation.shape.dtype
    sizes = [forest.features, forest.outputs, forest.values.shape[1], len(forest.roots), packed.scales, packed.derived]
    shared = ("scale", "boundaries", "sets", "change", "tables", "target", "values", "base")
    for pointer in (source, keys):
        emitter.touch(pointer)
    with emitter.braces(""):
        types = f"{C_TYPES[number]}, {C_TYPES[total]}"
        emitter.line(
            f"const Forest<{types}> forest = {{{', '.join(map(str, (*sizes, *(at[each] for each in shared))))}}};"
        )
        if packed.complete:
            column = "std::uint16_t" if packed.wide else "std::uint8_t"
            emitter.line(f"const CompleteTrees<{packed.complete}, {column}> trees = {{{at['nodes']}}};")
        else:
            own = ", ".join(at[each] for each in ("branches", "sides", "first", "leaf_of", "depths"))
            emitter.line(f"const AnyTrees<{'true' if packed.small else 'false'}> trees = {{{own}}};")
        emitter.line(f"sumTrees(forest, trees, {cpp(operation.shape.sizes[0])}, {source}, {target}, {keys});")
    for pointer in (source, target, keys):
        emitter.touch(pointer)
    return target
