"""How rows go through single instructions of HLO, right at the border between independent and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.program.listings import Builder, listing, rows
from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.worker_program.messages.listing import HloListing

Write = Callable[[Builder], int]
N = 6  # elements of a row where they are counted


def _input(b: Builder, *shape: int) -> int:
    return b.main.parameter((b.batch, *shape))


def _gather(b: Builder, index: Callable[[Builder], int], *, rows_of_operand: int = 1) -> int:
    """One element of the batch axis for each row, by an index [batch, 1]."""
    x = b.main.parameter((b.batch * rows_of_operand, 4)) if rows_of_operand == 1 else b.main.add(
        "reshape", (b.batch * rows_of_operand,), b.main.parameter((b.batch, rows_of_operand)))  # fmt: skip
    shape = (b.batch, 4) if rows_of_operand == 1 else (b.batch,)
    sizes = [1, 4] if rows_of_operand == 1 else [1]
    offset = [1] if rows_of_operand == 1 else []
    return b.main.add("gather", shape, x, index(b), offset=offset, collapsed=[0], indexed=[0], vector=1,
                      operand_batch=[], index_batch=[], sizes=sizes)  # fmt: skip


def _own(b: Builder) -> int:
    return b.main.iota((b.batch, 1))


def _plus(b: Builder, index: int, number: int) -> int:
    added = b.main.add("broadcast", (b.batch, 1), b.main.constant(number), dtype="s32", dimensions=[])
    return b.main.add("add", (b.batch, 1), index, added, dtype="s32")


def _times(b: Builder, index: int, number: int) -> int:
    factor = b.main.add("broadcast", (b.batch, 1), b.main.constant(number), dtype="s32", dimensions=[])
    return b.main.add("multiply", (b.batch, 1), index, factor, dtype="s32")


def _limited(b: Builder, most: int) -> int:
    """An index of which only the bounds are known: the row's own data between 0 and `most`."""
    low, high = (
        b.main.add("broadcast", (b.batch, 1), b.main.constant(n), dtype="s32", dimensions=[]) for n in (0, most)
    )
    data = b.main.add("convert", (b.batch, 1), b.main.add("slice", (b.batch, 1), _input(b, 4), slices=[[0, b.batch, 1], [0, 1, 1]]),
                      dtype="s32")  # fmt: skip
    return b.main.add("clamp", (b.batch, 1), low, data, high, dtype="s32")


def _folded_numbers(b: Builder) -> int:
    return b.main.constant(list(range(b.batch)), (b.batch, 1))


def _dynamic_slice(b: Builder, start: int) -> int:
    x = _input(b, 4)
    one = b.main.add("dynamic-slice", (1, 4), x, b.main.constant(start), b.main.constant(0), sizes=[1, 4])
    row = b.main.add("reshape", (4,), one)
    return b.main.add("add", (b.batch, 4), x, b.main.add("broadcast", (b.batch, 4), row, dimensions=[1]))


def _loop(b: Builder, *, read: int = 0, write: int = 0, turns: int = 0, carry: bool = False) -> int:
    """A loop that writes twice row i + read into row i + write, for i below the batch size + turns."""
    state = {"tuple": [["s32", []], ["f32", [b.batch, 4]], ["f32", [b.batch, 4]], ["f32", [1, 4]]]}
    body = b.computation()
    i, out, x, last = (body.add("get-tuple-element", shape, body.parameter(state) if not n else body.number * 1000, index=n,
                                dtype="s32" if n == 0 else "f32")
                       for n, shape in enumerate(((), (b.batch, 4), (b.batch, 4), (1, 4))))  # fmt: skip
    zero = body.constant(0)

    def index(distance: int) -> int:
        return body.add("add", (), i, body.constant(distance), dtype="s32") if distance else i

    row = body.add("dynamic-slice", (1, 4), x, index(read), zero, sizes=[1, 4])
    twice = body.add("add", (1, 4), row, last if carry else row)
    written = body.add("dynamic-update-slice", (b.batch, 4), out, twice, index(write), zero)
    body.add(
        "tuple", state, body.add("add", (), i, body.constant(1), dtype="s32"), written, x, twice if carry else last
    )
    condition = b.computation()
    turn = condition.add("get-tuple-element", (), condition.parameter(state), index=0, dtype="s32")
    condition.add("compare", (), turn, condition.constant(b.batch + turns), dtype="pred", direction="LT")
    m = b.main
    x = _input(b, 4)
    empty = m.add("broadcast", (b.batch, 4), m.constant(0.0, dtype="f32"), dimensions=[])
    first = m.add("broadcast", (1, 4), m.constant(0.0, dtype="f32"), dimensions=[])
    done = m.add(
        "while", state, m.add("tuple", state, m.constant(0), empty, x, first), called=[body.number, condition.number]
    )
    return m.add("get-tuple-element", (b.batch, 4), done, index=1)


def _mirrored(b: Builder, rows: int) -> int:
    """The batch axis padded by mirroring, with `rows` on either side, as TensorFlow's bridge writes it."""
    x = _input(b, 4)
    turned = b.main.add("reverse", (b.batch, 4), x, dimensions=[0])
    before = b.main.add("slice", (rows, 4), turned, slices=[[b.batch - 1 - rows, b.batch - 1, 1], [0, 4, 1]])
    behind = b.main.add("slice", (rows, 4), turned, slices=[[1, 1 + rows, 1], [0, 4, 1]])
    padded = b.main.add("concatenate", (b.batch + 2 * rows, 4), before, x, behind, dimensions=[0])
    return b.main.add("slice", (b.batch, 4), padded, slices=[[0, b.batch, 1], [0, 4, 1]])


def _normalized(b: Builder, array: tuple[int, ...], feature: int, result: int, *, scale: str = "equal") -> int:
    """A result of normalization in training of the input, as `array`, by rows or by columns."""
    size, one = array[feature], b.main.constant(1.0, dtype="f32")
    x = _input(b, 4)
    vectors = {
        "equal": lambda: b.main.add("broadcast", (size,), one, dimensions=[]),
        "own": lambda: b.main.add(
            "reshape", (size,), b.main.add("slice", (b.batch, 1), x, slices=[[0, b.batch, 1], [2, 3, 1]])
        ),
        "of the row before": lambda: b.main.add(
            "reverse", (size,), b.main.add("reshape", (size,), b.main.add("slice", (b.batch, 1), x, slices=[[0, b.batch, 1], [2, 3, 1]])),
            dimensions=[0],
        ),
    }  # fmt: skip
    given, scaled = b.main.add("reshape", array, x), vectors[scale]()
    shapes: dict[str, Any] = {"tuple": [("f32", array), ("f32", (size,)), ("f32", (size,))]}
    both = b.main.add("batch-norm-training", shapes, given, scaled, vectors["equal"](), feature=feature)
    made = b.main.add("get-tuple-element", shapes["tuple"][result][1], both, index=result)
    return made if result else b.main.add("reshape", (b.batch, 4), made)


INDEPENDENT: dict[str, Write] = {
    "a gather of the own row": lambda b: _gather(b, _own),
    "a gather by folded numbers": lambda b: _gather(b, _folded_numbers),
    "a gather by numbers there and back": lambda b: _gather(b, lambda b: _plus(b, _plus(b, _own(b), 3), -3)),
    "a flat index into the own row": lambda b: _gather(b, lambda b: _plus(b, _times(b, _own(b), N), N - 1), rows_of_operand=N),
    "a flat index with known bounds": lambda b: _gather(
        b, lambda b: b.main.add("add", (b.batch, 1), _times(b, _own(b), N), _limited(b, N - 1), dtype="s32"), rows_of_operand=N),
    "a loop over the rows": _loop,
    "a reshape that keeps rows": lambda b: b.main.add("reshape", (b.batch, 4), b.main.add("reshape", (b.batch * 4,), _input(b, 4))),
    "every fourth of merged rows": lambda b: b.main.add(
        "slice", (b.batch,), b.main.add("reshape", (b.batch * 4,), _input(b, 4)), slices=[[1, b.batch * 4, 4]]),
    "the second of two batches": lambda b: b.main.add(
        "slice", (b.batch, 4), b.main.add("concatenate", (2 * b.batch, 4), *[_input(b, 4)] * 2, dimensions=[0]),
        slices=[[b.batch, 2 * b.batch, 1], [0, 4, 1]]),
    "the largest of equal rows": lambda b: b.main.add("add", (b.batch, 4), _input(b, 4), b.main.add(
        "broadcast", (b.batch, 4), b.main.add(
            "reduce", (4,), b.main.add("broadcast", (b.batch, 4), b.main.constant(2.0, dtype="f32"), dimensions=[]),
            b.main.constant(0.0, dtype="f32"), called=[b.reducer("maximum")], dimensions=[0]), dimensions=[1])),
    "an index within the batch, clamped": lambda b: _gather(b, lambda b: b.main.add(
        "clamp", (b.batch, 1), b.main.add("broadcast", (b.batch, 1), b.main.constant(0), dtype="s32", dimensions=[]), _own(b),
        b.main.add("broadcast", (b.batch, 1), b.main.constant(b.batch - 1), dtype="s32", dimensions=[]), dtype="s32")),
    "a reshape without elements": lambda b: b.main.add(
        "add", (b.batch, 2), _input(b, 2), b.main.add(
            "dot", (b.batch, 2), b.main.add("reshape", (b.batch, 0), b.main.add(
                "slice", (b.batch, 0), _input(b, 2), slices=[[0, b.batch, 1], [0, 0, 1]])),
            b.main.constant([], (0, 2), dtype="f32"), contracting=[[1], [0]], batch=[[], []])),
    "padding of no rows by mirroring": lambda b: _mirrored(b, 0),
    "a constant in every row": lambda b: b.main.add(
        "add", (b.batch, 2), _input(b, 2), b.main.constant([1.0, 2.0] * b.batch, (b.batch, 2), dtype="f32")),
}  # fmt: skip


def _narrow(b: Builder) -> int:
    """Numbers of rows in a type that counts to 255."""
    return b.main.add("convert", (b.batch, 1), b.main.add("convert", (b.batch, 1), _own(b), dtype="u8"), dtype="s32")


def _unsigned(b: Builder) -> int:
    """0 - 1 is the largest number of the type, and the index is clamped to the last row."""
    one = b.main.add("broadcast", (b.batch, 1), b.main.constant(1, dtype="u32"), dtype="u32", dimensions=[])
    numbers = b.main.add("convert", (b.batch, 1), _own(b), dtype="u32")
    before = b.main.add("subtract", (b.batch, 1), numbers, one, dtype="u32")
    zero = b.main.add("broadcast", (b.batch, 1), b.main.constant(0, dtype="u32"), dtype="u32", dimensions=[])
    below = b.main.add("compare", (b.batch, 1), before, zero, dtype="pred", direction="LT")
    return b.main.add("select", (b.batch, 1), below, before, before, dtype="u32")


def _cut_weights(b: Builder, start: int, length: int) -> int:
    """Each row plus `length` of 200 weights, from `start` on."""
    weights = b.main.add("iota", (200,), dtype="f32", dimensions=[0])
    part = b.main.add("slice", (length,), weights, slices=[[start, start + length, 1]])
    if length == 1:
        part = b.main.add("reshape", (), part)
        return b.main.add("add", (b.batch,), _input(b), b.main.add("broadcast", (b.batch,), part, dimensions=[]))
    return b.main.add("add", (b.batch,), _input(b), part)


INDEPENDENT |= {
    "rows as features, as in Keras 2's layer normalization": lambda b: _normalized(b, (1, b.batch, 4, 1), 1, 0),
    "means of rows": lambda b: _normalized(b, (1, b.batch, 4, 1), 1, 1),
    "rows as features with numbers of their own": lambda b: _normalized(b, (b.batch, 4), 0, 0, scale="own"),
}

DEPENDENT: dict[str, tuple[Write, str]] = {
    "as many weights as rows": (lambda b: _cut_weights(b, 0, b.batch), "slice"),
    "the weight of the batch size": (lambda b: _cut_weights(b, b.batch, 1), "slice"),
    "a gather of the row before": (lambda b: _gather(b, lambda b: _plus(b, _own(b), -1)), "gather"),
    "a gather of every second row": (lambda b: _gather(b, lambda b: _times(b, _own(b), 2)), "gather"),
    "a gather by data": (lambda b: _gather(b, lambda b: _limited(b, 4)), "gather"),
    "a flat index beyond the row": (
        lambda b: _gather(b, lambda b: _plus(b, _times(b, _own(b), N), N), rows_of_operand=N), "gather"),
    "a flat index before the row": (
        lambda b: _gather(b, lambda b: _plus(b, _times(b, _own(b), N), -1), rows_of_operand=N), "gather"),
    "a flat index with bounds too wide": (lambda b: _gather(
        b, lambda b: b.main.add("add", (b.batch, 1), _times(b, _own(b), N), _limited(b, N), dtype="s32"), rows_of_operand=N), "gather"),
    "a clamp to fewer rows": (lambda b: _gather(b, lambda b: b.main.add(
        "clamp", (b.batch, 1), b.main.add("broadcast", (b.batch, 1), b.main.constant(0), dtype="s32", dimensions=[]), _own(b),
        b.main.add("broadcast", (b.batch, 1), b.main.constant(b.batch - 2), dtype="s32", dimensions=[]), dtype="s32")), "gather"),
    "row numbers in a narrow type": (lambda b: _gather(b, _narrow), "gather"),
    "unsigned row numbers below zero": (lambda b: _gather(b, _unsigned), "gather"),
    "the first row": (lambda b: _dynamic_slice(b, 0), "dynamic-slice"),
    "a loop that reads the next row": (lambda b: _loop(b, read=1), "dynamic-slice"),
    "a loop that writes the next row": (lambda b: _loop(b, write=1), "while"),
    "a loop with a turn less": (lambda b: _loop(b, turns=-1), "dynamic-slice"),
    "a loop that hands a row on": (lambda b: _loop(b, carry=True), "while"),
    "padding of a row by mirroring": (lambda b: _mirrored(b, 1), "reverse"),
    "a reshape that cuts rows": (
        lambda b: b.main.add("reshape", (b.batch, 4), b.main.add("transpose", (4, b.batch), _input(b, 4), dimensions=[1, 0])), "reshape"),
    "half of merged rows": (lambda b: b.main.add(
        "slice", (b.batch * 2,), b.main.add("reshape", (b.batch * 4,), _input(b, 4)), slices=[[0, b.batch * 2, 1]]), "slice"),
    "the sum of equal rows": (lambda b: b.main.add("add", (b.batch, 4), _input(b, 4), b.main.add(
        "broadcast", (b.batch, 4), b.main.add(
            "reduce", (4,), b.main.add("broadcast", (b.batch, 4), b.main.constant(2.0, dtype="f32"), dimensions=[]),
            b.main.constant(0.0, dtype="f32"), called=[b.reducer("add")], dimensions=[0]), dimensions=[1])), "reduce"),
    "the batch size as a number": (lambda b: b.main.add("multiply", (b.batch, 4), _input(b, 4), b.main.add(
        "broadcast", (b.batch, 4), b.main.constant(float(b.batch), dtype="f32"), dimensions=[])), "constant"),
    "a constant that differs by row": (lambda b: b.main.add(
        "add", (b.batch,), _input(b), b.main.constant([float(i * i) for i in range(b.batch)], (b.batch,), dtype="f32")), "constant"),
    "an operation that is not known": (lambda b: b.main.add("new-operation", (b.batch, 4), _input(b, 4)), "new-operation"),
    "a custom call that is not known": (lambda b: b.main.add("custom-call", (b.batch, 4), _input(b, 4), target="mine"), "custom-call"),
}  # fmt: skip


DEPENDENT |= {
    "columns as features in training": (lambda b: _normalized(b, (b.batch, 4), 1, 0), "batch-norm-training"),
    "one feature of all rows": (lambda b: _normalized(b, (1, 1, b.batch, 4), 1, 0), "batch-norm-training"),
    "rows as features with numbers of other rows": (
        lambda b: _normalized(b, (b.batch, 4), 0, 0, scale="of the row before"), "reverse",
    ),
}  # fmt: skip


@pytest.mark.parametrize("write", INDEPENDENT.values(), ids=INDEPENDENT.keys())
def test_rows_that_stay_apart_are_shown_to(write: Write) -> None:
    assert rows(write).meetings == ()


@pytest.mark.parametrize(("write", "operation"), DEPENDENT.values(), ids=DEPENDENT.keys())
def test_rows_that_meet_are_found_where_they_do(write: Write, operation: str) -> None:
    (meeting,) = rows(write).meetings
    assert (meeting.operation, meeting.node) == (operation, f"node/{operation}")


def test_an_output_without_a_batch_axis_that_is_made_of_rows_depends_on_them() -> None:
    def total(b: Builder) -> int:
        zero = b.main.constant(0.0, dtype="f32")
        return b.main.add("reduce", (), _input(b, 4), zero, called=[b.reducer("add")], dimensions=[0, 1])

    def constant(b: Builder) -> int:
        _input(b, 4)
        return b.main.constant(1.0, dtype="f32")

    assert rows(total, output_has_batch_axis=False).meetings[0].operation == "reduce"
    assert rows(constant, output_has_batch_axis=False).independent


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda b: "tanh" if b.batch > 100 else "sine", "tanh"),
        (lambda b: "tanh" if b.batch < 4 else "sine", "tanh"),
    ],
    ids=["large", "small"],
)
def test_a_computation_that_changes_with_the_batch_size_is_dependent(change: Any, reason: str) -> None:
    (meeting,) = rows(lambda b: b.main.add(change(b), (b.batch, 4), _input(b, 4))).meetings
    assert "its computation changes with the batch size" in meeting.reason and reason in meeting.reason


def test_a_size_of_two_may_coincide_with_another_one() -> None:
    assert rows(lambda b: b.main.add("tanh" if b.batch == 2 else "sine", (b.batch, 4), _input(b, 4))).independent


def test_constants_must_lie_on_a_line() -> None:
    def square(b: Builder) -> int:
        limit = b.main.add("broadcast", (b.batch, 1), b.main.constant(b.batch**2), dtype="s32", dimensions=[])
        return _gather(b, lambda b: b.main.add("minimum", (b.batch, 1), _own(b), limit, dtype="s32"))

    assert "does not grow with the batch" in rows(square).meetings[0].reason


def test_what_does_not_compile_at_other_sizes_is_dependent() -> None:
    signature = Signature(
        inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None,)),),
        outputs=(
            Tensor(name="y", dtype=DType.FLOAT32, shape=(None,)),
            Tensor(name="z", dtype=DType.INT8, shape=(None,)),
        ),
    )
    found = rows_of(HloListing(modules=(), fault="Dimensions must be equal"), signature)
    assert [str(meeting) for meeting in found.meetings] == [
        f"output '{name}': it does not compile at other batch sizes: Dimensions must be equal" for name in "yz"
    ]


def test_without_a_batch_axis_among_the_inputs_nothing_can_meet() -> None:
    signature = Signature(inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(4,)),), outputs=())
    assert rows_of(listing(lambda b: b.main.parameter((4,))), signature).independent
