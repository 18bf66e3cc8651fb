"""The steps that traces of a program show."""

from __future__ import annotations

from tfaot_pkg.compiler.instructions import Remark
from tfaot_pkg.compiler.loops import Block, Else, Head, If, Scope, text_lines
from tfaot_pkg.compiler.program import Operation, Shape, Size
from tfaot_pkg.compiler.steps import with_comments, with_steps


def operation(number: int, node: str) -> Operation:
    return Operation(id=number, opcode="add", type=Shape("f32", (Size(0, 1), Size(4))), node=node)


def test_steps_begin_at_statements_of_the_body_and_once_for_each_operation() -> None:
    first, second = operation(1, "a/add"), operation(2, "b/add")
    last = operation(3, "b/add")

    def block(head: Head, text: str, maker: Operation, inside: Operation) -> Block:
        return Block(head=head, nodes=(line(text, inside),), maker=maker)

    def line(text: str, maker: Operation | None) -> Remark:
        return Remark(remark=text, maker=maker)

    nodes: list[Remark | Block] = [
        block(Scope(), "x();", first, second),
        block(If(("s0",)), "y();", second, first),
        block(Else(), "z();", last, second),
        line("give();", None),
    ]
    lines = ["  {", "    x();", "  }", "  if (s0) {", "    y();", "  }", "  else {", "    z();", "  }", "  give();"]
    with_calls, steps = with_steps(nodes)
    written = [*text_lines(with_calls)]
    assert [line for line in written if "begin" not in line] == lines
    assert [written.index(f"  profiled.begin({number});") for number in range(2)] == [0, 4]
    # What nothing in particular makes belongs to the step before it.
    assert [(step.name, step.node) for step in steps] == [("add f32[batch,4]", "a/add"), ("add f32[batch,4]", "b/add")]

    # For readers: a comment where another node begins.
    made = [*text_lines(with_comments([*nodes[:3], line("give();", last)]))]
    assert [line for line in made if "//" not in line] == lines
    assert [(made.index(f"  // {node}"), node) for node in ("a/add", "b/add")] == [(0, "a/add"), (4, "b/add")]


def test_names_of_a_hostile_model_stay_inside_of_their_string() -> None:
    _, (step,) = with_steps([Remark(remark="f();", maker=operation(1, 'x"; system("id"); //\\\n??/' + "a" * 999))])
    assert not set('"\\\n?') & set(step.node) and len(step.node) == 300
