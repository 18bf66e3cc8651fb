"""Ways to use a package: texts that work when they are pasted into a shell, one after the other, in an empty folder.

Publishers chose names and numbers: only identifiers and numbers of the expected form become part of these texts.
"""

from __future__ import annotations

import math
import re
import struct
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from packaging.version import Version

from tfaot_pkg.catalogue.reading import listed, mapped
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.signature import DType, Part, Signature, Tensor
from tfaot_pkg.package.tree import tensor_members
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.remote.address import is_loopback
from tfaot_pkg.spec.rules import cpp_identifiers

UNKNOWN_ADDRESS = "REGISTRY-ADDRESS"
"""In the place of an address that is not known: site.js writes the one under which the page was loaded."""

_CLASS = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*", re.ASCII)
_MOST_NUMBERS = 2048  # of an input, as many as validations store (package/example.py)
_MOST_WITHIN = 32  # numbers of an input within a program; more are in a file beside it
_SHOWN, _OUTPUTS = 8, 6  # answers per output, and outputs with answers
_WIDTH = 88
_LONGEST_NAME = 80  # of a signature
_LARGEST_FLOAT = 3e38  # what rounds to infinity in 32 bits cannot be packed
_HALVES = (DType.FLOAT16, DType.BFLOAT16)
_COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)
# Names that the programs use themselves: an input must not have them.
_TAKEN = ("main", "model", "results", "std", "tfaot", "i", "inputs", "outputs", "code", "message", "np")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """What users tell their tool about a registry: `url` ends in `/`, and is empty if it is not known.

    `fingerprint` is the SHA-256 of its root, empty for an unsigned registry.
    """

    url: str = ""
    fingerprint: str = ""

    @property
    def arguments(self) -> str:
        """Of `registry add NAME`, in two lines."""
        trust = f"--fingerprint {self.fingerprint}" if self.fingerprint else "--unsigned"
        parts = urlsplit(self.url)
        plain = parts.scheme == "http" and not is_loopback(parts.hostname or "")
        return f"{self.url or UNKNOWN_ADDRESS}{' --allow-http' if plain else ''} \\\n  {trust}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """Commands for a shell; `id` is that of the HTML element, `note` is for readers."""

    id: str
    title: str
    text: str
    note: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the page shows it at once: a first way from nothing to numbers."""
        return self.id in _SHOWN_AT_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One of several signatures: its place among them, its C++ class, and its inputs and outputs by their own names."""

    name: str
    place: int
    cpp_class: str
    signature: Signature


def called_of(entry: RegistryEntry, info: Mapping[str, Any]) -> tuple[Called, ...]:
    """The signatures of `entry` by its info.json, () if there is one, or if a name is none."""
    found = []
    for place, each in enumerate(listed(info.get("signatures"))):
        name, cpp_class = str(mapped(each).get("name", "")), str(mapped(each).get("class", ""))
        # Names become C++ and shell: what is no identifier makes no program.
        if not _CLASS.fullmatch(cpp_class) or not _CLASS.fullmatch(name) or len(name) > _LONGEST_NAME:
            return ()
        try:
            own = entry.signature.of(Part(name=name, inputs=tuple(each["inputs"]), outputs=tuple(each["outputs"])))
        except (KeyError, TypeError, AttributeError):
            return ()
        found.append(Called(name=name, place=place, cpp_class=cpp_class, signature=own))
    return tuple(found)


_SHOWN_AT_ONCE = ("install", "inputs", "cpp", "cmake")
_BLOCKS = (
    ("install", "Install", "Verifies the package and unpacks it into external/."),
    ("inputs", "Example", "The numbers that the programs read, in a file for each long input."),
    ("cpp", "C++", "A program that runs the model on one row."),
    ("cmake", "CMake", ""),
    ("require", "CMake, fetched by tfaot_require", "CMake fetches and verifies the package itself."),
    ("conan", "Conan 2", "Puts the installed package into your Conan cache."),
    ("pkgconfig", "pkg-config", ""),
    ("scram", "SCRAM", "In a folder of a CMSSW area that has a BuildFile.xml."),
    ("python", "Python", "With tfaot-pkg in Python's environment: NumPy, no TensorFlow."),
    ("c", "C", "Any language that can call C can do the same."),
)


def snippets(
    entry: RegistryEntry, registry: Registry, info: Mapping[str, Any], example: Mapping[str, Any], *, reference: str
) -> tuple[Snippet, ...]:
    """Ways to use `entry`; `info` is its info.json, `example` that of its validation, which has answers of
    `reference` (empty mappings for packages without these). The programs call the first of several signatures.
    """
    first = next(iter(called_of(entry, info)), None)
    program = _program(entry, first, example, reference)
    context = {**_names(entry, info), "registry": registry.arguments, **program}
    if first:
        context["cpp_class"] = first.cpp_class
    without = {"inputs"} if not any(each["file"] for each in program["inputs"]) else set()
    # A program in C keeps track of state and sizes itself: the header says how.
    without |= {"c"} if entry.signature.state or entry.signature.symbols else set()
    return tuple(
        Snippet(id=name, title=title, note=note, text=render(f"catalogue/use/{name}.j2", context).strip())
        for name, title, note in _BLOCKS
        if name not in without
    )


def _names(entry: RegistryEntry, info: Mapping[str, Any]) -> dict[str, object]:
    version = Version(entry.version)
    found = str(mapped(info.get("cpp")).get("class", ""))
    release = ".".join(map(str, version.release[:2]))
    return {
        "package": entry.name,
        "model": entry.model if _NAME.fullmatch(entry.model) else entry.name,
        "version": str(version) if not _NAME.fullmatch(entry.version) else entry.version,
        "release": release,
        # A range would leave a pre-release out.
        "required": f'"=={version}"' if version.is_prerelease else release,
        "cpp_class": found if _CLASS.fullmatch(found) else f"tfaot_model::{entry.model}",
    }


def _program(entry: RegistryEntry, first: Called | None, example: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """What the programs compute: their inputs, and the answers that they should print."""
    signature = first.signature if first else entry.signature.without_state()
    prefix = f"{first.name}/" if first else ""
    sizes = _sizes(signature, mapped(example.get("sizes")))
    signature = signature.at(sizes)
    rows = example.get("rows", 1)
    # A publisher wrote it, and arrays of the programs have this size; type(), because True is an int.
    if type(rows) is not int or not 0 < rows < 10_000:
        rows = 1
    given, expected = mapped(example.get("inputs")), mapped(example.get("outputs"))
    names = cpp_identifiers((tensor.name for tensor in signature.inputs), taken=_TAKEN)
    inputs = [_tensor(tensor, names[tensor.name], given.get(prefix + tensor.name), rows) for tensor in signature.inputs]
    is_validated = bool(example) and all(each["values"] for each in inputs)
    members = zip(signature.outputs, tensor_members(signature.outputs), strict=True)
    outputs = [
        _output(tensor, str(member["identifier"]), expected.get(prefix + tensor.name) if is_validated else None, rows)
        for tensor, member in members
    ]
    return {
        "rows": rows,
        "sizes": ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items()),
        "has_state": bool(entry.signature.state),
        "part": first,
        "is_validated": is_validated,
        "reference": reference,
        "inputs": inputs,
        "outputs": outputs,
        "printed": outputs[:_OUTPUTS],
        "more": max(0, len(outputs) - _OUTPUTS),
    }


def _sizes(signature: Signature, given: Mapping[str, Any]) -> Mapping[str, int]:
    """Those of the example for all symbols, or none: then arrays have the maxima."""
    found = {
        each.name: size
        for each in signature.symbols
        if type(size := given.get(each.name)) is int and each.minimum <= size <= each.maximum
    }
    return found if len(found) == len(signature.symbols) else {}


def _tensor(tensor: Tensor, variable: str, values: object, rows: int) -> dict[str, object]:
    count = math.prod(tensor.shape_at(rows))
    numbers = _numbers(values, count)
    text = ", ".join(_literal(each, tensor.dtype) for each in numbers) if len(numbers) <= _MOST_NUMBERS else ""
    return {
        "variable": variable,
        "cpp": tensor.dtype.cpp,
        "c": _c_type(tensor.dtype),
        "dtype": tensor.dtype.value,
        "count": count,
        "shape": tensor.shape_at(rows),
        # NumPy reads no suffixes of C++.
        "file": f"{variable}.inc" if text and count > _MOST_WITHIN and "u" not in text else "",
        "values": "\n".join(textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")),
    }


def _output(tensor: Tensor, member: str, values: object, rows: int) -> dict[str, object]:
    count = math.prod(tensor.shape_at(rows))
    numbers = _numbers(values, count)[:_SHOWN]
    shown = "static_cast<float>({})" if tensor.dtype in _HALVES else "{}" if tensor.dtype in _COMPLEX else "+{}"
    return {
        "member": member,
        "name": tensor.name,
        "c": _c_type(tensor.dtype),
        "count": count,
        "all": count <= _SHOWN,
        "shown": shown.format("x" if count <= _SHOWN else f"results.{member}[i]"),
        "number": min(count, _SHOWN),
        "expected": " ".join(f"{number:.5g}" for number in numbers),
    }


def _c_type(dtype: DType) -> str:
    if dtype in _HALVES:
        return "uint16_t"  # its bits
    if dtype in _COMPLEX:
        return {"complex64": "float _Complex", "complex128": "double _Complex"}[dtype.value]
    return {"bool": "_Bool"}.get(dtype.value, dtype.cpp.removeprefix("std::"))


def _numbers(values: object, count: int) -> Sequence[bool | float]:
    """`values` if they are `count` numbers, else nothing."""
    if not isinstance(values, list) or len(values) != count:
        return ()
    return values if all(isinstance(each, bool | int | float) and math.isfinite(each) for each in values) else ()


def _literal(value: float, dtype: DType) -> str:
    """The shortest text of the number: of its 32 bits if it is a float32."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        # C++ has no negative literals: -2**63 would be the negation of a number that no signed type holds.
        return f"{value}u" if value >= 2**63 else str(max(value, 1 - 2**63))
    if dtype is DType.FLOAT32 and abs(value) < _LARGEST_FLOAT:
        # The fewest digits that give the same 32 bits: programs are read by people.
        bits = struct.pack("f", value)
        return next(text for n in range(1, 10) if struct.pack("f", float(text := f"{value:.{n}g}")) == bits)
    return f"{value:.17g}" if float(f"{value:.9g}") != value else f"{value:.9g}"
