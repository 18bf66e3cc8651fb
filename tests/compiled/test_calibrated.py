"""Rows of calibration: what is refused, and how bars judge answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.test_quantize_layers import program_of
from tests.wording import reported
from tfaot_pkg.compiler.calibration import LayerPrice
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.errors import SourceError, SpecError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.native.compiled.calibrated import judged, quantized, table_of, told_layers
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.types import Bars, ModelSpec

X = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3, 70))
SIGNATURE = Signature(inputs=(X,), outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 3, 21)),))


def _spec(folder: Path, largest: float = 1.0) -> ModelSpec:
    text = f"""model: {{name: m, version: 1.0.0}}
compilation: {{batch_sizes: [1], precision: {{compute: int8, calibration: rows.npz}}}}
validation: {{accuracy: {{all: {{largest: {largest}}}}}}}
"""
    return parse_spec(text.encode(), folder / "spec.yaml")


def _made(folder: Path, arrays: Mapping[str, object], largest: float = 1.0) -> tuple[LayerPrice, ...]:
    path = folder / "rows.npz"
    np.savez(path, **{name: np.asarray(values) for name, values in arrays.items()})  # type: ignore[arg-type]
    return quantized(_spec(folder, largest), SIGNATURE, program_of("dense, none"), path)[1]


_ROWS = np.random.default_rng(1).normal(size=(20, 3, 70)).astype(np.float32)


@pytest.mark.parametrize(
    "arrays",
    [
        {"z": _ROWS}, {"x": _ROWS[:, :, :69]}, {"x": _ROWS.astype(np.float64)}, {"x": _ROWS[:0]},
        {"x": np.where(_ROWS > 2, np.nan, _ROWS).astype(np.float32)},
        {"x": np.where(_ROWS > 2, np.inf, _ROWS).astype(np.float32)}, {"x": np.array([{"a": 1}], object)},
    ],
    ids=["other names", "another shape", "another type", "no rows", "NaN", "infinities", "a pickle"],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused_by_the_key_that_names_them(
    tmp_path: Path, arrays: Mapping[str, object]
) -> None:
    with reported(SpecError):
        _made(tmp_path, arrays)


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04cut"], ids=["empty", "no zip", "cut"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.npz"
    path.write_bytes(content)
    with reported(SpecError):
        quantized(_spec(tmp_path), SIGNATURE, program_of("dense, none"), path)


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    _made(tmp_path, {"x": _ROWS})
    path, program = tmp_path / "rows.npz", program_of("dense, none")
    quantized(_spec(tmp_path), SIGNATURE, program, path, sha256=sha256_file(path))
    with pytest.raises(SourceError, match=r"the file of .* changed while"):
        quantized(_spec(tmp_path), SIGNATURE, program, path, sha256="0" * 64)


def test_bars_decide_and_the_table_tells(tmp_path: Path) -> None:
    (price,) = _made(tmp_path, {"x": _ROWS})
    assert price.compute == "int8" and 0.01 < price.largest < 0.5 and price.of_bars == price.largest
    (price,) = _made(tmp_path, {"x": _ROWS}, largest=price.largest / 2)
    assert price.compute == "float32" and price.of_bars == pytest.approx(2.0)
    head, line = table_of([price]).splitlines()
    assert head.split()[:4] == ["layer", "operation", "inputs", "outputs"] and line.split()[0] == "dense"
    assert line.split()[-2:] == ["2.00", "float32"]
    assert told_layers("int8", 0, [price]).endswith("and in float32, to keep the bars: dense (2 of a bar alone)")
    assert told_layers("bfloat16", 2, ()) == "2 layers in bfloat16"


def test_the_output_that_takes_most_of_its_bar_counts() -> None:
    signature = Signature(
        inputs=(X,),
        outputs=(
            Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2)), Tensor(name="z", dtype=DType.BFLOAT16, shape=(None,)),
        ),
    )  # fmt: skip
    bars = {"y": Bars(largest=1.0, argmax=0.5), "all": Bars(mean=0.25)}
    ours: list[Array] = [np.array([[0.0, 1.0], [1.0, 0.5]], np.float32), np.array([0x3F80, 0x4000], np.uint16)]
    theirs: list[Array] = [np.array([[0.0, 1.0], [0.25, 0.5]], np.float32), np.array([0x3F80, 0x3F80], np.uint16)]
    found = judged(bars, signature, ours, theirs)
    assert (found.of_bars, found.largest, found.mean) == (2.0, 1.0, 0.5)  # of z: 1 and 2 instead of 1 and 1
    assert judged(bars, signature, theirs, theirs).of_bars == 0.0
    del ours[1], theirs[1]
    assert judged(bars, Signature(inputs=(X,), outputs=signature.outputs[:1]), ours, theirs).of_bars == 1.0  # argmax


def test_a_program_of_text_is_quantized_as_a_whole(tmp_path: Path) -> None:
    """Models without layers for bytes have no prices."""
    program = parse("%0 f32[batch,3,70] = parameter number=0\n%1 f32[batch,3,70] = tanh %0\ngive %1\n")
    np.savez(tmp_path / "rows.npz", x=_ROWS)
    assert quantized(_spec(tmp_path), SIGNATURE, program, tmp_path / "rows.npz")[1] == ()
