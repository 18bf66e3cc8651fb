"""`tfaot-pkg bench` with real engines, on models with several inputs, some without a batch axis."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input.conftest import CommandLine, running, write_spec
from tests.samples import REPOSITORY, Published

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]

SIZES = (1, 4)
TARGET = "x86-64-v3"


@pytest.fixture
def spec_of(models: Mapping[str, Path], tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, **model: Any) -> Path:
        compilation = {"batch_sizes": list(SIZES), "targets": ["x86-64-v2", TARGET]}
        return write_spec(tmp_path / name / "spec.yaml", models[name], model=model, compilation=compilation)

    return write


def _engines(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {engine["name"]: engine for engine in answer["engines"]}


@pytest.mark.release
def test_engines_are_measured_and_agree_with_tensorflow_on_inputs_that_only_names_tell_apart(
    tfaot: CommandLine, spec_of: Callable[..., Path], tmp_path: Path
) -> None:
    peers = "xla,incumbent,litert,onnxruntime,openvino,openvino_default,tensorflow_jit"
    plot, kept = tmp_path / "plot.svg", tmp_path / "kept.json"
    answer = tfaot.works(
        "bench", spec_of("two_inputs"), "--peers", peers, "--rounds", "2", "--plot", plot, "-o", kept
    )  # fmt: skip
    engines = _engines(answer)
    assert list(engines) == [f"tfaot-{TARGET}", f"xla-{TARGET}", *peers.split(",")[1:]]
    for engine in engines.values():
        assert engine["reason"] == ""
        assert [cell["batch_size"] for cell in engine["cells"]] == list(SIZES)
        for cell in engine["cells"]:
            assert 0 < cell["minimum"] <= cell["median"] <= cell["p95"] and len(cell["rounds"]) == 2
            # As it is installed, OpenVINO may compute in bfloat16, which has eight bits.
            assert cell["max_absolute"] < (1e-6 if engine["name"] != "openvino_default" else 1e-1)
            assert (cell["cold"] is None) == (engine["name"] in ("litert", "tensorflow_jit"))
            assert cell["cold"] is None or cell["cold"] > 0.5 * cell["minimum"]
        assert engine["first_inference"] > 0 and engine["memory"] >= engine["memory_empty"] > 0
        assert engine["model_bytes"] > 0 and engine["version"]
    assert engines["litert"]["call_overhead"] > 0 and engines["litert"]["runtime_bytes"] > 1e6
    assert [roof["target"] for roof in answer["roofline"]] == [TARGET]
    assert json.loads(kept.read_text())["engines"] == answer["engines"]
    for file in (plot, tmp_path / "plot-resources.svg"):
        assert file.read_text().lstrip().startswith("<?xml") and str(file) in answer["files"]


@pytest.mark.release
def test_inputs_without_batch_axis_and_an_earlier_run(
    tfaot: CommandLine, spec_of: Callable[..., Path], tmp_path: Path
) -> None:
    spec, kept = spec_of("mixed", shapes={"x": [None, 5, 2]}), tmp_path / "kept.json"
    first = tfaot.works("bench", spec, "--peers", "litert", "--rounds", "3", "-o", kept)
    for engine in first["engines"]:
        assert all(cell["max_absolute"] < 1e-5 for cell in engine["cells"])
    publish: list[str | Path] = ["publish", spec, "--no-conan", "--registry", tmp_path / "registry", "--bench", kept]
    assert tfaot.works(*publish)["status"] == "published" and tfaot.works(*publish)["status"] == "already published"
    assert ">LiteRT (XNNPACK)</th>" in next((tmp_path / "registry").rglob("tfaot-model-*/index.html")).read_text()
    old = json.loads(kept.read_text())
    for change, code, says in (
        ({"source": "ab" * 32}, 10, "other model files"),
        ({"model": "other"}, 10, "of the model other"),
        ({"machine": {}}, 16, "published already, without these times"),
    ):
        (tmp_path / "other.json").write_text(json.dumps({**old, **change}))
        tfaot.fails(*publish[:-1], tmp_path / "other.json", code=code, says=[says])
    for cell in old["engines"][0]["cells"]:  # as if our library had been a hundred times as slow
        cell["rounds"] = [100 * time for time in cell["rounds"]]
    kept.write_text(json.dumps(old))
    since = tfaot.works("bench", spec, "--peers", "litert", "--rounds", "3", "--since", kept)["since"]
    assert {each["verdict"] for each in since["changes"] if each["engine"].startswith("tfaot")} == {"faster"}
    for cell in old["engines"][0]["cells"]:  # and now a hundred times as fast as it is
        cell["rounds"] = [time / 10_000 for time in cell["rounds"]]
    kept.write_text(json.dumps(old))
    done = tfaot.run("bench", spec, "--peers", "litert", "--rounds", "3", "--since", kept)
    assert done.code == 28 and f"tfaot-{TARGET}, batch size 1: slower" in done.stdout


@pytest.mark.nightly
def test_a_peer_that_cannot_be_installed_is_a_line_with_the_reason(
    tfaot: CommandLine, spec_of: Callable[..., Path], toolchain_python: Path, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    alone = CommandLine(home=tmp_path / "home", scratch=tfaot.scratch)
    words: list[str | Path] = ["--toolchain-python", toolchain_python, "--wheelhouse", wheels]
    done = alone.run("bench", spec_of("two_inputs"), "--peers", "litert,onnxruntime", "--rounds", "1", *words)
    assert done.code == 0, done.stderr
    for title in ("LiteRT (XNNPACK)", "ONNX Runtime (C)"):
        (reason,) = re.findall(rf"^{re.escape(title)}: not measured: (.*)", done.stdout, re.MULTILINE)
        assert "not in the wheelhouse" in reason


def test_a_published_package_is_measured_itself(tfaot: CommandLine, published: Published, tmp_path: Path) -> None:
    source = REPOSITORY / "recipes" / "tfaot-model-digits" / "all"
    words: list[str | Path] = ["bench", "digits", "--registry", published.registry, "--peers", "none", "--rounds", "1"]
    answer = tfaot.works(*words, "--source", source)
    (ours,) = answer["engines"]
    library = published.prefix / "lib" / "libtfaot-model-digits.so"
    assert ours["model_bytes"] == library.stat().st_size
    assert all(cell["max_absolute"] < 1e-4 for cell in ours["cells"])
    tfaot.fails(*words, code=11, says=["was in a folder of the publisher's"], hints="--source")
    tfaot.fails(*words, "--source", source, "--batch-sizes", "3", code=21, says=["not compiled for the batch sizes 3"])
    tfaot.fails(*words, "--source", source, "--target", "x86-64", code=21, says=["no code for x86-64"])


@pytest.mark.nightly
def test_ctrl_c_ends_all_engines_and_leaves_nothing(tfaot: CommandLine, spec_of: Callable[..., Path]) -> None:
    words = tfaot.argv("bench", spec_of("two_inputs"), "--peers", "litert", "--rounds", "1000")
    process = subprocess.Popen(words, env=tfaot.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 200
        while not any("bench_program" in command for _, command in running(tfaot.scratch)):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.communicate()
    assert running(tfaot.scratch) == [] and list(tfaot.scratch.iterdir()) == []
