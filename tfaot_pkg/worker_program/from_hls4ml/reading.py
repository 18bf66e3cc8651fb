"""Describe a network of hls4ml, and write its layers with their weights and tables as integers."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from from_hls4ml import tables
from from_hls4ml.archive import ARRAY, CONFIG, MODEL, STATE, VERSION, Archive, opened
from messages import elements
from messages.fixed_network import (
    EXPONENT_BITS,
    NETWORK,
    NUMBERS,
    FixedLayer,
    FixedNetwork,
    FixedTensor,
    FixedType,
    converted,
    inverse_type,
    norm_type,
    softmax_sizes,
    table_size,
)
from messages.requests import ModelFault, one_line
from messages.sources import ReadHls4ml, SourceModel, SourceTensor
from messages.wire import decoded, encoded

if TYPE_CHECKING:
    from framework_types import Array, Report

_BACKENDS = ("Vivado", "VivadoAccelerator", "Vitis")
"""Those whose emulator has AP types."""
_LONGEST_TEXT, _MOST_AXES = 200, 64
_MOST_POWER = 30
"""Of a table's range and its first number."""
_TYPES_OF_NUMBERS = "mask_kbi"
"""Signs, bits, and bits before the point: a type for each number that a quantizer of HGQ makes."""
_AP = "convert the network with backend='Vitis' or 'Vivado': the emulators of others have other types"


def read(request: ReadHls4ml, report: Report) -> SourceModel:
    """Describe the network in the file, and write its parts to `request.out`."""
    archive = opened(request.path)
    reader = _Reader(archive)
    network = reader.network()
    if request.out:
        with open(os.path.join(request.out, NETWORK), "w", encoding="utf-8") as file:
            file.write(encoded(network))
        elements.write_arrays(os.path.join(request.out, NUMBERS), reader.arrays)
    results = {each.name: each for layer in network.layers for each in layer.outputs}
    ends = []
    for names in (network.inputs, network.outputs):
        missing = [name for name in names if name not in results]
        if missing:
            raise ModelFault(f"{missing[0]!r} is an end of the network, and no layer computes it", "write it again")
        ends.append(
            tuple(
                SourceTensor(name=name, key=name, dtype="float32", shape=(None, *results[name].shape)) for name in names
            )
        )
    return SourceModel(file=request.path, origin=reader.origin, inputs=ends[0], outputs=ends[1], by_row=False)


class _Reader:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.arrays: dict[str, Array] = {}
        config = archive.document(CONFIG).get("config")
        self._config: dict[str, Any] = config if isinstance(config, dict) else {}
        backend = self._config.get("Backend")
        if backend not in _BACKENDS:
            raise ModelFault(f"the network is one of hls4ml's backend {_printable(backend)}", _AP)
        version = str(archive.document(VERSION).get("hls4ml", "")) if VERSION in archive.members else ""
        self.origin = f"hls4ml {_printable(version)}, {backend}"

    def network(self) -> FixedNetwork:
        state, layers = self._archive.document(STATE), self._archive.document(MODEL)
        try:
            read = tuple(self._layer(name, each) for name, each in layers.items())
            results = {each.name: each for layer in read for each in layer.outputs}
            made = tuple(self._with_tables(each, results) for each in read)
            inputs, outputs = (tuple(map(str, state[each])) for each in ("inputs", "outputs"))
            given = {layer.name: [each.name for each in layer.outputs] for layer in made}
            # Ends are named by layers, or by results of layers with several.
            ends = [tuple(given[name][0] if given.get(name) else name for name in names) for names in (inputs, outputs)]
            return FixedNetwork(
                inputs=ends[0], outputs=ends[1], io=str(self._config.get("IOType", "io_parallel")), layers=made
            )
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError, ValueError) as error:
            raise ModelFault(
                f"the file of hls4ml cannot be read: {type(error).__name__}: {one_line(error)}",
                "write it again with hls4ml.utils.serialization.serialize_model",
            ) from error

    def _layer(self, name: str, document: dict[str, Any]) -> FixedLayer:
        state = document["state"]
        found: dict[str, Any] = state["attributes"]
        kind = str(document["class_name"]).rsplit(".", 1)[-1]
        outputs = tuple(
            FixedTensor(
                name=str(each),
                shape=tuple(int(size) for size in found[each]["state"]["shape"]),
                type=_type(found[each]["state"]["type"], name),
            )
            for each in state["outputs"]
        )
        types, arrays, powers = {}, {}, {}
        for key, value in found.items():
            what = _class_of(value)
            if what == "NamedType" and not _is_unset(key, value["state"]):
                types[key] = _type(value, name)
            elif what == "WeightVariable":
                arrays[key] = self._weights(name, key, value["state"])
                types.setdefault(f"{key}_t", _type(value["state"]["type"], name))
            elif what == "ExponentWeightVariable":
                arrays[key], types[f"{key}_t"] = self._powers(name, key, value["state"])
                powers[f"{key}{EXPONENT_BITS}"] = int(value["state"]["type"]["state"]["precision"]["state"]["width"])
            elif key == _TYPES_OF_NUMBERS:
                arrays[key] = self._kept(f"{name}/{key}", self._archive.array(value).astype(np.int64))
            elif what.endswith("WeightVariable"):
                raise ModelFault(
                    f"the layer {name!r} has weights of the kind {what}", "convert the network without Compression"
                )
        return FixedLayer(
            name=name,
            kind=kind,
            function=_function(found),
            inputs=tuple(map(str, state["inputs"])),
            outputs=outputs,
            numbers={k: v + 0 for k, v in found.items() if _is_number(v)} | powers,
            texts={k: v for k, v in found.items() if isinstance(v, str) and len(v) <= _LONGEST_TEXT},
            lists={k: tuple(v) for k, v in found.items() if _is_list(v)} | self._axes(found),
            types=types,
            arrays=arrays,
        )

    def _axes(self, found: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """Orders of axes and shapes that hls4ml has as arrays."""
        arrays = {
            key: self._archive.array(value)
            for key, value in found.items()
            if key.endswith(("_idxs", "_shape")) and isinstance(value, str) and value.startswith(ARRAY)
        }
        return {
            key: tuple(map(int, each)) for key, each in arrays.items() if each.ndim == 1 and each.size <= _MOST_AXES
        }

    def _weights(self, layer: str, key: str, state: dict[str, Any]) -> str:
        type_, values = _type(state["type"], layer), self._archive.array(state["data"])
        # hls4ml writes as many decimals as there are bits behind the point, and its emulator reads this text.
        places = max(0, type_.fraction)
        flat = [float(f"{float(each):.{places}f}") for each in values.reshape(-1)]
        return self._kept(f"{layer}/{key}", converted(np.array(flat), type_).reshape(values.shape))

    def _powers(self, layer: str, key: str, state: dict[str, Any]) -> tuple[str, FixedType]:
        """Weights that are powers of two or minus those, as integers, and the type of these."""
        values = np.asarray(self._archive.array(state["data"]), np.float64)
        with np.errstate(all="ignore"):
            # As hls4ml writes them: logarithms, cut off towards 0.
            exponents = np.trunc(np.log2(np.abs(values)))
        if not np.all(np.isfinite(exponents)) or np.ptp(exponents) > _MOST_POWER:
            raise ModelFault(
                f"{layer}/{key}: powers of two of zero, or of very different size", "choose another quantizer for it"
            )
        least, most = int(exponents.min(initial=0)), int(exponents.max(initial=0))
        whole = np.where(values < 0, -1, 1) * 2 ** (exponents - least).astype(np.int64)
        width = most - least + 3
        return self._kept(f"{layer}/{key}", whole), FixedType(width=width, integer=width + least, signed=True)

    def _kept(self, name: str, values: Array) -> str:
        if values.dtype == object:
            raise ModelFault(
                f"{name}: numbers of more than 63 bits", "choose fewer bits in the configuration of hls4ml"
            )
        key = f"a{len(self.arrays)}"
        self.arrays[key] = values
        return key

    def _with_tables(self, layer: FixedLayer, results: Mapping[str, FixedTensor]) -> FixedLayer:
        """The layer with the tables of its activations, which hls4ml's emulator fills when it starts."""
        if layer.kind == "Softmax":
            found = _softmax_tables(layer, results)
        elif layer.kind == "LayerNormalization":
            found = _inverse_roots(layer)
        else:
            found = _activation_tables(layer)
        made = {name: self._kept(f"{layer.name}/{name}", table) for name, table in found.items()}
        return replace(layer, arrays={**layer.arrays, **made}) if made else layer


def _activation_tables(layer: FixedLayer) -> dict[str, Array]:
    type_ = layer.types.get("table_t")
    kinds = (f"{way}{kind}activation" for way in ("", "forward_", "backward_") for kind in ("", "recurrent_"))
    names = {layer.texts.get(each, "").lower() for each in kinds}
    found = sorted(filter(tables.has_table, names))
    if type_ is None or not found:
        return {}
    size = table_size(layer)
    return {f"{name}_table": tables.activation(name, size, type_) for name in found}


def _softmax_tables(layer: FixedLayer, results: Mapping[str, FixedTensor]) -> dict[str, Array]:
    """Of exponentials, whose address is the input or its distance to the largest one, and of inverses of sums."""
    given, kind = results[layer.inputs[0]].type, layer.texts.get("implementation", "stable").lower()
    if kind not in ("stable", "latency") or not {"exp_table_t", "inv_table_t"} <= layer.types.keys():
        return {}
    address = norm_type(layer, given) if kind == "stable" else given
    sizes = softmax_sizes(layer, given)
    return {
        "exp_table": tables.exponentials(
            sizes[0], address, layer.types["exp_table_t"],
            scale=float(layer.numbers.get("exp_scale", 1.0)), negative=kind == "stable",
        ),
        "inv_table": tables.inverses(sizes[1], inverse_type(layer), layer.types["inv_table_t"]),
    }  # fmt: skip


def _inverse_roots(layer: FixedLayer) -> dict[str, Array]:
    """Of variances, by their place in the table's range."""
    epsilon, reach = (int(layer.numbers.get(name, 0)) for name in ("epsilon_power_of_10", "table_range_power2"))
    if "table_t" not in layer.types or not (0 <= epsilon <= _MOST_POWER and 0 <= reach <= _MOST_POWER):
        return {}
    wanted = layer.types["table_t"]
    return {"inverse_roots": tables.inverse_roots(table_size(layer), wanted, epsilon_power=epsilon, range_power=reach)}


def _class_of(value: object) -> str:
    if isinstance(value, dict) and "class_name" in value and isinstance(value.get("state"), dict):
        return str(value["class_name"]).rsplit(".", 1)[-1]
    return ""


def _function(found: dict[str, Any]) -> str:
    called = re.match(r"\s*(?:\w+::)?(\w+)\s*[<(]", str(found.get("function_cpp", "")))
    return called[1] if called else ""


def _is_unset(key: str, named: dict[str, Any]) -> bool:
    """Whether a type is not chosen: the template of the softmax then takes another one for the sum."""
    is_default = key == "inv_inp_t" and named["name"] == "model_default_t"
    return is_default or _class_of(named["precision"]) == "UnspecifiedPrecisionType"


def _type(named: dict[str, Any], layer: str) -> FixedType:
    """The type of a NamedType of hls4ml. Raises ModelFault for types that are not fixed-point."""
    precision = named["state"]["precision"]
    kind, state = _class_of(precision), precision["state"]
    width, signed = int(state["width"]), bool(state["signed"])
    if kind == "XnorPrecisionType":
        return FixedType(width=1, integer=1, signed=False, binary=True)
    if kind == "IntegerPrecisionType":
        # ap_int drops places as integers of C do, towards 0.
        return FixedType(width=width, integer=width, signed=signed, rounding="TRN_ZERO", whole=True)
    if kind != "FixedPrecisionType":
        raise ModelFault(
            f"the layer {layer!r} has numbers of the type {kind}",
            "choose fixed<...> for it in the configuration of hls4ml: integers are computed, not floats",
        )
    if state.get("saturation_bits"):
        raise ModelFault(f"the layer {layer!r} has a type with saturation bits", "leave them out: they are slow, too")
    made = {
        "width": width, "integer": state["integer"], "signed": signed,
        "rounding": state["rounding_mode"], "overflow": state["saturation_mode"], "binary": False, "whole": False,
    }  # fmt: skip
    return decoded(FixedType, made, f"{layer}: type")


def _printable(text: object) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", str(text))[:40]


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float) and (not isinstance(value, float) or math.isfinite(value))


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is int for each in value)
