"""The document of an .aten file, of a program of torch.export."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .axes import Axes, Limits
from .constants import Constants
from .errors import ExportError
from .exported import decomposed
from .files import bytes_of
from .framework import dtype_name
from .nodes import arguments_of, line_of, module_of, operator_name

STORED = frozenset(
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 bfloat16 float16 float32 float64 complex64 "
    "complex128".split()
)
"""Element types of arrays in a file."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


class Program:
    """The program of torch.export as the document of an .aten file, and its arrays."""

    def __init__(self, torch: Any, program: Any, names: list[str], axes: list[Axes], limits: Limits) -> None:
        self.torch, self._program, self._limits = torch, decomposed(torch, program), limits
        self._names, self._axes = names, axes
        self._symbols: dict[str, str] = {}  # PyTorch's names -> ours
        self._arrays: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self.tensors: list[Any] = []
        self.answers: set[int] = set()
        """The arrays of the document, and the numbers of those that are answers."""
        self._constants = Constants(torch, self._program.graph, self._held())
        self._results = self._user_outputs()
        required, self._weights = self._constants.required(self._results)
        self.nodes = [node for node in required if node.op == "call_function"]
        self._require_no_functions()
        self._require_no_state({node.name for node in required})

    def document(self, outputs: list[str], answers: Mapping[str, Any]) -> dict[str, Any]:
        """The document without `classes`; `answer` adds to its arrays."""
        program = self._program
        placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        specs = program.graph_signature.input_specs
        taken = [spec.arg.name for spec in specs if spec.kind.name == "USER_INPUT"]
        inputs = [self._input(name, axes, placeholders[value]) for value, name, axes in self._given(taken)]
        if len(self._results) != len(outputs):
            raise ExportError("the model returns an output in one way and not in another: wrap it")
        return {
            "format": 1,
            "framework": "PyTorch",
            "version": self.torch.__version__,
            "inputs": inputs,
            "outputs": [{"name": name, "value": value} for name, value in zip(outputs, self._results, strict=True)],
            "weights": {name: self._array(tensor) for name, tensor in self._weights.items()},
            "nodes": [self._node(node) for node in self.nodes],
            "answers": {name: self.answer(tensor) for name, tensor in answers.items()},
            "symbols": self._ranges(),
            "guards": self._guards(),
            "arrays": self._arrays,
        }

    def answer(self, tensor: Any) -> int:
        """The number of an array that is an answer, or an input for one."""
        number = self._array(tensor)
        self.answers.add(number)
        return number

    def _given(self, taken: list[str]) -> Iterator[tuple[str, str, Axes]]:
        if len(taken) != len(self._names):
            raise ExportError(f"the program takes {len(taken)} tensors, and there are {len(self._names)} inputs")
        return zip(taken, self._names, self._axes, strict=True)

    def _input(self, name: str, axes: Axes, node: Any) -> dict[str, Any]:
        found: list[int | str] = []
        for place, (axis, size) in enumerate(zip(axes, node.meta["val"].shape, strict=True)):
            text = str(size)
            if text.isdigit():
                if isinstance(axis, str):
                    raise ExportError(
                        f"axis {place} of the input {name} cannot vary in this model: give its size instead of {axis!r}"
                    )
                found.append(int(text))
                continue
            if not _PLAIN_NAME.fullmatch(text):
                raise ExportError(f"axis {place} of the input {name} must be {text}: give its size")
            ours = axis if isinstance(axis, str) else "batch" if not place else f"n{len(self._symbols)}"
            found.append(self._symbols.setdefault(text, ours))
        return {"name": name, "value": node.name, "dtype": dtype_name(node.meta["val"].dtype), "axes": found}

    def _user_outputs(self) -> list[str]:
        specs = [each for each in self._program.graph_signature.output_specs if each.kind.name == "USER_OUTPUT"]
        return [each.arg.name for each in specs if type(each.arg).__name__ == "TensorArgument" and each.arg.name]

    def _held(self) -> dict[str, Any]:
        """Parameters, buffers and other constants that the model does not change, by the names of their values."""
        program, changed = self._program, self._changed()
        tensors = {**program.constants, **program.state_dict}
        specs = [each for each in program.graph_signature.input_specs if each.target not in changed]
        return {each.arg.name: tensors[each.target] for each in specs if self.torch.is_tensor(tensors.get(each.target))}

    def _changed(self) -> set[str]:
        specs = self._program.graph_signature.output_specs
        return {each.target for each in specs if each.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION")}

    def _require_no_functions(self) -> None:
        """Raise ExportError for operators that take functions, such as torch.cond: a document has one graph."""
        for name in map(operator_name, (node.target for node in self.nodes)):
            if name.startswith("torch.ops.higher_order."):
                raise ExportError(
                    f"the model uses {name}, which takes functions: .aten files have no branches or loops that depend "
                    "on values or on the batch; compute both branches and choose with torch.where, or write the loop "
                    "in Python with a fixed number of steps"
                )

    def _require_no_state(self, names: set[str]) -> None:
        """Raise ExportError if outputs depend on what the model keeps of earlier calls, or on what is no tensor."""
        for spec in self._program.graph_signature.input_specs:
            if spec.kind.name == "USER_INPUT" or spec.arg.name not in names:
                continue
            if spec.target not in self._changed():
                raise ExportError(f"the model has {spec.kind.name.lower()} {spec.target}, which is no tensor")
            raise ExportError(
                f"the model changes {spec.target} in each call, and its results depend on that: packages keep nothing "
                "between calls; make it an input, and return its new value as an output"
            )

    def _array(self, tensor: Any) -> int:
        own = tensor.detach().cpu()
        # Of weights that several modules share, one copy.
        key = tensor.data_ptr() if own.is_contiguous() and own.numel() else -1 - len(self._arrays)
        place = self._places.get(key)
        same = None if place is None else self._arrays[place]
        wanted = {"dtype": dtype_name(own.dtype), "shape": list(own.shape)}
        if wanted["dtype"] not in STORED:
            raise ExportError(f"an array of {wanted['dtype']} cannot be stored: convert it, for example .float()")
        if same is None or place is None or any(same[name] != value for name, value in wanted.items()):
            place = len(self._arrays)
            # Kept here, so that no other tensor gets its address.
            self.tensors.append(own.contiguous())
            digest = hashlib.sha256(bytes_of(self.torch, self.tensors[-1])).hexdigest()
            self._arrays.append({**wanted, "sha256": digest})
            self._places[key] = place
        return place

    def _node(self, node: Any) -> dict[str, Any]:
        found = node.meta.get("val")
        tensors = found if isinstance(found, list | tuple) else [found]
        is_tensor = [self.torch.is_tensor(each) for each in tensors]
        return {
            "name": node.name,
            "op": operator_name(node.target),
            "arguments": {name: self._argument(value) for name, value in arguments_of(node).items()},
            "results": [self._type(each, node) if ok else None for each, ok in zip(tensors, is_tensor, strict=True)],
            "module": module_of(node),
            "line": line_of(node),
        }

    def _type(self, tensor: Any, node: Any) -> dict[str, Any]:
        dtype = tensor.dtype
        # 2.6 and 2.7 state integers for quotients of these, which are floats.
        if operator_name(node.target).startswith("aten.div.") and not arguments_of(node).get("rounding_mode"):
            dtype = dtype if dtype.is_floating_point or dtype.is_complex else self.torch.get_default_dtype()
        return {"dtype": dtype_name(dtype), "shape": [self.size(each) for each in tensor.shape]}

    def size(self, size: Any) -> Any:
        """A size in the document's form."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        symbols = sorted(expression.free_symbols, key=str)
        polynomial = expression.as_poly(*symbols) if symbols else None
        # None is no polynomial: a quotient, or a number that values decide.
        if polynomial is None or not all(str(symbol) in self._symbols for symbol in symbols):
            return None
        terms = polynomial.terms()
        named = [self._symbols[str(symbol)] for symbol in symbols]
        found = [
            [int(coefficient), [name for name, many in zip(named, powers, strict=True) for _ in range(many)]]
            for powers, coefficient in terms
        ]
        return found if all(whole == exact for (whole, _), (_, exact) in zip(found, terms, strict=True)) else None

    def _argument(self, value: Any) -> Any:
        torch = self.torch
        if isinstance(value, torch.fx.Node):
            number = self._constants.number(value)
            return {"value": value.name} if number is None else self._argument(number)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if abs(value) < float("inf") else {"number": str(value)}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, list | tuple):
            return [self._argument(each) for each in value]
        if isinstance(value, torch.dtype):
            return {"dtype": dtype_name(value)}
        if isinstance(value, torch.device | torch.layout | torch.memory_format):
            return None  # where and how elements are stored says nothing of their values
        return {"other": str(value)[:100]}

    def _ranges(self) -> dict[str, list[int | None]]:
        found: dict[str, list[int | None]] = {}
        for symbol, bounds in self._program.range_constraints.items():
            if name := self._symbols.get(str(symbol)):
                lower, upper = (int(str(end)) if str(end).isdigit() else None for end in (bounds.lower, bounds.upper))
                # Examples have two rows at least; one is as good, if the author does not say more.
                least = 1 if lower is None or (lower <= 2 and self._limits.get(name, (1, None))[0] <= 1) else lower
                found[name] = [least, None if upper is not None and upper >= 1 << 31 else upper]
        return {**found, **{name: [*ends] for name, ends in self._limits.items() if name in found}}

    def _guards(self) -> list[str]:
        node = next((n.meta["val"].shape for n in self._program.graph.nodes if n.op == "placeholder"
                     and self.torch.is_tensor(n.meta.get("val"))), ())  # fmt: skip
        environment = next((size.node.shape_env for size in node if not isinstance(size, int)), None)
        said = [str(guard.expr) for guard in environment.guards] if environment is not None else []
        named = {re.sub(r"[A-Za-z_]\w*", lambda found: self._symbols.get(found[0], found[0]), each) for each in said}
        return sorted(named)
