"""Runs a package on rows from a file, for a user who looks at a model before he writes a program."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.package.example import Example
from tfaot_pkg.package.name import package_meant_by, spellings
from tfaot_pkg.registry.reader import Requirement
from tfaot_pkg.runtime.loader import Model, load
from tfaot_pkg.runtime.tables import Rows, answers_csv, answers_text, parse_rows, read_rows
from tfaot_pkg.worker_program.messages.elements import held_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a model answered to `rows` rows, and what its framework did (if they are those of its example)."""

    name: str
    version: str
    target: str
    signature: Signature
    rows: int
    outputs: Mapping[str, Array]
    unused: tuple[str, ...] = ()
    expected: Mapping[str, Array] | None = None
    reference: str = ""

    def text(self) -> str:
        shown = answers_text(self.outputs, self.signature)
        if self.expected is None:
            return shown
        return f"{shown}\n{self.reference} on the same rows:\n{answers_text(self.expected, self.signature)}"

    def as_dict(self) -> dict[str, object]:
        found = {name: _listed(values) for name, values in self.outputs.items()}
        document = {"package": self.name, "version": self.version, "target": self.target, "rows": self.rows}
        expected = {} if self.expected is None else {name: _listed(each) for name, each in self.expected.items()}
        return {**document, "outputs": found, **({"expected": expected} if expected else {}), "unused": self.unused}

    def write(self, path: Path) -> None:
        """Write the answers as CSV or .npz, by the ending of `path`. Raises RunError, StorageError."""
        with storage_errors(f"write {path}"):
            if path.suffix == ".npz":
                with path.open("wb") as file:
                    np.savez(file, **dict(self.outputs))  # type: ignore[arg-type]
                return
            try:
                content = answers_csv(self.outputs, self.signature)
            except ValueError as error:
                raise RunError(f"{path}: {error}") from error
            write_file(path.absolute(), content.encode())


def _listed(values: Array) -> object:
    """`values` as JSON has them: complex numbers as pairs, and as protobuf writes what is no number of JSON."""
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], axis=-1)
    elif values.dtype.kind not in "biuf":
        values = values.astype(np.float32)
    return _finite(values.tolist())


def _finite(value: object) -> object:
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def trial(package: str, prefix: Path, rows: Path | None, part: str = "") -> Answers:
    """Run `package`, which is installed in `prefix`, on the rows in a file (`-`: CSV on standard input), or on its
    stored example. `part` names one of several signatures.

    Raises RunError (not installed, rows that do not fit, no example), StorageError.
    """
    wanted = Requirement.parse(package).package
    model = load(wanted, prefix=prefix)
    chosen = _part(model, part)
    if rows is None:
        return _example(model, chosen, prefix)
    given = _given(rows, chosen.signature)
    outputs = chosen(**given.arrays)
    count = next((len(given.arrays[each.name]) for each in chosen.signature.inputs if each.has_batch_axis), 1)
    return Answers(
        name=model.name,
        version=model.version,
        target=model.target,
        signature=chosen.signature,
        rows=count,
        outputs=outputs,
        unused=given.unused,
    )


def _part(model: Model, name: str) -> Model:
    names = ", ".join(model.signatures)
    if name and name not in model.signatures:
        raise RunError(f"{model.name} has no signature {name!r}", hint=f"it has {names}" if names else "leave it out")
    if model.signatures and not name:
        raise RunError(f"{model.name} has several signatures", hint=f"name one with --signature: {names}")
    return model.signatures[name] if name else model


def _given(rows: Path, signature: Signature) -> Rows:
    if str(rows) != "-":
        return read_rows(rows, signature)
    try:
        return parse_rows(sys.stdin.read(), signature, is_json=False)
    except ValueError as error:
        raise RunError(f"standard input: {error}", hint="tfaot-pkg help use-a-package") from error


def _example(model: Model, chosen: Model, prefix: Path) -> Answers:
    """The answers to the example of the package's validation, beside those of the framework."""
    report = _report(model.name, prefix)
    found = report.get("example")
    if not isinstance(found, dict) or chosen is not model:
        raise RunError(
            f"{model.name} {model.version} has no stored example", hint="give rows: a .csv, .json or .npz file"
        )
    try:
        example = convert(Example, found, "$.example")
        at = model.signature.at(example.sizes) if example.sizes else model.signature
        inputs, expected = (
            {
                each.name: np.array(values[each.name], held_type(each.dtype.value)).reshape(each.shape_at(example.rows))
                for each in tensors
            }
            for tensors, values in ((at.inputs, example.inputs), (at.outputs, example.outputs))
        )
    except (ValueError, KeyError) as error:
        raise RunError(f"{model.name} {model.version}: its example cannot be read: {error}") from error
    return Answers(
        name=model.name,
        version=model.version,
        target=model.target,
        signature=model.signature,
        rows=example.rows,
        outputs=model(**inputs),
        expected=expected,
        reference=str(report.get("reference", "its framework")),
    )


def _report(model: str, prefix: Path) -> Mapping[str, object]:
    for name in spellings(package_meant_by(model)):
        path = prefix / "share" / name / "validation.json"
        with storage_errors(f"read {path}"):
            if path.is_file():
                found = read_json(path.read_bytes())
                return found if isinstance(found, dict) else {}
    return {}
