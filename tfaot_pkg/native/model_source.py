"""The C++ source of a library's data (model.cc): interface, targets, costs of batches, and offsets of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import Target
from tfaot_pkg.native.batching.costs import batch_costs
from tfaot_pkg.spec.rules import model_version
from tfaot_pkg.spec.types import ModelSpec

_ALIGNMENT = 64
"""The alignment of the weights, and of the trained values after them, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """The inputs of a library's data. `symbol` is its entry function, `uid` the digest in that name.

    The trained values of the state begin at `state_offset` in the library's weights.
    """

    spec: ModelSpec
    frozen: FrozenModel
    toolchain: Toolchain
    uid: str
    symbol: str
    any_batch_size: bool
    weight_offsets: tuple[int, ...]
    state_offset: int

    def text(self, targets: Sequence[Target], *, selectable: bool = False) -> str:
        """The source for `targets`, lowest first; if `selectable`, macros choose among them (native/targets.j2)."""
        spec, frozen = self.spec, self.frozen
        sizes = spec.compilation.batch_sizes
        return render(
            "native/model.cc.j2",
            {
                "name": spec.model.name,
                "version": model_version(spec.model.version),
                "uid": self.uid,
                "symbol": self.symbol,
                "toolchain": self.toolchain.name,
                "alignment": self.toolchain.alignment,
                "signature": frozen.signature,
                "symbol_names": [each.name for each in frozen.signature.symbols],
                "terms": _terms(frozen.signature),
                "rows": frozen.rows,
                "any_batch_size": self.any_batch_size,
                "batch_sizes": sizes,
                "targets": targets,
                "selectable": selectable,
                "batch_costs": {
                    each.name: batch_costs(
                        sizes, each, work=frozen.work, signature=frozen.signature, tuning=spec.tuning
                    )
                    for each in targets
                },
                "weight_offsets": self.weight_offsets,
                "states": self._states(),
                "parts": self._parts(),
            },
        )

    def _parts(self) -> list[dict[str, object]]:
        """Several signatures as the library stores them: positions of tensors."""
        whole = self.frozen.signature
        inputs, outputs = ([tensor.name for tensor in each] for each in (whole.inputs, whole.outputs))
        return [
            {
                "name": part.name,
                "signature": whole.of(part),
                "inputs": [inputs.index(name) for name in part.inputs],
                "outputs": [outputs.index(name) for name in part.outputs],
            }
            for part in whole.parts
        ]

    def _states(self) -> list[dict[str, object]]:
        """The state as the library stores it: positions of tensors, and offsets in the weights."""
        signature = self.frozen.signature
        inputs, outputs = ([tensor.name for tensor in each] for each in (signature.inputs, signature.outputs))
        return [
            {
                "name": each.name,
                "input": inputs.index(each.input),
                "output": outputs.index(each.output) if each.output else -1,
                "offset": self.state_offset + each.offset,
            }
            for each in signature.state
        ]


def _terms(signature: Signature) -> dict[int, list[dict[str, object]]]:
    """The terms of axes with computed sizes, by the positions of outputs."""
    found = {
        place: [
            {"axis": axis, "symbols": symbols, "factor": factor}
            for axis, formula in tensor.computed.items()
            for symbols, factor in formula.terms
        ]
        for place, tensor in enumerate(signature.outputs)
    }
    return {place: terms for place, terms in found.items() if terms}


def with_state(weights: bytes, frozen: FrozenModel) -> bytes:
    """`weights` with the trained values of the state after them, at `state_offset(len(weights), frozen)`."""
    values = frozen.state_values
    return weights + bytes(state_offset(len(weights), frozen) - len(weights)) + values if values else weights


def state_offset(weights: int, frozen: FrozenModel) -> int:
    """The offset of the trained values after `weights` bytes of weights; 0 if there are no trained values."""
    return -(-weights // _ALIGNMENT) * _ALIGNMENT if frozen.signature.state else 0
