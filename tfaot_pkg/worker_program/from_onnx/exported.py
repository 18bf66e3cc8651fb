"""Metadata that PyTorch's exporter and `tfaot_pkg.export` write: framework, sizes of axes, answers, scopes of nodes.

A scope names the modules that made a node. A module that is called again gets a scope for each call (`encoder`,
`encoder_1`): by these, the graph of a package's page shows that both share their weights (layers.py).
"""

from __future__ import annotations

import ast
import base64
import binascii
import io
import json
import os
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from from_onnx.graph_digest import digest_of
from messages.elements import write_arrays
from messages.requests import ModelFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import GraphProto, ModelProto, NodeProto


MODEL, ANSWERS = "model.onnx", "answers.npz"
"""Files that reading writes: the model of a .pt2 file; arrays of answers, named "in/KEY" and "out/KEY"."""

_MEMBER = "/tfaot/model.onnx"
_ABOUT, _ANSWERS = "tfaot.about", "tfaot.answers"


def model_in(file: str) -> bytes | None:
    """The ONNX model in a .pt2 file; None if the file is no archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            found = [name for name in archive.namelist() if name.endswith(_MEMBER)]
            if found:
                return archive.read(found[0])
    except zipfile.BadZipFile as error:
        with open(file, "rb") as stream:
            if stream.read(2) != b"PK":
                return None
        raise ModelFault(f"{file} is damaged: {error}", "export the model again") from error
    except OSError:
        return None  # the next reader of the file reports why
    except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ModelFault(f"{file} is damaged: {error}", "export the model again") from error
    name = os.path.basename(file)
    raise ModelFault(
        f"{file} is a program that only PyTorch can read",
        f"where PyTorch is installed: python -m tfaot_pkg.export {name} --output {os.path.splitext(name)[0]}.aten; "
        "then use that file",
    )


CHANGED = "the file was changed after PyTorch exported it, so it is compared with ONNX Runtime alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the exporter says of a file: the `framework` with its version, such as "PyTorch 2.13.0", and the limits of
    `symbols`. If it `is_changed`, its graph has another digest than the one to which the answers in it belong.
    """

    framework: str = ""
    symbols: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    is_changed: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        return (CHANGED,) if self.is_changed else ()


def about(model: ModelProto) -> About:
    text = next((each.value for each in model.metadata_props if each.key == _ABOUT), "")
    if not text:
        return About()
    try:
        found = json.loads(text)
        version = re.sub(r"[^\w.+]", "", str(found["version"]))[:40]
        symbols = {str(name): (int(least), int(most or 0)) for name, (least, most) in found["symbols"].items()}
        graph = str(found.get("graph", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFault(f"the metadata {_ABOUT} in the file is damaged", "export the model again") from error
    if found["framework"] != "PyTorch" or not version:
        raise ModelFault(f"the metadata {_ABOUT} names no framework that is known", "export the model again")
    sound = {name: (max(least, 1), most) for name, (least, most) in symbols.items() if not most or 1 <= least <= most}
    return About(framework=f"PyTorch {version}", symbols=sound, is_changed=_is_changed(model, graph))


def _is_changed(model: ModelProto, graph: str) -> bool:
    """Whether the file has answers to another graph, whose digest is `graph`; "" if the exporter is too old to tell."""
    has_answers = any(each.key == _ANSWERS for each in model.metadata_props)
    return bool(graph) and has_answers and graph != digest_of(model)


def write_answers(model: ModelProto, said: About, keys: list[str], folder: str) -> str:
    """Write the answers to the inputs `keys` of the model, with those to its outputs, to the folder.

    Returns the framework that gave them; "" if the file has none of its graph, or there is no folder.
    """
    import numpy as np

    text = next((each.value for each in model.metadata_props if each.key == _ANSWERS), "")
    if not text or not folder or said.is_changed:
        return ""
    try:
        with np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False) as file:
            arrays = dict(file)
    except (binascii.Error, ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ModelFault(f"the metadata {_ANSWERS} in the file is damaged", "export the model again") from error
    if set(arrays) != set(keys):
        raise ModelFault(
            f"the file has answers for {', '.join(sorted(arrays))}, "
            f"and its inputs and outputs are {', '.join(sorted(keys))}",
            "export the model again",
        )
    write_arrays(os.path.join(folder, ANSWERS), arrays)
    return said.framework


_NOTE = "pkg.torch.onnx.name_scopes"
_MOST_TEXT, _MOST_DEPTH = 4000, 40


def scopes(graph: GraphProto) -> list[str]:
    """The scope and name of each node of an ONNX graph ("encoder_1/fc/linear_3"); "" if the file has none."""
    weights = {tensor.name for tensor in graph.initializer}
    return scopes_of(
        [(_noted(node), next((name for name in node.input if name in weights), "")) for node in graph.node]
    )


def _noted(node: NodeProto) -> list[str]:
    """The modules around a node, outermost first, and its own name; [] if the note is missing or of another form."""
    text = next((each.value for each in node.metadata_props if each.key == _NOTE), "")
    try:
        # The file is untrusted: parsing a long or deeply nested literal may exhaust memory or the stack.
        found = ast.literal_eval(text) if len(text) < _MOST_TEXT else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    is_form = isinstance(found, list) and len(found) < _MOST_DEPTH and all(isinstance(one, str) for one in found)
    return [one for one in found if one] if is_form else []


def scopes_of(nodes: list[tuple[list[str], str]]) -> list[str]:
    """The scopes of nodes in their order, each given as ([modules, ..., own name], its weight or "").

    A module or weight that occurs first in a call marks the beginning of the next call when it occurs again.
    """
    calls: dict[str, int] = {}
    begins: dict[str, str] = {}
    opened: list[tuple[str, str]] = []  # (module, scope) of the calls that the last node was in
    found: list[str] = []
    for noted, weight in nodes:
        modules, name = noted[:-1], noted[-1] if noted else ""
        path = [*modules, f"weight {weight}" if weight else ""]
        depth = 0
        while depth < min(len(opened), len(modules)) and opened[depth][0] == modules[depth]:
            depth += 1
        while depth and begins[opened[depth - 1][1]] and begins[opened[depth - 1][1]] == path[depth]:
            depth -= 1
        del opened[depth:]
        for place in range(depth, len(modules)):
            above, outer = (modules[place - 1], opened[-1][1]) if place else ("", "")
            scope = f"{outer}/{modules[place].removeprefix(f'{above}.')}".strip("/")
            count = calls[scope] = calls.get(scope, 0) + 1
            scope += f"_{count - 1}" if count > 1 else ""
            begins[scope] = path[place + 1]
            opened.append((modules[place], scope))
        found.append(f"{opened[-1][1]}/{name}" if opened else name)
    return found
