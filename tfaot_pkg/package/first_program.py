"""A first C++ program, which computes an example of a model's validation.

Pure: values in, text out. `new_app.py` reads an installed package and writes the files.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

from tfaot_pkg.errors import PrefixError
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.package.example import PLAIN, Example, Numbers, example_sizes
from tfaot_pkg.package.tree import tensor_members
from tfaot_pkg.spec.rules import cpp_identifiers

_TAKEN = ("main", "model", "results", "print", "std", "tfaot")
_CLASS = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", re.ASCII)


def first_program(info: Mapping[str, object], signature: Signature, example: Example | None, *, reference: str) -> str:
    """main.cpp for the package that `info` (info.json) describes: it prints the model's answers beside those of the
    framework `reference`. Without an example the inputs are zeros. Raises PrefixError for a model that such a program
    cannot call.
    """
    package, name = str(info["package"]), str(info["name"])
    if example and example.sizes.keys() != {each.name for each in signature.symbols}:
        raise PrefixError(f"{package}: its example has other sizes than its model", hint="install the package again")
    sizes = example.sizes if example else example_sizes(signature)
    if signature.state or sizes is None:
        what, page = (
            ("keeps state", "state-and-training")
            if signature.state
            else ("has sizes that its inputs' lengths do not say", "variable-sizes")
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
    return render(
        "app/main.cpp.j2",
        {
            "package": package,
            "version": str(info["version"]),
            "name": name,
            "cpp_class": cpp_class,
            "reference": reference,
            "rows": example.rows if example else 1,
            "has_example": example is not None,
            "sizes": ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items()),
            **_arrays(signature, names, example, sizes),
        },
    )


def _arrays(
    signature: Signature, names: Mapping[str, str], example: Example | None, sizes: Mapping[str, int]
) -> dict[str, object]:
    """Inputs, whose variables are `names`, and the outputs that a program can print, for the template."""
    rows = example.rows if example else 1
    return {
        "inputs": [
            {
                "variable": names[tensor.name],
                "cpp": tensor.dtype.cpp,
                "count": math.prod(tensor.at(sizes).shape_at(rows)),
                "shown": str(tensor),
                "values": _listed(tensor, example.inputs[tensor.name] if example else ()),
            }
            for tensor in signature.inputs
        ],
        "outputs": [
            {
                **member,
                "cpp": tensor.dtype.cpp,
                "count": math.prod(tensor.at(sizes).shape_at(rows)),
                "values": _listed(tensor, example.outputs[str(member["name"])] if example else ()),
            }
            for member, tensor in zip(tensor_members(signature.outputs), signature.outputs, strict=True)
            if tensor.dtype in PLAIN
        ],
    }


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
