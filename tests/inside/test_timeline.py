"""`timeline`: traces of three ways to run a model, opened in Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.conftest import write_spec
from tests.catalogue.conftest import Browser, start_browser  # noqa: F401 (a fixture)
from tests.commands import run_command
from tests.inside.test_inspect import spec_of
from tests.kept import REPOSITORY, saved_models

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

OPEN_AXES = REPOSITORY / "tests" / "state" / "open_axes.py"
# What Chrome's trace event format asks of a document and of its complete events: by the browser's own JSON and numbers.
FAULTS = """
const trace = JSON.parse(arguments[0]), faults = [];
if (!Array.isArray(trace.traceEvents)) return ["traceEvents is no array"];
for (const event of trace.traceEvents) {
  const known = event.ph === "X" ? Number.isFinite(event.ts) && Number.isFinite(event.dur) && event.dur >= 0
    : event.ph === "M" && typeof event.args.name === "string";
  if (!known || typeof event.name !== "string" || !Number.isInteger(event.pid) || !Number.isSafeInteger(event.tid))
    faults.push(JSON.stringify(event));
}
return faults;
"""
DRAWN = """
return [...document.querySelectorAll("h2")].map((head) => {
  const names = [];
  for (let next = head.nextElementSibling; next && next.tagName !== "H2"; next = next.nextElementSibling)
    for (const span of next.querySelectorAll(".span")) {
      const box = span.getBoundingClientRect();
      if (box.width > 0 && box.height > 0) names.push(span.textContent);
    }
  return [head.textContent, names];
});
"""


@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.parametrize("version", ["2.17.1", "2.21.0"])
def test_chromium_opens_the_traces_of_all_three(
    shared_home: Path,
    tmp_path: Path,
    start_browser: Callable[..., Browser],  # noqa: F811 (the fixture)
    version: str,
) -> None:
    spec = spec_of(tmp_path)
    spec.write_text(spec.read_text().replace("engine: auto", f"engine: auto, tensorflow: {version}"))
    done = run_command(["timeline", spec, "-o", tmp_path / "traces", "--rounds", "1", "--batch", "4", "--json"])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [way["name"] for way in found["ways"]] == ["tensorflow", "tensorflow_jit", "package"]
    for way in found["ways"]:
        assert (
            way["reason"] == ""
            and set(way["medians"]) == {"1", "4"}
            and all(each > 0 for each in way["medians"].values())
        )
    browser = start_browser()
    browser.open((tmp_path / "traces" / "index.html").as_uri())
    for way in found["ways"]:
        text = (tmp_path / "traces" / way["file"]).read_text()
        assert browser.driver.execute_script(FAULTS, text) == []
        assert sum(event["ph"] == "X" for event in json.loads(text)["traceEvents"]) == way["events"]
    drawn = dict(browser.driver.execute_script(DRAWN))
    # TensorFlow runs each operation, XLA one function; the package has a span for each step, in one call.
    assert any("Conv2D" in name or "conv2d" in name for name in drawn["TensorFlow"])
    assert not any("Conv2D" in name for name in drawn["TensorFlow with XLA"]) and drawn["TensorFlow with XLA"]
    steps = {
        event["args"]["step"] for event in json.loads((tmp_path / "traces/package.json").read_text())["traceEvents"]
    }
    # It is shorter than a fifth of TensorFlow's call, so that it is drawn twice.
    assert len(drawn["package"]) == 2 * len(steps) and drawn["package"][0].startswith("conv2d_max_pool")


@pytest.mark.nightly
def test_a_model_with_state_runs_in_all_three_ways(shared_home: Path, toolchain_python: Path, tmp_path: Path) -> None:
    models = saved_models(shared_home, OPEN_AXES, toolchain_python)
    spec = write_spec(
        tmp_path / "spec.yaml", models / "gathered",
        model={"name": "gathered", "version": "1.0.0", "saved_model": "gathered", "shapes": {"x": [5, 3]}},
        compilation={"batch_sizes": [1], "targets": ["x86-64-v3"], "variables": {"update": ["*"]}},
    )  # fmt: skip
    done = run_command(["timeline", spec, "-o", tmp_path / "traces", "--rounds", "1", "--json"])
    assert done.returncode == 0, done.stderr
    for way in json.loads(done.stdout)["ways"]:
        assert way["reason"] == "" and way["medians"]["1"] > 0
        trace = json.loads((tmp_path / "traces" / way["file"]).read_text())
        assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == way["events"] > 0, way["name"]


DRAWN_WIDTHS = """
const width = document.querySelector("main").getBoundingClientRect().width;
return [...document.querySelectorAll(".thread")].map((thread) => [...thread.querySelectorAll(".span")].map(
  (span) => [span.textContent, Math.round(1000 * span.getBoundingClientRect().width / width)]));
"""


def test_all_ways_have_one_scale_and_times_without_a_trace(
    tmp_path: Path,
    start_browser: Callable[..., Browser],  # noqa: F811
) -> None:
    """Calls of a package of many rows have the same step several times."""
    from tfaot_pkg.measure.inside.timeline import CALLS, page

    def spans(name: str, step: float, each: int) -> list[dict[str, object]]:
        """Of equal calls, except for the first one, which takes four times as long."""
        made: list[dict[str, object]] = []
        for call in range(CALLS):
            for number in range(each):
                dur = step * (4 if call == 0 else 1)
                start = 1e6 * call + number * dur
                made.append({"ph": "X", "name": name, "ts": start, "dur": dur, "pid": 0, "tid": 0, "args": {"step": 0}})
        return made

    traces = {"tensorflow": {"traceEvents": spans("slow", 500, 2)}, "package": {"traceEvents": spans("quick", 20, 4)}}
    (tmp_path / "index.html").write_text(page("net", traces, {"tensorflow": 812.0, "package": 61.25}))
    browser = start_browser()
    browser.open((tmp_path / "index.html").as_uri())
    browser.screenshot("timeline")
    tensorflow, package, enlarged = browser.driver.execute_script(DRAWN_WIDTHS)
    assert tensorflow == [["slow", 500]] * 2 and package == [["quick", 20]] * 4 and enlarged == [["quick", 250]] * 4
    said = [each.text for each in browser.driver.find_elements("class name", "name")]
    assert said == [
        "812 µs a call, 1,000 µs with the trace",
        "61.3 µs a call, 80 µs with the trace",
        "enlarged 12.5 times:",
    ]


def test_names_of_a_hostile_model_stay_text(tmp_path: Path, start_browser: Callable[..., Browser]) -> None:  # noqa: F811
    from tfaot_pkg.measure.inside.timeline import Document, page

    hostile = "</script><script>document.title = 'owned'</script>"
    event = {"ph": "X", "name": hostile, "ts": 0, "dur": 5, "pid": 0, "tid": 0}
    traces: dict[str, Document | str] = {"package": {"traceEvents": [event]}, "tensorflow": hostile}
    (tmp_path / "index.html").write_text(page("net", traces, {}))
    browser = start_browser()
    browser.open((tmp_path / "index.html").as_uri())
    assert browser.driver.title == "net: timeline"
    assert dict(browser.driver.execute_script(DRAWN))["package"] == [hostile]
