"""Expressions in a spec's strings: `{{ model.name }}-{{ env.tag }}`, as macros in CMSDIST's specs.

There are three kinds: `{{ model.NAME }}` is a value of the spec itself, `{{ env.NAME }}` a value given with -D, and
`{{ 'text' }}` the text, for strings that contain braces. They only substitute: a nightly reads specs from the network,
and expressions that could loop, call or grow would need a sandbox (decision 036).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfaot_pkg.ground.forms.document import Document, Path, dotted

MAX_TEXT = 16_384
"""Maximum length of a string, before and after expansion."""

MARKS = ("{{", "{%", "{#")
"""Not allowed in strings outside of expressions. `{%` and `{#` are reserved: other tools read them as templates."""

_MAX_REFERENCES = 50
_MARK = re.compile("|".join(map(re.escape, MARKS)))
# No quote within quotes and no nesting: one regular expression is the whole grammar.
_EXPRESSION = re.compile(r"\{\{\s*(?:(model|env)\.([^\W\d]\w*)|'([^']*)'|\"([^\"]*)\")\s*\}\}")
_FORMS = "{{ model.NAME }}, {{ env.NAME }} and {{ 'text' }}"


class Expanded(str):
    """The result of an expression: if the field is a number, this text is converted."""

    __slots__ = ()


def literal(text: str) -> str:
    """`text` written so that a spec's reader finds no expression in it, and gives it back."""
    return _MARK.sub(r"{{ '\g<0>' }}", text)


def without_expressions(value: Any) -> Any:
    """`value` with `literal` applied to all of its strings."""
    if isinstance(value, dict):
        return {key: without_expressions(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_expressions(item) for item in value]
    return literal(value) if isinstance(value, str) else value


def expand(document: Document, defines: Mapping[str, str]) -> set[Path]:
    """Replace every string of `document.data` by its expansion.

    A string that cannot be expanded becomes None, and a fault of the document. Returns the paths of these strings.
    """
    expander = _Expander(document, defines)
    document.data = expander.walk(document.data, ())
    return expander.failed


class _Fault(Exception):
    """What is wrong with an expression."""


class _Expander:
    def __init__(self, document: Document, defines: Mapping[str, str]) -> None:
        self._document = document
        self._model = document.data.get("model") if isinstance(document.data, dict) else None
        self._defines = defines
        self._done: dict[Path, str | _Fault] = {}
        self._active: list[Path] = []
        self.failed: set[Path] = set()

    def walk(self, value: Any, path: Path) -> Any:
        """`value` with its strings expanded."""
        # Recursion is safe: a document has at most forms.document.MAX_DEPTH levels.
        if isinstance(value, dict):
            return {key: self.walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.walk(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return self._text(value, path)
        except _Fault as fault:
            self._document.report(path, str(fault))
            self.failed.add(path)
            return None

    def _text(self, text: str, path: Path) -> str:
        """The expansion of the string at `path`; computed once, which also bounds the work for nested references."""
        if len(text) > MAX_TEXT:
            raise _Fault(f"must have at most {MAX_TEXT} characters, got {len(text)}")
        if not any(mark in text for mark in MARKS):
            return text
        if path in self._active:
            circle = " -> ".join(map(dotted, [*self._active[self._active.index(path) :], path]))
            raise _Fault(f"refers to itself: {circle}")
        # Each reference takes several frames of Python's stack, which has a limit.
        if len(self._active) >= _MAX_REFERENCES:
            raise _Fault(f"refers to another value through more than {_MAX_REFERENCES} others")
        if path not in self._done:
            self._active.append(path)
            try:
                self._done[path] = self._expanded(text)
            except _Fault as fault:
                # Kept as well: all strings that refer to this one report its fault.
                self._done[path] = fault
            finally:
                self._active.pop()
        result = self._done[path]
        if isinstance(result, _Fault):
            raise result
        return result

    def _expanded(self, text: str) -> Expanded:
        length, pieces = 0, []
        for piece in self._pieces(text):
            length += len(piece)
            # Checked per piece: ten references to ten references would otherwise grow before the check.
            if length > MAX_TEXT:
                raise _Fault(f"gives more than {MAX_TEXT} characters")
            pieces.append(piece)
        return Expanded("".join(pieces))

    def _pieces(self, text: str) -> Iterator[str]:
        position = 0
        while mark := _MARK.search(text, position):
            yield text[position : mark.start()]
            found = _EXPRESSION.match(text, mark.start())
            if found is None:
                raise _Fault(f"is not a valid expression at character {mark.start() + 1}: there are {_FORMS}")
            yield self._value(found)
            position = found.end()
        yield text[position:]

    def _value(self, found: re.Match[str]) -> str:
        holder, name, single, double = found.groups()
        if holder is None:
            return single if single is not None else double
        if holder == "env":
            try:
                return self._defines[name]
            except KeyError:
                raise _Fault(
                    f"env.{name} has no value: give it with -D {name}=... (in a registry.yaml: defines)"
                ) from None
        value = self._model.get(name) if isinstance(self._model, dict) else None
        if isinstance(value, str):
            return self._text(value, ("model", name))
        if value is None or isinstance(value, dict | list):
            raise _Fault(f"model.{name} has no value in this spec")
        return self._document.texts["model", name]  # as written in the file: 1.10 is not 1.1
