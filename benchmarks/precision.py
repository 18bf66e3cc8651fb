"""Networks in float32, bfloat16 and bytes beside other engines: what docs/benchmarks/precision.* hold.

    TFAOT_TEST_TORCH=PYTHON .venv/bin/python benchmarks/precision.py [--networks NAME,...] [--peers NAME,...]
        [--rounds 7] [--batch-sizes 1,16,64] [--folder docs/benchmarks] [--work build/precision] [--from precision.json]

PYTHON has PyTorch, onnx and onnxscript. The networks are those of families.py and some of torch_models.py, each in
three forms: NAME is the model, NAME_bfloat16 the same with `compilation.precision: {compute: bfloat16}`, NAME_int8 the
ONNX file as ONNX Runtime's own tool quantizes it (quantize.py). Ours is a library for the highest target that this
machine runs. OpenVINO takes bfloat16 by itself where the CPU multiplies it; "OpenVINO float32" was asked not to.
Engines take turns within a form. Errors are the largest differences: of floats from the framework's answers in float32,
of bytes from those of ONNX Runtime without its optimizations.

--from draws the tables anew from a precision.json, and measures nothing.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import families
import onnx_networks
from engines import ROOT, compared, how, on, options

from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import OURS, Bench, Cell
from tfaot_pkg.pipeline.pipeline import Pipeline

OF_TORCH = (
    *("mlp_64", "mlp_512", "mlp_2048", "conv_net", "res_net", "resnet_20", "resnet_50"),
    *("vit", "gpt_layer", "tcn", "convnext"),
)
BFLOAT16, INT8 = "_bfloat16", "_int8"
NETWORKS = (
    *(f"{name}{form}" for name in families.NETWORKS for form in ("", BFLOAT16)),
    *(f"{name}{form}" for name in OF_TORCH for form in ("", BFLOAT16, INT8)),
)
PRECISION = "compilation:\n  precision: {compute: bfloat16}"
BARS = "validation:\n  accuracy: {all: {largest: 10}}  # errors are a column of the table"
_PEERS = ("onnxruntime", "openvino", "openvino_default")
_HEAD = """\
# Precision and speed

Made by `benchmarks/precision.py`; [bench](../how-to/bench.md) describes the method, and
[Make it smaller and faster](../how-to/smaller-and-faster.md) the forms. Nothing is tuned. One thread on one core;
medians of {rounds} rounds in which all engines take turns, in microseconds per run; smaller is better.

{machine}
"""
_HEAD_OF_BFLOAT16 = (
    *("network", "batch", "float32", "bfloat16", "OpenVINO float32", "as installed", "float32 / OpenVINO"),
    *("bfloat16 / float32", "bfloat16 / as installed", "error", "error as installed"),
)
_HEAD_OF_BYTES = (
    *("network", "batch", "bytes", "float32", "ONNX Runtime, bytes", "OpenVINO, bytes", "bytes / float32"),
    *("bytes / best peer", "error", "ONNX Runtime's", "OpenVINO's"),
)


def beside(name: str) -> tuple[str, ...]:
    """The peers whose figures the tables have."""
    if name.endswith(INT8):
        return ("onnxruntime", "openvino_default")
    return ("openvino_default",) if name.endswith(BFLOAT16) else ("openvino",)


def plain_name(name: str) -> str:
    return name.removesuffix(BFLOAT16).removesuffix(INT8)


def write_networks(names: Sequence[str], folder: Path, pipeline: Pipeline) -> None:
    """Write the networks `names`: by Keras 2 and PyTorch, and ONNX Runtime's tool makes bytes."""
    plain = [name for name in dict.fromkeys(map(plain_name, names)) if not (folder / name / "spec.yaml").exists()]
    if of_families := [name for name in plain if name in families.NETWORKS]:
        families.write_networks(of_families, folder, pipeline)
    if of_torch := [name for name in plain if name in OF_TORCH]:
        onnx_networks.write_networks(of_torch, folder, pipeline)
    if quantized := [plain_name(name) for name in names if name.endswith(INT8)]:
        environments = FrontendEnvironments(folders=pipeline.folders, progress=pipeline.progress)
        python = environments.ensure(FRONTENDS["onnx"]).python
        run([python, "-I", "-B", ROOT / "benchmarks" / "quantize.py", folder, *quantized], timeout=1200)
    for name in (name for name in names if name.endswith(BFLOAT16)):
        of = folder / plain_name(name)
        shutil.copytree(of, folder / name, dirs_exist_ok=True)
        text = (of / "spec.yaml").read_text().replace("compilation:", PRECISION).replace("validation:", BARS)
        (folder / name / "spec.yaml").write_text(text.replace(f"name: {of.name}\n", f"name: {name}\n"))


def _cell(bench: Bench | None, name: str, size: int) -> Cell | None:
    """The cell of a peer, or of the only library of ours if `name` is "tfaot"."""
    for row in bench.engines if bench else ():
        if row.cells and (row.is_ours if name == OURS else row.name == name):
            return row.cell(size)
    return None


def _time(cell: Cell | None) -> float:
    return cell.median if cell else math.nan


def _error(cell: Cell | None) -> str:
    return "-" if cell is None or cell.max_absolute is None else f"{cell.max_absolute:.1e}"


def _times(*cells: Cell | None) -> list[str]:
    return [table.micro(cell.median) if cell else "-" for cell in cells]


def _ratios(*pairs: tuple[float, float]) -> list[float]:
    return [one / other for one, other in pairs]


class Cells:
    """The lines of a table, and their ratios."""

    def __init__(self, head: tuple[str, ...]) -> None:
        self.head, self.rows, self.ratios = head, list[tuple[str, ...]](), list[list[float]]()

    def add(self, name: str, size: int, times: list[str], ratios: list[float], errors: list[str]) -> None:
        self.rows.append((name, str(size), *times, *("-" if math.isnan(x) else f"{x:.2f}" for x in ratios), *errors))
        self.ratios.append(ratios)

    def lines(self, what: str, limit: float) -> list[str]:
        """The geometric mean of the last ratio, those above `limit`, and the table."""
        last = [(row, ratios[-1]) for row, ratios in zip(self.rows, self.ratios, strict=True)]
        known = [(row, ratio) for row, ratio in last if not math.isnan(ratio)]
        mean = table.geometric_mean([ratio for _, ratio in known])
        lines = [f"{what}: the geometric mean of {len(known)} cells is {mean:.2f}.", ""]
        lines += [
            f"- above {limit}: {row[0]}, batch size {row[1]}: {ratio:.2f}" for row, ratio in known if ratio > limit
        ]
        return [*lines, "", table.Table(head=self.head, rows=tuple(self.rows)).markdown()]


def of_bfloat16(by_name: dict[str, Bench]) -> Cells:
    found = Cells(_HEAD_OF_BFLOAT16)
    for name, reduced in by_name.items():
        if not name.endswith(BFLOAT16):
            continue
        floats = by_name.get(plain_name(name))
        for size in reduced.batch_sizes:
            ours, wide = _cell(reduced, OURS, size), _cell(floats, OURS, size)
            default, slow = _cell(reduced, "openvino_default", size), _cell(floats, "openvino", size)
            ratios = _ratios(
                *((_time(one), _time(other)) for one, other in ((wide, slow), (ours, wide), (ours, default)))
            )
            found.add(
                plain_name(name), size, _times(wide, ours, slow, default), ratios, [_error(ours), _error(default)]
            )
    return found


def of_bytes(by_name: dict[str, Bench]) -> Cells:
    found = Cells(_HEAD_OF_BYTES)
    for name, quantized in by_name.items():
        if not name.endswith(INT8):
            continue
        for size in quantized.batch_sizes:
            ours, wide = _cell(quantized, OURS, size), _cell(by_name.get(plain_name(name)), OURS, size)
            peers = [_cell(quantized, peer, size) for peer in ("onnxruntime", "openvino_default")]
            best = min((_time(each) for each in peers if each), default=math.nan)
            ratios = _ratios((_time(ours), _time(wide)), (_time(ours), best))
            found.add(plain_name(name), size, _times(ours, wide, *peers), ratios, list(map(_error, (ours, *peers))))
    return found


def summary(benches: Sequence[Bench]) -> list[str]:
    by_name = {each.model: each for each in benches}
    lines = ["## bfloat16", "", *of_bfloat16(by_name).lines("Our bfloat16 over OpenVINO as installed", 1.0)]
    return [*lines, "", "## Bytes", "", *of_bytes(by_name).lines("Our bytes over the best peer's", 1.1)]


def markdown(benches: Sequence[Bench]) -> str:
    lines = [
        _HEAD.format(rounds=benches[0].rounds, machine=on(benches[0])),
        *summary(benches),
        "",
        "## The networks",
        "",
    ]
    for each in benches:
        if each.model == plain_name(each.model):
            lines.append(f"- {each.model}: {each.description}; {each.weights / 1024:.0f} KB of weights.")
        for row in each.engines:
            if row.is_ours:
                lines.append(f"  - {each.model}: {row.engine}")
            elif row.reason:
                lines.append(f"  - {each.model}: {row.title} not measured: {row.reason[:100]}")
    return "\n".join([*lines, "", "## What was run", "", *how(list(benches))]) + "\n"


def main() -> None:
    chosen = options(__doc__, NETWORKS, peers=",".join(_PEERS), rounds=7, batch_sizes="1,16,64", name="precision")
    print("\n".join(summary(compared(chosen, write_networks, markdown, beside=beside))))


if __name__ == "__main__":
    main()
