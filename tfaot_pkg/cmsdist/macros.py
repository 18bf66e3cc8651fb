"""RPM macros, as far as models' spec files use them; nothing is executed.

Supported: `%name`, `%{name}`, `%{?name}`, `%{?name:text}`, `%{!?name:text}`, `%%`. As in RPM, the value of a macro is
expanded where the macro is used, and an undefined macro stays in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tfaot_pkg.ground.wording import shown

_MAX_DEPTH = 64  # as in RPM
# Macros that use others twice each grow exponentially: a few lines of a hostile file must not fill our memory.
_MAX_LENGTH = 65_536
_MAX_USES = 10_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"([!?]*)([A-Za-z_][A-Za-z0-9_]*)(?:(:)(.*))?", re.DOTALL)


class MacroFault(Exception):
    """A text whose macros cannot be expanded; the message says why."""


class Macros:
    """Macros by name; those in `fixed` never change. `unknown` is called with each undefined name."""

    def __init__(self, values: Mapping[str, str], fixed: Mapping[str, str], unknown: Callable[[str], None]) -> None:
        self._values = {**values, **fixed}
        self._fixed = frozenset(fixed)
        self._unknown = unknown
        self._uses = 0

    def define(self, name: str, value: str) -> None:
        if name not in self._fixed:
            self._values[name] = value

    def undefine(self, name: str) -> None:
        if name not in self._fixed:
            self._values.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def expand(self, text: str) -> str:
        """`text` with its macros expanded. Raises MacroFault: shell and Lua macros, cycles, missing braces."""
        self._uses = 0
        return self._expand(text, 0)

    def _expand(self, text: str, depth: int) -> str:
        self._uses += 1
        if depth > _MAX_DEPTH or self._uses > _MAX_USES:
            raise MacroFault("macros refer to each other without end")
        parts: list[str] = []
        position = 0
        while (percent := text.find("%", position)) >= 0:
            parts.append(text[position:percent])
            value, position = self._one(text, percent, depth)
            parts.append(value)
        parts.append(text[position:])
        result = "".join(parts)
        if len(result) > _MAX_LENGTH:
            raise MacroFault(f"macros expand to more than {_MAX_LENGTH} characters")
        return result

    def _one(self, text: str, percent: int, depth: int) -> tuple[str, int]:
        """The value of the macro that begins at `percent`, and the position after it."""
        start = percent + 1
        following = text[start : start + 1]
        if following == "%":
            return "%", start + 1
        if following in ("(", "["):
            kind = "a shell command" if following == "(" else "an expression"
            raise MacroFault(f"%{following}...: {kind} in a macro is not executed; give its value with -D NAME=VALUE")
        if following == "{":
            end = _closing(text, start)
            return self._braced(text[start + 1 : end], depth), end + 1
        name = _NAME.match(text, start)
        if name is None:
            return "%", start
        return self._value(name[0], name[0], depth), name.end()

    def _braced(self, inside: str, depth: int) -> str:
        found = _BRACED.fullmatch(inside)
        if found is None or (found[3] and not found[1]):
            raise MacroFault(f"%{{{inside}}}: this kind of macro is not supported; give its value with -D NAME=VALUE")
        marks, name, colon, alternative = found.groups()
        if not marks:
            return self._value(name, inside, depth)
        # As in RPM, each ! negates.
        if marks.count("!") % 2:
            return self._expand(alternative or "", depth + 1) if name not in self._values else ""
        if name not in self._values:
            return ""
        return self._expand(alternative, depth + 1) if colon else self._value(name, inside, depth)

    def _value(self, name: str, written: str, depth: int) -> str:
        if name in self._values:
            return self._expand(self._values[name], depth + 1)
        self._unknown(name)
        return f"%{{{written}}}"


def _closing(text: str, start: int) -> int:
    """The position of the brace that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise MacroFault(f"unclosed brace: {shown(text[start - 1 :])}")


def holds(condition: str) -> bool:
    """Whether the condition of an `%if`, its macros expanded, is true. Raises MacroFault.

    Conditions have strings in quotes, integers, comparisons, `&&`, `||`, `!` and parentheses.
    """
    try:
        return bool(_Condition(condition).value())
    except RecursionError:
        raise MacroFault("the condition is nested too deep") from None


Value = str | int


class _Condition:
    """A parser of the conditions of `%if`; comparisons do not chain."""

    _TOKEN = re.compile(r'\s*(?:"([^"]*)"|(\d+)|(&&|\|\||==|!=|<=|>=|<|>|!|\(|\)))')

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._tokens: list[Value | tuple[str]] = []  # an operator is a tuple, a value a string or number
        position = 0
        while position < len(self._text):
            found = self._TOKEN.match(self._text, position)
            if found is None:
                raise self._fault()
            string, number, operator = found.groups()
            self._tokens.append((operator,) if operator else int(number) if number else string)
            position = found.end()

    def value(self) -> Value:
        result = self._either()
        if self._tokens:
            raise self._fault()
        return result

    def _fault(self) -> MacroFault:
        return MacroFault(f"%if {self._text}: cannot parse the condition")

    def _next_is(self, *operators: str) -> str:
        """Consume and return the next operator if it is one of these, else return ""."""
        if self._tokens and isinstance(self._tokens[0], tuple) and self._tokens[0][0] in operators:
            operator = self._tokens.pop(0)
            assert isinstance(operator, tuple)
            return operator[0]
        return ""

    def _either(self) -> Value:
        left = self._both()
        while self._next_is("||"):
            right = self._both()
            left = int(bool(left) or bool(right))
        return left

    def _both(self) -> Value:
        left = self._compared()
        while self._next_is("&&"):
            right = self._compared()
            left = int(bool(left) and bool(right))
        return left

    def _compared(self) -> Value:
        left = self._single()
        operator = self._next_is("==", "!=", "<=", ">=", "<", ">")
        if not operator:
            return left
        right = self._single()
        # As in RPM, a string and a number cannot be compared.
        if isinstance(left, str) and isinstance(right, str):
            return int(_compare(operator, left, right))
        if isinstance(left, int) and isinstance(right, int):
            return int(_compare(operator, left, right))
        raise self._fault()

    def _single(self) -> Value:
        if self._next_is("!"):
            return int(not self._single())
        if self._next_is("("):
            inside = self._either()
            if not self._next_is(")"):
                raise self._fault()
            return inside
        if not self._tokens or isinstance(self._tokens[0], tuple):
            raise self._fault()
        value = self._tokens.pop(0)
        assert not isinstance(value, tuple)
        return value


def _compare(operator: str, left: str | int, right: str | int) -> bool:
    order = (left > right) - (left < right)  # type: ignore[operator] # both are strings, or both numbers
    return {"==": order == 0, "!=": order != 0, "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}[
        operator
    ]
