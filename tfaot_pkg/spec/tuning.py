"""The tuning file beside a spec, `spec.tune.json` of `spec.yaml`: measurements that are an input of a build.

    {"format": 1, "model": "digits", "machine": {"cpu": "..."},
     "toolchains": {"2.17.1": {"xla_flags": {"x86-64-v3": {"2": ["--xla_..."]}}}},
     "batch_costs": {"x86-64-v3": {"1": 812.0}}}

Files of older versions also have `kernels` beside `xla_flags`: layers that the kernel library computed (decision 040).
These have no effect, and are not written again.
`tfaot-pkg tune` writes it. It is committed with the spec: measurements are not reproducible, but packages made with
them are (decision 021).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tfaot_pkg.errors import Fault, SpecError
from tfaot_pkg.ground.forms.document import MAX_BYTES, read_document
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.spec.tuning_check import FORMAT, check
from tfaot_pkg.spec.types import ModelSpec, TunedCode, Tuning

SUFFIX = ".tune.json"
PACKAGED = f"spec{SUFFIX}"
"""The file's name in packages, where the spec is `spec.yaml`."""

_V = TypeVar("_V")
_HINT = "correct the file, or remove it: `tfaot-pkg tune SPEC` writes a new one"


def tuning_path(spec: Path) -> Path:
    """The tuning file of the spec at `spec`."""
    return spec.with_name(spec.stem + SUFFIX)


def read_tuning(path: Path, model: str) -> Tuning | None:
    """The tuning of `model` in the file at `path`; None without a file. Raises SpecError with all faults."""
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
    # Read twice: the parser of JSON rejects what is YAML only; that of YAML knows lines, and finds repeated keys.
    data = _json(content, file)
    document = read_document(content, file)
    if not document.faults:
        document.data = data
        check(document, model)
    if document.faults:
        raise SpecError([fault for _, fault in document.faults], hint=_HINT)
    costs = _by_unit(data.get("batch_costs", {}))
    toolchains = data.get("toolchains", {})
    return Tuning(
        model=model,
        machine=data.get("machine", {}),
        # Entries of older files may have layers only: without flags they are as good as none.
        toolchains={
            version: code for version, item in sorted(toolchains.items()) if (code := _code(item)) != TunedCode()
        },
        has_layers=any(item.get("kernels") for item in toolchains.values()),
        batch_costs={target: {size: float(cost) for size, cost in row.items()} for target, row in costs.items()},
    )


def outdated_note(spec: ModelSpec) -> str:
    """A note about the tuning file of `spec` if it chooses layers, as files of older versions do; else empty."""
    if spec.tuning is None or not spec.tuning.has_layers:
        return ""
    name = tuning_path(spec.path).name
    return (
        f"{name} chooses layers for the kernel library, which has no effect: the compiler makes a program of the whole "
        f"model, or leaves it to XLA; to write the file anew: tfaot-pkg tune {spec.path.name}"
    )


def tuning_document(tuning: Tuning) -> dict[str, object]:
    """`tuning` as JSON values in the form of the file."""
    toolchains = {version: code_document(code) for version, code in sorted(tuning.toolchains.items())}
    return {
        "format": FORMAT,
        "model": tuning.model,
        "machine": dict(tuning.machine),
        **({"toolchains": toolchains} if toolchains else {}),
        "batch_costs": costs_document(tuning),
    }


def costs_document(tuning: Tuning | None) -> dict[str, dict[str, object]]:
    """The costs alone, as JSON values; empty without a tuning."""
    return _document(tuning.batch_costs if tuning is not None else {}, lambda cost: cost)


def code_document(code: TunedCode) -> dict[str, dict[str, dict[str, object]]]:
    """The code of one toolchain, as JSON values."""
    flags = _document(code.xla_flags, list)
    return {"xla_flags": flags} if flags else {}


def tuning_bytes(tuning: Tuning) -> bytes:
    """The file of `tuning`: what packages carry and `tfaot-pkg tune` writes."""
    return (json.dumps(tuning_document(tuning), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _json(content: bytes, file: str) -> Any:
    try:
        return json.loads(content)  # NaN is accepted here: `check` reports it with its line
    except json.JSONDecodeError as error:
        line, message = error.lineno, f"is not JSON: {error.msg} (column {error.colno})"
    except (ValueError, RecursionError) as error:
        line, message = 1, f"is not JSON: {error}"
    raise SpecError([Fault(file=file, line=line, path="", message=message)], hint=_HINT)


def _document(rows: Mapping[str, Mapping[int, _V]], value_of: Callable[[_V], object]) -> dict[str, dict[str, object]]:
    """Values by target and batch size, in the order of these."""
    return {
        target: {str(size): value_of(value) for size, value in sorted(rows[target].items(), key=lambda item: item[0])}
        for target in sorted(rows, key=lambda name: TARGETS[name].level)
    }


def _by_unit(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[int, Any]]:
    """Values by target and batch size, in their order."""
    return {
        target: {int(size): value for size, value in sorted(row.items(), key=lambda item: int(item[0]))}
        for target, row in sorted(rows.items(), key=lambda item: TARGETS[item[0]].level)
    }


def _code(item: Mapping[str, Any]) -> TunedCode:
    flags = _by_unit(item.get("xla_flags", {}))
    return TunedCode(
        xla_flags={target: {size: tuple(words) for size, words in row.items()} for target, row in flags.items()}
    )
