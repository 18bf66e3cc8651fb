"""Cells, tables, and the form in files."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from tests.bench.made import AGREES, LITERT, OURS, XLA, bench, cells, row
from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.documents import convert, plain, read
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import Bench, Difference, Row, cell_of

WRONG = Difference(max_absolute=0.5, max_relative=0.25, failures=3)


def test_a_cell_is_the_median_minimum_and_p95_of_all_chunks_and_the_median_of_each_round() -> None:
    cell = cell_of(4, [[float(n) for n in range(1, 51)], [float(n) for n in range(51, 101)]], WRONG)
    assert (cell.median, cell.minimum, cell.p95) == (50.5, 1.0, 96.0)
    assert cell.rounds == (25.5, 75.5) and (cell.max_absolute, cell.max_relative, cell.failures) == (0.5, 0.25, 3)


def test_the_cost_of_a_call_is_taken_out_of_all_times() -> None:
    cell = cell_of(1, [[300.0, 310.0, 320.0], [500.0]], AGREES, overhead=100.0)
    assert (cell.median, cell.minimum, cell.p95, cell.rounds) == (215.0, 200.0, 400.0, (210.0, 400.0))
    # The overhead's own noise must make no time that is negative or nothing: tables and plots divide by it.
    assert cell_of(1, [[90.0]], AGREES, overhead=100.0).median == 5.0


def test_results_are_read_as_they_were_written() -> None:
    found = bench(row(OURS, cells(1200, 3600)), row("iree", {}, reason="no such operation"))
    assert convert(Bench, json.loads(json.dumps(plain(found)))) == found


def test_an_infinite_error_is_null_in_files() -> None:
    cell = cell_of(1, [[1.0]], replace(WRONG, max_absolute=math.inf))
    found = bench(Row(name=OURS, title="", how="", cells=(cell,)))
    text = json.dumps(plain(found), allow_nan=False)
    assert '"max_absolute": null' in text and '"max_relative": 0.25' in text
    assert convert(Bench, json.loads(text)).engines[0].cells == (cell,)
    assert table.resources(found).rows[0][-1] == "inf!"


@pytest.mark.parametrize(
    ("wrong", "text"), [('"format": 1', '"format": 99'), ('"median": 1', '"median": "1"'), ('"1": 1000.0', '"a": 1')]
)
def test_results_of_another_format_or_with_a_wrong_value_are_refused(wrong: str, text: str) -> None:
    document = json.dumps(plain(bench(row(OURS, cells(1, 2)))))
    assert wrong in document
    with reported(SpecError):
        read(Bench, document.replace(wrong, text), "old.json", error=SpecError, hint="measure again")


def test_the_table_tells_ours_over_the_best_peer_over_xla_alone_and_over_the_roofline() -> None:
    found = bench(
        row(OURS, cells(1200, 3600)), row(XLA, cells(600, 7200)), row(LITERT, cells(2400, 3000)),
        row("onnxruntime", cells(9000, 9000)),
    )  # fmt: skip
    rows = {line[0]: line[1:] for line in table.latencies(found).rows}
    assert rows["roofline x86-64-v3 float32"] == ("1.00", "3.00")
    assert rows[OURS] == ("1.20", "3.60")
    assert rows["ours / best other engine"] == ("2.00", "1.20")  # XLA alone is another engine
    assert rows[f"{OURS} / {XLA}"] == ("2.00", "0.50")
    assert rows[f"{OURS} / roofline"] == ("1.20", "1.20")


def test_where_reading_is_the_limit_nothing_is_measured_by_it() -> None:
    found = bench(row(OURS, cells(1200, 3600)))
    (roof,) = found.roofline
    found = replace(found, roofline=(replace(roof, by_reading=(1,)),))
    rows = {line[0]: line[1:] for line in table.latencies(found).rows}
    assert rows["roofline x86-64-v3 float32"] == ("1.00", "3.00") and rows[f"{OURS} / roofline"] == ("-", "1.20")


def test_calls_after_other_work_have_a_table_if_they_were_measured() -> None:
    assert cell_of(1, [[1.0]], AGREES).cold is None and cell_of(1, [[1.0]], AGREES, cold=[5.0, 90.0, 4.0]).cold == 5.0
    plain_row = row(OURS, cells(1200, 3600))
    assert table.cold_calls(bench(plain_row)) is None
    cold = replace(plain_row, cells=tuple(replace(each, cold=9000.0) for each in plain_row.cells))
    found = table.cold_calls(bench(cold, row(LITERT, cells(2400, 3000))))
    assert found is not None and found.rows == ((OURS, "9.00", "9.00"),)


def test_ours_is_the_code_that_the_library_picks_here_not_the_quickest() -> None:
    quicker = row("tfaot-x86-64-v2", cells(1000, 1000), target="x86-64-v2")
    found = bench(quicker, row(OURS, cells(1200, 3600), target="x86-64-v3"), row(LITERT, cells(1200, 1800)))
    assert [table.ratio_to_peers(found, size) for size in found.batch_sizes] == [1.0, 2.0]


def test_our_compiler_on_its_own_is_not_another_engine() -> None:
    found = bench(
        row(OURS, cells(1200, 3600)), row("program-x86-64-v3", cells(600, 600)), row(LITERT, cells(2400, 2400))
    )
    assert [table.ratio_to_peers(found, size) for size in found.batch_sizes] == [0.5, 1.5]


def test_what_computes_the_model_is_told_once() -> None:
    rows = [row(f"tfaot-{target}", cells(1, 2), engine="engine: XLA") for target in ("x86-64-v2", "x86-64-v3")]
    assert table.notes(bench(*rows)) == ["tfaot-x86-64-v2: engine: XLA"]


def test_an_engine_without_figures_is_told_with_its_reason() -> None:
    found = bench(row(OURS, cells(1, 2)), row("iree", {}, reason="cannot take float64"))
    assert table.notes(found) == ["iree: not measured: cannot take float64"]
    assert ("iree", "-", "-") in table.latencies(found).rows


def test_without_peers_there_is_no_ratio() -> None:
    found = bench(row(OURS, cells(1, 2)))
    assert math.isnan(table.ratio_to_peers(found, 1))
    assert ("ours / best other engine", "-", "-") in table.latencies(found).rows


def test_columns_of_text_are_aligned_and_markdown_is_a_table() -> None:
    made = table.Table(head=("name", "1"), rows=(("a", "10.5"), ("longer", "2")))
    assert made.text() == "name       1\na       10.5\nlonger     2"
    assert made.markdown() == "| name | 1 |\n| --- | --: |\n| a | 10.5 |\n| longer | 2 |"


@pytest.mark.parametrize(("nanoseconds", "text"), [(1234.0, "1.23"), (12_340.0, "12.3"), (123_400.0, "123")])
def test_microseconds_have_three_digits(nanoseconds: float, text: str) -> None:
    assert table.micro(nanoseconds) == text


def test_an_engine_with_other_answers_is_told_and_compared_with_nothing() -> None:
    wrong = row(LITERT, {})
    wrong = replace(wrong, cells=(cell_of(1, [[600.0]] * 3, WRONG), cell_of(4, [[9000.0]] * 3, AGREES)))
    found = bench(row(OURS, cells(1200, 3600)), wrong, row("onnxruntime", cells(2400, 18000)))
    rows = {line[0]: line[1:] for line in table.latencies(found).rows}
    assert rows["ours / best other engine"] == ("0.50", "0.40")
    (note,) = table.notes(found)
    assert note.startswith(f"{LITERT}: its answers differ from the source framework's") and "at batch size 1:" in note
    assert [line[-1] for line in table.resources(found).rows] == ["1.0e-07", "5.0e-01!", "1.0e-07"]


@pytest.mark.parametrize(("width", "blocks"), [(None, 1), (16, 1), (15, 2), (1, 3)])
def test_a_table_that_is_wider_than_the_terminal_goes_on_below(width: int | None, blocks: int) -> None:
    made = table.Table(head=("name", "1", "2", "4"), rows=(("a", "10", "20", "40"),))
    parts = made.text(width).split("\n\n")
    assert len(parts) == blocks and all(part.startswith("name") for part in parts)
    assert [word for part in parts for word in part.splitlines()[1].split()[1:]] == ["10", "20", "40"]
    if width and width > 10:
        assert all(len(line) <= width for part in parts for line in part.splitlines())
