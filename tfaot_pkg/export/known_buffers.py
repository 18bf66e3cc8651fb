"""Numbers in buffers that decide on sizes and branches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_MOST = 1024
"""Elements of buffers that may decide: sizes, strides, flags, and lists of them."""


@contextlib.contextmanager
def known_buffers(torch: Any, model: Any) -> Iterator[None]:
    """In the block, small buffers of integers have numbers that Python may read.

    torch.export takes buffers for unknown numbers, and so refuses `if self.is_causal:`, or padding by `self.padding`
    (EnCodec). The program has them as constants. Raises ValueError behind the block if the model changed one.
    """
    known = _known_tensors(torch)
    before = [(module, dict(module._buffers)) for module in model.modules()]  # noqa: SLF001  # their order has to stay
    held = [
        (module, name, buffer, buffer.detach().clone().as_subclass(known))
        for module, buffers in before
        for name, buffer in buffers.items()
        if buffer is not None and _may_decide(buffer)
    ]
    try:
        for module, name, _, number in held:
            del module._buffers[name]  # noqa: SLF001
            object.__setattr__(module, name, number)
        yield
        is_same = all(
            module.__dict__.get(name) is number and torch.equal(number.as_subclass(torch.Tensor), buffer)
            for module, name, buffer, number in held
        )
    finally:
        for module, name, *_ in held:
            module.__dict__.pop(name, None)
        for module, buffers in before:
            module._buffers.update(buffers)  # noqa: SLF001
    if not is_same:
        raise ValueError("the model changes its buffers")


def _may_decide(buffer: Any) -> bool:
    return not buffer.dtype.is_floating_point and not buffer.dtype.is_complex and buffer.numel() <= _MOST


def _known_tensors(torch: Any) -> Any:
    """The class of tensors whose operations are run at once, if they have no operands of other kinds."""
    import torch.utils._python_dispatch as dispatch
    from torch.utils import _pytree as trees

    class Known(torch.Tensor):  # type: ignore[misc]  # PyTorch is not there when types are checked
        @classmethod
        def __torch_function__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given, form = trees.tree_flatten((args, kwargs or {}))
            is_known = all(isinstance(each, cls) for each in given if torch.is_tensor(each)) and not any(
                isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool) for each in given
            )
            plain = [each.as_subclass(torch.Tensor) if isinstance(each, cls) else each for each in given]
            args, kwargs = trees.tree_unflatten(plain, form)
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch._C.DisableTorchFunctionSubclass())  # noqa: SLF001
                if is_known:
                    stack.enter_context(dispatch._disable_current_modes())  # noqa: SLF001
                found = function(*args, **kwargs)
            if not is_known:
                return found
            return trees.tree_map(lambda each: each.as_subclass(cls) if torch.is_tensor(each) else each, found)

    return Known
