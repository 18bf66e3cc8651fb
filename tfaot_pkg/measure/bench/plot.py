"""Plots of results, drawn with matplotlib (the extra `bench`): latency per item over batch size, memory, sizes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from tfaot_pkg.measure.bench.results import OURS, Bench, Row

# The palette of Okabe and Ito (2008), for people with any colour vision; engines of one family differ in line style.
_OURS = ("#d55e00", "#e69f00")  # the highest target of ours first
_XLA = ("#111827", "#9ca3af")
_BY_TARGET = {OURS: (_OURS, "o", "-"), "program": (_OURS, "p", ":"), "xla": (_XLA, "P", "--")}
_PEERS = {
    "litert": ("#0072b2", "o", "-"),
    "onnxruntime": ("#009e73", "s", "-"),
    "openvino": ("#56b4e9", "D", "-"),
    "openvino_default": ("#56b4e9", "d", "--"),
    "iree": ("#cc79a7", "^", "-"),
    "tensorflow": ("#7f7f7f", "v", "-"),
    "tensorflow_jit": ("#7f7f7f", "<", "--"),
    "library": ("#cc79a7", "D", "--"),
    "tl2cgen": ("#0072b2", "s", "--"),
    "incumbent": ("#111827", "X", "-"),
}
_INK, _MUTED, _FAINT, _ROOF = "#1f2937", "#6b7280", "#d1d5db", "#e7e5e4"
_MOST_LABELS = 14  # of batch sizes
_WIDE = 10  # the ratio of the longest to the shortest time above which ticks at 1, 3, 10, ... are enough
_MARGIN = 1.18  # a factor on both ends of the axis of batch sizes, so that markers are not cut off
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": "#9ca3af",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "xtick.color": _INK,
    "ytick.color": _INK,
    # Without it, ids in SVG files are random.
    "svg.hashsalt": "tfaot-pkg",
}
_DPI = 160
_ORDER = (
    *("tfaot", "program", "litert", "onnxruntime", "openvino", "openvino_default", "iree", "xla", "incumbent"),
    *("tensorflow", "tensorflow_jit"),
)


def latency_plot(benches: Sequence[Bench], suffix: str) -> bytes:
    """Microseconds per item over batch size, both logarithmic, a panel for each model, in the format of `suffix`.

    The area below the roofline of the highest target, which no code can reach on one core, is shaded.
    """
    with mpl.rc_context(_STYLE):
        figure, panels, spare = _grid(len(benches))
        handles: dict[str, Any] = {}
        for axes, bench in zip(panels, benches, strict=True):
            handles.update(_latency_panel(axes, bench))
        for axes in panels:
            axes.set_xlabel("batch size")
        for axes in panels[:: _columns(len(benches))]:
            axes.set_ylabel("µs per item")
        titles = [row.title for row in sorted(_all_rows(benches), key=lambda row: _rank(row.name))]
        titles = list(dict.fromkeys(title for title in titles if title in handles))
        _legend(figure, spare, [handles[title] for title in titles], titles)
        _subtitle(figure, benches)
        return _bytes(figure, suffix)


def resources_plot(benches: Sequence[Bench], suffix: str) -> bytes:
    """Bars for each engine and model: memory that a process needs beyond an empty one, and bytes to distribute."""
    with mpl.rc_context(_STYLE):
        heights = [1.0 + 0.3 * sum(bool(row.cells) for row in bench.engines) for bench in benches]
        figure = Figure(figsize=(12, 0.6 + sum(heights)), layout="constrained")
        grid = figure.subplots(len(benches), 2, squeeze=False, height_ratios=heights)
        for (left, right), bench in zip(grid, benches, strict=True):
            # Reversed, because bars are drawn from the bottom up.
            rows = [row for row in bench.engines if row.cells][::-1]
            _bars(left, rows, lambda row: (row.memory - row.memory_empty) / 1024)
            _bars(right, rows, _shipped, lambda row: row.model_bytes / 2**20)
            right.set_yticklabels([])
            left.set_title(bench.model)
            left.set_xlabel("peak memory above an empty process, MB")
            right.set_xlabel("shipped, MB: model (dark), and the engine that runs it")
        _subtitle(figure, benches)
        return _bytes(figure, suffix)


def price_plot(points: Mapping[str, tuple[float, float]], title: str, suffix: str) -> bytes:
    """The time of a run in microseconds over the largest error, both logarithmic, a marker for each of `points`."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.subplots()
        least = min((error for error, _ in points.values() if error > 0), default=1e-6) / 3
        for place, (name, (error, time)) in enumerate(points.items()):
            colour = (*_OURS, "#0072b2", "#009e73")[place % 4]
            axes.plot(max(error, least), time, "o", color=colour, markersize=9, clip_on=False)
            axes.annotate(name, (max(error, least), time), textcoords="offset points", xytext=(9, 4), fontsize=9)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0), numticks=12))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.margins(0.2)
        axes.grid(color=_FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel("largest error on the main inputs")
        axes.set_ylabel("µs per run")
        axes.set_title(title)
        return _bytes(figure, suffix)


def _all_rows(benches: Sequence[Bench]) -> list[Row]:
    return [row for bench in benches for row in bench.engines]


def _columns(count: int) -> int:
    return 1 if count == 1 else 2 if count <= 4 else 4


def _grid(count: int) -> tuple[Figure, list[Any], Any]:
    """A figure, its panels, and a panel that is free for the legend (None if there is none)."""
    columns = _columns(count)
    rows = math.ceil(count / columns)
    size = (9.2, 5.6) if count == 1 else (4.1 * columns, 3.9 * rows + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in every[count:]:
        axes.set_axis_off()
    return figure, every[:count], every[count] if len(every) > count else None


def _latency_panel(axes: Any, bench: Bench) -> dict[str, Any]:
    """The lines by title."""
    sizes = list(bench.batch_sizes)
    handles = {}
    # Ours are drawn last, above the others.
    for row in sorted((row for row in bench.engines if row.cells), key=lambda row: -_rank(row.name)):
        values = [cell.median / 1e3 / cell.batch_size for cell in row.cells]
        line = _line(axes, row, bench, [cell.batch_size for cell in row.cells], values)
        handles[row.title] = line
    roof = bench.roof("")
    if roof:
        low = [roof.nanoseconds[size] / 1e3 / size for size in sizes]
        bottom = min(low) / 2.2
        axes.set_ylim(bottom=bottom)
        edges = [sizes[0] / _MARGIN, *sizes, sizes[-1] * _MARGIN]
        axes.fill_between(edges, [low[0], *low, low[-1]], bottom, color=_ROOF, zorder=0, linewidth=0)
        axes.plot(edges, [low[0], *low, low[-1]], color=_MUTED, linewidth=1.0, zorder=1)
        axes.text(
            math.sqrt(sizes[0] * sizes[-1]), bottom * 1.15, f"beyond the roofline of one core ({roof.target})",
            ha="center", va="bottom", fontsize=8.5, color=_MUTED,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(sizes[0] / _MARGIN, sizes[-1] * _MARGIN)
    axes.xaxis.set_major_locator(FixedLocator(labelled(sizes)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    steps = (1.0, 3.0) if high > _WIDE * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(axis="y", color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(bench.model)
    return handles


def labelled(sizes: Sequence[int]) -> list[int]:
    """Those of `sizes`, ascending, whose labels fit on the logarithmic axis; the largest is always labelled."""
    room = math.log2(sizes[-1] / sizes[0]) / _MOST_LABELS
    kept = [sizes[-1]]
    for size in reversed(sizes[:-1]):
        if math.log2(kept[-1] / size) >= room:
            kept.append(size)
    return kept[::-1]


def _line(axes: Any, row: Row, bench: Bench, sizes: list[int], values: list[float]) -> Any:
    colour, marker, style = _look(row, bench)
    width, size, order = (2.8, 6.5, 5) if row.is_ours else (1.5, 5.5, 3)
    (line,) = axes.plot(
        sizes, values, color=colour, marker=marker, linestyle=style, linewidth=width, markersize=size, zorder=order,
        markeredgecolor="white", markeredgewidth=0.6, clip_on=False,
    )  # fmt: skip
    return line


def _look(row: Row, bench: Bench) -> tuple[str, str, str]:
    """Colour, marker and line. Of several targets, the highest has the strongest colour."""
    family = row.name.removesuffix(f"-{row.target}")
    if row.target and family in _BY_TARGET:
        names = [each.name for each in bench.engines if each.name == f"{family}-{each.target}"][::-1]
        colours, marker, line = _BY_TARGET[family]
        return colours[min(names.index(row.name), 1)], marker, line
    return _PEERS.get(row.name, (_XLA[1], "P", ":"))


def _rank(name: str) -> int:
    found = [place for place, prefix in enumerate(_ORDER) if name.startswith(prefix)]
    return max(found, default=len(_ORDER))


def _legend(figure: Figure, spare: Any, handles: list[Any], titles: list[str]) -> None:
    if spare is not None:
        spare.legend(handles, titles, loc="center left", frameon=False, fontsize=11, labelspacing=0.9)
    else:
        figure.legend(handles, titles, loc="outside right center", frameon=False, labelspacing=0.9)


def _shipped(row: Row) -> float:
    return (row.model_bytes + row.runtime_bytes) / 2**20


def _bars(
    axes: Any, rows: Sequence[Row], value: Callable[[Row], float], part: Callable[[Row], float] | None = None
) -> None:
    """Horizontal bars with their values at the end, `part` of each darker; logarithmic, because they differ much."""
    names = [row.title for row in rows]
    # At least 0.01 MB, because a logarithmic axis has no 0.
    values = [max(value(row), 0.01) for row in rows]
    colours = [_OURS[0] if row.is_ours else "#94a3b8" for row in rows]
    axes.barh(names, values, color=colours, height=0.68, alpha=0.55 if part else 1.0)
    if part:
        dark = ["#9a3412" if row.is_ours else "#475569" for row in rows]
        axes.barh(names, [part(row) for row in rows], color=dark, height=0.68)
    for place, (row, shown) in enumerate(zip(rows, values, strict=True)):
        text, weight = f"{shown:.1f}" if shown < 100 else f"{shown:.0f}", "bold" if row.is_ours else "normal"
        axes.annotate(
            text, (shown, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9, fontweight=weight
        )
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2, max(values) * 3)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _subtitle(figure: Figure, benches: Sequence[Bench]) -> None:
    machine = benches[0].machine
    figure.supxlabel(
        f"one thread on one core of {machine['cpu']} ({machine['target']}); median of {benches[0].rounds} rounds, "
        "engines alternate",
        fontsize=8.5, color=_MUTED, x=0.01, ha="left",
    )  # fmt: skip


def _bytes(figure: Figure, suffix: str) -> bytes:
    """The file of `figure`: the same bytes for the same figure, without a date and random names."""
    output = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix.lstrip("."))
    figure.savefig(output, format=suffix.lstrip("."), dpi=_DPI, metadata=metadata)
    return output.getvalue()
