"""Programs as text, and back: one line per operation, `%4 f32[batch,32] = add %2 %3`, its regions indented below it.

Floats have as few digits as identify them; NaN with other bits than NumPy's are hexadecimal. Nodes are left out. Large
arrays may stand in a list beside the text, which has their numbers: `array:3`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, NoReturn, get_args, get_origin

import numpy as np

from tfaot_pkg.compiler.attributes import MalformedAttributes, attributes_of, field_types
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import (
    NUMPY_TYPES,
    Extent,
    Literal,
    Monomial,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Symbol,
    Type,
)
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.forest import Forest, packed, unpacked
from tfaot_pkg.worker_program.messages.formulas import FORMULA, Formula

_SHOWN = 8
"""Elements of a constant in an outline, and of one that is written in base64."""
_WRITTEN = 64
"""Elements of a constant that is written as numbers."""
_BESIDE = "array:"
_REGION_NAMES = {("while", 0): "body", ("while", 1): "condition"}


def text_of(program: Program, beside: list[Array] | None = None) -> str:
    """All of `program` except the names of nodes. `parse` reads it.

    Large arrays are appended to `beside` instead, if it is given.
    """
    return _Writer(is_outline=False, beside=beside).text(program)


def nodes_of(program: Program) -> list[str]:
    """The nodes of all operations, in the order of the text, which leaves them out."""
    return [each.node for each in program.entry.everything()]


def with_nodes(program: Program, nodes: Sequence[str]) -> Program:
    """`program`, which was read, with the `nodes_of` the one that was written. Raises ValueError for another number."""
    names = iter(nodes)

    def named(region: Region) -> Region:
        return replace(region, operations=tuple(map(each, region.operations)))

    def each(operation: Operation) -> Operation:
        node = next(names)
        return replace(operation, node=node, regions=tuple(map(named, operation.regions)))

    if len(nodes) != sum(1 for _ in program.entry.everything()):
        raise ValueError("another number of nodes than operations")
    return replace(program, entry=named(program.entry))


def outline_of(program: Program) -> str:
    """`program` without the elements of large constants."""
    return _Writer(is_outline=True).text(program)


def type_text(type_: Type) -> str:
    """`f32[batch,32]`, or several in brackets."""
    return f"({', '.join(map(str, type_))})" if isinstance(type_, tuple) else str(type_)


class _Writer:
    def __init__(self, *, is_outline: bool, beside: list[Array] | None = None) -> None:
        self._is_outline, self._beside = is_outline, beside

    def text(self, program: Program) -> str:
        symbols = [f"symbol {each.name} from {each.minimum} to {each.maximum}" for each in program.symbols]
        return "\n".join([*symbols, *self._lines(program.entry, ""), ""])

    def _lines(self, region: Region, indent: str) -> Iterator[str]:
        for operation in region.operations:
            yield indent + self._line(operation)
            for number, nested in enumerate(operation.regions):
                yield f"{indent}  {_REGION_NAMES.get((operation.opcode, number), 'region')}:"
                yield from self._lines(nested, indent + "    ")
        yield " ".join([f"{indent}give", *(f"%{result}" for result in region.results)])

    def _line(self, operation: Operation) -> str:
        words = [f"%{operation.id} {type_text(operation.type)} = {operation.opcode}"]
        words += [f"%{operand}" for operand in operation.operands]
        given = [(each, getattr(operation.attributes, each.name)) for each in fields(operation.attributes)]
        words += [f"{each.name}={self._value(value)}" for each, value in given if value != each.default]
        return " ".join(words)

    def _value(self, value: object) -> str:
        match value:
            case tuple():
                return f"[{','.join(map(self._value, value))}]"
            case Literal():
                parts = [self._elements(value.constant)]
                parts += [f"{'*'.join(monomial)}*{self._elements(values)}" for monomial, values in value.growing]
                return f"{{{' + '.join(parts)}}}"
            case Forest():
                return f"{{{value}}}" if self._is_outline else f"{{{self._large(packed(value))}}}"
            case str():
                return value if _WORD.fullmatch(value) else json.dumps(value)
        return str(value)

    def _elements(self, values: Array) -> str:
        if values.size > _SHOWN and values.tobytes() == values.reshape(-1)[:1].tobytes() * values.size:
            return f"{_number(values.flat[0])}..."
        if values.size > (_SHOWN if self._is_outline else _WRITTEN):
            return f"{values.size} values" if self._is_outline else self._large(values)
        return ",".join(map(_number, values.reshape(-1)))

    def _large(self, values: Array) -> str:
        if self._beside is None:
            return _base64(values)
        self._beside.append(values)
        return f"{_BESIDE}{len(self._beside) - 1}"


_WORD = re.compile(r"[A-Za-z_][\w.-]*")


def _base64(values: Array) -> str:
    little = values.astype(values.dtype.newbyteorder("<"))
    return f"base64:{base64.b64encode(little.tobytes()).decode()}"


def _number(value: Any) -> str:
    if value.dtype.kind == "f" and np.isnan(value) and value.tobytes() != value.dtype.type("nan").tobytes():
        return hex(value.view(f"u{value.dtype.itemsize}"))
    return str(value)


class TextError(ValueError):
    """Text that is no program: the message names the line."""


def parse(text: str, beside: Sequence[Array] = ()) -> Program:
    """The program that `text_of` writes as `text`, which need not be valid (verifier.py), with the arrays `beside` it.

    Raises TextError.
    """
    try:
        return _Lines(text, beside).program()
    except RecursionError:
        raise TextError("its regions are nested too deeply") from None


class _Lines:
    def __init__(self, text: str, beside: Sequence[Array]) -> None:
        self._lines = [line for line in text.split("\n") if line.strip()]
        self._next = 0
        self._beside = beside

    def program(self) -> Program:
        symbols = []
        while found := _SYMBOL.fullmatch(self._line()):
            symbols.append(Symbol(found[1], int(found[3]), int(found[2])))
            self._next += 1
        entry = self._region("")
        if self._next < len(self._lines):
            self._fail("it comes after the end of the program")
        return Program(entry=entry, symbols=tuple(symbols))

    def _line(self) -> str:
        return self._lines[self._next] if self._next < len(self._lines) else ""

    def _fail(self, why: str) -> NoReturn:
        raise TextError(f"line {self._next + 1}, {self._line().strip()[:80]!r}: {why}")

    def _region(self, indent: str) -> Region:
        operations: list[Operation] = []
        while not (found := re.fullmatch(rf"{indent}give((?: %\d+)*)", self._line())):
            if not (parts := _OPERATION.fullmatch(self._line())) or parts["indent"] != indent:
                self._fail("neither an operation nor the end of its region")
            try:
                operation = _operation(parts, self._beside)
            except (ValueError, OverflowError, MemoryError) as error:
                self._fail(str(error))
            self._next += 1
            operations.append(self._with_regions(operation, indent))
        self._next += 1
        return Region(operations=tuple(operations), results=_ids(found[1]))

    def _with_regions(self, operation: Operation, indent: str) -> Operation:
        regions: list[Region] = []
        while self._line() == f"{indent}  {_REGION_NAMES.get((operation.opcode, len(regions)), 'region')}:":
            self._next += 1
            regions.append(self._region(indent + "    "))
        return replace(operation, regions=tuple(regions)) if regions else operation


_SYMBOL = re.compile(r"symbol (\w+) from (\d+) to (\d+)")
_OPERATION = re.compile(
    r"(?P<indent> *)%(?P<id>\d+) (?P<type>[^=]+) = (?P<opcode>[\w-]+)(?P<operands>(?: %\d+)*)(?P<rest>.*)"
)
_SHAPE = re.compile(r"(\w+)\[([^\[\]]*)\]")


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(word[1:]) for word in text.split())


def _operation(parts: re.Match[str], beside: Sequence[Array]) -> Operation:
    definition = OPERATIONS.get(parts["opcode"])
    if definition is None:
        raise TextError("there is no such operation")
    type_ = _type(parts["type"])
    dtype = NUMPY_TYPES.get(type_.dtype) if isinstance(type_, Shape) else None
    reader, given, types = _Values(parts["rest"], type_, dtype, beside), {}, field_types(definition.attributes)
    while name := reader.name():
        if name not in types or name in given:
            raise TextError(f"no attribute {name}, or twice")
        given[name] = reader.value(types[name])
    try:
        attributes = attributes_of(definition.attributes, given)
    except MalformedAttributes as error:
        raise TextError(str(error)) from None
    return Operation(
        id=int(parts["id"]), opcode=parts["opcode"], type=type_, operands=_ids(parts["operands"]), attributes=attributes
    )


def _type(text: str) -> Type:
    if text.startswith("(") and text.endswith(")"):
        return tuple(_shape(each) for each in re.split(r", (?=\w+\[)", text[1:-1]) if each)
    return _shape(text)


def _shape(text: str) -> Shape:
    found = _SHAPE.fullmatch(text)
    if not found:
        raise TextError(f"{text} is no type")
    return Shape(found[1], tuple(map(_size, found[2].split(","))) if found[2] else ())


def _size(text: str) -> Size:
    try:
        return Size.of(Formula.read(text).terms)
    except ValueError as error:
        raise TextError(str(error)) from error


class _Values:
    """Reads ` name=value` one after the other; `type_` is that of the operation, for the elements of constants."""

    def __init__(self, text: str, type_: Type, dtype: np.dtype[Any] | None, beside: Sequence[Array]) -> None:
        self._text, self._at, self._type, self._dtype, self._beside = text, 0, type_, dtype, beside

    def _take(self, pattern: str) -> str | None:
        found = re.compile(pattern).match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _must(self, pattern: str, what: str) -> str:
        found = self._take(pattern)
        if found is None:
            raise TextError(f"{what} is wanted at {self._text[self._at : self._at + 20]!r}")
        return found

    def name(self) -> str:
        """The next name; "" at the end."""
        return self._must(r" \w+=", "an attribute")[1:-1] if self._at < len(self._text) else ""

    def value(self, hint: Any) -> object:
        """A value of the type `hint`."""
        if get_origin(hint) is tuple:
            return self._tuple(get_args(hint))
        if hint == Extent:
            size = _size(self._must(FORMULA.pattern, "a size"))
            return size.constant if size.is_constant else size
        if hint is Literal:
            return self._literal()
        if hint is Forest:
            content = self._must(rf"\{{(?:base64|{_BESIDE[:-1]}):[^}}]*\}}", "a forest")[1:-1]
            return unpacked(self._large(content, np.dtype(np.uint8)))
        if hint is str:
            return self._string()
        word = self._must(r"[^,\] ]+", "a value")
        return word == "True" if hint is bool and word in ("True", "False") else hint(word)

    def _tuple(self, hints: tuple[Any, ...]) -> tuple[object, ...]:
        self._must(r"\[", "[")
        made: list[object] = []
        while self._take(r"\]") is None:
            if made:
                self._must(",", "a comma")
            made.append(self.value(hints[0] if hints[-1] is Ellipsis else hints[min(len(made), len(hints) - 1)]))
        return tuple(made)

    def _string(self) -> str:
        if self._text[self._at : self._at + 1] != '"':
            return self._must(_WORD.pattern, "a word")
        found, length = json.JSONDecoder().raw_decode(self._text[self._at :])
        self._at += length
        return str(found)

    def _literal(self) -> Literal:
        if self._dtype is None or not isinstance(self._type, Shape):
            raise TextError("a constant has a type of elements")
        constant, *growing = self._must(r"\{[^}]*\}", "a constant")[1:-1].split(" + ")
        return Literal(self._array(constant), tuple(map(self._growing, growing)))

    def _growing(self, text: str) -> tuple[Monomial, Array]:
        *symbols, values = text.split("*")
        return tuple(symbols), self._array(values)

    def _array(self, text: str) -> Array:
        assert isinstance(self._type, Shape) and self._dtype is not None
        sizes = [size.constant for size in self._type.sizes if size.is_constant]
        if len(sizes) < self._type.rank:
            raise TextError("a constant has sizes that are numbers")
        if text.startswith(("base64:", _BESIDE)):
            return self._large(text, self._dtype).reshape(sizes)
        if text.endswith(" values"):
            raise TextError("the elements of a constant were left out")
        if text.endswith("..."):
            return np.full(sizes, self._number(text[:-3]))
        return np.array([self._number(each) for each in text.split(",") if each], self._dtype).reshape(sizes)

    def _large(self, text: str, dtype: np.dtype[Any]) -> Array:
        if text.startswith(_BESIDE):
            number = int(text.removeprefix(_BESIDE))
            if not 0 <= number < len(self._beside) or self._beside[number].dtype != dtype:
                raise TextError(f"there is no {text} of {dtype} beside the text")
            return self._beside[number]
        content = base64.b64decode(text.removeprefix("base64:"), validate=True)
        return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype)

    def _number(self, text: str) -> Any:
        dtype = self._dtype
        assert dtype is not None
        if dtype.kind == "b":
            if text not in ("True", "False"):
                raise TextError(f"{text} is no truth value")
            return np.bool_(text == "True")
        if dtype.kind == "f" and text.startswith("0x"):
            return np.array(int(text, 16), f"u{dtype.itemsize}").view(dtype)[()]
        return dtype.type(text)
