"""What `tfaot-pkg bench` says of wrong words, before anything is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine
from tests.bench.made import OURS, bench, cells, row
from tfaot_pkg.ground.documents import plain


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--peers", "litrt"], 10, "did you mean litert?"),
        (["--batch-sizes", "1,x"], 2, "numbers from 1 to 65536, such as 1,4,64"),
        (["--batch-sizes", "0"], 2, "numbers from 1 to 65536, such as 1,4,64"),
        (["--batch-sizes", "65537"], 2, "from 1 to 65536"),
        (["--target", "x86-64-v9"], 2, "no such target"),
        (["--core", "4096"], 2, "may not use core 4096"),
        (["--plot", "plot.gif"], 2, ".svg, .png or .pdf"),
        (["--plot", "spec.yaml/plot.svg"], 20, "is not a writable folder"),
        (["--output", "."], 20, "it is a folder"),
        (["--since", "none.json"], 10, "No such file"),
        (["--since", "spec.yaml"], 10, "spec.yaml is damaged"),
    ],
    ids=["peer", "size", "zero", "large", "target", "core", "plot", "place", "folder", "since", "since-form"],
)
def test_a_wrong_word_is_told_at_once(
    bare: CommandLine, tmp_path: Path, words: list[str], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.yaml").write_text("model: {}\n")
    done = bare.run("bench", "spec.yaml", *words)
    assert done.code == code
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "home" / "cache").exists()


def test_results_of_another_model_are_refused_before_anything_is_built(bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(plain(bench(row(OURS, cells(1, 2))))))
    spec = tmp_path / "spec.yaml"
    spec.write_text("model: {name: tagger, version: 1.0.0, saved_model: .}\ncompilation: {batch_sizes: [1]}\n")
    bare.fails("bench", spec, "--since", tmp_path / "old.json", code=10, says=["of the model made, not of tagger"])
    assert not (tmp_path / "home" / "cache").exists()
