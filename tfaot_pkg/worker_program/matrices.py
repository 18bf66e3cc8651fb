"""Constant matrices of products, however these are written."""

import math
import re


def matrix_of(view, node):
    """The weights of a product as (inputs, outputs), None where they are no constant matrix."""
    if node.op == "Einsum":
        return _of_einsum(view, node)
    weights = view.constant(view.input(node, 1))
    if weights is None or weights.ndim != 2 or _is_set(node, "transpose_a", "adj_x"):
        return None
    return weights.T if _is_set(node, "transpose_b", "adj_y") else weights


def _is_set(node, *names: str) -> bool:
    """Whether one of the attributes is true. To read one that is not there would add it, without a value."""
    return any(name in node.attr and node.attr[name].b for name in names)


def _of_einsum(view, node):
    """The same where an Einsum sums over the last axes of its first operand, and gives axes of the second instead."""
    parts = re.fullmatch(r"(\.\.\.)?([A-Za-z]+),([A-Za-z]+)->(\.\.\.)?([A-Za-z]+)", node.attr["equation"].s.decode())
    weights = view.constant(view.input(node, 1)) if parts else None
    if weights is None or parts[1] != parts[4]:
        return None
    _, taken, of_weights, _, given = parts.groups()
    if len({*taken}) < len(taken):  # a diagonal
        return None
    summed = [axis for axis in taken if axis not in given]
    columns = [axis for axis in given if axis not in taken]
    rows = taken[: len(taken) - len(summed)]
    if [*taken] != [*rows, *summed] or [*given] != [*rows, *columns] or sorted(of_weights) != sorted(summed + columns):
        return None
    ordered = weights.transpose([of_weights.index(axis) for axis in summed + columns])
    return ordered.reshape(math.prod(ordered.shape[: len(summed)]), -1)
