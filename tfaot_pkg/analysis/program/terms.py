"""`Terms`: value numbering. Arrays with the same computation get the same number, a term, and are known to be equal.

An opcode with the same attributes and equal operands gives the same term; operations with state, or with attributes
that are not listed, give a new term each time. An operation that moves no elements (a copy, a reshape to the same
shape) gives the term of its operand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tfaot_pkg.analysis.program import elementwise
from tfaot_pkg.analysis.program.hlo import Instruction, Program, Shape
from tfaot_pkg.analysis.program.values import Value

Term = int

# Excluded, because attributes do not say what they compute: the bits that `reduce-precision` keeps are not listed,
# `map` calls a function, and `stochastic-convert` is random.
_STRUCTURAL = (elementwise.OPCODES - frozenset("domain map reduce-precision stochastic-convert".split())) | frozenset(
    "broadcast concatenate constant dot dynamic-slice dynamic-update-slice gather iota pad reduce reshape reverse "
    "slice transpose".split()
)
"""Opcodes that are functions of their operands and of attributes that the worker lists."""

MOVING = frozenset("broadcast reshape reverse transpose".split())
"""Opcodes whose result has the operand's elements, all of them, in another order or repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAttributes:
    """`direction` of a comparison; `reducer`, the opcode of a reduction; `single`, a constant's type and only value.

    None, or "", for other opcodes, and if it is not known.
    """

    direction: str = ""
    reducer: str | None = None
    single: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The computation of a term; `value` describes its rows. A symbol's `opcode` is ""."""

    opcode: str
    attributes: NodeAttributes
    operands: tuple[Term, ...]
    shape: Shape
    value: Value
    detail: str = ""

    @property
    def is_integer(self) -> bool:
        return self.shape.dtype == "pred" or self.shape.dtype[0] in "su"


@dataclass(slots=True)
class Terms:
    """Operands of a term have lower numbers than the term itself."""

    program: Program
    nodes: list[Node] = field(default_factory=list)
    _known: dict[tuple[str, str, tuple[Term, ...]], Term] = field(default_factory=dict)

    def __getitem__(self, term: Term) -> Node:
        return self.nodes[term]

    def symbol(self, shape: Shape, value: Value) -> Term:
        """A new term, equal to no other."""
        return self._added(Node(opcode="", attributes=NodeAttributes(), operands=(), shape=shape, value=value))

    def of(self, instruction: Instruction, operands: Sequence[Term | None], value: Value) -> Term:
        """The term of an instruction whose result is an array."""
        known = [each for each in operands if each is not None]
        detail = self._detail(instruction)
        if detail is None or len(known) < len(operands):
            return self.symbol(instruction.shape, value)
        if known and self._keeps_all(instruction, known[0]):
            return known[0]
        attributes = NodeAttributes()
        if instruction.opcode == "compare":
            attributes = NodeAttributes(direction=instruction.attributes[0].direction)
        if instruction.opcode == "reduce":
            attributes = NodeAttributes(reducer=self._reducer(instruction))
        if instruction.opcode == "constant":
            attributes = NodeAttributes(single=_single(instruction))
        return self.made(instruction.opcode, detail, known, instruction.shape, value, attributes)

    def made(
        self, opcode: str, detail: str, operands: Iterable[Term], shape: Shape, value: Value, attributes: NodeAttributes
    ) -> Term:
        operands = tuple(operands)
        # Reshapes keep the order of elements, so of several in a row only the last shape matters.
        if opcode == "reshape":
            (inner,) = operands
            while self[inner].opcode == "reshape":
                (inner,) = self[inner].operands
            if self[inner].shape == shape:
                return inner
        key = (opcode, detail, operands)
        if key not in self._known:
            self._known[key] = self._added(
                Node(opcode=opcode, attributes=attributes, operands=operands, shape=shape, value=value, detail=detail)
            )
        return self._known[key]

    def less(self, one: Term, two: Term, *, array: Term) -> Term:
        """Whether `one` is less than `two`, for each element of that one of them which is an array."""
        shape = Shape("pred", self[array].shape.sizes)
        return self.made(
            "compare", f"less {shape}", (one, two), shape, self[array].value, NodeAttributes(direction="LT")
        )

    def rebuilt(self, term: Term, operands: Sequence[Term]) -> Term:
        """`term` with other operands, which depend on rows in the same way as the former ones."""
        node = self[term]
        return self.made(node.opcode, node.detail, operands, node.shape, node.value, node.attributes)

    def substituted(self, terms: Iterable[Term], replaced: Mapping[Term, Term]) -> dict[Term, Term]:
        """`terms` and all terms below them, rebuilt after the symbols in `replaced` got their new terms."""
        found = dict(replaced)
        for each in self.below(terms, stop=min(replaced, default=0)):
            if each not in found:
                operands = [found.get(operand, operand) for operand in self[each].operands]
                found[each] = each if tuple(operands) == self[each].operands else self.rebuilt(each, operands)
        return found

    def below(self, terms: Iterable[Term], *, stop: Term) -> list[Term]:
        """`terms` and their operands, recursively, operands first, without terms that are older than `stop`."""
        reached: set[Term] = set()
        waiting = [each for each in terms if each >= stop]
        while waiting:
            each = waiting.pop()
            if each not in reached:
                reached.add(each)
                waiting += [operand for operand in self[each].operands if operand >= stop]
        # Terms are numbered as they are made, so operands have lower numbers than their users.
        return sorted(reached)

    def unmoved(self, term: Term) -> Term:
        """The array that `term` takes its elements from, if each of them stays in its row."""
        while self[term].opcode in MOVING and self[term].value.mixed is None:
            (term,) = self[term].operands
        return term

    def single(self, term: Term) -> tuple[str, str] | None:
        """Type and value of a constant whose elements are all equal; None if it is not known to be one."""
        node = self[self.unmoved(term)]
        return node.attributes.single

    def _reducer(self, instruction: Instruction) -> str | None:
        """The opcode of a reduction whose function is one operation on its two parameters."""
        *parameters, root = self.program.computations[instruction.called[0]].instructions
        plain = len(parameters) == 2 and {each.opcode for each in parameters} == {"parameter"}
        return root.opcode if plain and set(root.operands) == {each.id for each in parameters} else None

    def _detail(self, instruction: Instruction) -> str | None:
        """Everything except the operands that the result depends on; None if that is not known."""
        if instruction.opcode not in _STRUCTURAL or instruction.shape.parts is not None:
            return None
        if instruction.opcode == "compare" and instruction.attributes[0].order == "TOTALORDER":
            return None  # a total order of floats also orders NaN, and -0.0 before 0.0
        if instruction.opcode == "constant":
            # By digest: the values of large constants are not listed.
            return " ".join([*(each.digest for each in instruction.attributes), str(instruction.shape)])
        if instruction.opcode == "reduce":
            reducer = self._reducer(instruction)
            return reducer and f"{reducer} {instruction.attributes} {instruction.shape}"
        return f"{instruction.attributes} {instruction.shape}"

    def _keeps_all(self, instruction: Instruction, operand: Term) -> bool:
        if instruction.opcode == "transpose":
            order = instruction.attributes[0].dimensions
            return bool(order == tuple(sorted(order)))
        return (
            instruction.opcode in ("copy", "convert", "reshape", "slice") and instruction.shape == self[operand].shape
        )

    def _added(self, node: Node) -> Term:
        self.nodes.append(node)
        return len(self.nodes) - 1


def _single(instruction: Instruction) -> tuple[str, str] | None:
    """Type and value of a constant's elements, if they are all equal at both batch sizes."""
    both = [each.values for each in instruction.attributes]
    if not all(both):
        return None
    first = repr(both[0][0])  # tells 0.0 from -0.0
    same = all(repr(each) == first for values in both for each in values)
    # NaN with different bits have the same repr.
    return (instruction.shape.dtype, first) if same and first != "nan" else None
