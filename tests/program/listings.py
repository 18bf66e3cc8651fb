"""Small computations of HLO written by hand, as the worker lists them, at the batch sizes that it lists."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.rows import Rows
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.worker_program.messages.listing import ATTRIBUTES, HloListing, NoAttributes
from tfaot_pkg.worker_program.messages.wire import decoded

PROBES = (5, 7, 132, 2, 3)
Shape = Sequence[int]


def _defaults(opcode: str) -> dict[str, Any]:
    """Attributes of an opcode that a test says nothing of."""
    kinds = {"str": "", "int": 0, "float": 0.0, "tuple": []}
    return {each.name: kinds[str(each.type).partition("[")[0]] for each in fields(ATTRIBUTES.get(opcode, NoAttributes))}


def _shape(shape: Any) -> dict[str, Any]:
    """The shape that tests write as (dtype, sizes), or as {"tuple": shapes}."""
    if isinstance(shape, dict):
        return {"parts": [_shape(each) for each in shape["tuple"]]}
    dtype, sizes = shape
    return {"dtype": dtype, "sizes": list(sizes)}


@dataclass(kw_only=True)
class Computation:
    """One computation at batch size `batch`: methods append instructions and give their ids."""

    batch: int
    number: int = 1
    instructions: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, opcode: str, shape: Any, *operands: int, dtype: str = "f32", called: Sequence[int] = (), **attributes: Any
    ) -> int:
        number = self.number * 1000 + len(self.instructions)
        self.instructions.append(
            {
                "id": number, "opcode": opcode, "node": f"node/{opcode}", "operation": "",
                "shape": _shape(shape if isinstance(shape, dict) else (dtype, shape)),
                "operands": list(operands), "called": list(called), "attributes": {**_defaults(opcode), **attributes},
            }
        )  # fmt: skip
        return number

    def parameter(self, shape: Any, number: int = 0, dtype: str = "f32") -> int:
        return self.add("parameter", shape, dtype=dtype, number=number)

    def constant(self, values: Any, shape: Shape = (), dtype: str = "s32") -> int:
        flat = values if isinstance(values, list) else [values]
        digest = hashlib.sha256(json.dumps([flat, list(shape)]).encode()).hexdigest()
        return self.add("constant", shape, dtype=dtype, digest=digest, values=flat)

    def iota(self, shape: Shape, dimension: int = 0) -> int:
        return self.add("iota", shape, dtype="s32", dimensions=[dimension])

    def document(self) -> dict[str, Any]:
        return {"id": self.number, "root": self.instructions[-1]["id"], "instructions": self.instructions}


class Builder:
    """What a test's function writes into: `main`, and computations that it calls."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.main = Computation(batch=batch)
        self.called: list[Computation] = []

    def computation(self) -> Computation:
        made = Computation(batch=self.batch, number=len(self.called) + 2)
        self.called.append(made)
        return made

    def reducer(self, opcode: str) -> int:
        made = self.computation()
        made.add(opcode, (), made.parameter((), 0), made.parameter((), 1))
        return made.number


def listing(write: Any) -> HloListing:
    """`write(builder)` gives the id of the output; at every batch size anew."""
    modules = []
    for batch in PROBES:
        builder = Builder(batch)
        output = write(builder)
        builder.main.add("tuple", {"tuple": []}, output)
        computations = [each.document() for each in (*builder.called, builder.main)]
        modules.append({"batch_size": batch, "entry": builder.main.number, "computations": computations, "sizes": {}})
    return decoded(HloListing, {"modules": modules, "fault": "", "samples": [], "choices": []}, "listing")


def rows(write: Any, *, output_has_batch_axis: bool = True) -> Rows:
    """What is shown of a computation with one input with a batch axis, its parameter 0."""
    shape = (None,) if output_has_batch_axis else ()
    signature = Signature(
        inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 4)),),
        outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=shape),),
    )
    return rows_of(listing(write), signature)
