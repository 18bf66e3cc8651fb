"""What plots show: read from matplotlib's own objects and from the SVG's text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.bench.made import OURS, SIZES, XLA, bench, cells, row
from tfaot_pkg.measure.bench.peers import PEERS
from tfaot_pkg.measure.bench.plot import _look, labelled, latency_plot, price_plot, resources_plot
from tfaot_pkg.measure.bench.results import Bench


def _every_engine() -> Bench:
    lower = {"target": "x86-64-v2"}
    ours = [row("tfaot-x86-64-v2", cells(2000, 6000), **lower), row(OURS, cells(1200, 3600))]
    xla = [row("xla-x86-64-v2", cells(4000, 8000), **lower), row(XLA, cells(3000, 7000))]
    alone = [row("program-x86-64-v2", cells(2000, 5000), **lower), row("program-x86-64-v3", cells(1000, 3000))]
    named = ("xla", "program", "incumbent")
    peers = [row(name, cells(2500, 9000), target="") for name in PEERS if name not in named]
    return bench(*ours, *xla, *alone, row("incumbent", cells(9000, 30000), target="x86-64"), *peers)


def _texts(svg: bytes) -> set[str]:
    """Matplotlib draws text as outlines, and says which in a comment."""
    return {text.strip() for text in re.findall(r"<!-- (.*?) -->", svg.decode())}


def test_no_two_engines_look_the_same() -> None:
    found = _every_engine()
    looks = [_look(each, found) for each in found.engines]
    assert len(set(looks)) == len(looks) > len(PEERS)


def test_the_latency_plot_has_plain_numbers_every_engine_and_the_roofline() -> None:
    found = _every_engine()
    texts = _texts(latency_plot([found], ".svg"))
    assert {*map(str, SIZES), "batch size", "µs per item"} <= texts
    assert {each.title for each in found.engines} <= texts
    assert "beyond the roofline of one core (x86-64-v3)" in texts
    ticks = {text for text in texts if re.fullmatch(r"[\d.e+-]+", text)}
    assert ticks == {"1", "3", *map(str, SIZES)}


def test_times_that_differ_little_have_ticks_as_well() -> None:
    found = bench(row(OURS, cells(1150, 4400)), roof={1: 1100.0, 4: 4300.0})
    assert len({text for text in _texts(latency_plot([found], ".svg")) if re.fullmatch(r"0\.\d+|1\.5|2", text)}) >= 2


@pytest.mark.parametrize("sizes", [[1], [1, 2, 4, 8, 16, 64, 256], [*range(1, 33), 100, 128, 1000, 1024]], ids=len)
def test_numbers_of_batch_sizes_do_not_overlap(sizes: list[int]) -> None:
    shown = labelled(sizes)
    assert set(shown) <= set(sizes) and sizes[-1] in shown and len(shown) <= 15
    if len(sizes) < 10:
        assert shown == sizes


def test_one_batch_size_and_no_peer_are_drawn() -> None:
    one = bench(row(OURS, {1: [1000.0] * 3}))
    assert latency_plot([replace(one, batch_sizes=(1,))], ".svg").startswith(b"<?xml")
    assert "0.2" in _texts(resources_plot([bench(row(OURS, cells(1, 2), memory=300, memory_empty=100))], ".svg"))


def test_the_same_results_give_the_same_bytes() -> None:
    assert latency_plot([_every_engine()], ".svg") == latency_plot([_every_engine()], ".svg")


def test_a_plot_of_prices_names_each_form_also_one_without_errors() -> None:
    points = {"float32": (0.0, 12.0), "bfloat16": (4e-3, 5.0), "int8": (2e-2, 2.5)}
    texts = _texts(price_plot(points, "digits, batch size 16, x86-64-v4", ".svg"))
    assert {*points, "digits, batch size 16, x86-64-v4", "largest error on the main inputs", "µs per run"} <= texts
    assert price_plot(points, "digits", ".png").startswith(b"\x89PNG")
