"""Activations in a graph: single operations, and the forms in which TensorFlow writes swish and GELU.

A form is matched backwards, from its last operation, and says which tensor x it is a function of.
"""

import math

_OPERATIONS = {
    "Relu": "relu",
    "Elu": "elu",
    "Selu": "selu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
}
_DEPTH = 8
"""At least the operations of the longest form, one after the other."""


def activation_of(view, tensor: tuple):
    """(its last tensor, its name) of the activation that is all that is done to `tensor`, else None."""
    if tensor in view.fetched:
        return None
    users = view.consumers(tensor)
    if len(users) == 1 and users[0].op in _OPERATIONS:
        return (users[0].name, 0), _OPERATIONS[users[0].op]
    for node in _products_behind(view, tensor) if len(users) > 1 else ():
        for name, form in _FORMS:
            inside = _Inside(view, tensor)
            if form(inside, (node.name, 0)) and inside.closed((node.name, 0)):
                return (node.name, 0), name
    return None


def _products_behind(view, tensor: tuple) -> list:
    """The multiplications that `tensor` reaches in some operations, nearest first: each form ends in one."""
    found, seen, front = [], set(), [tensor]
    for _ in range(_DEPTH):
        users = {node.name: node for each in front for node in view.consumers(each)}
        fresh = [users[name] for name in sorted(users) if name not in seen]
        seen |= set(users)
        found += [node for node in fresh if node.op == "Mul"]
        front = [(node.name, 0) for node in fresh]
    return found


class _Inside:
    """What a form consists of between x and its end: `nodes` seen so far."""

    def __init__(self, view, x: tuple) -> None:
        self.view, self.x = view, x
        self._names: set = set()

    def factors(self, tensor: tuple, operation: str):
        """Both orders of the inputs of `tensor`, where `operation` with two inputs makes it; else nothing."""
        node = self.view.node(tensor)
        if node.op != operation or tensor == self.x:
            return []
        self._names.add(node.name)
        inputs = self.view.input(node, 0), self.view.input(node, 1)
        return [inputs, inputs[::-1]]

    def argument(self, tensor: tuple, operation: str):
        """The input of `tensor`, where `operation` makes it, else None."""
        node = self.view.node(tensor)
        if node.op != operation or tensor == self.x:
            return None
        self._names.add(node.name)
        return self.view.input(node, 0)

    def is_number(self, tensor: tuple, number: float) -> bool:
        value = self.view.constant(tensor)
        return value is not None and value.ndim == 0 and math.isclose(value, number, rel_tol=1e-5)

    def is_scaled(self, tensor: tuple, number: float) -> bool:
        """Whether `tensor` is x * number."""
        return any(self.is_number(a, number) and b == self.x for a, b in self.factors(tensor, "Mul"))

    def plus_one(self, tensor: tuple):
        """What one is added to, in `tensor`; None where it is something else."""
        sums = self.factors(tensor, "AddV2")
        return next((b for a, b in sums if self.is_number(a, 1)), None)

    def closed(self, end: tuple) -> bool:
        """Whether nothing outside uses what lies between x and `end`, nor x itself."""
        view = self.view
        between = [self.x, *((name, 0) for name in self._names if (name, 0) != end)]
        users = {node.name for tensor in between for node in view.consumers(tensor)}
        return users <= self._names and not any(tensor in view.fetched for tensor in between)


def _swish(inside: _Inside, tensor: tuple) -> bool:
    """The form x * sigmoid(x), the latter of x * 1 in TensorFlow's own."""
    for gate, x in inside.factors(tensor, "Mul"):
        source = inside.argument(gate, "Sigmoid")
        if x == inside.x and source is not None and (source == x or inside.is_scaled(source, 1)):
            return True
    return False


def _gelu(inside: _Inside, tensor: tuple, gate) -> bool:
    """The form (x / 2) * (1 + gate(x)), in any order."""
    for half, sums in inside.factors(tensor, "Mul"):
        gated = inside.plus_one(sums) if inside.is_scaled(half, 0.5) else None
        if gated is not None and gate(inside, gated):
            return True
    return False


def _erf_gate(inside: _Inside, tensor: tuple) -> bool:
    """The gate erf(x / sqrt(2))."""
    source = inside.argument(tensor, "Erf")
    if source is None:
        return False
    if inside.is_scaled(source, math.sqrt(0.5)):
        return True
    quotients = inside.factors(source, "RealDiv")
    return bool(quotients) and quotients[0][0] == inside.x and inside.is_number(quotients[0][1], math.sqrt(2))


def _tanh_gate(inside: _Inside, tensor: tuple) -> bool:
    """The gate tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))."""
    source = inside.argument(tensor, "Tanh")
    if source is None:
        return False
    for factor, sums in inside.factors(source, "Mul"):
        if inside.is_number(factor, math.sqrt(2 / math.pi)):
            return any(x == inside.x and _is_cubic(inside, cubic) for x, cubic in inside.factors(sums, "AddV2"))
    return False


def _is_cubic(inside: _Inside, tensor: tuple) -> bool:
    """Whether `tensor` is 0.044715 * x**3."""
    for factor, cube in inside.factors(tensor, "Mul"):
        if inside.is_number(factor, 0.044715):
            powers = inside.factors(cube, "Pow")
            return bool(powers) and powers[0][0] == inside.x and inside.is_number(powers[0][1], 3)
    return False


_FORMS = (
    ("swish", _swish),
    ("gelu_erf", lambda inside, tensor: _gelu(inside, tensor, _erf_gate)),
    ("gelu_tanh", lambda inside, tensor: _gelu(inside, tensor, _tanh_gate)),
)
