"""Whether rows of a batch depend on one another: an abstract interpretation of HLO, instruction by instruction.

Its results hold for all inputs. Rows count as dependent in an operation that is not in the table (decision 029).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfaot_pkg.analysis.program import constants, contracting, elementwise, guards, indexing, integers, moving
from tfaot_pkg.analysis.program.hlo import Computation, Instruction, Program, Shape, Unlike, read_program
from tfaot_pkg.analysis.program.loops import Loop, independent_of_iterations
from tfaot_pkg.analysis.program.loops_over_rows import MOST_ITERATIONS, LoopOverRows, widened
from tfaot_pkg.analysis.program.terms import Terms
from tfaot_pkg.analysis.program.values import (
    CHOSEN,
    INTERACT,
    PLACED,
    UNKNOWN_OPERATION,
    Axis,
    Cause,
    Known,
    Step,
    Value,
    flat,
    join,
    kept_even,
    mixed,
    same,
    settled,
    structured,
    together,
    with_integers,
    without_terms,
)
from tfaot_pkg.analysis.rows import INDEPENDENT, Meeting, Rows
from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.worker_program.messages.listing import HloListing, SizeChoice

CONVERGING = frozenset(
    "Betainc Igamma IgammaGradA Igammac RandomGammaGrad SelfAdjointEig SelfAdjointEigV2 Svd XlaSelfAdjointEig "
    "XlaSvd".split()
)
"""Operations of TensorFlow on single elements or matrices, which the bridge computes in loops until all have converged.
Additional iterations change the last digits at most."""

Transfer = Callable[[Step], Known]


def outputs_of(program: Program, inputs: Sequence[bool]) -> tuple[Value, ...]:
    """The value of each output; `inputs` says which inputs have a batch axis."""
    entry = program.computations[program.entry]
    count = sum(each.opcode == "parameter" for each in entry.instructions)
    arguments = [constants.parameter_of_rows() if batched else Value() for batched in inputs]
    arguments += [Value()] * (count - len(inputs))
    return tuple(flat(_Analysis(program, Terms(program)).run(entry, arguments)))


@dataclass(slots=True)
class _Analysis:
    program: Program
    terms: Terms

    def run(self, computation: Computation, arguments: Sequence[Known]) -> Known:
        """The value of the root."""
        values: dict[int, Known] = {}
        shapes = {each.id: each.shape for each in computation.instructions}
        for instruction in computation.instructions:
            if instruction.opcode == "parameter":
                values[instruction.id] = self._named(arguments[instruction.attribute("number")], instruction.shape)
                continue
            operands = [values[i] for i in instruction.operands]
            values[instruction.id] = self._value(instruction, operands, [shapes[i] for i in instruction.operands])
        return values[computation.root]

    def _value(self, instruction: Instruction, operands: Sequence[Known], shapes: Sequence[Shape]) -> Known:
        if instruction.shape.is_empty:
            return self._named(Value(), instruction.shape)  # an array without elements depends on nothing
        control = _CONTROL.get(instruction.opcode)
        if control is not None:
            return control(self, instruction, operands)
        transfer = TRANSFER.get(instruction.opcode)
        # Only control flow takes tuples. Any other operation on one is not modelled.
        arrays = tuple(each for each in operands if isinstance(each, Value))
        if transfer is None or len(arrays) < len(operands):
            return self._named(without_terms(contracting.unknown(instruction, operands)), instruction.shape)
        given = guards.guarded(self.terms, arrays) if instruction.opcode == "select" else arrays
        step = Step(program=self.program, instruction=instruction, operands=given, shapes=tuple(shapes))
        result = without_terms(kept_even(transfer(step), step))
        if not isinstance(result, Value):
            return self._named(result, instruction.shape)
        if instruction.opcode == "convert" and result.integers is None and instruction.shape.dtype in ("s32", "s64"):
            result = replace(result, integers=guards.converted(self.terms, arrays[0]))
        return replace(result, term=self.terms.of(instruction, [each.term for each in arrays], result))

    def _named(self, value: Known, shape: Shape) -> Known:
        """`value` with new symbols for the arrays in it that have no term."""
        if isinstance(value, tuple):
            return tuple(self._named(each, part) for each, part in zip(value, shape.parts or (), strict=True))
        return value if value.term is not None else replace(value, term=self.terms.symbol(shape, value))

    def tuple_(self, instruction: Instruction, operands: Sequence[Known]) -> Known:
        return tuple(operands)

    def element(self, instruction: Instruction, operands: Sequence[Known]) -> Known:
        (whole,) = operands
        if isinstance(whole, Value):
            return self._named(without_terms(whole), instruction.shape)
        found: Known = whole[instruction.attribute("index")]
        return found

    def call(self, instruction: Instruction, operands: Sequence[Known]) -> Known:
        return self.run(self.program.computations[instruction.called[0]], operands)

    def conditional(self, instruction: Instruction, operands: Sequence[Known]) -> Known:
        chosen, *arguments = operands
        # Each branch is analysed for all inputs, and the result depends on the choice as well.
        assert isinstance(chosen, Value)
        branches = [
            self.run(self.program.computations[called], [argument])
            for called, argument in zip(instruction.called, arguments, strict=True)
        ]
        result = branches[0]
        for branch in branches[1:]:
            result = join(result, branch, instruction)
        found = _subject_to(settled(chosen, instruction), result, instruction)
        return self._named(without_terms(found), instruction.shape)

    def while_(self, instruction: Instruction, operands: Sequence[Known]) -> Known:
        """The called computations are the body and the condition, in this order."""
        (initial,) = operands
        body, condition = (self.program.computations[each] for each in instruction.called)
        if not isinstance(initial, tuple):
            return contracting.unknown(instruction, operands)
        found = LoopOverRows(self.run, instruction, initial, body, condition).result()
        # The general analysis would not know that iteration i reads and writes row i, and would mix all rows.
        if found is None:
            found = self._loop(instruction, initial, body, condition)
        return self._named(found, instruction.shape)

    def _loop(
        self, instruction: Instruction, initial: tuple[Known, ...], body: Computation, condition: Computation
    ) -> Known:
        begin = flat(initial)
        kept: frozenset[int] = frozenset()  # the arrays that the body returns unchanged
        state = without_terms(initial)
        for iteration in range(MOST_ITERATIONS):
            before = self._named(state, instruction.shape)
            after = self.run(body, [before])
            if iteration == 0:
                pairs = zip(flat(before), flat(after), strict=True)
                # Equal terms: an iteration does not change the array, whatever it is.
                kept = frozenset(i for i, (one, two) in enumerate(pairs) if one.term == two.term)
            joined = flat(without_terms(widened(state, join(state, after, instruction))))
            found = structured(initial, (begin[i] if i in kept else each for i, each in enumerate(joined)))
            # The first iteration only finds the unchanged arrays, so it cannot be the fixed point.
            if iteration > 0 and same(state, found):
                break
            state = found
        else:
            return _structured_like(initial, mixed(instruction, UNKNOWN_OPERATION))
        decided = self.run(condition, [before])
        assert isinstance(decided, Value)
        still = kept
        # Rows decide together when such a loop ends, but that changes the last digits at most.
        if decided.mixed is not None and instruction.operation in CONVERGING:
            decided = Value()
        if decided.mixed is not None:
            loop = Loop(terms=self.terms, initial=begin, state=flat(before), after=flat(after), condition=decided)
            still |= independent_of_iterations(loop)
        decided = settled(decided, instruction)
        depending = flat(_subject_to(decided, state, instruction))
        return structured(initial, (flat(state)[i] if i in still else each for i, each in enumerate(depending)))


def _structured_like(like: Known, value: Value) -> Known:
    return tuple(_structured_like(each, value) for each in like) if isinstance(like, tuple) else value


def _subject_to(decision: Value, value: Known, instruction: Instruction) -> Known:
    """`value`, if whether or how often it was computed depends on `decision`."""
    if isinstance(value, tuple):
        return tuple(_subject_to(decision, each, instruction) for each in value)
    if value.mixed is not None:
        return value
    if decision.mixed is not None:
        return Value(mixed=decision.mixed)
    if decision.uniform and decision.placed is None:
        return value
    return together([settled(value, instruction), decision], instruction)


def _uniform(step: Step) -> Known:
    """Tokens, and the numbers of the only device."""
    return together(step.operands, step.instruction)


def _with_dimension_size(step: Step) -> Known:
    value = together(step.operands, step.instruction)
    return with_integers(value, step.operands[0].integers, step.operands, step.instruction)


def _dimension_size(step: Step) -> Known:
    program, instruction, shapes = step.program, step.instruction, step.shapes
    (dimension,) = instruction.attribute("dimensions")
    small, large = shapes[0].sizes[dimension]
    factor = program.factor((small, large))
    if small == large:
        return Value(integers=integers.between(small, small))
    if factor is None:
        return Value(placed=Cause(instruction=instruction, reason=PLACED))
    return Value(integers=integers.between(0, 0, batch=factor))


TRANSFER: Mapping[str, Transfer] = {
    **dict.fromkeys(elementwise.OPCODES, elementwise.elementwise),
    "batch-norm-grad": contracting.normalization,
    "batch-norm-inference": contracting.normalization,
    "batch-norm-training": contracting.normalization,
    "after-all": _uniform,
    "broadcast": moving.broadcast,
    "cholesky": contracting.trailing(2),
    "concatenate": moving.concatenate,
    "constant": constants.constant,
    "convolution": contracting.convolution,
    "custom-call": contracting.custom_call,
    "dot": contracting.dot,
    "dynamic-slice": indexing.dynamic_slice,
    "dynamic-update-slice": indexing.dynamic_update_slice,
    "fft": contracting.fft,
    "gather": indexing.gather,
    "get-dimension-size": _dimension_size,
    "iota": constants.iota,
    "pad": moving.pad,
    "partition-id": _uniform,
    "reduce": contracting.reduce,
    "reduce-window": contracting.reduce_window,
    "replica-id": _uniform,
    "reshape": moving.reshape,
    "reverse": moving.reverse,
    "rng": contracting.random,
    "rng-bit-generator": contracting.random,
    "rng-get-and-update-state": contracting.random,
    "scatter": indexing.scatter,
    "select-and-scatter": contracting.reduce_window,
    "set-dimension-size": _with_dimension_size,
    "slice": moving.slice_,
    "sort": contracting.sort,
    "topk": contracting.trailing(1),
    "transpose": moving.transpose,
    "triangular-solve": contracting.trailing(2),
}
"""One function for each family of opcodes."""

_CONTROL: Mapping[str, Callable[[_Analysis, Instruction, Sequence[Known]], Known]] = {
    "call": _Analysis.call,
    "conditional": _Analysis.conditional,
    "get-tuple-element": _Analysis.element,
    "tuple": _Analysis.tuple_,
    "while": _Analysis.while_,
}


def rows_of(listing: HloListing, signature: Signature) -> Rows:
    """The outputs whose rows depend on one another: all of them if independence cannot be proved."""
    # Without a batch there is only one row.
    if not any(tensor.has_batch_axis for tensor in signature.inputs):
        return INDEPENDENT
    if listing.fault:
        return _not_shown(signature, f"it does not compile at other batch sizes: {listing.fault}")
    try:
        program = read_program(listing.modules)
        values = outputs_of(program, [tensor.has_batch_axis for tensor in signature.inputs])
    except Unlike as difference:
        return _not_shown(signature, f"its computation changes with the batch size: {difference}")
    meetings = (_meeting(tensor, value) for tensor, value in zip(signature.outputs, values, strict=True))
    # Sizes that choose what is computed may choose otherwise at sizes that were not traced.
    chosen = {each.output: _choice(signature, each) for each in listing.choices if each.by_batch}
    found = (meeting or chosen.get(number) for number, meeting in enumerate(meetings))
    return Rows(meetings=tuple(meeting for meeting in found if meeting is not None))


def _choice(signature: Signature, found: SizeChoice) -> Meeting:
    output = signature.outputs[found.output].name
    return Meeting(output=output, node=found.node, operation=found.operation, reason=CHOSEN)


def _not_shown(signature: Signature, reason: str) -> Rows:
    outputs = signature.outputs
    return Rows(meetings=tuple(Meeting(output=t.name, node="", operation="", reason=reason) for t in outputs))


def _meeting(tensor: Tensor, value: Value) -> Meeting | None:
    cause = value.mixed or value.placed
    if cause is None and (value.below_batch or value.known.placed):
        cause = Cause(instruction=None, reason=PLACED)
    own_rows = Axis(dimension=0) if tensor.has_batch_axis else None
    # Callers read rows along the first axis, so rows must not lie along another one.
    if (cause is None and value.axis not in (None, own_rows)) or value.iteration:
        cause = Cause(instruction=None, reason=INTERACT)
    if cause is None:
        return None
    found = cause.instruction
    return Meeting(
        output=tensor.name,
        node="" if found is None else found.node,
        operation="" if found is None else found.opcode,
        reason=cause.reason,
    )
