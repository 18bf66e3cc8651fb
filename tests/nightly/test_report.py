"""What a report says of a night: differences, groups, blast radius, exit codes, and the files that say so."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.nightly.reports import (
    FIRST,
    HOSTILE,
    LOG,
    add_night,
    comparison,
    decision,
    figures,
    outcome,
    summary,
    task,
    two_nights,
)
from tests.wording import reported
from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.regression import worse_in
from tfaot_pkg.nightly.report.log import excerpt, plain
from tfaot_pkg.nightly.report.notices import notices_of
from tfaot_pkg.nightly.report.report import EXIT_CODES, Report, TaskReport, changes_between, find_night, read_report
from tfaot_pkg.nightly.report.write import page_of, write_report
from tfaot_pkg.nightly.state import Gate, State, Verdict
from tfaot_pkg.verify.beside import Apart

ID = "{}@1.0.0+tf2.17.1"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> State:
    return two_nights(tmp_path_factory.mktemp("nights") / "state")


@pytest.fixture(scope="module")
def report(state: State) -> Report:
    return read_report(state, find_night(state))


@pytest.fixture(scope="module")
def written(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("written") / "report"
    write_report(report, output)
    return output


def of(report: Report, model: str) -> TaskReport:
    return next(one for one in report.tasks if one.outcome.model == model)


def last(state: State) -> Report:
    return read_report(state, find_night(state))


def test_each_task_is_compared_with_the_night_before(report: Report) -> None:
    found = {one.outcome.model: (one.change.kind, one.change.since, one.change.before) for one in report.tasks}
    assert found == {
        "steady": ("unchanged", "", "published"),
        "slow": ("unchanged", "", "published"),
        "broken": ("newly failing", "2026-11-04", "published"),
        "other_broken": ("still failing", "2026-11-03", "build failed"),
        "mended": ("fixed", "2026-11-03", "timed out"),
        "wrong": ("newly failing", "2026-11-04", "published"),
        "hung": ("newly failing", "2026-11-04", None),
        "greedy": ("newly failing", "2026-11-04", None),
        "flaky": ("newly failing", "2026-11-04", None),
        "lost": ("newly failing", "2026-11-04", None),
        "child": ("newly failing", "2026-11-04", None),
        "grandchild": ("new", "", None),
        "quiet": ("new", "", None),
        "known": ("new", "", None),
    }
    assert report.gone == ("old_one@1.0.0+tf2.17.1",)
    assert report.before == "2026-11-03.1"


def test_the_headline_counts_everything(report: Report) -> None:
    assert report.headline == (
        "14 tasks: 1 infrastructure failed, 2 build failed, 1 validation failed, 1 not reproducible, 1 timed out, "
        "1 out of memory, 1 dependency failed, 1 withheld, 3 published, 1 skipped, 1 up to date; "
        "7 newly failing, 1 still failing, 1 fixed, 1 with a figure that got worse."
    )


def test_failures_are_grouped_by_class(report: Report) -> None:
    assert str(report.groups[0]) == "unsupported operation StringJoin: 2 models"
    assert report.groups[0].models == ("broken", "other_broken")
    assert {len(group.models) for group in report.groups[1:]} == {1}


def test_what_depends_on_a_failure_is_found_through_others(report: Report) -> None:
    assert {one.outcome.model: one.hits for one in report.tasks if one.hits} == {
        "broken": (ID.format("child"), ID.format("grandchild"))
    }


def test_dependents_with_another_toolchain_are_not_hit(tmp_path: Path) -> None:
    state = State(root=tmp_path)
    broken, child = task("broken"), task("child", toolchain="2.21.0", depends=["broken"])
    add_night(state, FIRST, [outcome(broken, "build failed"), outcome(child)], tasks=[broken, child])
    assert of(last(state), "broken").hits == ()


def test_what_is_slower_in_turns_got_worse(report: Report) -> None:
    assert [one.outcome.model for one in report.regressed] == ["slow"]
    worse = of(report, "slow").regressions
    assert list(map(str, worse)) == [
        "latency, x86-64-v3, batch size 1: 5 µs -> 6.5 µs, in turns 1.3 times as long",
        "latency, x86-64-v3, batch size 16: 80 µs -> 104 µs, in turns 1.3 times as long",
    ]
    assert len(of(report, "slow").trends[1].points) == 16


def test_a_result_that_is_taken_again_is_no_second_measurement(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("digits")
    first, second = outcome(one, "withheld", figures=figures(size=1)), outcome(one, figures=figures(size=2))
    for number, each in enumerate((first, replace(first, kind="published"), second)):
        add_night(state, FIRST + timedelta(days=number), [each], tasks=[one])
    sizes = of(last(state), "digits").trends[0]
    assert [(point.night, point.value) for point in sizes.points] == [("2026-10-20.1", 1.0), ("2026-10-22.1", 2.0)]
    again = read_report(state, find_night(state, "2026-10-21.1"))
    assert [point.night for point in of(again, "digits").trends[0].points] == ["2026-10-20.1"]


def test_a_new_version_has_the_past_of_the_one_it_replaces(tmp_path: Path) -> None:
    state = State(root=tmp_path)
    old, new = task("digits"), task("digits", version="1.0.1")
    for number in range(3):
        add_night(state, FIRST + timedelta(days=number), [outcome(old, "build failed")], tasks=[old])
    add_night(state, FIRST + timedelta(days=3), [outcome(new)], tasks=[new])
    change = of(last(state), "digits").change
    assert (change.kind, change.since) == ("fixed", "2026-10-20")


def test_two_versions_side_by_side_keep_pasts_of_their_own(tmp_path: Path) -> None:
    state = State(root=tmp_path)
    older, old, new = (task("digits", version=version) for version in ("0.9.0", "1.0.0", "2.0.0"))
    add_night(state, FIRST, [outcome(older, "build failed"), outcome(old, "build failed")], tasks=[older, old])
    add_night(state, FIRST, [outcome(old, "build failed"), outcome(new)], tasks=[old, new])
    found = {one.outcome.task: one.change.kind for one in last(state).tasks}
    assert found == {old.id: "still failing", new.id: "new"}


def test_a_failure_that_was_mended_in_between_counts_anew(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("digits")
    for number, kind in enumerate(("build failed", "build failed", "published", "build failed", "timed out")):
        add_night(state, FIRST + timedelta(days=number), [outcome(one, kind)], tasks=[one])  # type: ignore[arg-type]
    change = of(last(state), "digits").change
    assert (change.kind, change.since, change.before) == ("still failing", "2026-10-23", "build failed")


def test_nights_in_which_a_model_is_skipped_do_not_end_its_failures(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("digits")
    add_night(state, FIRST, [outcome(one, "build failed")], tasks=[one])
    add_night(state, FIRST + timedelta(days=1), [outcome(one, "skipped")], [decision(one, "skip")])
    add_night(state, FIRST + timedelta(days=2), [outcome(one, "build failed")], tasks=[one])
    assert of(last(state), "digits").change.since == "2026-10-20"


@pytest.mark.slow
def test_the_history_is_read_far_back(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("digits")
    for number in range(100):
        add_night(state, date(2026, 8, 1) + timedelta(days=number), [outcome(one, "build failed" if number > 2 else "published", figures=figures(size=1000 + number))], tasks=[one])  # fmt: skip
    report = last(state)
    assert of(report, "digits").change.since == "2026-08-04"
    size = of(report, "digits").trends[0]
    assert [point.value for point in size.points] == [1000.0 + number for number in range(10, 100)]


def test_an_earlier_night_is_reported_as_it_was(state: State) -> None:
    report = read_report(state, find_night(state, "2026-11-03.1"))
    assert of(report, "mended").change.kind == "newly failing"
    assert max(point.night for one in report.tasks for trend in one.trends for point in trend.points) == "2026-11-03.1"


def test_the_second_night_of_a_day_comes_after_the_first_and_before_the_tenth(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("digits")
    for number in range(10):
        add_night(state, FIRST, [outcome(one, "build failed" if 4 < number < 9 else "published")], tasks=[one])
    assert find_night(state).name == "2026-10-20.10"
    assert of(last(state), "digits").change.kind == "fixed"


def test_a_first_night_has_nothing_to_compare_with(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("digits")
    add_night(state, FIRST, [outcome(one)], tasks=[one])
    report = last(state)
    write_report(report, tmp_path / "report")
    assert report.before == ""
    assert "the first night" in (tmp_path / "report/index.html").read_text()
    assert of(report, "digits").change.kind == "new"


def test_a_night_without_tasks_can_be_reported(tmp_path: Path) -> None:
    state = State(root=tmp_path)
    add_night(state, FIRST, [])
    write_report(last(state), tmp_path / "report")
    assert "Nothing was planned." in (tmp_path / "report/index.html").read_text()
    assert ET.parse(tmp_path / "report/junit.xml").getroot().get("tests") == "0"
    assert last(state).exit_code == 0


def test_a_state_without_nights_and_a_night_that_is_not_there_are_errors(state: State, tmp_path: Path) -> None:
    with reported(StorageError):
        find_night(State(root=tmp_path))
    with reported(StorageError):
        find_night(state, "2020-01-01.1")


@pytest.mark.parametrize(
    ("kinds", "withheld", "code"),
    [
        (["published", "up to date", "skipped"], False, 0),
        (["published", "build failed"], False, 24),
        (["validation failed"], False, 24),
        (["not reproducible"], False, 24),
        (["timed out"], False, 24),
        (["out of memory"], False, 24),
        (["dependency failed"], False, 24),
        (["withheld", "build failed"], True, 25),
        (["build failed", "infrastructure failed"], False, 26),
        (["published", None], False, 27),
        (["build failed", "infrastructure failed", None], False, 27),
    ],
)
def test_the_exit_code_is_that_of_the_worst_outcome(
    kinds: list[str | None], withheld: bool, code: int, tmp_path: Path
) -> None:
    state = State(root=tmp_path)
    tasks = [task(f"m{number}") for number in range(len(kinds))]
    outcomes = [outcome(one, kind) for one, kind in zip(tasks, kinds, strict=True) if kind]  # type: ignore[arg-type]
    verdict = Verdict(toolchain="2.17.1", built=len(tasks), failed=1, limit=0.2)
    gate = Gate(verdicts=(verdict,)) if withheld else None
    add_night(state, FIRST, outcomes, tasks=tasks, gate=gate)
    assert last(state).exit_code == code
    assert code in EXIT_CODES


def test_junit_counts_failures_of_models_apart_from_those_of_machines(written: Path) -> None:
    root = ET.parse(written / "junit.xml").getroot()
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "14", "failures": "6", "errors": "2", "skipped": "2",
    }  # fmt: skip
    cases = {case.get("name"): case for case in root.iter("testcase")}
    broken = cases[ID.format("broken")].find("failure")
    assert broken is not None
    assert broken.get("type") == "build failed"
    assert "no matching function for call to 'dot'" in (broken.text or "")
    assert "tfaot-pkg build /specs/broken.yaml --tensorflow 2.17.1" in (broken.text or "")
    assert cases[ID.format("lost")].find("error") is not None
    assert cases[ID.format("child")].find("error") is not None
    assert [name for name, case in cases.items() if case.find("skipped") is not None] == [
        ID.format("grandchild"), ID.format("known"),
    ]  # fmt: skip
    assert cases[ID.format("steady")].get("time") == "41.000"


def test_hostile_texts_come_back_from_junit_without_what_xml_forbids(written: Path) -> None:
    wrong = next(one for one in ET.parse(written / "junit.xml").getroot().iter("failure") if one.get("type") == "validation failed")  # fmt: skip
    assert f"answers differ {plain(HOSTILE)}" in (wrong.text or "")
    assert "]]>" in (wrong.text or "")


def test_the_markdown_summary_has_every_section_and_no_markup_from_outside(written: Path) -> None:
    text = (written / "summary.md").read_text()
    assert re.findall("^##+ (.*)$", text, re.MULTILINE) == [
        r"Nightly 2026-11-04.1", "Failed", "Failures by class", "Fixed", "Got worse", "Published",
    ]  # fmt: skip
    assert "| unsupported operation StringJoin (2) | broken, other\\_broken |" in text
    assert "    tfaot-pkg build /specs/hung.yaml --tensorflow 2.17.1" in text
    assert "<script" not in text and "<img" not in text and "\x1b" not in text and "\u202e" not in text
    row = next(line for line in text.splitlines() if line.startswith("| wrong"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 6, "a cell was ended from inside"


def test_a_report_names_the_workers_that_got_no_more_builds(tmp_path: Path) -> None:
    """A worker names itself, and may be hostile."""
    one = task("digits")
    state = State(root=tmp_path / "state")
    night = state.new_night([decision(one)], FIRST)
    night.add(outcome(one))
    night.end(replace(summary(night), excluded={"tcp://10.0.0.7:1<b>": "it failed a, b, c, which others built"}))
    report = last(state)
    write_report(report, tmp_path / "report")
    read = {name: (tmp_path / "report" / name).read_text() for name in ("report.json", "summary.md", "index.html")}
    assert json.loads(read["report.json"])["excluded"] == report.excluded
    assert all("which others built" in text for text in read.values())
    assert "<b>" not in read["summary.md"] + read["index.html"]


def test_other_answers_of_the_same_version_are_told_by_how_much_and_why(tmp_path: Path) -> None:
    """Those of a new version are meant."""
    state = State(root=tmp_path / "state")
    one, other, new = task("digits"), task("same"), task("new", version="1.1.0")
    apart = Apart(output="y", differing=3, elements=185, largest=2e-5, relative=1e-6)
    add_night(state, FIRST, [outcome(one, figures=figures(fused="a"))], tasks=[one])
    beside = [
        comparison(one, base="1.0.0+tf2.17.1.b0", apart=apart), comparison(other),
        comparison(new, base="1.0.0+tf2.17.1.b7", apart=apart),
    ]  # fmt: skip
    tonight = [outcome(one, figures=figures(fused="c")), outcome(other), outcome(new)]
    add_night(state, FIRST + timedelta(days=1), tonight, tasks=[one, other, new], comparisons=beside)
    report = last(state)
    assert {each.outcome.task: each.unlike for each in report.tasks if each.unlike} == {one.id: "1.0.0+tf2.17.1.b0"}
    assert "1 with other answers" in report.headline
    (notice,) = notices_of(report, ())
    assert (notice.kind, notice.subject) == ("answers differ", one.id)
    far = "3 of 185 numbers differ, by at most 1e-06 of the value (by 2e-05), output y"
    assert notice.lines == (
        f"other bits than 1.0.0+tf2.17.1.b0 on the pinned inputs: {far}",
        "what changed: source: changed",
    )
    write_report(report, tmp_path / "report")
    read = {name: (tmp_path / "report" / name).read_text() for name in ("summary.md", "index.html")}
    assert all(far.replace("_", "\\_") in text and "Other answers" in text for text in read.values())
    found = changes_between(read_report(state, state.nights()[0]), report)
    assert found[0].figures == ("answers: other bits", f"beside 1.0.0+tf2.17.1.b0: other answers: {far}")


def test_sizes_errors_and_memory_are_compared_exactly_and_at_once(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("digits")
    grown = comparison(one, size=(100_000, 120_000), error=(1e-6, 5e-5), memory=(8192, 65536))
    add_night(state, FIRST, [outcome(one)], tasks=[one], comparisons=[grown])
    assert list(map(str, of(last(state), "digits").regressions)) == [
        "size: 100 kB -> 120 kB", "memory: 8.19 kB -> 65.5 kB", "numerical error: 1e-06 -> 5e-05",
    ]  # fmt: skip
    same = comparison(one, size=(100_000, 101_000), error=(1e-6, 1.9e-6), memory=(8192, 8192))
    assert worse_in(same) == ()


def test_the_json_report_holds_outcomes_changes_and_comparisons(written: Path) -> None:
    document = json.loads((written / "report.json").read_text())
    assert document["exit_code"] == 26
    slow = next(one for one in document["tasks"] if one["model"] == "slow")
    assert slow["change"] == {"kind": "unchanged", "since": "", "before": "published"}
    speeds = slow["comparison"]["turns"]["speeds"]
    assert [(each["batch_size"], each["ratio"], each["kind"]) for each in speeds] == [
        (1, 1.3, "slower"), (16, 1.3, "slower"),
    ]  # fmt: skip


def test_nothing_of_a_build_is_markup_in_a_page(written: Path) -> None:
    pages = [path.read_text() for path in written.rglob("*.html")]
    assert any("&lt;script&gt;window.hacked" in text for text in pages)
    for text in pages:
        assert not re.search(r"<(script|img)(?! src=\"[./]*assets/)", text)
        assert "\x1b" not in text and "\x00" not in text and "\u202e" not in text
        assert re.search(r" (style|on\w+)=", re.sub(r"<pre.*?</pre>|<t[dh].*?</t[dh]>|<dd.*?</dd>|<span.*?</span>|<code.*?</code>", "", text, flags=re.DOTALL)) is None  # fmt: skip


def test_the_first_error_of_a_log_is_marked(written: Path) -> None:
    text = (written / page_of(ID.format("broken"))).read_text()
    assert re.findall("<mark[^>]*>(.*?)</mark>", text) == [
        "unit_3.cc:14:7: error: no matching function for call to &#39;dot&#39;"
    ]
    assert "tfaot-pkg build /specs/broken.yaml --tensorflow 2.17.1" in text


def test_a_page_begins_with_the_failure_and_says_what_happened(report: Report, written: Path) -> None:
    text = (written / page_of(ID.format("broken"))).read_text()
    places = [text.index(each) for each in ('id="error"', 'id="log"', "<dt>Version</dt>")]
    assert places == sorted(places)
    assert of(report, "broken").happened.startswith("XLA cannot compile the model")
    assert of(report, "mended").happened == "published as 1.0.0+tf2.17.1.b1 (source: changed)"
    slow = (written / page_of(ID.format("slow"))).read_text()
    assert re.findall(r'"number">([^<]*)</td><td class="number">([^<]*)</td><td class="number">1.300', slow) == [
        ("5 µs", "6.5 µs"), ("80 µs", "104 µs"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told", "number"),
    [
        (LOG, "", 3),
        ("a\nTraceback (most recent call last):\n  x\nValueError: b\n", "", 2),
        ("E0000 cuda_dnn.cc:8310] Unable to register cuDNN factory: attempting\nlast words\n", "last words", 2),
        ("a\n\x1b[1;31merror:\x1b[0m b\n", "", 2),
        ("no errors here\nall is well\n", "", None),
    ],
)
def test_the_first_error_is_the_first_line_that_looks_like_one(text: str, told: str, number: int | None) -> None:
    found = excerpt(text, "log", told)
    assert found is not None
    assert [line.number for line in found.lines if line.is_error] == ([] if number is None else [number])


def test_of_a_long_log_the_error_and_the_end_are_shown() -> None:
    lines = [f"line {number}" for number in range(1, 10_001)]
    lines[4999] = "x.cc:1: error: " + "y" * 100_000
    found = excerpt("\n".join(lines), "log")
    assert found is not None
    assert len(found.parts) == 2
    assert len(found.lines) < 100 and sum(len(line.text) for line in found.lines) < 5_000
    assert found.lines[-1].text == "line 10000"
    assert [line.number for line in found.lines if line.is_error] == [5000]
    assert excerpt("", "log") is None


def test_a_log_outside_of_the_nights_folder_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("error: a secret")
    state, one = State(root=tmp_path / "state"), task("digits")
    add_night(state, FIRST, [outcome(one, "build failed", log="../../../secret")], tasks=[one])
    assert of(last(state), "digits").log is None


def test_pages_of_tasks_have_plain_names_and_no_two_the_same() -> None:
    assert page_of("digits@1.0.0+tf2.17.1") == "tasks/digits@1.0.0+tf2.17.1.html"
    hostile = ["../../x", "a/b", "a_2f_b", "Digits@1", "digits@1", ".hidden", HOSTILE, "x" * 400, "x" * 401, ""]
    names = [page_of(one) for one in hostile]
    assert len(set(names)) == len(hostile)
    assert all(re.fullmatch(r"tasks/[A-Za-z0-9][A-Za-z0-9_.+@-]{0,200}\.html", name) for name in names)


def test_a_report_replaces_an_older_one_and_nothing_else(report: Report, state: State, tmp_path: Path) -> None:
    write_report(report, tmp_path / "report")
    first = {path.name for path in (tmp_path / "report/tasks").iterdir()}
    write_report(read_report(state, find_night(state, "2026-11-03.1")), tmp_path / "report")
    second = {path.name for path in (tmp_path / "report/tasks").iterdir()}
    assert "child@1.0.0+tf2.17.1.html" in first - second
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.tex").write_text("x")
    with reported(StorageError):
        write_report(report, tmp_path / "other")


def test_the_same_night_gives_the_same_files(report: Report, written: Path, tmp_path: Path) -> None:
    write_report(report, tmp_path / "again")
    files = sorted(path.relative_to(written) for path in written.rglob("*") if path.is_file() and path.name[0] != ".")
    assert len(files) > 15
    for path in files:
        assert (tmp_path / "again" / path).read_bytes() == (written / path).read_bytes(), path


@pytest.mark.nightly
@pytest.mark.slow
def test_a_thousand_models_make_pages_of_a_sane_size(tmp_path: Path) -> None:
    state = State(root=tmp_path / "state")
    tasks = [task(f"model_{number:04}") for number in range(1000)]
    for number in range(11):
        day = FIRST + timedelta(days=number)
        kinds = ("build failed", "published", "published", "up to date")
        outcomes = [outcome(one, kinds[(place + number) % 4], log="logs/x.log", error=LOG * 20) for place, one in enumerate(tasks)]  # type: ignore[arg-type]  # fmt: skip
        add_night(state, day, outcomes, tasks=tasks, logs={"logs/x.log": LOG * 1000})
    report = last(state)
    write_report(report, tmp_path / "report")
    assert report.counts == {"build failed": 250, "published": 500, "up to date": 250}
    sizes = {path: path.stat().st_size for path in (tmp_path / "report").rglob("*.html")}
    assert len(sizes) == 750 + 4 + 1, "no page where nothing happened"
    assert max(sizes.values()) < 250_000
    assert (tmp_path / "report/summary.md").stat().st_size < 100_000


def test_times_name_the_cpu_that_they_were_measured_on(written: Path) -> None:
    text = (written / page_of(ID.format("slow"))).read_text()
    assert "Times measured on Example CPU &lt;b&gt;4000&lt;/b&gt;." in text
    assert re.search(r"[0-9.]+ µs on Example CPU &lt;b&gt;", text)
    assert not re.search(r"[0-9.]+ kB on ", text)
