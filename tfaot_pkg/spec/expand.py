"""Expressions in a spec's strings: `{{ model.name }}-{{ env.tag }}`, as macros in CMSDIST's specs.

Jinja2 in a sandbox, cut down to what cannot loop, call or grow: names `model` (the spec's own values) and `env` (given
with -D), `{% if %}`, comparisons, `~` and `+`, and the filters and tests listed below. A spec comes from the network
in a nightly, so an expression is held to be hostile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError, nodes
from jinja2.sandbox import SandboxedEnvironment

from tfaot_pkg.errors import SpecError
from tfaot_pkg.forms.document import Document, Path, dotted
from tfaot_pkg.wording import shown

MAX_TEXT = 16_384
"""Characters that a string may have, before and after."""

FILTERS = (
    "capitalize",
    "d",
    "default",
    "first",
    "int",
    "last",
    "length",
    "lower",
    "replace",
    "string",
    "title",
    "trim",
    "upper",
)
TESTS = ("defined", "undefined", "eq", "equalto", "ne", "lt", "le", "gt", "ge", "in", "none", "string", "number")

_MAX_NODE_DEPTH = 40
_MAX_EXPRESSIONS = 200  # each costs a millisecond: Jinja compiles it to Python
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem,
    nodes.Filter, nodes.Test, nodes.CondExpr, nodes.If, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
    nodes.Add, nodes.Sub, nodes.Neg, nodes.Pos, nodes.Concat, nodes.Keyword,
)  # fmt: skip
MARKS = ("{{", "{%", "{#")


class Expanded(str):
    """A string that came out of an expression: where a number is due, its text may be one."""

    __slots__ = ()


def expand(document: Document, defines: Mapping[str, str]) -> set[Path]:
    """Replace every string of `document.data` by its expansion.

    A string that cannot be expanded becomes None and a fault of the document; the paths of these are returned.
    """
    expander = _Expander(document, defines)
    document.data = expander.walk(document.data, ())
    return expander.failed


def defines_from(arguments: Iterable[str]) -> dict[str, str]:
    """The values of `-D key=value` options. Raises SpecError on an argument without `=` or with an odd key."""
    defines: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", key):
            raise SpecError(
                f"-D {shown(argument)}: must be key=value, where key is a name of letters, digits and '_'",
                hint="-D tag=v3 gives {{ env.tag }} its value",
            )
        defines[key] = value
    return defines


class _Fault(Exception):
    """What is wrong with an expression."""


class _Values:
    """The mapping behind `model` or `env`. Expressions see its items only."""

    __slots__ = ("_get", "_label")

    def __init__(self, label: str, get: Callable[[str], object]) -> None:
        self._label, self._get = label, get

    def missing(self, key: str) -> str:
        """What to say of a `key` without a value."""
        hint = f": give it with -D {key}=... (in a registry.yaml: defines)" if self._label == "env" else " in this spec"
        return f"{self._label}.{key} has no value{hint}"

    def __getitem__(self, key: str) -> object:
        return self._get(key)

    def __str__(self) -> str:
        raise _Fault(f"{self._label} alone is not a text: name a part of it, such as {self._label}.name")


class _Missing(StrictUndefined):
    """A name without a value: an error when used, fine for `default` and `is defined`."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return self._undefined_hint
        if isinstance(self._undefined_obj, _Values):
            return self._undefined_obj.missing(str(self._undefined_name))
        return f"{self._undefined_name} is not defined"


class _Environment(SandboxedEnvironment):
    def __init__(self) -> None:
        super().__init__(undefined=_Missing, keep_trailing_newline=True, autoescape=False)
        self.globals.clear()
        self.filters = {name: self.filters[name] for name in FILTERS if name != "replace"} | {"replace": _replace}
        self.tests = {name: self.tests[name] for name in TESTS}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Parts of `model` and `env` only: no method or attribute of a Python object is ever looked up."""
        if not isinstance(obj, _Values):
            raise _Fault(f"only model and env have parts, so .{attribute} is not allowed")
        try:
            return obj[attribute]
        except KeyError:
            return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self.getattr(obj, argument)


def _replace(text: object, old: str, new: str) -> str:
    """Jinja's `replace`, which could otherwise multiply a string's length."""
    subject, old, new = str(text), str(old), str(new)
    if len(subject) + subject.count(old) * max(len(new) - len(old), 0) > MAX_TEXT:
        raise _Fault(f"gives more than {MAX_TEXT} characters")
    return subject.replace(old, new)


class _Expander:
    def __init__(self, document: Document, defines: Mapping[str, str]) -> None:
        self._document = document
        self._model = document.data.get("model") if isinstance(document.data, dict) else None
        self._environment = _Environment()
        self._context = {
            "model": _Values("model", self._model_value),
            "env": _Values("env", defines.__getitem__),
        }
        self._done: dict[Path, str | _Fault] = {}
        self._active: list[Path] = []
        self.failed: set[Path] = set()

    def walk(self, value: Any, path: Path) -> Any:
        """`value` with its strings expanded. The document's depth is limited, so recursion is fine."""
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

    def _model_value(self, key: str) -> object:
        if not isinstance(self._model, dict) or not isinstance(key, str):
            raise KeyError(key)
        value, path = self._model[key], ("model", key)
        if isinstance(value, str):
            return self._text(value, path)
        if value is None or isinstance(value, (dict, list)):
            raise KeyError(key)
        return self._document.texts[path]

    def _text(self, text: str, path: Path) -> str:
        """The expansion of the string at `path`; computed once, which also bounds what references can multiply."""
        if len(text) > MAX_TEXT:
            raise _Fault(f"must have at most {MAX_TEXT} characters, got {len(text)}")
        if not any(mark in text for mark in MARKS):
            return text
        if path in self._active:
            circle = " -> ".join(map(dotted, [*self._active[self._active.index(path) :], path]))
            raise _Fault(f"refers to itself: {circle}")
        if path not in self._done and len(self._done) + len(self._active) >= _MAX_EXPRESSIONS:
            raise _Fault(f"a spec has at most {_MAX_EXPRESSIONS} strings with expressions")
        if path not in self._done:
            self._done[path] = self._render(text, path)
        result = self._done[path]
        if isinstance(result, _Fault):
            raise result
        return result

    def _render(self, text: str, path: Path) -> str | _Fault:
        self._active.append(path)
        try:
            tree = self._environment.parse(text)
            _check_nodes(tree)
            template = self._environment.from_string(tree)
            result = "".join(self._limited(template.generate(self._context)))
            return Expanded(result)
        except _Fault as fault:
            return fault
        except TemplateSyntaxError as error:
            return _Fault(f"is not a valid expression: {error.message}")
        except UndefinedError as error:
            return _Fault(str(error.message))
        except RecursionError:
            return _Fault("is an expression that is nested too deep")
        except Exception as error:  # noqa: BLE001 what an expression does with its operands (1 + 'a') may raise anything
            return _Fault(f"cannot be evaluated: {error}")
        finally:
            self._active.pop()

    @staticmethod
    def _limited(pieces: Iterable[str]) -> Iterable[str]:
        length = 0
        for piece in pieces:
            length += len(piece)
            if length > MAX_TEXT:
                raise _Fault(f"gives more than {MAX_TEXT} characters")
            yield piece


def _check_nodes(tree: nodes.Template) -> None:
    """Raise _Fault on anything but the harmless part of Jinja's language, before it is compiled."""
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if not isinstance(node, _NODES):
            raise _Fault(f"{type(node).__name__.lower()} is not allowed in an expression of a spec")
        if depth > _MAX_NODE_DEPTH:
            raise _Fault("is an expression that is nested too deep")
        if isinstance(node, nodes.Name) and node.name not in ("model", "env"):
            raise _Fault(f"{node.name} is not defined: expressions may use model.* and env.*")
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            raise _Fault(f"there is no filter {shown(node.name)}: there are {', '.join(FILTERS)}")
        if isinstance(node, nodes.Test) and node.name not in TESTS:
            raise _Fault(f"there is no test {shown(node.name)}: there are {', '.join(TESTS)}")
        waiting.extend((child, depth + 1) for child in node.iter_child_nodes())
