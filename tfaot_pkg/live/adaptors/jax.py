"""Functions of JAX, and modules of Flax and Equinox, exported with their parameters inside (jax.export)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.errors import ModelError
from tfaot_pkg.live.content import content_of
from tfaot_pkg.live.source import LiveSource, examples_by_name


def source_of(net: Any, example: Any, options: dict[str, Any]) -> LiveSource | None:
    import jax
    from jax import export

    content = [content_of(net, options)]
    if (function := _function_of(net, options)) is None:
        return None
    shapes, dynamic = options.pop("shapes", {}), options.pop("dynamic", ())
    names = _parameters(net)
    given = examples_by_name(example, names, "a function of JAX")
    order = tuple(name for name in names if name in given)
    if unknown := sorted(set(given) - set(names)):
        raise ModelError(f"the example has {', '.join(unknown)}, the function's parameters are {', '.join(names)}")
    arrays = {name: np.asarray(given[name]) for name in order}
    ends = [(name, value.shape, str(value.dtype)) for name, value in arrays.items()]
    specs = _specs(jax, export, arrays, shapes, dynamic)
    return LiveSource(
        framework=f"JAX {jax.__version__}",
        content=[*content, repr(ends).encode()],
        write=partial(_written, function, specs),
        order=order,
    )


def _written(function: Callable[..., Any], specs: Mapping[str, Any], folder: Path) -> Path:
    import jax
    from jax import export

    def called(**arrays: Any) -> Any:
        return function(*(arrays[name] for name in specs))

    path = folder / "model.jax"
    try:
        path.write_bytes(export.export(jax.jit(called), platforms=["cpu"])(**specs).serialize())
    except ImportError as error:
        raise ModelError(f"JAX cannot write what it exports: {error}", hint="pip install flatbuffers") from error
    except Exception as error:
        # The author's code, which raises whatever it likes.
        raise ModelError(f"JAX cannot export the function: {error}") from error
    return path


def _function_of(net: Any, options: dict[str, Any]) -> Callable[..., Any] | None:
    """What computes a batch; None if `net` is nothing of JAX."""
    import jax

    packages = {base.__module__.partition(".")[0] for base in type(net).__mro__}
    if "equinox" in packages:
        import equinox

        # By convention, modules of Equinox take one row.
        tested: Callable[..., Any] = equinox.nn.inference_mode(net)
        of_rows: Callable[..., Any] = jax.vmap(tested)
        return of_rows if options.pop("vmap", True) else tested
    if "flax" in packages:
        return _of_flax(net, options)
    return net if callable(net) else None


def _of_flax(net: Any, options: dict[str, Any]) -> Callable[..., Any]:
    if hasattr(net, "apply"):  # of flax.linen: the parameters are apart from the module
        variables = options.pop("variables", None)
        if variables is None and getattr(net, "scope", None) is not None:
            net, variables = net.unbind()
        if variables is None:
            raise ModelError(
                "a module of flax.linen needs its variables", hint="compile(net, example, variables=variables)"
            )
        return lambda *arrays: net.apply(variables, *arrays)
    from flax import nnx

    # Merged within the function: tracing must not change the caller's module.
    graph, state = nnx.split(net)

    def called(*arrays: Any) -> Any:
        return nnx.merge(graph, state)(*arrays)

    return called


def _parameters(net: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    called = net if inspect.isfunction(net) or inspect.ismethod(net) else getattr(net, "__wrapped__", None)
    found = inspect.signature(called or type(net).__call__).parameters.values()
    names = [each.name for each in found if each.kind in kinds]
    return names[1:] if names[:1] == ["self"] else names


def _specs(
    jax: Any, export: Any, given: Mapping[str, Any], shapes: Mapping[str, str], dynamic: Sequence[str]
) -> dict[str, Any]:
    """Types of inputs: the first axis is the batch if all have the same, or sizes and symbols as `shapes` has them."""
    scope = export.SymbolicScope(tuple(re.sub(r"\s*(<=|>=)\s*", r" \1 ", each) for each in dynamic))
    firsts = {value.shape[0] if value.ndim else 0 for value in given.values()}
    is_batch = not shapes and len(firsts) == 1 and 0 not in firsts
    made = {}
    for name, value in given.items():
        text = shapes.get(name, "batch, ..." if is_batch else "")
        sizes = export.symbolic_shape(text, like=value.shape, scope=scope) if text else value.shape
        made[name] = jax.ShapeDtypeStruct(sizes, jax.numpy.asarray(value).dtype)
    return made
