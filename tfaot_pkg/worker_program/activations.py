"""Activations in a graph: single operations, and the forms in which TensorFlow and Keras write the others.

A form is matched backwards, from its last operation, and says which tensor x it is a function of. What is found is
{"activation": its name}, with its parameters: `slope` of a leaky ReLU, `low` and `high` of a clip.
"""

import math

_OPERATIONS = {
    "Elu": "elu",
    "Selu": "selu",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
}
_DEPTH = 8
"""At least the operations of the longest form, one after the other."""


def activation_of(view, tensor: tuple):
    """(its last tensor, what it is) of the activation that is all that is done to `tensor`, else None."""
    if tensor in view.fetched:
        return None
    users = view.consumers(tensor)
    if len(users) == 1:
        return _bounded(view, tensor) or _single(users[0])
    for node in _ends_behind(view, tensor) if users else ():
        for form in _FORMS[node.op]:
            inside = _Inside(view, tensor)
            found = form(inside, (node.name, 0))
            if found and inside.closed((node.name, 0)):
                return (node.name, 0), found
    return None


def _single(node):
    if node.op in _OPERATIONS:
        return (node.name, 0), {"activation": _OPERATIONS[node.op]}
    found = _leaky(node.attr["alpha"].f) if node.op == "LeakyRelu" else None
    return found and ((node.name, 0), found)


def _leaky(slope):
    """X > 0 ? x : x * slope."""
    return {"activation": "leaky_relu", "slope": slope} if slope is not None and math.isfinite(slope) else None


def _bounded(view, tensor: tuple):
    """The longest row of minima and maxima behind `tensor` that is a ReLU or a clip."""
    found, low, high = None, -math.inf, math.inf
    while (node := view.only_consumer(tensor)) is not None and (bounds := _bounds(view, node, tensor)):
        tensor = (node.name, 0)
        low, high = (min(max(value, bounds[0]), bounds[1]) for value in (low, high))
        if (low, high) == (0, math.inf):
            found = tensor, {"activation": "relu"}
        elif math.isfinite(low) and math.isfinite(high):
            found = tensor, {"activation": "clip", "low": low, "high": high}
    return found


def _bounds(view, node, tensor: tuple):
    """The lower and the upper bound that `node` sets for what `tensor` has, None where it does something else."""
    if node.op in ("Relu", "Relu6"):
        return 0.0, 6.0 if node.op == "Relu6" else math.inf
    if node.op not in ("Maximum", "Minimum", "ClipByValue") or not view.same_size(tensor, (node.name, 0)):
        return None
    sides = [view.input(node, index) for index in range(3 if node.op == "ClipByValue" else 2)]
    numbers = [_number(view, side) for side in sides if side != tensor]
    if None in numbers or len(numbers) != len(sides) - 1 or any(map(math.isnan, numbers)):
        return None
    if node.op == "ClipByValue":
        return numbers[0], max(numbers)  # max: as TensorFlow has it where the bounds are the wrong way round
    return (numbers[0], math.inf) if node.op == "Maximum" else (-math.inf, numbers[0])


def _number(view, tensor: tuple):
    """The value of a constant of one element, else None."""
    value = view.constant(tensor)
    return float(value.reshape(())) if value is not None and value.size == 1 else None


def _ends_behind(view, tensor: tuple) -> list:
    """The operations in which forms end that `tensor` reaches in some operations, nearest first."""
    found, seen, front = [], set(), [tensor]
    for _ in range(_DEPTH):
        users = {node.name: node for each in front for node in view.consumers(each)}
        fresh = [users[name] for name in sorted(users) if name not in seen]
        seen |= set(users)
        found += [node for node in fresh if node.op in _FORMS]
        front = [(node.name, 0) for node in fresh]
    return found


class _Inside:
    """What a form consists of between x and its end: `nodes` seen so far."""

    def __init__(self, view, x: tuple) -> None:
        self.view, self.x = view, x
        self._names: set = set()

    def inputs(self, tensor: tuple, *operations: str):
        """The inputs of `tensor`, where one of `operations` makes it, else None."""
        node = self.view.node(tensor)
        if node.op not in operations or tensor == self.x:
            return None
        self._names.add(node.name)
        return tuple(self.view.input(node, index) for index in range(sum(text[0] != "^" for text in node.input)))

    def factors(self, tensor: tuple, operation: str):
        """Both orders of the inputs of `tensor`, where `operation` with two inputs makes it; else nothing."""
        inputs = self.inputs(tensor, operation)
        return [inputs, inputs[::-1]] if inputs else []

    def argument(self, tensor: tuple, operation: str):
        """The input of `tensor`, where `operation` makes it, else None."""
        inputs = self.inputs(tensor, operation)
        return inputs[0] if inputs else None

    def is_number(self, tensor: tuple, number: float) -> bool:
        value = _number(self.view, tensor)
        return value is not None and math.isclose(value, number, rel_tol=1e-5)

    def times(self, tensor: tuple, number: float):
        """What is multiplied by `number`, or divided by its reciprocal, in `tensor`; None where that is not done."""
        for factor, other in self.factors(tensor, "Mul"):
            if self.is_number(factor, number):
                return other
        quotient = self.inputs(tensor, "RealDiv")
        return quotient[0] if quotient and self.is_number(quotient[1], 1 / number) else None

    def is_scaled(self, tensor: tuple, number: float) -> bool:
        """Whether `tensor` is x * number."""
        return self.times(tensor, number) == self.x

    def slope(self, tensor: tuple):
        """The number s where `tensor` is x * s, else None."""
        return next((_number(self.view, a) for a, b in self.factors(tensor, "Mul") if b == self.x), None)

    def plus(self, tensor: tuple, number: float):
        """What `number` is added to, in `tensor`; None where it is something else."""
        sums = self.factors(tensor, "AddV2") or self.factors(tensor, "Add")
        return next((b for a, b in sums if self.is_number(a, number)), None)

    def closed(self, end: tuple) -> bool:
        """Whether nothing outside uses what lies between x and `end`, nor x itself."""
        view = self.view
        between = [self.x, *((name, 0) for name in self._names if (name, 0) != end)]
        users = {node.name for tensor in between for node in view.consumers(tensor)}
        return users <= self._names and not any(tensor in view.fetched for tensor in between)


def _swish(inside: _Inside, tensor: tuple):
    """The form x * sigmoid(x), the latter of x * 1 in TensorFlow's own."""
    for gate, x in inside.factors(tensor, "Mul"):
        source = inside.argument(gate, "Sigmoid")
        if x == inside.x and source is not None and (source == x or inside.is_scaled(source, 1)):
            return {"activation": "swish"}
    return None


def _gelu(inside: _Inside, tensor: tuple):
    """The form (x / 2) * gate, in any order."""
    for half, gate in inside.factors(tensor, "Mul"):
        if inside.is_scaled(half, 0.5):
            sums = inside.plus(gate, 1)
            if _is_erfc_gate(inside, gate) or (sums and _is_erf_gate(inside, sums)):
                return {"activation": "gelu_erf"}
            if sums and _is_tanh_gate(inside, sums):
                return {"activation": "gelu_tanh"}
    return None


def _is_erfc_gate(inside: _Inside, tensor: tuple) -> bool:
    """Whether `tensor` is erfc(-x / sqrt(2))."""
    source = inside.argument(tensor, "Erfc")
    negative = inside.times(source, math.sqrt(0.5)) if source else None
    return bool(negative) and inside.argument(negative, "Neg") == inside.x


def _is_erf_gate(inside: _Inside, tensor: tuple) -> bool:
    """Whether `tensor` is erf(x / sqrt(2))."""
    source = inside.argument(tensor, "Erf")
    return bool(source) and inside.is_scaled(source, math.sqrt(0.5))


def _is_tanh_gate(inside: _Inside, tensor: tuple) -> bool:
    """Whether `tensor` is tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))."""
    source = inside.argument(tensor, "Tanh")
    sums = inside.times(source, math.sqrt(2 / math.pi)) if source else None
    return bool(sums) and any(x == inside.x and _is_cubic(inside, cubic) for x, cubic in inside.factors(sums, "AddV2"))


def _is_cubic(inside: _Inside, tensor: tuple) -> bool:
    """Whether `tensor` is 0.044715 * x**3."""
    cube = inside.times(tensor, 0.044715)
    powers = inside.inputs(cube, "Pow") if cube else None
    return bool(powers) and powers[0] == inside.x and inside.is_number(powers[1], 3)


def _hard_swish(inside: _Inside, tensor: tuple):
    """The form x * (relu6(x + 3) / 6), or (x * relu6(x + 3)) / 6."""
    product = inside.times(tensor, 1 / 6)
    for gate, x in inside.factors(product or tensor, "Mul"):
        bounded = gate if product else inside.times(gate, 1 / 6)
        source = inside.argument(bounded, "Relu6") if bounded else None
        if x == inside.x and source and inside.plus(source, 3) == x:
            return {"activation": "hard_swish"}
    return None


def _leaky_maximum(inside: _Inside, tensor: tuple):
    """The form max(x, x * slope), with a slope up to 1."""
    for scaled, x in inside.factors(tensor, "Maximum"):
        slope = inside.slope(scaled) if x == inside.x else None
        if slope is not None and 0 < slope <= 1:
            return _leaky(slope)
    return None


def _leaky_choice(inside: _Inside, tensor: tuple):
    """The form x > 0 ? x : x * slope, with any comparison that says so."""
    condition, *sides = inside.inputs(tensor, "SelectV2", "Select")
    for operations, (x, scaled) in ((("Greater", "GreaterEqual"), sides), (("Less", "LessEqual"), sides[::-1])):
        compared = inside.inputs(condition, *operations)
        if compared and compared[0] == x == inside.x and inside.is_number(compared[1], 0):
            return _leaky(inside.slope(scaled))
    return None


_FORMS = {
    "Mul": (_swish, _gelu, _hard_swish),
    "RealDiv": (_hard_swish,),
    "Maximum": (_leaky_maximum,),
    "SelectV2": (_leaky_choice,),
    "Select": (_leaky_choice,),
}
"""By the operation that they end in."""
