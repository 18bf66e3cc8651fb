"""Which of the tool's own code makes a stage: nothing that runs is left out, and a changed line changes keys."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest, imported, is_changed, modules_of
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.pipeline.package_key import STAGES

ROOT = Path(__file__).resolve().parents[1]

# Prints the digest of each stage's code, as a plan has it: of the package as it is, then with another line in each file that
# it is given. Which modules a stage has is found once and inherited by the forks, because a comment imports nothing.
_DIGESTS = """
import json, os, pathlib, sys
from tfaot_pkg.ground.code import code_digest, modules_of
from tfaot_pkg.pipeline.package_key import STAGES
modules_of(*STAGES.values())

def write(name, content):
    times = os.stat(name)
    pathlib.Path(name).write_text(content)
    os.utime(name, ns=(times.st_atime_ns, times.st_mtime_ns))  # else it would be code that changed while it ran

for name in [None, *sys.argv[1:]]:
    text = name and pathlib.Path(name).read_text()
    if name:
        write(name, text + "\\n# another line\\n")
    if os.fork() == 0:
        print(json.dumps({stage: code_digest(module) for stage, module in STAGES.items()}), flush=True)
        os._exit(0)
    os.wait()
    if name:
        write(name, text)
"""

# Files of the package, and the stages whose code they belong to.
_STAGES_OF = {
    "native/build.py": {"link", "tools", "package"},
    "native/library.py": {"link", "tools", "validate", "package"},
    "native/xla_runtime.py": {"runtime parts", "link", "tools", "validate", "package"},
    "native/tools.py": {"tools", "package"},
    "native/compiled/flags.py": {"compile", "link", "tools", "validate", "package"},
    "compiler/layers.py": {"compile", "link", "tools", "validate", "package"},
    "native/batching/costs.py": {"link", "tools", "package"},
    "verify/runner.py": {"validate", "package"},
    "package/cmssw.py": {"package"},
    "provenance/sbom.py": {"package"},
    "ground/keys.py": {*STAGES},
    "cli/build.py": set(),
    "nightly/run.py": set(),
    "catalogue/render.py": set(),
}


def test_commands_the_nightly_and_the_catalogue_make_no_stage() -> None:
    modules = {name for module in STAGES.values() for name in modules_of(module)}
    wings = {name.split(".")[1] for name in modules if "." in name}
    assert not wings & {"cli", "nightly", "catalogue", "registry", "measure", "cmsdist"}
    assert not modules & {"tfaot_pkg.pipeline.conan", "tfaot_pkg.pipeline.publish"}
    assert {"native", "compiler", "verify", "frontends", "package", "provenance"} <= wings


def test_what_runs_as_a_program_of_its_own_belongs_to_the_stage() -> None:
    assert "tfaot_pkg.verify.runner" in modules_of("tfaot_pkg.verify.validate")


def _parsed(statements: Iterable[ast.AST], package: str) -> Iterator[str]:
    """What `imported` gives, by Python's parser."""
    for each in statements:
        if isinstance(each, ast.If) and isinstance(each.test, ast.Name) and each.test.id == "TYPE_CHECKING":
            yield from _parsed(each.orelse, package)
        elif isinstance(each, ast.Import):
            yield from (name.name for name in each.names if name.name.partition(".")[0] == "tfaot_pkg")
        elif isinstance(each, ast.ImportFrom):
            module = f"{package}.{each.module}" if each.level else str(each.module)
            if module.partition(".")[0] == "tfaot_pkg":
                yield from (module, *(f"{module}.{name.name}" for name in each.names))
        else:
            yield from _parsed(ast.iter_child_nodes(each), package)


def test_imports_are_those_that_pythons_parser_finds() -> None:
    files = [path for path in (ROOT / "tfaot_pkg").rglob("*.py") if path.parent.name != "worker_program"]
    assert len(files) > 300
    for path in files:
        source, parts = path.read_text(), path.relative_to(ROOT).with_suffix("").parts
        package = ".".join(parts[:-1])
        found, wanted = set(imported(source, package)), set(_parsed(ast.parse(source).body, package))
        # A docstring may show how its own module is imported.
        assert wanted <= found <= {*wanted, *(name for name in found if name.startswith(".".join(parts)))}, path


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from tfaot_pkg.a import (  # why\n    b,  # of c, d\n    e as f,\n)\n", {"tfaot_pkg.a", "tfaot_pkg.a.b", "tfaot_pkg.a.e"}),
        ("def f():\n    import tfaot_pkg.a as b, os\n", {"tfaot_pkg.a"}),
        ("from .a import b\n", {"tfaot_pkg.x.a", "tfaot_pkg.x.a.b"}),
        ("if TYPE_CHECKING:\n    from tfaot_pkg.a import b\n\n    from tfaot_pkg.c import d\nelse:\n    import tfaot_pkg.e\n", {"tfaot_pkg.e"}),
        ("import os\nfrom os import path\n", set()),
    ],
)  # fmt: skip
def test_imports_of_every_form_are_found(source: str, found: set[str]) -> None:
    assert set(imported(source, "tfaot_pkg.x")) == found


@pytest.mark.parametrize("source", ["from . import a\n", "from ..a import b\n"])
def test_relative_imports_that_are_not_followed_are_faults(source: str) -> None:
    with pytest.raises(ValueError, match="is followed"):
        list(imported(source, "tfaot_pkg.x"))


def test_an_unknown_module_is_no_code() -> None:
    with reported(ValueError):
        code_digest("tfaot_pkg.nowhere")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, as a wheel would install it."""
    folder = tmp_path_factory.mktemp("installed")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tfaot_pkg", folder / "tfaot_pkg", ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def digests(copy: Path) -> list[Mapping[str, str]]:
    """The digests of the copy, then of the copy with another line in each file of `_STAGES_OF`."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}
    program = [sys.executable, "-c", _DIGESTS, *(str(copy / "tfaot_pkg" / file) for file in _STAGES_OF)]
    printed = subprocess.run(program, env=environment, cwd=copy, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.slow
def test_a_changed_line_changes_the_stages_that_use_it_and_no_others(digests: list[Mapping[str, str]]) -> None:
    before, *after = digests
    changed = [{name for name in STAGES if before[name] != found[name]} for found in after]
    assert dict(zip(_STAGES_OF, changed, strict=True)) == _STAGES_OF


def test_where_the_package_lies_does_not_matter(digests: list[Mapping[str, str]]) -> None:
    assert digests[0] == {name: code_digest(module) for name, module in STAGES.items()}


# --- while the tool runs --------------------------------------------------------------------------------------------


def changing(file: Path, content: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "made").write_text(file.read_text())
        file.write_text(content)

    return make


def test_what_was_made_while_a_template_changed_is_not_kept(tmp_path: Path) -> None:
    template, cache, key = tmp_path / "template.j2", BuildCache(root=tmp_path / "cache"), Key("a" * 64)
    template.write_text("one")
    assert resources.digest(template)
    with reported(StorageError):
        cache.get_or_make("test", key, changing(template, "two"))
    assert not cache.has("test", key)
    template.write_text("one")  # as after switching branches twice: the same content has the same digest
    assert (cache.get_or_make("test", key, changing(template, "one")) / "made").read_text() == "one"


def test_files_can_be_digested_while_another_thread_looks_for_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds end, and publications begin, in several threads."""
    files = [tmp_path / str(number) for number in range(2)]
    for file in files:
        file.write_text("one")
    resources.digest(files[0])
    real = resources._stamps_of

    def digested_meanwhile(path: Path) -> resources._Stamps:
        monkeypatch.setattr(resources, "_stamps_of", real)
        resources.digest(files[1])
        return real(path)

    monkeypatch.setattr(resources, "_stamps_of", digested_meanwhile)
    resources.require_unchanged()
    assert files[1] in resources._stamps


def test_code_that_was_written_after_it_was_loaded_has_no_digest(copy: Path) -> None:
    program = """
import os, time
from tfaot_pkg.ground import code
from tfaot_pkg import errors
os.utime(errors.__file__, ns=(time.time_ns(), time.time_ns()))
try:
    code.code_digest("tfaot_pkg.ground.wording", "tfaot_pkg.errors")
except errors.StorageError as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=copy, check=True, capture_output=True, text=True
    ).stdout
    assert "was changed while it ran" in printed and "errors.py" in printed


def test_a_file_that_was_written_since_its_digest_is_seen_before_the_next_build(tmp_path: Path) -> None:
    """A host of builds ends then: what it forks has its digests."""
    assert not is_changed()
    template = tmp_path / "template.j2"
    template.write_text("one")
    resources.digest(template)
    assert not is_changed()
    template.write_text("two")
    assert is_changed()
