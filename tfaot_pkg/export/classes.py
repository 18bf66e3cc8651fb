"""The module's answers to classes of inputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from .document import Program
from .drawing import MAIN, Drawing
from .errors import ExportError
from .evidence import evidence_of
from .index_sizes import index_sizes
from .runs import ModelRuns
from .sizes import size_of

_ROWS_OF_MAIN, _ROWS_OF_CLASS, _MOST_BYTES = 64, 8, 4 << 20
"""Rows of the classes, and the most bytes of the inputs of one, or of its outputs."""
_OPEN = 128
"""The largest size of axes without a limit: `tfaot-pkg init` proposes the same."""
_KNOWN_TYPES = frozenset("bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 float64".split())


class Answerer:
    """Draws classes of inputs, and runs the module itself on them."""

    def __init__(
        self,
        program: Program,
        document: Mapping[str, Any],
        model: Any,
        examples: Mapping[str, Any],
        *,
        ranges: Mapping[str, Any],
        batches: Sequence[int],
    ) -> None:
        import numpy as np

        self._np, self._torch, self._program = np, program.torch, program
        self._inputs, self._runs = document["inputs"], ModelRuns(program.torch, model, document)
        types = {node["name"]: node["results"] for node in document["nodes"]}
        self._types = {each["name"]: next(iter(types.get(each["value"], [])), None) for each in document["outputs"]}
        self._batches = sorted(set(batches))
        ends = dict(document["symbols"])
        self._unit: int = max(1, ends.pop("batch", (1, None))[0])
        self._most = document["symbols"].get("batch", (1, None))[1]
        self._largest = {name: most or max(_OPEN, 2 * least) for name, (least, most) in ends.items()}
        self._least = {name: max(least, 1) for name, (least, _) in ends.items()}
        self._examples = {name: tensor.numpy() for name, tensor in examples.items()}
        self._drawing = Drawing(
            document, examples=self._examples, index_sizes=index_sizes(program, document), ranges=ranges,
            largest=self._largest,
        )  # fmt: skip

    def classes(self) -> list[dict[str, Any]]:
        """The entries of the document; none of models with types, or places of the batch, that packages do not have."""
        if not all(each["dtype"] in _KNOWN_TYPES and "batch" not in each["axes"][1:] for each in self._inputs):
            return []
        for self._drawing.way in ("usual", "positive", "rows"):
            if self._tells(self._drawing.drawn(MAIN, self._largest, self._unit)):
                break
        else:
            raise ExportError(
                f"the model gives no answers to inputs of the sizes {self._largest}{self._runs.fault}: state which "
                'numbers its inputs take, ranges={"ids": (0, 999)}, or limit its sizes, dynamic=["n<=32"]'
            )
        names = self._drawing.names()
        sized = [self._least, *self._different_sizes()] if self._least else []
        wanted = [(MAIN, self._largest), *((name, self._largest) for name in names)]
        wanted += [(MAIN, each) for each in sized] + [(name, sized[-1]) for name in names if sized]
        unique = {(name, *sizes.items()): (name, sizes) for name, sizes in wanted}
        entries = [self._entry(name, sizes) for name, sizes in unique.values()]
        return [*entries, self._answered("examples", self._sizes_of_examples(), self._examples)]

    def _different_sizes(self) -> tuple[dict[str, int], dict[str, int]]:
        """Small sizes, and some in the middle; different ones, as a library may take one symbol for another."""
        ranges = [(name, least, self._largest[name]) for name, least in sorted(self._least.items())]
        small = {name: min(least + 1 + place, most) for place, (name, least, most) in enumerate(ranges)}
        middle = {name: max((least + most) // 2 - place, least) for place, (name, least, most) in enumerate(ranges)}
        return small, middle

    def _sizes_of_examples(self) -> dict[str, int]:
        axes = {
            axis: size
            for each in self._inputs
            for axis, size in zip(each["axes"], self._examples[each["name"]].shape, strict=True)
        }
        return {name: axes[name] for name in self._largest}

    def _entry(self, name: str, sizes: Mapping[str, int]) -> dict[str, Any]:
        rows = self._rows(_ROWS_OF_MAIN if name == MAIN and sizes == self._largest else _ROWS_OF_CLASS, sizes)
        return self._answered(name, sizes, self._drawing.drawn(name, sizes, rows))

    def _answered(self, name: str, sizes: Mapping[str, int], inputs: Mapping[str, Any]) -> dict[str, Any]:
        rows = min((len(value) for key, value in inputs.items() if self._runs.is_batched(key)), default=1)
        unit = min(self._unit, rows)
        ran, alone = self._runs.batched(inputs, unit)
        self._require_axes(alone, unit, sizes)
        runs = [self._stored(unit, ran, alone, {})]
        kept = self._np.repeat(ran, unit)
        # What roundings change is seen in whole batches: rows that the model rejects have others in their place.
        order = self._np.where(kept, self._np.arange(rows), self._np.argmax(kept))
        safe = {key: value[order] if self._runs.is_batched(key) else value for key, value in inputs.items()}
        for size in dict.fromkeys((rows, *(each for each in self._batches if each <= rows))):
            if size == unit:
                if ran.any():
                    runs[0] = self._stored(unit, ran, alone, evidence_of(self._runs, safe, size))
                continue
            if self._most is not None and size > self._most:
                continue
            whole, answers = self._runs.batched(inputs, size)
            beside = evidence_of(self._runs, safe, size) if kept.any() else {}
            runs.append(self._stored(size, whole, answers, beside))
        numbers = {key: self._keep(value) for key, value in inputs.items()}
        return {"name": name, "sizes": dict(sizes), "inputs": numbers, "runs": runs}

    def _rows(self, wanted: int, sizes: Mapping[str, int]) -> int:
        """How many rows a class has: as many as are wanted, or fewer of a large model; whole batches."""
        if not any(each["axes"][:1] == ["batch"] for each in self._inputs):
            return 1
        one = self._drawing.drawn(MAIN, sizes, self._unit)
        answers = self._runs.answers(one) or []
        largest: float = max(sum(each.nbytes for each in arrays) for arrays in (one.values(), answers)) / self._unit
        wanted = max([wanted, *self._batches]) if self._batches else min(wanted, int(_MOST_BYTES / max(largest, 1)))
        return max(1, -(-wanted // self._unit)) * self._unit

    def _tells(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the answers to `inputs` have finite numbers."""
        np, found = self._np, self._runs.answers(inputs)
        floats = [each for each in found or [] if each.dtype.kind == "f" and each.size]
        return found is not None and all(np.isfinite(each).any() for each in floats)

    def _require_axes(self, answers: list[Any], size: int, sizes: Mapping[str, int]) -> None:
        """Raise ExportError if outputs have other axes in batches of `size` rows: `squeeze()` drops the batch, too."""
        for name, array in zip(self._runs.outputs, answers, strict=False):
            kind = self._types[name]
            wanted = (
                array.shape[1:]
                if kind is None
                else tuple(map(functools.partial(size_of, {**sizes, "batch": size}), kind["shape"]))
            )
            fits = len(wanted) == array.ndim - 1 and all(
                a in (None, b) for a, b in zip(wanted, array.shape[1:], strict=True)
            )
            if not fits:
                raise ExportError(
                    f"the output {name} has the shape {list(array.shape[1:])} for {size} rows, and {list(wanted)} as "
                    "others have it: name the axis that squeeze() drops, or give a least batch, dynamic=['2<=batch']"
                )

    def _stored(self, rows: int, ran: Any, answers: list[Any], beside: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "rows": rows,
            "ran": self._keep(ran),
            "outputs": {name: self._keep(each) for name, each in zip(self._runs.outputs, answers, strict=False)},
            "beside": {name: self._keep(each) for name, each in beside.items()},
        }

    def _keep(self, array: Any) -> int:
        return self._program.answer(self._torch.from_numpy(self._np.array(array, order="C")))
