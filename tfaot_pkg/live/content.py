"""The content of a live object as a digest: its numbers, and the code of its author that computes with them.

Code of installed packages counts by its name alone. Of the author's own modules counts what a function names in them
(`helpers.scale`, also if it imports them itself); what it looks up by a computed name is not seen. An object with parts
that change from call to call, such as a lock, is built anew each time.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

_INSTALLED = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def content_of(*values: Any) -> bytes:
    """The SHA-256 of all that `values` consist of."""
    walk = _Walk()
    for value in values:
        walk.value(value)
    return walk.digest.digest()


class _Walk:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []  # so that no id is used twice
        self._reached: set[tuple[str, str]] = set()  # names in modules

    def _tell(self, *parts: object) -> None:
        for part in parts:
            text = part if isinstance(part, bytes) else str(part).encode("utf-8", "backslashreplace")
            self.digest.update(len(text).to_bytes(8, "little") + text)

    def value(self, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self._tell(type(value).__name__, repr(value))
            return
        if id(value) in self._seen:
            self._tell("again", self._seen[id(value)])
            return
        self._seen[id(value)] = len(self._seen)
        self._held.append(value)
        if (array := _array_of(value)) is not None:
            self._tell("array", array.dtype, array.shape, np.ascontiguousarray(array).tobytes())
        elif isinstance(value, Mapping):
            self._tell("mapping", len(value))
            for key, each in value.items():
                self.value(key)
                self.value(each)
        elif isinstance(value, list | tuple | set | frozenset):
            self._tell(type(value).__name__, len(value))
            for each in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
                self.value(each)
        else:
            self._object(value)

    def _object(self, value: Any) -> None:
        if isinstance(value, types.CodeType):
            self._tell("code", value.co_code, value.co_names, value.co_varnames)
            self.value(value.co_consts)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.value(value.__func__)
            self.value(value.__self__)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            self._module(value, [name for name in vars(value) if not name.startswith("__")])
        elif isinstance(value, types.BuiltinFunctionType):
            self._tell("name", value.__name__)
        elif isinstance(value, property):
            self.value([value.fget, value.fset, value.fdel])
        elif isinstance(value, functools.cached_property):
            self.value(value.func)
        else:
            self.value(type(value))
            wrapped = getattr(value, "__wrapped__", None) or getattr(value, "python_function", None)
            if isinstance(wrapped, types.FunctionType | types.MethodType):
                self.value(wrapped)
            else:
                self._state(value)

    def _state(self, value: Any) -> None:
        """What pickle would store of an object, without its parts."""
        try:
            parts = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 (of any library) what cannot be read must not be taken for another one
            self._tell(os.urandom(16))
            return
        self.value(parts if isinstance(parts, str) else [[*each] if _is_iterator(each) else each for each in parts])

    def _function(self, function: types.FunctionType) -> None:
        self._tell("function", function.__module__, function.__qualname__)
        if _is_installed(function.__module__):
            return
        self.value(function.__code__)
        self.value(function.__defaults__)
        self.value(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                self.value(cell.cell_contents)
            except ValueError:  # nothing is in it yet
                self._tell("empty")
        names = _names_in(function.__code__)
        for name in names:
            found = function.__globals__.get(name)
            if isinstance(found, types.ModuleType):
                self._module(found, names)
            elif name in function.__globals__:
                self._tell(name)
                self.value(found)
        for name in _imports_of(function.__code__):
            self._imported(name, function.__globals__.get("__package__") or "", names)

    def _module(self, module: types.ModuleType, names: Collection[str]) -> None:
        """What stands under `names` in a module, and in the modules that it has under them."""
        self._tell("name", module.__name__)
        if _is_installed(module.__name__):
            return
        for name in sorted({*names} & vars(module).keys()):
            if (module.__name__, name) in self._reached:
                continue
            self._reached.add((module.__name__, name))
            self._tell(name)
            found = vars(module)[name]
            if isinstance(found, types.ModuleType):
                self._module(found, names)
            else:
                self.value(found)

    def _imported(self, name: str, package: str, names: Collection[str]) -> None:
        """A module that a function imports when it is called."""
        found = [sys.modules[each] for each in (name, f"{package}.{name}".strip(".")) if each in sys.modules]
        for module in found:
            self._module(module, names)
        if not found:  # it may be anything then
            self._tell(os.urandom(16))

    def _class(self, kind: type) -> None:
        self._tell("class", kind.__module__, kind.__qualname__)
        if _is_installed(kind.__module__):
            return
        for base in kind.__bases__:
            self.value(base)
        for name, each in sorted(vars(kind).items()):
            if not name.startswith("__") or isinstance(each, types.FunctionType):
                self._tell(name)
                self.value(each)


def _is_iterator(value: Any) -> bool:
    return hasattr(value, "__next__")


def _names_in(code: types.CodeType) -> list[str]:
    """The names that a function's code and the functions in it read."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [*code.co_names, *(name for each in inner for name in _names_in(each))]


def _imports_of(code: types.CodeType) -> list[str]:
    """The modules that a function's code and the functions in it import, without the dots of relative names."""
    own = [each.argval or "" for each in dis.get_instructions(code) if each.opname == "IMPORT_NAME"]
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [*own, *(name for each in inner for name in _imports_of(each))]


def _array_of(value: Any) -> Any:
    """The numbers of an array, tensor or variable; None for other objects."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value) if value.dtype != object else None
    if isinstance(value, type) or not (hasattr(value, "dtype") and hasattr(value, "shape")):
        return None
    try:
        tensor = value.detach().cpu() if hasattr(value, "detach") else value
        found = tensor.numpy() if hasattr(tensor, "numpy") else np.asarray(tensor)
    except Exception:  # noqa: BLE001 (of any library, which raises whatever it likes)
        return None
    return found if isinstance(found, np.ndarray | np.generic) else None


def _is_installed(module: str | None) -> bool:
    found = getattr(sys.modules.get(module or ""), "__file__", None)
    # Built-in modules have no file; `__main__` of a notebook has none either.
    return found.startswith(_INSTALLED) if found else module != "__main__"
