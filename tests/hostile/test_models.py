"""The corpus of hostile models: nothing of them is read, written, started or connected to, confined or not.

Without confinement the allowlist stands alone: system calls are counted with strace. The figures are in
docs/security.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import completed
from tests.hostile.conftest import HERE, Corpus
from tests.hostile.test_archives import ARCHIVES
from tests.hostile.test_specs import SPECS
from tests.toolchains import VERSIONS, chosen
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION

REPOSITORY = HERE.parents[1]
PROGRAM = REPOSITORY / "tfaot_pkg" / "worker_program"

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]

_CALLS = "open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,truncate,symlink,symlinkat,"
_CALLS += "link,linkat,mknod,mknodat,execve,execveat,connect,listen"
_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+)")
_PATH = re.compile(r'(?:\w+<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')  # behind the folder that it is relative to
_OF_PYTHON = '["uname", "-p"]'  # platform.processor()
_OF_THREADS = re.compile(r"/dev/\w+|/proc/self/task/\d+/comm")  # nothing, chance, and names of threads
# What TensorFlow itself reads of a machine.
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """System calls that succeeded, or were tried: paths outside of what TensorFlow, Python and the models' folder are."""

    read: list[str]
    written: list[str]
    started: list[str]
    connected: list[str]


def seen_in(log: Path, *, allowed: list[Path], scratch: Path) -> Seen:
    read, written, started, connected = [], [], [], []
    for line in log.read_text(errors="replace").splitlines():
        if not (found := _LINE.match(line)):
            continue
        call, arguments, result = found.groups()
        path = Path(os.path.normpath(Path(found[1] or "") / found[2])) if (found := _PATH.search(arguments)) else Path()
        if call in ("connect", "listen"):
            if call == "listen" or "AF_INET" in arguments:
                connected.append(line)
        elif call.startswith("exec"):
            started += [line] if _OF_PYTHON not in arguments else []
        elif call.startswith("open") and not re.search("O_WRONLY|O_RDWR|O_CREAT", arguments):
            inside = any(path.is_relative_to(folder) for folder in [*allowed, scratch])
            if result != "-1" and not inside and not f"{path}/".startswith(_SYSTEM):
                read.append(str(path))
        elif result != "-1" and not path.is_relative_to(scratch) and not _OF_THREADS.fullmatch(str(path)):
            written.append(line)
    return Seen(read=read, written=written, started=started[1:], connected=connected)


@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_nothing_of_the_corpus_reaches_out_though_nothing_confines_it(
    tensorflow: str, make_corpus: Callable[[str], Corpus], require_program: Callable[[str], str], tmp_path: Path
) -> None:
    corpus = make_corpus(tensorflow)
    names = corpus.named("refused", "harmless")
    scratch, log = tmp_path / "scratch", tmp_path / "strace.log"
    scratch.mkdir()
    traced = [require_program("strace"), "-f", "-y", "-qq", "-s", "4096", "-e", f"trace={_CALLS}", "-o", str(log)]
    command = [
        *traced,
        *map(str, (corpus.python, "-I", "-B", HERE / "drive.py", PROGRAM, corpus.folder, scratch)),
        *names,
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(corpus.secret.parent), "TMPDIR": str(scratch)}
    environment["KERAS_HOME"] = str(scratch)  # it keeps its settings there
    done = completed(command, env=environment, timeout=800)
    ended = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [each["model"] for each in ended] == names, done.stderr[-2000:]
    wrong = {each["model"]: each["messages"] for each in ended if not is_right(corpus, each["model"], each["messages"])}
    assert wrong == {}
    interpreter = [corpus.python.parent.parent, Path(sysconfig.get_paths()["stdlib"]).parents[1]]
    base = Path(os.path.realpath(corpus.python)).parents[1]
    allowed = [*interpreter, base, corpus.folder, PROGRAM, HERE]
    assert seen_in(log, allowed=allowed, scratch=scratch) == Seen(read=[], written=[], started=[], connected=[])
    corpus.require_untouched(scratch)


def is_right(corpus: Corpus, name: str, messages: list[str]) -> bool:
    """Whether freezing and running ended with a fault that says what it must, or worked."""
    told = corpus.models[name]
    if told["outcome"] == "harmless":
        return messages == []
    return len(messages) >= 2 and all(told["says"] in message for message in messages[-2:])


# As in a container or on a hardened kernel: then it is Landlock that confines.
_NO_NAMESPACES = [
    *("unshare", "--user", "--map-root-user", "--mount"),
    *("sh", "-euc", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"),
]


@pytest.mark.sweep("namespaces")
@pytest.mark.parametrize(
    "wrapper",
    [[], _NO_NAMESPACES, ["env", "FORKED=1"], ["env", "FORKED=build"]],
    ids=["namespaces", "no namespaces", "forked", "forked build"],
)
def test_the_same_in_a_worker(
    wrapper: list[str], make_corpus: Callable[[str], Corpus], require_program: Callable[[str], str], tmp_path: Path
) -> None:
    require_program("unshare")
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no user namespaces")
    corpus = make_corpus(DEFAULT_VERSION)
    names = corpus.named("refused", "harmless")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments: list[str | Path] = [corpus.python, corpus.folder, scratch, tmp_path / "worker.log", *names]
    done = completed(
        [*wrapper, sys.executable, HERE / "through_worker.py", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(corpus.secret.parent)},
        timeout=800,
    )
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    if not ended and "SandboxError" in done.stderr:
        return  # refused as a whole: neither namespaces nor Landlock
    assert [each["model"] for each in ended[1:]] == names, done.stderr[-2000:]
    errors = {each["model"]: each["errors"] for each in ended[1:]}
    assert {name for name, found in errors.items() if found} == set(corpus.named("refused"))
    assert {name for name, found in errors.items() if any("crashed" in text for text in found)} == set()
    corpus.require_untouched(scratch)


@pytest.mark.nightly
def test_what_computes_without_end_or_measure_is_stopped(make_corpus: Callable[[str], Corpus], tmp_path: Path) -> None:
    corpus = make_corpus(DEFAULT_VERSION)
    for name in corpus.named("endless"):
        scratch = tmp_path / name
        scratch.mkdir()
        arguments: list[str | Path] = [corpus.python, corpus.folder, scratch, tmp_path / f"{name}.log", name]
        limits = {"TFAOT_WORKER_TIMEOUT": "20", "TFAOT_WORKER_MEMORY": "20"}
        done = completed(
            [sys.executable, HERE / "through_worker.py", *arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **limits},
            timeout=600,
        )
        errors = json.loads(done.stdout.splitlines()[-1])["errors"]
        assert errors and re.search("gave no answer within|out of memory|OOM", errors[0]), (name, errors)


def test_the_page_about_security_has_the_figures_of_the_corpus(make_corpus: Callable[[str], Corpus]) -> None:
    corpus = make_corpus(DEFAULT_VERSION)
    text = (REPOSITORY / "docs" / "security.md").read_text()
    count = len(corpus.models)
    assert count >= 60
    packages = sum(not name.startswith("zip") for name in ARCHIVES)
    assert f"{count} hostile models, " in text
    assert f"{len(SPECS)} hostile specs, {len(ARCHIVES)} hostile archives of sources" in text
    assert f"and {packages} of packages" in text
    refused, harmless, endless = (len(corpus.named(outcome)) for outcome in ("refused", "harmless", "endless"))
    words = " ".join(text.split())
    assert f"Of the models {refused} are rejected, {harmless} run" in words
    assert f"and {endless} compute without end" in words
    # The tests above require each row to be that of all models that end, with nothing in its other columns.
    rows = [row for row in text.splitlines() if row.endswith("| 0 | 0 | 0 | 0 |")]
    ways = [f"TensorFlow {version}, without any confinement" for version in chosen("")]
    ways += ["in a worker, with namespaces", "in a worker, without user namespaces (Landlock)"]
    assert rows == [f"| {way} | {refused + harmless} | 0 | 0 | 0 | 0 |" for way in ways]
