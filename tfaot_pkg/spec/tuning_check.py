"""Check a tuning file (spec/tuning.py) and report every fault with its place."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tfaot_pkg.ground.forms.document import Document, Path
from tfaot_pkg.ground.wording import described, shown
from tfaot_pkg.spec.rules import MAX_BATCH_SIZE, flag_fault, target_fault, tensorflow_fault

FORMAT = 1

_KEYS = ("format", "model", "machine", "toolchains", "batch_costs")
_CODE_KEYS = ("kernels", "xla_flags")

_Check = Callable[[Document, Path, object], None]


def check(document: Document, model: str) -> None:
    """Report every fault of the file's values to `document`; `model` is the model of the spec beside it."""
    data = document.data
    if not isinstance(data, dict):
        document.report((), f"must be a mapping with {', '.join(_KEYS)}, got {described(data)}")
        return
    _check_keys(document, (), data, _KEYS)
    if data.get("format") != FORMAT:
        document.report(("format",), f"must be {FORMAT}, got {described(data.get('format'))}: upgrade tfaot-pkg?")
    if data.get("model") != model:
        document.report(
            ("model",), f"must be {model!r}, the model of the spec beside it, got {described(data.get('model'))}"
        )
    for name, text in _mapping(document, ("machine",), data).items():
        if not isinstance(text, str):
            document.report(("machine", name), f"must be a string, got {described(text)}")
    toolchains = _mapping(document, ("toolchains",), data)
    for version in toolchains:
        _check_toolchain(document, version, toolchains)
    _check_units(document, ("batch_costs",), data, "nanoseconds", _check_cost)


def _check_keys(document: Document, path: Path, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            document.report((*path, key), "unknown key" + (f"; did you mean {near[0]}?" if near else ""))


def _mapping(document: Document, path: Path, around: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping at `path`, whose last part is a key of `around`; an empty one if the key is missing."""
    value = around.get(str(path[-1]), {})
    if isinstance(value, dict):
        return value
    document.report(path, f"must be a mapping, got {described(value)}")
    return {}


def _check_toolchain(document: Document, version: str, toolchains: Mapping[str, Any]) -> None:
    path = ("toolchains", version)
    if fault := tensorflow_fault(version):
        document.report(path, fault)
    code = _mapping(document, path, toolchains)
    _check_keys(document, path, code, _CODE_KEYS)
    _mapping(document, (*path, "kernels"), code)  # of older versions; nothing reads it
    _check_units(document, (*path, "xla_flags"), code, "flags", _check_flags)


def _check_units(document: Document, path: Path, around: Mapping[str, Any], what: str, check_value: _Check) -> None:
    """Values by target and batch size."""
    for target, row in _mapping(document, path, around).items():
        here = (*path, target)
        if fault := target_fault(target):
            document.report(here, fault)
        if not isinstance(row, dict):
            document.report(here, f"must be a mapping from batch sizes to {what}, got {described(row)}")
            continue
        for size, value in row.items():
            # Keys of JSON are strings: `01` and `1` would be the same size twice.
            if not re.fullmatch(r"[1-9][0-9]{0,5}", size) or int(size) > MAX_BATCH_SIZE:
                document.report((*here, size), f"must be a batch size from 1 to {MAX_BATCH_SIZE}, got {shown(size)}")
            check_value(document, (*here, size), value)


def _check_cost(document: Document, path: Path, cost: object) -> None:
    # In Python True is an integer; NaN fails the comparison below.
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        document.report(path, f"must be a number of nanoseconds, got {described(cost)}")
    elif not 0 < cost <= sys.float_info.max:
        document.report(path, f"must be a finite number above 0, got {described(cost)}")


def _check_flags(document: Document, path: Path, flags: object) -> None:
    _check_list(document, path, flags, "flags", flag_fault)


def _check_list(document: Document, path: Path, values: object, what: str, fault_of: Callable[[str], str]) -> None:
    if not isinstance(values, list) or not values:
        document.report(path, f"must be a list of {what}, got {'an empty one' if values == [] else described(values)}")
        return
    for index, value in enumerate(values):
        fault = fault_of(value) if isinstance(value, str) else f"must be a string, got {described(value)}"
        if fault:
            document.report((*path, index), fault)
