"""The verifier of loops: what is inside of its array is proven, and what is not is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from itertools import count, product
from typing import Any

import numpy as np
import pytest

from tests.compiler.random_programs import Grower
from tests.compiler.test_passes import CASES
from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.body import Inner
from tfaot_pkg.compiler.bounds import OutOfBounds, check_bounds
from tfaot_pkg.compiler.chains import Step
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.elements import Access, Component, Place, Store
from tfaot_pkg.compiler.emit import emit, loops_of
from tfaot_pkg.compiler.instructions import (
    Assign,
    Call,
    Declare,
    Return,
    Swap,
    Written,
)
from tfaot_pkg.compiler.loops import (
    Block,
    For,
    Forever,
    Function,
    Nest,
    Node,
    Sharing,
    View,
    Within,
)
from tfaot_pkg.compiler.passes.pipeline import run
from tfaot_pkg.compiler.pieces import Row
from tfaot_pkg.compiler.polynomials import is_never_negative
from tfaot_pkg.compiler.program import BATCH, ONE, ZERO, Operation, Program, Size, Symbol, Unsupported
from tfaot_pkg.compiler.text import parse

_N, _M = Size.symbol("n"), Size.symbol("m")
_SYMBOLS = (Symbol("n", 5, minimum=2), Symbol("m", 6))
_BATCHES = (1, 2, 3, 17)


def _values(size: Size) -> Iterator[int]:
    """Of a polynomial, for some batches and all sizes."""
    for batch, n, m in product(_BATCHES, range(2, 6), range(1, 7)):
        yield size.at(batch, {"n": n, "m": m})


def test_a_polynomial_is_proven_exactly_if_it_is_never_negative() -> None:
    """Against all its values. It is linear in the batch, so few batches show its sign."""
    random, monomials = np.random.default_rng(1), [(), (BATCH,), ("n",), ("m",), (BATCH, "n"), ("m", "n"), ("n", "n")]
    found = set()
    for _ in range(400):
        size = Size.of((monomial, int(random.integers(-4, 9))) for monomial in monomials)
        wanted = all(value >= 0 for value in _values(size))
        falls = any(value < 0 for value in _values(size.per_row))  # negative for a batch that is large enough
        assert is_never_negative(size, _SYMBOLS) == (wanted and not falls), str(size)
        found.add(wanted and not falls)
    assert found == {True, False}


def test_large_ranges_are_proven_by_few_boxes() -> None:
    wide = (Symbol("n", 1 << 20), Symbol("m", 1 << 20))
    product_, sum_ = _N * _M, _N + _M + Size(-1)
    assert is_never_negative(product_ + sum_ * Size(-1), wide)  # (n - 1) * (m - 1)
    assert is_never_negative(product_ * Size(0, 1) + _N * Size(-1), wide)
    assert not is_never_negative(product_ + sum_ * Size(-2), wide)


def _function(access: Access, extents: tuple[Size, ...], elements: Size) -> Function:
    line = Return(value=(Row(access, len(extents), extents),))
    return Function(nodes=(line,), arrays={"v0": elements}, buffers=(), sharing=Sharing({}), symbols=_SYMBOLS)


def _is_inside(offset: Size, factors: tuple[Size, ...], extents: tuple[Size, ...], elements: Size) -> bool:
    access = Access("p0", "v0", "f32", Index(offset, factors))
    try:
        check_bounds(_function(access, extents, elements))
    except OutOfBounds:
        return False
    return True


def test_an_access_is_inside_if_its_first_and_last_elements_are() -> None:
    rows = Size(0, 1)
    assert _is_inside(ZERO, (_N, ONE), (rows, _N), rows * _N)
    assert not _is_inside(ONE, (_N, ONE), (rows, _N), rows * _N), "one too far"
    assert not _is_inside(ZERO, (_N, ONE), (rows, _N), rows * _N + Size(-1)), "one element less"
    assert not _is_inside(ZERO, (_N + ONE, ONE), (rows, _N), rows * _N), "a longer stride"
    assert not _is_inside(ZERO, (_N, ONE), (rows + ONE, _N), rows * _N), "one row more"
    # Backwards: from the last element down to the first.
    assert _is_inside(_N + Size(-1), (_N, Size(-1)), (rows, _N), rows * _N)
    assert not _is_inside(_N + Size(-2), (_N, Size(-1)), (rows, _N), rows * _N), "before the first"
    # Right for all sizes but one.
    assert _is_inside(ZERO, (ONE,), (_N,), Size(5)) and not _is_inside(ZERO, (ONE,), (_N,), Size(4))
    assert not _is_inside(ZERO, (ONE,), (Size(3),), _N), "n may be 2"
    assert not _is_inside(ZERO, (_N + Size(-3),), (_M,), _N * _M), "a step of either sign"


def test_what_is_not_known_is_refused() -> None:
    place = Place("v0", (("k", ONE),))
    function = Function(
        nodes=(Return(value=(place,)),), arrays={"v0": Size(4)}, buffers=(), sharing=Sharing({}), symbols=()
    )
    with pytest.raises(OutOfBounds, match="k has no known range"):
        check_bounds(function)
    inside = Block(head=For("k", Size(4)), nodes=function.nodes)
    check_bounds(replace(function, nodes=(inside,)))
    with pytest.raises(OutOfBounds, match="no array v0 is known"):
        check_bounds(replace(function, nodes=(inside,), arrays={}))
    # A counter counts within its loop only; what lines make sure of holds from there on.
    with pytest.raises(OutOfBounds, match="k has no known range"):
        check_bounds(replace(function, nodes=(inside, *function.nodes)))
    check_bounds(replace(function, nodes=(Within("k", Size(4)), *function.nodes)))
    with pytest.raises(OutOfBounds, match="elements 0 to 4 of 0 to 3"):
        check_bounds(replace(function, nodes=(Within("k", Size(5)), *function.nodes)))


@cache
def functions() -> list[Function]:
    """The loops of random programs, with and without a symbol, and of the programs of the passes' tests."""
    programs: list[Program] = []
    for seed, symbolic in product(range(25), (False, True)):
        programs.append(run(Grower(np.random.default_rng(seed), symbolic=symbolic).program()))
    programs += [run(parse(case.given)) for case in CASES]
    found = []
    for program in programs:
        try:
            found.append(loops_of(program))
        except OutOfBounds:
            raise
        except (Unsupported, TypeError):  # weights that are no constants, in texts of passes
            continue
    return found


def _names(value: Any) -> list[str]:
    """The fields of a node to look into. A step has its loop twice: what it is in a chain, and alone."""
    if isinstance(value, Nest) and isinstance(value.loops, Step):
        return []
    return [field.name for field in fields(value) if field.name != "alone"]


def _parts(value: Any) -> Iterator[Any]:
    """All values within one that say where memory is read or written."""
    if isinstance(value, Access | Place | Component):
        yield value
    if is_dataclass(value) and not isinstance(value, Operation | Size):
        for name in _names(value):
            yield from _parts(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts(each)


def _changed(value: Any, change: Callable[[Any], Any], place: int, numbers: Iterator[int]) -> Any:
    """`value` with the `place`-th of its parts changed."""
    if isinstance(value, Access | Place | Component) and next(numbers) == place:
        return change(value)
    if isinstance(value, tuple):
        return tuple(_changed(each, change, place, numbers) for each in value)
    if not is_dataclass(value) or isinstance(value, Operation | Size | type):
        return value
    return replace(value, **{name: _changed(getattr(value, name), change, place, numbers) for name in _names(value)})


def _moved(part: Any, by: Size) -> Any:
    """The same access, further on by a number of elements."""
    if isinstance(part, Access):
        return replace(part, index=replace(part.index, offset=part.index.offset + by))
    if isinstance(part, Component):
        return replace(part, offset=part.offset + by)
    return replace(part, elements=part.elements + by)


def test_accesses_that_are_moved_out_of_their_arrays_are_refused() -> None:
    """Each access of random programs, moved by the size of its array: none of them stays inside."""
    kinds = set()
    for function in functions()[::3]:
        parts = [*_parts(function.nodes)]
        for place, part in enumerate(parts):
            size = function.arrays.get(part.base)
            if size is None:
                continue
            moved = _changed(function.nodes, partial(_moved, by=size + ONE), place, count())
            with pytest.raises(OutOfBounds):
                check_bounds(replace(function, nodes=moved))
            kinds.add(type(part))
    assert kinds == {Access, Place, Component}


def test_arrays_that_are_one_element_shorter_are_refused() -> None:
    """Of nearly all: a few are longer than what is read of them, as the input of a slice."""
    refused = tried = 0
    for function in functions():
        for name, elements in function.arrays.items():
            tried += 1
            try:
                check_bounds(replace(function, arrays={**function.arrays, name: elements + Size(-1)}))
            except OutOfBounds:
                refused += 1
    assert tried > 1000 and refused > 0.85 * tried


def test_views_that_reach_too_far_are_refused() -> None:
    """What points into an array is as long as what it was made of."""
    view = View("w1", (Size(4), ONE), (Size(2), Size(3)))
    for elements, is_inside in ((7, True), (8, False)):
        line = Return(value=(Place("w1", elements=Size(elements)),))
        function = Function(nodes=(view, line), arrays={}, buffers=(), sharing=Sharing({}), symbols=())
        if is_inside:
            check_bounds(function)
        else:
            with pytest.raises(OutOfBounds):
                check_bounds(function)


_STATE: list[Node] = [
    Declare(name="s1", kind="auto*", value=("v0",)),
    Declare(name="s1_next", kind="auto*", value=("v1",)),
    View("s1", (ONE,), (Size(4),)),
    View("s1_next", (ONE,), (Size(4),)),
]
_SWAP = Swap(one="s1", other="s1_next")


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([*_STATE, Block(head=Forever(), nodes=(_SWAP,))], ""),
        ([Declare(name="s2", kind="float", value=("0",)), Block(head=Forever(), nodes=(Assign(name="s2", value=("1",)),))], ""),
        ([*_STATE[:3], View("s1_next", (ONE,), (Size(3),)), _SWAP], "their arrays differ in size"),
        ([*_STATE[:1], *_STATE[2:], _SWAP], "s1_next gets a new value, but no block around declares it"),
        ([Block(head=Forever(), nodes=tuple(_STATE)), _SWAP], "s1 gets a new value, but no block around declares it"),
        ([Declare(name="s2", kind="const float", value=("0",)), Assign(name="s2", value=("1",))], "as a variable that changes"),
        ([Declare(name="p", kind="float* const", value=("v0",)), Assign(name="p", value=("v1",))], "as a variable that changes"),
        ([*_STATE, Assign(name="s1", value=("s1 + 1",))], "more is known of the old one"),
        (
            [Declare(name="i", kind="std::size_t", value=("0",)), Within("i", Size(4)), Assign(name="i", value=("9",))],
            "more is known of the old one",
        ),
    ],
)  # fmt: skip
def test_variables_that_change_are_declared_so_and_keep_what_is_known_of_them(nodes: list[Node], why: str) -> None:
    arrays = {"v0": Size(4), "v1": Size(4)}
    function = Function(nodes=tuple(nodes), arrays=arrays, buffers=(), sharing=Sharing({}), symbols=())
    if why:
        with pytest.raises(OutOfBounds, match=why):
            check_bounds(function)
    else:
        check_bounds(function)


def test_calls_that_may_write_what_they_read_are_refused() -> None:
    """The two arrays of a state are never the same one, though each name may be that of either."""
    one, other = (Place(name, elements=Size(4)) for name in ("s1", "s1_next"))
    call = Call(function="softmax", arguments=(Size(1), one, Written(other)))
    aliases = {"s1": ("v0", "v1"), "s1_next": ("v0", "v1")}
    for apart, is_right in (({frozenset(("s1", "s1_next"))}, True), (set(), False)):
        arrays = {"s1": Size(4), "s1_next": Size(4)}
        function = Function(nodes=(call,), arrays=arrays, buffers=(), sharing=Sharing(aliases, apart), symbols=())
        if is_right:
            check_bounds(function)
        else:
            with pytest.raises(OutOfBounds, match="reads s1 and may write it as s1_next"):
                check_bounds(function)


def test_no_code_is_made_of_loops_that_are_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA compiles a model whose loops are wrong."""
    program = run(Grower(np.random.default_rng(0)).program())
    emit(program, "program")
    monkeypatch.setattr("tfaot_pkg.compiler.emitter.EachLoop", _reading_too_far)
    with pytest.raises(Unsupported, match=r"elements .* of 0 to"):
        emit(program, "program")


def _reading_too_far(*, inner: Inner, stores: tuple[Store, ...]) -> EachLoop:
    """A loop that writes an element behind the last one."""
    moved = replace(stores[0], access=_moved(stores[0].access, ONE))
    return EachLoop(inner=inner, stores=(moved, *stores[1:]))
