"""The C++ that calls operations of the model's author (docs/decisions/053), and the facts that validation needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.program import Called, OperationCall
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.ground.documents import convert, plain
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.native.compiled.authored import OWN_HEADER, OwnText, own_text
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.worker_program.messages.elements import write_arrays

_CALLS, _CONSTANTS = "operations.json", "operations.npz"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCode:
    """The author's C++ of the operation `name`, checked and without its includes, and ours that has them and defines
    the `calls`.

    `constants` is a file (.npz) of inputs that are constants of the model, by "TARGET.PLACE".
    """

    name: str
    source: Path
    wrapper: Path
    constants: Path
    calls: tuple[OperationCall, ...]


def write_operations(called: Sequence[Called], spec: ModelSpec, frozen: FrozenModel, folder: Path) -> None:
    """Write the code of the operations that a program calls, and the checked text of their sources, to `folder`.

    Raises ModelError if an operation of the spec is called by no node that an output needs, and for text that an
    operation may not contain.
    """
    # Without the constants of `Called`, which are arrays: they go into a file of their own.
    names = [field.name for field in fields(OperationCall)]
    calls = [OperationCall(**{name: getattr(each, name) for name in names}) for each in called]
    if unknown := sorted({each.operation for each in calls} - set(spec.model.operations)):
        raise ModelError(
            f"the model calls the operation {unknown[0]!r}, which is not in compilation.operations",
            hint="name it in the spec, with its source and its reference",
        )
    if missing := sorted(set(spec.model.operations) - {each.operation for each in calls}):
        raise ModelError(
            f"no output of the model needs the operation {missing[0]!r} of compilation.operations",
            hint="remove it from the spec, or export the model with the node that calls it",
        )
    if not calls:
        return
    constants = {f"{each.target}.{place}": values for each in called for place, values in each.constants.items()}
    write_arrays(folder / _CONSTANTS, constants)
    (folder / _CALLS).write_text(json.dumps(plain(calls)))
    for name in sorted({each.operation for each in calls}):
        own = [each for each in calls if each.operation == name]
        checked = own_text(name, frozen.operation_source(name).read_bytes())
        (folder / f"{name}.cpp").write_text(checked.text, encoding="utf-8")
        (folder / f"operation_{name}.cc").write_text(wrapper_text(name, own, checked))


def wrapper_text(name: str, calls: Sequence[OperationCall], own: OwnText) -> str:
    """The C++ that defines `calls` of the operation `name`, whose file is `own`."""
    given = {
        "name": name,
        "source": f"{name}.cpp",
        # They come first, so that no macro of the author's has an effect on them, and outside of the namespaces.
        "headers": [header for header in own.headers if header != OWN_HEADER],
        "hidden": own.hidden,
        "macros": own.macros,
        "calls": [_context(each) for each in calls],
    }
    return render("native/operation.cc.j2", given)


def read_operations(folder: Path) -> tuple[OperationCode, ...]:
    """The code that `write_operations` wrote to `folder`; empty if the model has no operations."""
    if not (folder / _CALLS).exists():
        return ()
    calls = convert(tuple[OperationCall, ...], json.loads((folder / _CALLS).read_text()))
    return tuple(
        OperationCode(
            name=name,
            source=folder / f"{name}.cpp",
            wrapper=folder / f"operation_{name}.cc",
            constants=folder / _CONSTANTS,
            calls=tuple(each for each in calls if each.operation == name),
        )
        for name in sorted({each.operation for each in calls})
    )


def _context(call: OperationCall) -> Mapping[str, object]:
    for key in call.attributes:
        if not _NAME.fullmatch(key):  # it is written into C++
            raise ModelError(f"the attribute {key!r} of the operation {call.operation!r} is not a C++ identifier")
    arrays = [
        {"type": C_TYPES[dtype], "place": place, "rank": len(sizes)}
        for place, (dtype, sizes) in enumerate((*call.inputs, *call.outputs))
    ]
    return {
        "target": call.target,
        "sizes": [sizes for _, sizes in (*call.inputs, *call.outputs)],
        "inputs": arrays[: len(call.inputs)],
        "outputs": arrays[len(call.inputs) :],
        "attributes": [
            # Hexadecimal floats are exact in C++ as well.
            {"name": key, "numbers": [number.hex() for number in numbers]}
            for key, numbers in call.attributes.items()
        ],
    }
