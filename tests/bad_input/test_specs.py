"""Specs that are wrong, given to the real command line. What each fault says is tested in tests/spec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input.conftest import CommandLine

GOOD = """\
model: {name: dense, version: 1.0.0, saved_model: dense}
compilation: {batch_sizes: [1]}
"""

WRONG: dict[str, tuple[bytes, list[str]]] = {
    "empty": (b"", ["spec.yaml"]),
    "a comment only": (b"# nothing\n", ["spec.yaml"]),
    "not YAML": (b"model: {name: [\n", ["spec.yaml:"]),
    "a list": (b"- model\n", ["spec.yaml:1"]),
    "not text": (b"\xff\xfe\x00\x01", ["spec.yaml"]),
    "a Python object": (b"model: !!python/object/apply:os.system ['touch owned']\n", ["spec.yaml:1"]),
    "wrong types": (
        b"model: 5\ncompilation: {batch_sizes: one, targets: 7}\n",
        ["spec.yaml:1: model", "spec.yaml:2: compilation.batch_sizes", "spec.yaml:2: compilation.targets"],
    ),
    "batch size 0": (GOOD.replace("[1]", "[1, 0]").encode(), ["compilation.batch_sizes[1]: must be at least 1, got 0"]),
    "batch size 10^9": (GOOD.replace("[1]", "[1000000000]").encode(), ["batch_sizes[0]", "at most", "1000000000"]),
    "unknown target": (
        GOOD.replace("[1]", "[1], targets: [nosuchcpu]").encode(),
        ["compilation.targets[0]", "nosuchcpu", "x86-64-v3"],
    ),
    "a flag that is a shell command": (
        GOOD.replace("[1]", "[1], xla_flags: ['--xla_a=$(id)']").encode(),
        ["compilation.xla_flags[0]", "one flag"],
    ),
    "keyword as name": (GOOD.replace("dense,", "class,").encode(), ["model.name", "'class'"]),
    "code as name": (GOOD.replace("name: dense", "name: 'x; } int main() {'").encode(), ["model.name"]),
    "a name that leaves the folder": (GOOD.replace("name: dense", "name: ../../x").encode(), ["model.name"]),
    "code as namespace": (
        GOOD.replace("[1]", "[1], namespace: 'a { } namespace b'").encode(),
        ["compilation.namespace"],
    ),
    "code as class": (
        GOOD.replace("[1]", "[1], class_name: 'A { }; class B'").encode(),
        ["compilation.class_name"],
    ),
    "unknown key": (GOOD.replace("batch_sizes", "batchsizes").encode(), ["batchsizes", "batch_sizes"]),
    "checksum missing": (
        (GOOD + "source: {url: 'https://example.org/x.tar.gz'}\n").encode(),
        ["source.sha256", "is required"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_spec_is_refused_with_its_place_and_nothing_is_made(
    bare: CommandLine, tmp_path: Path, name: str, untouched: Callable[..., Any]
) -> None:
    content, says = WRONG[name]
    spec = tmp_path / "spec.yaml"
    spec.write_bytes(content)
    with untouched(tmp_path):
        error = bare.fails("publish", spec, "--registry", tmp_path / "registry", code=10, says=says)
    assert error["kind"] == "spec"
    assert not (tmp_path / "owned").exists()


def test_faults_are_json_objects_with_line_and_path(bare: CommandLine, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("model: {name: dense, version: 1.0.0, saved_model: dense}\ncompilation:\n  batch_sizes: [1, -2]\n")
    faults = bare.fails("build", spec, "-o", tmp_path / "prefix", code=10)["faults"]
    assert [(Path(f["file"]).name, f["line"], f["path"]) for f in faults] == [
        ("spec.yaml", 3, "compilation.batch_sizes[1]")
    ]


@pytest.mark.parametrize("command", ["publish", "check", "build"])
def test_a_missing_spec_is_named(bare: CommandLine, tmp_path: Path, command: str) -> None:
    more: list[str | Path] = ["-o", tmp_path / "prefix"] if command == "build" else []
    bare.fails(command, tmp_path / "nothing.yaml", *more, code=10, says=["nothing.yaml"])


def test_people_read_message_and_hint_on_standard_error_alone(bare: CommandLine, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(GOOD.replace("[1]", "[1], tensorflow: 2.99.0"))
    done = bare.run("publish", spec, "--registry", tmp_path / "registry")
    assert done.code == 13
    assert done.stdout == ""
    assert "error: there is no toolchain for TensorFlow 2.99.0\nhint: known toolchains: 2.17.1" in done.stderr
    assert "Traceback" not in done.stderr
