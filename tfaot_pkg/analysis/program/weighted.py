"""Whether a computation multiplies rows by weights: by arrays that are the same for all rows of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tfaot_pkg.worker_program.messages.listing import Computation, Index, Instruction, Module, Number

Follows = bool | tuple["Follows", ...]
"""Whether an array follows from inputs; of a tuple, for each of its elements."""
_PRODUCTS = frozenset({"convolution", "dot"})


def multiplies_by_weights(module: Module, inputs: int) -> bool:
    """Whether an operand of a product in `module` follows from none of the first `inputs` parameters, and another does.

    Raises LookupError, RecursionError for a listing of another form.
    """
    found = _Products({each.id: each for each in module.computations})
    entry = found.computations[module.entry]
    arguments = {_number(each): _number(each) < inputs for each in entry.instructions if each.opcode == "parameter"}
    found.run(entry, [arguments[number] for number in sorted(arguments)])
    return found.weighted


@dataclass(slots=True)
class _Products:
    computations: dict[int, Computation]
    weighted: bool = False
    _probing: int = field(default=0)
    _known: dict[tuple[int, tuple[Follows, ...], bool], Follows] = field(default_factory=dict)

    def run(self, computation: Computation, arguments: Sequence[Follows]) -> Follows:
        """What the result follows from."""
        # Loops within loops are looked at again and again, mostly with what was seen before.
        key = (computation.id, tuple(arguments), self._probing > 0)
        if key not in self._known:
            self._known[key] = self._result(computation, arguments)
        return self._known[key]

    def _result(self, computation: Computation, arguments: Sequence[Follows]) -> Follows:
        values: dict[int, Follows] = {}
        for each in computation.instructions:
            if each.opcode == "parameter":
                values[each.id] = arguments[_number(each)]
            else:
                values[each.id] = self._value(each, [values[operand] for operand in each.operands])
        return values[computation.root]

    def _value(self, each: Instruction, operands: Sequence[Follows]) -> Follows:
        match each.opcode:
            case "tuple":
                return tuple(operands)
            case "get-tuple-element" if isinstance(operands[0], tuple) and isinstance(each.attributes, Index):
                return operands[0][each.attributes.index]
            case "call":
                return self.run(self.computations[each.called[0]], operands)
            case "conditional":
                return self._conditional(each, operands)
            case "while":
                return self._while(each, operands[0])
        follows = [_any(operand) for operand in operands]
        if each.opcode in _PRODUCTS and not self._probing and any(follows) and not all(follows):
            self.weighted = True
        return any(follows)

    def _conditional(self, each: Instruction, operands: Sequence[Follows]) -> Follows:
        chosen, *given = operands
        results = [self.run(self.computations[c], [one]) for c, one in zip(each.called, given, strict=True)]
        result = results[0]
        for other in results[1:]:
            result = _joined(result, other)
        return _joined(result, _like(result, _any(chosen)))

    def _while(self, each: Instruction, state: Follows) -> Follows:
        body, condition = (self.computations[called] for called in each.called)
        # An array may follow from inputs only after some iterations: products count when nothing changes any more.
        self._probing += 1
        while (after := _joined(state, self.run(body, [state]))) != state:
            state = after
        self._probing -= 1
        self.run(body, [state])
        return _joined(state, _like(state, _any(self.run(condition, [state]))))


def _number(each: Instruction) -> int:
    # Messages have the attributes of their opcodes (listing.ATTRIBUTES).
    assert isinstance(each.attributes, Number)
    return each.attributes.number


def _flat(value: Follows) -> Iterator[bool]:
    if isinstance(value, tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _any(value: Follows) -> bool:
    return any(_flat(value))


def _like(value: Follows, follows: bool) -> Follows:
    """`follows` in the form of `value`."""
    return tuple(_like(each, follows) for each in value) if isinstance(value, tuple) else follows


def _joined(one: Follows, other: Follows) -> Follows:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return tuple(_joined(*pair) for pair in zip(one, other, strict=True))
    return _any(one) or _any(other)
