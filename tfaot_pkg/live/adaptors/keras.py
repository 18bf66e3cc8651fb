"""Models of Keras 2 and 3, as .keras files; those with layers of the author's own as SavedModels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tfaot_pkg.live.content import content_of
from tfaot_pkg.live.source import LiveSource

_OWN = ("keras", "tf_keras", "tensorflow")


def source_of(net: Any, example: Any, options: dict[str, Any]) -> LiveSource | None:
    if not (hasattr(net, "get_weights") and hasattr(net, "layers")):
        return None
    if not getattr(net, "built", True) and example is not None:
        net(example)  # sizes of its layers are those of its first call
    layers = [*_layers(net)]
    is_plain = all(type(each).__module__.partition(".")[0] in _OWN for each in (net, *layers))
    content = [
        json.dumps(_config(net), sort_keys=True, default=repr).encode(),
        content_of(net.get_weights(), [type(each) for each in layers]),
    ]
    order = tuple(getattr(net, "input_names", None) or (each.name for each in getattr(net, "inputs", None) or ()))
    return LiveSource(
        framework=f"Keras {_version(net)}",
        content=content,
        write=partial(_as_keras if is_plain else _as_saved_model, net, example),
        order=order,
    )


def _layers(net: Any) -> Iterator[Any]:
    for layer in net.layers:
        yield layer
        if hasattr(layer, "layers"):
            yield from _layers(layer)


def _config(net: Any) -> Any:
    try:
        return net.get_config()
    except NotImplementedError:  # of a subclass without one
        return type(net).__qualname__


def _version(net: Any) -> str:
    import sys

    return str(getattr(sys.modules.get(type(net).__module__.partition(".")[0]), "__version__", ""))


def _as_keras(net: Any, _: Any, folder: Path) -> Path:
    path = folder / "model.keras"
    net.save(path)
    return path


def _as_saved_model(net: Any, example: Any, folder: Path) -> Path:
    from tfaot_pkg.live.adaptors.tensorflow import save

    path = folder / "saved_model"
    if hasattr(net, "export"):
        net.export(path, verbose=False)
        return path
    return save(net, example, path)
