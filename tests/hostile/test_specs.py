"""Hostile specs: refused with a line, quickly, and nothing is read, written or run for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.parse import load_spec

GOOD = "model: {name: dense, version: 1.0.0, saved_model: dense}\ncompilation: {batch_sizes: [1]}\n"


def _with(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def _laughs(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([*lines, GOOD])


SPECS = {
    "an object of Python": "model: !!python/object/apply:os.system ['touch owned']\n",
    "a module of Python": "model: !!python/module:os\n",
    "a name of Python": "model: !!python/name:os.system\n",
    "a tag of its own": "model: !evil {name: dense}\n",
    "a billion laughs": _laughs(9),
    "an alias to itself": "model: &a {name: *a}\n",
    "lists within lists": "model: " + "[" * 20_000 + "]" * 20_000 + "\n",
    "a key twice": GOOD + "model: {name: other, version: 1.0.0}\n",
    "two documents": GOOD + "---\n" + GOOD,
    "a merge key": "base: &b {name: dense}\nmodel: {<<: *b, version: 1.0.0}\n",
    "NUL": GOOD + "\x00",
    "an escape sequence": _with("name: dense", 'name: "\\e[2Jdense"'),
    "a lone surrogate": _with("name: dense", 'name: "\\ud800"'),
    "letters that look alike": _with("name: dense", "name: dеnse"),
    "text that turns around": _with("name: dense", 'name: "\\u202Edense"'),
    "a name that leaves": _with("name: dense", "name: ../../etc/cron.d/x"),
    "a name of 10,000 letters": _with("name: dense", f"name: {'a' * 10_000}"),
    "code as a name": _with("name: dense", "name: 'x; } int main() {'"),
    "a template as a name": _with("name: dense", "name: '{{ self.__init__.__globals__ }}'"),
    "a variable of CMake as a name": _with("name: dense", "name: '${ENV}'"),
    "a command as a version": _with("version: 1.0.0", "version: '$(touch owned)'"),
    "a version that leaves": _with("version: 1.0.0", "version: '1/../../x'"),
    "an option as a name": _with("name: dense", "name: --help"),
    "a model that lies elsewhere": _with("saved_model: dense", "saved_model: dense\nsource: {path: ., subdir: ../..}"),
    "a network share": GOOD + "source: {url: 'file://host/share/x', sha256: '" + "0" * 64 + "'}\n",
    "an address without its digest": GOOD + "source: {url: 'https://example.org/x.tar.gz'}\n",
    "a revision that is an option": GOOD + "source: {git: 'https://example.org/x', rev: '--upload-pack=touch owned'}\n",
    "a transport that is a command": GOOD + "source: {git: 'ext::sh -c touch% owned', rev: '" + "0" * 40 + "'}\n",
    "an endless batch": _with("[1]", "[99999999999999999999999999]"),
    "batches without end": _with("[1]", "[" + ", ".join(map(str, range(1, 20_000))) + "]"),
    "not a number": _with("[1]", "[.nan]"),
    "a flag that is a command": _with("[1]", "[1], xla_flags: ['--a=$(touch owned)']"),
    "a flag that writes": _with("[1]", "[1], xla_flags: ['--xla_dump_to=/tmp/owned --b']"),
    "a namespace that is code": _with("[1]", "[1], namespace: 'a { } namespace b'"),
    "a class that is code": _with("[1]", "[1], class_name: 'A { }; class B'"),
    "the environment in a template": _with("name: dense", "name: '{{ env.HOME }}'"),
    "a model within another one's objects": _with("name: dense", "name: dense_objects"),
    "a target that is an option": _with("[1]", "[1], targets: ['-march=native']"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", SPECS)
def test_a_hostile_spec_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = tmp_path / "spec.yaml"
    spec.write_bytes(SPECS[name].encode("utf-8", "surrogatepass"))
    with reported(SpecError) as caught:
        load_spec(spec)
    assert "\x1b" not in str(caught.value)
    assert os.listdir(tmp_path) == ["spec.yaml"]


def test_a_spec_that_is_no_file_is_refused(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "zero"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    for spec in (pipe, link, tmp_path):
        with pytest.raises(SpecError):
            load_spec(spec)
