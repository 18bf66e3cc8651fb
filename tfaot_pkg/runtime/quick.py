"""Calls that cost little: a small extension module (call.c), compiled once for the user's Python and NumPy.

Without a C compiler or Python's headers there is none, and calls take the loader's own path, with the same results.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.runtime.c_interface import SharedCode

_SOURCE = Path(__file__).with_name("call.c")
_RELEASE = 20_000.0
"""Nanoseconds of a call during which other threads of Python may run: to hand over its lock may cost as much."""
_ALWAYS, _NEVER = 1, 1 << 62


def quick_call(
    caller: Any, signature: Signature, batch_sizes: tuple[int, ...], costs: dict[int, float], *, any_size: bool
) -> Any:
    """What calls the code of `caller` with arrays that fit, and returns None for others; None if there is none."""
    tensors = signature.tensors
    if (
        not isinstance(caller, SharedCode)
        or (address := caller.address()) is None
        or signature.symbols
        or not any(each.has_batch_axis for each in signature.inputs)
        or any(each.dtype is DType.BFLOAT16 for each in tensors)
        or (module := _module()) is None
    ):
        return None
    inputs, outputs = (tuple(map(_described, each)) for each in (signature.inputs, signature.outputs))
    try:
        return module.Call(*address, caller, inputs, outputs, () if any_size else batch_sizes, _release_at(costs))
    except ValueError:  # more tensors or axes than it takes
        return None


def quick_method(otherwise: Any, called: Any) -> Any:
    """What takes the place of the method `called` of models: their `_quick`, and the function `otherwise` for the rest.

    None without the extension module.
    """
    return None if (module := _module()) is None else module.Method(otherwise, called)


def _described(tensor: Tensor) -> tuple[str, int, bool, tuple[int, ...]]:
    sizes = tuple(-1 if size is None else size for size in tensor.shape)
    return tensor.name, np.dtype(tensor.dtype.value).num, tensor.has_batch_axis, sizes


def _release_at(costs: dict[int, float]) -> int:
    """The number of rows whose call takes long enough to let other threads of Python run."""
    if not costs:
        return _ALWAYS
    found = (max(1, round(_RELEASE / max(cost / size, 1e-3))) for size, cost in costs.items() if size > 0)
    return min(found, default=_NEVER)


@cache
def _module() -> ModuleType | None:
    """The extension module, compiled now if nobody has; None if it cannot be."""
    try:
        # Programs in the sandbox load models, too, and have NumPy alone.
        from tfaot_pkg.ground.settings import Folders

        tag = f"{sysconfig.get_config_var('SOABI')} {np.__version__}"
        key = hashlib.sha256(_SOURCE.read_bytes() + tag.encode()).hexdigest()[:16]
        path = Folders.of_user().cache / "calls" / key / "tfaot_call.so"
        if not path.exists() and not _compiled(path):
            return None
        loader = importlib.machinery.ExtensionFileLoader("tfaot_call", str(path))
        found = importlib.util.module_from_spec(
            importlib.util.spec_from_loader("tfaot_call", loader, origin=str(path))  # type: ignore[arg-type]
        )
        loader.exec_module(found)
    except Exception:  # noqa: BLE001 (whatever is wrong with compilers, folders or headers: there is a slower way)
        return None
    return found


def _compiled(path: Path) -> bool:
    from tfaot_pkg.ground.process import run

    headers = sysconfig.get_path("include")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None or not Path(headers, "Python.h").is_file():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        flags = ["-O2", "-shared", "-fPIC", "-std=gnu11", f"-I{headers}", f"-I{np.get_include()}"]
        run([compiler, *flags, _SOURCE, "-o", made], timeout=120)
        os.replace(made, path)
    return True
