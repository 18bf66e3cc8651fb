"""The module itself, run on arrays."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .ends import named_outputs
from .errors import ExportError, is_out_of_memory


class ModelRuns:
    """Runs the module itself on arrays, in batches."""

    def __init__(self, torch: Any, model: Any, document: Mapping[str, Any]) -> None:
        import numpy as np

        self._np, self._torch, self._model = np, torch, model
        self._inputs, self.outputs = document["inputs"], [each["name"] for each in document["outputs"]]
        self._double = self._in_float64()
        self.fault = ""
        """What the model said of the inputs that it rejected last."""

    def is_batched(self, name: str) -> bool:
        """Whether the input has a row for each of a batch."""
        return any(each["name"] == name and each["axes"][:1] == ["batch"] for each in self._inputs)

    def batched(self, inputs: Mapping[str, Any], size: int) -> tuple[Any, list[Any]]:
        """Which batches of `size` rows ran, and the outputs of all of them, one after the other along a first axis."""
        np = self._np
        counts = [len(value) for name, value in inputs.items() if self.is_batched(name)]
        batches: list[list[Any] | None] = []
        for start in range(0, min(counts, default=size) - size + 1, size):
            cut = {n: v[start : start + size] if self.is_batched(n) else v for n, v in inputs.items()}
            batches.append(self.answers(cut))
        first = next((each for each in batches if each is not None), None)
        if first is None:
            return np.zeros(len(batches), bool), []
        ran = [
            each is not None and all(a.shape == b.shape for a, b in zip(each, first, strict=True)) for each in batches
        ]
        nothing = [np.zeros_like(each) for each in first]
        columns = zip(*(each if ok and each else nothing for each, ok in zip(batches, ran, strict=True)), strict=True)
        return np.array(ran), [np.stack(each) for each in columns]

    def answers(self, feeds: Mapping[str, Any]) -> list[Any] | None:
        """The outputs; None if the model rejects `feeds`."""
        tensors = [self._torch.from_numpy(self._np.array(value, order="C")) for value in feeds.values()]
        try:
            found = named_outputs(self._torch, self._model(*tensors), self.outputs)
        except ExportError:
            raise
        except Exception as error:
            # Whatever a module raises for numbers that it does not take.
            if is_out_of_memory(error):
                # That says nothing of the numbers, and rows would count as rejected.
                raise ExportError(
                    f"not enough memory for the model's answers: limit its sizes, dynamic=['n<=32'] ({error})"
                ) from error
            self.fault = f" ({' '.join(str(error).split())[:200]})"
            return None
        return [each.detach().cpu().contiguous().numpy() for each in found.values()]

    def in_order(self, inputs: Mapping[str, Any], size: int, *, first: bool) -> tuple[Any, list[Any]]:
        """As `batched`, with the `first` or the last of equal elements first where PyTorch has any of them first.

        PyTorch documents no order of them, and packages have one of these.
        """
        from torch.utils._python_dispatch import TorchDispatchMode

        aten = self._torch.ops.aten
        operators = (
            aten.topk.default, aten.sort.default, aten.sort.stable, aten.kthvalue.default, aten.median.dim
        )  # fmt: skip

        class Ordered(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not there when types are checked
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                schema = func._schema.arguments  # noqa: SLF001  # PyTorch has no public way
                found: dict[str, Any] = {**dict(zip((a.name for a in schema), args, strict=False)), **(kwargs or {})}
                x: Any = found.get("self")
                if func not in operators or found.get("stable") or not x.ndim:
                    return func(*args, **(kwargs or {}))
                axis, is_topk = found.get("dim", -1), func is aten.topk.default
                descending = found.get("largest", True) if is_topk else found.get("descending", False)
                given = x if first else x.flip(axis)
                values, places = aten.sort.stable(given, stable=True, dim=axis, descending=descending)
                places = places if first else x.shape[axis] - 1 - places
                if is_topk:
                    return values.narrow(axis, 0, found["k"]), places.narrow(axis, 0, found["k"])
                if func in (aten.sort.default, aten.sort.stable):
                    return values, places
                place = found["k"] - 1 if func is aten.kthvalue.default else (x.shape[axis] - 1) // 2
                kept = [each.narrow(axis, place, 1) for each in (values, places)]
                if func is aten.median.dim and x.is_floating_point():  # NaN is the median of what has one
                    kept = [func(x, axis, keepdim=True)[n].where(x.isnan().any(axis, True), kept[n]) for n in (0, 1)]
                return tuple(kept if found.get("keepdim") else [each.squeeze(axis) for each in kept])

        with Ordered():
            return self.batched(inputs, size)

    def exact(self, inputs: Mapping[str, Any], size: int, answers: list[Any]) -> dict[str, Any]:
        """The answers in float64, if the model works with it."""
        if self._double is None:
            return {}
        np, usual, default = self._np, self._model, self._torch.get_default_dtype()
        doubled = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in inputs.items()}
        self._torch.set_default_dtype(self._torch.float64)
        try:
            self._model = self._double
            ran, found = self.batched(doubled, size)
        finally:
            self._model = usual
            self._torch.set_default_dtype(default)
        if not ran.all() or [each.shape for each in found] != [each.shape for each in answers]:
            return {}
        return {
            f"exact/{name}": exact.astype(np.float64)
            for name, exact, own in zip(self.outputs, found, answers, strict=True)
            if own.dtype.kind == "f"
        }

    def _in_float64(self) -> Any:
        try:
            return copy.deepcopy(self._model).double()
        except Exception as error:  # a module that cannot be copied, or a function
            if is_out_of_memory(error):
                raise ExportError(f"not enough memory for a copy of the model in float64 ({error})") from error
            return None
