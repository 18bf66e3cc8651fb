"""A batch of a model's validation with its framework's answers, and a first C++ program that computes it.

Pure: values in, text out. `new_app.py` reads an installed package and writes the files.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.errors import PrefixError
from tfaot_pkg.package.render import render
from tfaot_pkg.package.tree import tensor_members
from tfaot_pkg.signature import DType, Signature, Tensor
from tfaot_pkg.spec.rules import cpp_identifiers

MOST_NUMBERS = 2048
"""Of inputs and outputs together: more do not make a program that people read."""

_PLAIN = frozenset(DType) - {DType.FLOAT16, DType.BFLOAT16, DType.COMPLEX64, DType.COMPLEX128}
_TAKEN = ("main", "model", "results", "print", "std", "tfaot")
_CLASS = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", re.ASCII)

Numbers = Sequence[bool | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`rows` rows of inputs and the framework's answers by name, row-major. All numbers are finite."""

    rows: int
    inputs: Mapping[str, Numbers]
    outputs: Mapping[str, Numbers]


def example_of(
    signature: Signature, batch_sizes: Sequence[int], *, independent: bool, inputs: Mapping[str, Array],
    answers: Mapping[str, Array],
) -> Example | None:  # fmt: skip
    """The first batch of the validation as an example: one row if rows are independent, else of the smallest size.

    `answers` are by "SIZE/OUTPUT". None if the model has state or variable sizes, types that a C++ program cannot write
    down as numbers, more than `MOST_NUMBERS` of them, or one that is not finite.
    """
    size = min(batch_sizes)
    rows = 1 if independent else size
    if signature.state or signature.symbols or any(tensor.dtype not in _PLAIN for tensor in signature.tensors):
        return None
    given = {each.name: _first(each, inputs[each.name], rows) for each in signature.inputs}
    found = {each.name: _first(each, answers[f"{size}/{each.name}"], rows) for each in signature.outputs}
    values = [*given.values(), *found.values()]
    if sum(each.size for each in values) > MOST_NUMBERS or not all(np.isfinite(each).all() for each in values):
        return None
    return Example(
        rows=rows,
        inputs={name: _numbers(each) for name, each in given.items()},
        outputs={name: _numbers(each) for name, each in found.items()},
    )


def _first(tensor: Tensor, values: Array, rows: int) -> Array:
    return np.asarray(values[:rows] if tensor.has_batch_axis else values).reshape(-1)


def _numbers(values: Array) -> Numbers:
    # The shortest decimal number that is rounded to the same float32.
    listed = [float(str(each)) for each in values] if values.dtype == np.float32 else values.tolist()
    return tuple(listed)


def first_program(info: Mapping[str, object], signature: Signature, example: Example | None, *, reference: str) -> str:
    """main.cpp for the package that `info` (info.json) describes: it prints the model's answers beside those of the
    framework `reference`. Without an example the inputs are zeros. Raises PrefixError for a model that such a program
    cannot call.
    """
    package, name = str(info["package"]), str(info["name"])
    if signature.state or signature.symbols:
        what, page = (
            ("keeps state", "state-and-training") if signature.state else ("has variable sizes", "variable-sizes")
        )
        raise PrefixError(
            f"{package} {what}: there is no first program for such models",
            hint=f"its header says how it is called: include/{package}/model.h; the manual has a page: {page}",
        )
    cpp_class = str(dict(info["cpp"])["class"])  # type: ignore[call-overload]
    if not _CLASS.fullmatch(cpp_class):
        raise PrefixError(f"{package}: {cpp_class!r} is no name of a C++ class", hint="install the package again")
    names = cpp_identifiers(
        (tensor.name for tensor in signature.inputs),
        taken=(*_TAKEN, *(f"expected_{each['identifier']}" for each in tensor_members(signature.outputs))),
    )
    rows = example.rows if example else 1
    return render(
        "app/main.cpp.j2",
        {
            "package": package,
            "version": str(info["version"]),
            "name": name,
            "cpp_class": cpp_class,
            "reference": reference,
            "rows": rows,
            "has_example": example is not None,
            "inputs": [
                {
                    "variable": names[tensor.name],
                    "cpp": tensor.dtype.cpp,
                    "count": math.prod(tensor.shape_at(rows)),
                    "shown": str(tensor),
                    "values": _listed(tensor, example.inputs[tensor.name] if example else ()),
                }
                for tensor in signature.inputs
            ],
            "outputs": [
                {
                    **member,
                    "cpp": tensor.dtype.cpp,
                    "count": math.prod(tensor.shape_at(rows)),
                    "values": _listed(tensor, example.outputs[str(member["name"])] if example else ()),
                }
                for member, tensor in zip(tensor_members(signature.outputs), signature.outputs, strict=True)
                if tensor.dtype in _PLAIN
            ],
        },
    )


def first_build_file(info: Mapping[str, object], *, folder: Path, prefix: Path) -> str:
    """CMakeLists.txt for such a program in `folder`, with the package in `prefix` (both absolute)."""
    # Relative if both are in one folder, which may then be moved.
    place = os.path.relpath(prefix, folder) if prefix.is_relative_to(folder.parent) else str(prefix)
    return render("app/CMakeLists.txt.j2", {"package": info["package"], "prefix": place})


def _listed(tensor: Tensor, values: Numbers) -> str:
    """The numbers as C++ literals, in lines."""
    text = ", ".join(_literal(tensor.dtype, value) for value in values)
    return "\n".join(textwrap.wrap(text, 96, initial_indent="      ", subsequent_indent="      ")) if text else ""


def _literal(dtype: DType, value: bool | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        if value == -(2**63):
            return "-9223372036854775807 - 1"  # C++ reads the sign and the number apart
        return f"{value}u" if value >= 2**63 else str(value)
    return f"{value!r}f" if dtype is DType.FLOAT32 else repr(value)
