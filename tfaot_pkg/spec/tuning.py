"""The tuning file beside a spec, `spec.tune.json` of `spec.yaml`: measurements that are an input of a build.

    {"format": 1, "model": "digits", "machine": {"cpu": "..."}, "batch_costs": {"x86-64-v3": {"1": 812.0}}}

`tfaot-pkg tune` writes it. It is committed with the spec: measurements are not reproducible, packages made with them
are.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import Fault, SpecError
from tfaot_pkg.spec.document import MAX_BYTES, Document, read_document
from tfaot_pkg.spec.names import shown
from tfaot_pkg.spec.rules import MAX_BATCH_SIZE, described
from tfaot_pkg.spec.types import Tuning
from tfaot_pkg.targets import TARGETS

SUFFIX = ".tune.json"
PACKAGED = f"spec{SUFFIX}"
"""The file's name in packages, where the spec is `spec.yaml`."""

_FORMAT = 1
_KEYS = ("format", "model", "machine", "batch_costs")
_HINT = "mend the file, or remove it: `tfaot-pkg tune SPEC --batch-costs` writes a new one"


def tuning_path(spec: Path) -> Path:
    """The tuning file of the spec at `spec`."""
    return spec.with_name(spec.stem + SUFFIX)


def read_tuning(path: Path, model: str) -> Tuning | None:
    """The tuning of `model` in the file at `path`, None where there is none. Raises SpecError with all faults."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpecError(f"{path}: cannot read the tuning file: {error.strerror}", hint=_HINT) from error
    return parse_tuning(content, str(path), model)


def parse_tuning(content: bytes, file: str, model: str) -> Tuning:
    """As `read_tuning`, from the file's content; `file` is its name in faults."""
    data = _json(content, file)
    document = read_document(content, file)  # JSON is YAML: this knows lines, and keys that are given twice
    if not document.faults:
        document.data = data
        _check(document, model)
    if document.faults:
        raise SpecError([fault for _, fault in document.faults], hint=_HINT)
    costs = data.get("batch_costs", {})
    return Tuning(
        model=model,
        machine=data.get("machine", {}),
        batch_costs={
            target: {int(size): float(cost) for size, cost in sorted(row.items(), key=lambda item: int(item[0]))}
            for target, row in sorted(costs.items(), key=lambda item: TARGETS[item[0]].level)
        },
    )


def tuning_document(tuning: Tuning) -> dict[str, object]:
    """`tuning` as JSON values in the form of the file."""
    return {
        "format": _FORMAT,
        "model": tuning.model,
        "machine": dict(tuning.machine),
        "batch_costs": costs_document(tuning),
    }


def costs_document(tuning: Tuning | None) -> dict[str, dict[str, float]]:
    """The costs alone, as JSON values: no costs without a tuning."""
    rows = tuning.batch_costs if tuning is not None else {}
    return {target: {str(size): cost for size, cost in row.items()} for target, row in rows.items()}


def tuning_bytes(tuning: Tuning) -> bytes:
    """The file of `tuning`: what packages carry and `tfaot-pkg tune` writes."""
    return (json.dumps(tuning_document(tuning), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _json(content: bytes, file: str) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        line, message = error.lineno, f"is not JSON: {error.msg} (column {error.colno})"
    except (UnicodeDecodeError, RecursionError) as error:
        line, message = 1, f"is not JSON: {error}"
    raise SpecError([Fault(file=file, line=line, path="", message=message)], hint=_HINT)


def _check(document: Document, model: str) -> None:
    """Report every fault of the file's values."""
    data = document.data
    if not isinstance(data, dict):
        document.report((), f"must be a mapping with {', '.join(_KEYS)}, got {described(data)}")
        return
    for key in data:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)
            document.report((key,), "unknown key" + (f"; did you mean {near[0]}?" if near else ""))
    if data.get("format") != _FORMAT:
        document.report(("format",), f"must be {_FORMAT}, got {described(data.get('format'))}: upgrade tfaot-pkg?")
    if data.get("model") != model:
        document.report(
            ("model",), f"must be {model!r}, the model of the spec beside it, got {described(data.get('model'))}"
        )
    for name, text in _mapping(document, "machine").items():
        if not isinstance(text, str):
            document.report(("machine", name), f"must be a string, got {described(text)}")
    for target, row in _mapping(document, "batch_costs").items():
        _check_row(document, target, row)


def _mapping(document: Document, key: str) -> Mapping[str, Any]:
    value = document.data.get(key, {})
    if isinstance(value, dict):
        return value
    document.report((key,), f"must be a mapping, got {described(value)}")
    return {}


def _check_row(document: Document, target: str, row: object) -> None:
    path = ("batch_costs", target)
    if target not in TARGETS:
        document.report(path, f"there is no target {shown(target)}: there are {', '.join(TARGETS)}")
    if not isinstance(row, dict):
        document.report(path, f"must be a mapping from batch sizes to nanoseconds, got {described(row)}")
        return
    for size, cost in row.items():
        if not re.fullmatch(r"[1-9][0-9]{0,5}", size) or int(size) > MAX_BATCH_SIZE:
            document.report((*path, size), f"must be a batch size from 1 to {MAX_BATCH_SIZE}, got {shown(size)}")
        if isinstance(cost, bool) or not isinstance(cost, int | float):
            document.report((*path, size), f"must be a number of nanoseconds, got {described(cost)}")
        elif not 0 < cost < math.inf:
            document.report((*path, size), f"must be a finite number above 0, got {described(cost)}")
