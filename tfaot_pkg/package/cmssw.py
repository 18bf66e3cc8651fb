"""`NAME_bsN.h` and `NAME.h`: the headers that code for cms-tfaot includes beside model.h (package.cmssw).

`NAME_bsN.h` has the class that tfcompile generates there for one batch size: buffers by index and by name, and `Run`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfaot_pkg.package.render import render
from tfaot_pkg.signature import Signature, Tensor
from tfaot_pkg.spec.names import cpp_identifiers
from tfaot_pkg.spec.types import ModelSpec

_MEMBERS = ("_data", "_size", "_count")
_NAME_PREFIXES = {"arg": "arg_feed_", "result": "result_fetch_"}  # as TensorFlow's saved_model_cli names them


def function_headers(spec: ModelSpec, signature: Signature, *, symbol: str, uid: str, tool: str) -> dict[str, str]:
    """`NAME_bsN.h` for each batch size, by name. `tool` is what the folder of the headers is called."""
    return {
        f"{spec.model.name}_bs{size}.h": render(
            "cmssw/NAME_bsN.h.j2",
            {
                "tool": tool,
                "version": spec.model.version,
                "name": spec.model.name,
                "namespace": spec.compilation.namespace,
                "symbol": symbol,
                "uid": uid,
                "size": size,
                "num_args": len(signature.inputs),
                "num_results": len(signature.outputs),
                "tensors": [*_tensors("arg", signature.inputs, size), *_tensors("result", signature.outputs, size)],
            },
        )
        for size in spec.compilation.batch_sizes
    }


def alias_header(spec: ModelSpec, tool: str) -> dict[str, str]:
    """`NAME.h`, another name of model.h; by its name."""
    return {f"{spec.model.name}.h": render("cmssw/NAME.h.j2", {"tool": tool, "version": spec.model.version})}


def _tensors(kind: str, tensors: tuple[Tensor, ...], size: int) -> Iterator[dict[str, object]]:
    identifiers = cpp_identifiers(tensor.name for tensor in tensors)
    taken = set(identifiers.values())
    for index, tensor in enumerate(tensors):
        shape, identifier = tensor.shape_at(size), identifiers[tensor.name]
        # The members of `x` and of `x_data` would have the same names.
        is_clear = not any(identifier + member in taken for member in _MEMBERS)
        yield {
            "kind": kind,
            "index": index,
            "names": [f"{kind}{index}", *([_NAME_PREFIXES[kind] + identifier] if is_clear else [])],
            "cpp": "::" + tensor.dtype.cpp if tensor.dtype.cpp.startswith("std::") else tensor.dtype.cpp,
            "count": tensor.nbytes_at(size) // tensor.dtype.itemsize,
            "parameters": ", ".join(f"::std::size_t dim{axis}" for axis in range(len(shape))),
            "offset": _offset(shape),
            "shown": str(tensor),
        }


def _offset(shape: tuple[int, ...]) -> str:
    """The C++ expression for the place of an element, row-major."""
    offset = ""
    for axis, length in enumerate(shape):
        offset = f"({offset}) * {length} + dim{axis}" if offset else f"dim{axis}"
    return offset or "0"
