"""The command line as a user runs it, with real TensorFlow, and what every failure of it must be like."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run_command
from tests.kept import digest_of_tool, kept

REPOSITORY = Path(__file__).resolve().parents[2]

_PROGRESS = re.compile(
    r"[a-z][\w .,/-]*( \([^)]*\))?((: [a-z ]+)? \.\.\.|: (cached|done in [0-9.]+ s|.* MB.*))|note: .*|"
)
_LOCKS = (".lock", ".owner")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that ended."""

    code: int
    stdout: str
    stderr: str

    def require_tidy(self) -> None:
        """No traceback, and nothing on standard error but progress: TensorFlow's chatter stays in the log."""
        assert "Traceback" not in self.stdout + self.stderr, self
        strange = [line for line in self.stderr.splitlines() if not _PROGRESS.fullmatch(line)]
        assert not strange, strange


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandLine:
    """`tfaot-pkg`, with `home` as TFAOT_HOME and `scratch` as TMPDIR; `wrapper` is put before the command."""

    home: Path
    scratch: Path
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    wrapper: Sequence[str | Path] = ()
    watched: bool = False  # by `running`, which looks at the environment that a process was started with

    def with_(self, *, wrapper: Sequence[str | Path] = (), **environment: str) -> CommandLine:
        return dataclasses.replace(
            self, wrapper=wrapper or self.wrapper, environment={**self.environment, **environment}
        )

    @property
    def variables(self) -> dict[str, str]:
        scratch = str(self.scratch)
        ours = {"TFAOT_HOME": str(self.home), "TMPDIR": scratch, "TFAOT_TEST_RUN": scratch}
        ours["PYTHONPATH"] = str(REPOSITORY)
        return {**os.environ, **ours, **self.environment}

    def argv(self, *arguments: str | Path) -> list[str]:
        return [*map(str, self.wrapper), sys.executable, "-m", "tfaot_pkg", *map(str, arguments)]

    def run(self, *arguments: str | Path, timeout: float = 900) -> Ended:
        if self.wrapper or self.watched:
            done = subprocess.run(
                self.argv(*arguments), env=self.variables, capture_output=True, text=True, timeout=timeout, check=False
            )
        else:
            done = run_command(arguments, env=self.variables, timeout=timeout)
        return Ended(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def works(self, *arguments: str | Path) -> dict[str, Any]:
        """Run with `--json`, which must succeed; what it says."""
        done = self.run(*arguments, "--json")
        assert done.code == 0, f"{done.code}\n{done.stdout}\n{done.stderr}"
        done.require_tidy()
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        return answer

    def fails(self, *arguments: str | Path, code: int, says: Sequence[str] = (), hints: str = "") -> dict[str, Any]:
        """Run with `--json`, which must fail with exit code `code`, tidily, and say all of `says`; the error."""
        done = self.run(*arguments, "--json")
        assert done.code == code, f"{done.code}\n{done.stdout}\n{done.stderr}"
        done.require_tidy()
        error = json.loads(done.stdout)["error"]
        assert error["exit_code"] == code
        assert [text for text in says if text not in error["message"]] == [], error
        assert hints in error["hint"], error
        assert not list(self.scratch.iterdir()), "temporary files were left behind"
        assert isinstance(error, dict)
        return error


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The TMPDIR of the commands: its name also marks their processes."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def bare(tmp_path: Path, scratch: Path) -> CommandLine:
    """`tfaot-pkg` in an empty home: for what fails before a toolchain is needed."""
    return CommandLine(home=tmp_path / "home", scratch=scratch)


@pytest.fixture
def tfaot(shared_home_folder: Path, toolchain_python: Path, scratch: Path) -> CommandLine:
    """`tfaot-pkg` in the home that all slow tests share."""
    return CommandLine(home=shared_home_folder, scratch=scratch)


@pytest.fixture(scope="session")
def dense_registry(shared_home_folder: Path, models: Mapping[str, Path]) -> Path:
    """A registry with `dense` 1.0.0, published once for all. Read only. The runtime parts that it needs are cached then."""

    def publish(folder: Path) -> None:
        scratch = folder / "scratch"
        scratch.mkdir()
        spec = write_spec(folder / "spec.yaml", models["dense"], compilation={"batch_sizes": [1, 2]})
        tfaot = CommandLine(home=shared_home_folder, scratch=scratch)
        tfaot.works("publish", spec, "--registry", folder / "registry", "--no-conan")

    return kept(shared_home_folder, "dense", [digest_of_tool(), str(models["dense"])], publish) / "registry"


@pytest.fixture
def own(dense_registry: Path, shared_home_folder: Path, tmp_path: Path, scratch: Path) -> CommandLine:
    """`tfaot-pkg` in a home of the test's own, in which only the toolchain and XLA's runtime parts are there already."""
    home = tmp_path / "home"
    warm_up(home, shared_home_folder)
    return CommandLine(home=home, scratch=scratch)


def warm_up(home: Path, shared: Path, *, parts: bool = True) -> None:
    """Give `home` the shared toolchain and, with `parts`, the runtime parts, without copying them."""
    builds = home / "cache" / "builds"
    builds.mkdir(parents=True, exist_ok=True)
    if not (home / "cache" / "toolchains").exists():
        (home / "cache" / "toolchains").symlink_to(shared / "cache" / "toolchains")
    if parts:
        made = shared / "cache" / "builds" / "part"
        made.mkdir(exist_ok=True)  # no model that needs any may have been built yet
        # Copied, not linked: home may be on another file system.
        shutil.copytree(made, builds / "part", ignore=shutil.ignore_patterns("*.part", "*.lock*"))


def write_spec(path: Path, saved_model: Path, **changes: Any) -> Path:
    """Write a spec of `saved_model`; `changes` are sections, whose values replace those of the default."""
    document: dict[str, Any] = {
        "model": {"name": saved_model.name, "version": "1.0.0", "saved_model": saved_model.name},
        "source": {"path": str(saved_model.parent)},
        "compilation": {"batch_sizes": [1], "targets": ["x86-64-v3"]},
    }
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    return path


@pytest.fixture
def spec_of(tmp_path: Path) -> Callable[..., Path]:
    """`spec_of(saved_model, compilation={...})`: the path of a new spec."""
    return lambda saved_model, **changes: write_spec(tmp_path / "specs" / "spec.yaml", saved_model, **changes)


def tree(root: Path) -> dict[str, bytes | str]:
    """All that lies below `root`, hidden files too, but for lock files: path to content, link target or `folder`."""
    found: dict[str, bytes | str] = {}
    for path in sorted(root.rglob("*")) if root.exists() else ():
        if path.is_symlink():
            found[path.relative_to(root).as_posix()] = str(path.readlink())
        elif path.is_dir():
            found[path.relative_to(root).as_posix()] = "folder"
        elif not path.name.endswith(_LOCKS):
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


@pytest.fixture
def untouched() -> Callable[..., Any]:
    """A context manager that takes folders: what lies below them must be the same before and after."""

    @contextmanager
    def check(*folders: Path) -> Iterator[None]:
        before = [tree(folder) for folder in folders]
        yield
        assert [tree(folder) for folder in folders] == before

    return check


def left_in_cache(home: Path) -> list[Path]:
    """What a build that has ended must not leave in the build cache."""
    builds = home / "cache" / "builds"
    return [*builds.glob("worker.*"), *builds.rglob("*.part")]


def running(scratch: Path) -> list[tuple[int, str]]:
    """Processes (id, command) that were started by a command with this `scratch`, or by what it started.

    What runs in a sandbox has another environment: it is told by its ancestors or, once those have ended, by paths
    beside `scratch` that it was given.
    """
    parents, commands, marked = {}, {}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        if not command:  # a zombie has none
            continue
        process = int(folder.name)
        parents[process], commands[process] = parent, command.replace(b"\0", b" ").decode(errors="replace")
        if os.fsencode(scratch.parent) in command + environment:
            marked.add(process)
    while more := {process for process in parents if parents[process] in marked} - marked:
        marked |= more
    return [(process, commands[process]) for process in sorted(marked)]


_UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]


@pytest.fixture(scope="session")
def in_namespace(require_program: Callable[[str], str]) -> Callable[[str], list[str]]:
    """`in_namespace(script)`: a wrapper that runs `script` as root of a user namespace before the command."""
    require_program("unshare")
    if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    return lambda script: [*_UNSHARE, "sh", "-euc", f'{script}; exec "$@"', "sh"]
