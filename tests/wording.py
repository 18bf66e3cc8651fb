"""The words of errors, in one file: `tests/wording.snapshot`. A test pins what happens, the snapshot pins how it is said.

    with reported(SpecError, path="compilation.batch_sizes[1]"):    an error, with its hint
        read_spec(path)
    worded(done.stderr)                                              an error that a program printed, or a part of one

Each call is compared with the entry of the running test and its number in that test. What differs from run to run (temporary
directories, ports, digests, times) is replaced first; `varies` names what else does.

`make wording` accepts new words, of any number of tests at once. Numbers, paths, names, options and quoted words are facts:
they must stay. A test that changes them on purpose is run with `--accept-facts`.
"""

from __future__ import annotations

import inspect
import os
import re
import socket
import sys
import tempfile
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

import pytest
from filelock import FileLock

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import SpecError, TfaotError
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, TOOLCHAINS

SNAPSHOT = Path(__file__).with_suffix(".snapshot")
REPOSITORY = SNAPSHOT.parent.parent
# Read once: a test may have changed the environment when another one asks.
SHARED = Path(os.environ.get("TFAOT_TEST_HOME") or REPOSITORY / "build" / "test-home").resolve()

E = TypeVar("E", bound=BaseException)
Key = tuple[str, int]
"""A test, by file and name below `tests`, and the number of the text in it."""

_HEAD = re.compile(r"(\S.*) #(\d+)")
COMPILER_TEXT = r"(\n(?!hint: ).*)+"
"""What a compiler, a linker or Conan printed, below our own first line: it differs between versions."""
DIFFERENCES = r"(\n  (inputs of class [^\n]*elements differ[^\n]*|and \d+ more))+"
"""Where answers differ from TensorFlow's, and by how much: it depends on the machine."""
_INDENT = "    "
_HIDDEN = re.compile(r"[^\n -~\xa1-\u1fff\u2010-\u2027\u2030-\u205f\u2070-\ud7ff]")
"""What an editor might not show, or take for the end of a line."""
# A time comes before a port: `12:30:00` is not one.
_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( ?UTC|Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"(?<=bytes in )[\d.]+ s\b"), "<seconds>"),
    (re.compile(r"\b(127\.0\.0\.1|localhost|\[::1\]):\d+"), r"\1:<port>"),
    (re.compile(r"\b(port|process|pid|PID)([ =])\d+"), r"\1\2<number>"),
    # A store has folders by the first two digits. One short digest in 300 has no letter.
    (
        re.compile(
            r"(\b[0-9a-f]{2}/)?\b"
            r"([0-9a-f]{64}|[0-9a-f]{40}|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{12,63}|(?!0{12})\d{12})\b"
        ),
        "<digest>",
    ),
    (re.compile(r"\btmp[a-z0-9_]{8}\b"), "<random>"),
)


class reported(Generic[E]):  # noqa: N801 (read as a verb)
    """`with reported(X) as caught`: as `pytest.raises(X)`, and the error's words are those of the snapshot.

    `path` is the place of a fault in a spec. `varies` are expressions for what nobody can know before, as a compiler's text.
    """

    def __init__(
        self, expected: type[E] | tuple[type[E], ...], *, path: str = "", varies: str | tuple[str, ...] = ()
    ) -> None:
        self._raises = pytest.raises(expected)
        self._path = path
        self._varies = varies

    def __enter__(self) -> pytest.ExceptionInfo[E]:
        self._caught = self._raises.__enter__()
        return self._caught

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        __tracebackhide__ = True
        if not self._raises.__exit__(kind, error, trace):
            return False
        worded(_text_of(self._caught.value), varies=self._varies)
        if self._path:
            assert isinstance(self._caught.value, SpecError)
            assert self._path in [fault.path for fault in self._caught.value.faults]
        return True


def _text_of(error: BaseException) -> str:
    hint = getattr(error, "hint", "")
    # The class that users know: what is derived from it elsewhere is nobody's business.
    kind = next((each for each in type(error).__mro__ if each.__module__ == TfaotError.__module__), type(error))
    said = f"{kind.__name__}: {getattr(error, 'message', '') or error}"
    return f"{said}\nhint: {hint}" if hint else said


def worded(text: str, *, varies: str | tuple[str, ...] = ()) -> None:
    """Compare `text` with the snapshot. One that the running test has not compared before gets the next number."""
    __tracebackhide__ = True
    assert _running is not None, "only a test can be asked for its words"
    _running.compare(text, (varies,) if isinstance(varies, str) else varies)


def normalised(text: str, places: Iterable[tuple[str, str]], varies: Iterable[str] = ()) -> str:
    """`text` without what differs from run to run and from machine to machine."""
    for pattern in varies:
        text = re.sub(pattern, "<varies>", text)
    for pattern, name in places:
        text = re.sub(pattern, name, text)
    for volatile, name in _VOLATILE:
        text = volatile.sub(name, text)
    shown = _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return "\n".join(line.rstrip() for line in shown.strip("\n").split("\n"))


def facts(text: str) -> set[str]:
    """What new words must keep: the kind of the error, numbers, paths, names, options, and what is quoted."""
    kind = re.match(r"[A-Z]\w+(?=: )", text)
    quoted = re.findall(r"(?<!\w)'([^'\n]+)'(?!\w)|\"([^\"\n]+)\"|`([^`\n]+)`", text)
    words = (word.strip(".,:;!?()'\"`") for word in text.split())
    return {
        *([kind[0]] if kind else []),
        *(part for parts in quoted for part in parts if part),
        *(word for word in words if re.search(r"\d|[/_@=<>]|^--?\w|\w\.\w", word)),
    }


@dataclass(slots=True)
class Snapshot:
    """The entries, and those that this run has changed."""

    path: Path
    accepts: bool = False
    accepts_facts: bool = False
    entries: dict[Key, str] = field(default_factory=dict)
    changed: dict[Key, str | None] = field(default_factory=dict)
    without_test: list[str] = field(default_factory=list)

    def difference(self, key: Key, text: str) -> str:
        """What is wrong with `text` as the words of `key`: nothing if they are the same, or were accepted now."""
        known = self.entries.get(key)
        if known == text:
            return ""
        if known is None and not self.accepts:
            return f"the snapshot has no words for {_title(key)} yet; `make wording` accepts:\n{text}"
        if known is not None:
            lost, new = facts(known) - facts(text), facts(text) - facts(known)
            told = f"{_title(key)} was:\n{known}\nand is now:\n{text}\n"
            if (lost or new) and not self.accepts_facts:
                return f"{told}facts changed, which needs --accept-facts: {sorted(lost)} became {sorted(new)}"
            if not self.accepts:
                return f"{told}only words changed: `make wording` accepts them"
        self.changed[key] = text
        return ""

    def unused(self, test: str, count: int) -> list[Key]:
        """The entries of `test` after its first `count`: dropped if this run accepts."""
        found = [key for key in self.entries if key[0] == test and key[1] > count]
        if not self.accepts:
            return found
        self.changed.update(dict.fromkeys(found))
        return []

    def save(self) -> None:
        """Add to the file what this process has accepted: others write to it too."""
        if not self.changed:
            return
        with FileLock(Path(tempfile.gettempdir()) / f"wording-{os.getuid()}.lock"):
            entries: dict[Key, str | None] = {**read(self.path), **self.changed}
            kept = sorted((key, text) for key, text in entries.items() if text is not None)
            parts: list[str] = []
            for text, group in groupby(kept, key=itemgetter(1)):
                parts += [*(_title(key) for key, _ in group), _indented(text)]
            self.path.write_text("\n".join(parts) + "\n", encoding="utf-8", newline="\n")


def read(path: Path) -> dict[Key, str]:
    """The entries of the file at `path`: neighbours with the same text share it."""
    entries: dict[Key, list[str]] = {}
    body: list[str] = []
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n") if path.exists() else ():
        if line.startswith(_INDENT) or not line:
            body.append(line.removeprefix(_INDENT))
            continue
        head = _HEAD.fullmatch(line)
        assert head, f"{path}: not the head of an entry: {line}"
        body = [] if body else body
        entries[head[1], int(head[2])] = body
    return {key: "\n".join(lines) for key, lines in entries.items()}


def _title(key: Key) -> str:
    return f"{key[0]} #{key[1]}"


def _indented(text: str) -> str:
    return "\n".join(f"{_INDENT}{line}" if line else "" for line in text.split("\n"))


@dataclass(slots=True)
class _Test:
    """The running test: how many texts it has compared."""

    name: str
    snapshot: Snapshot
    places: list[tuple[str, str]]
    repeats: bool
    count: int = 0

    def compare(self, text: str, varies: Iterable[str]) -> None:
        __tracebackhide__ = True
        assert not self.repeats, "an example of hypothesis has no number: use pytest.raises here"
        self.count += 1
        text = normalised(text, self.places, varies)
        if wrong := self.snapshot.difference((self.name, self.count), text):
            pytest.fail(wrong)


_running: _Test | None = None


_ON_REQUEST = "|".join(re.escape(version) for version, each in TOOLCHAINS.items() if each.tested != "always")


def _name(item: pytest.Item) -> str:
    """The test below `tests`. A toolchain that only some runs try (tests/toolchains.py) says what the default one says."""
    return re.sub(rf"\b({_ON_REQUEST})\b", DEFAULT_VERSION, item.nodeid.removeprefix("tests/"))


def _places(config: pytest.Config) -> list[tuple[str, str]]:
    """Paths and names of this machine, the longest first, and what stands for them."""
    # The first part below is the test's, or a fixture's: `tmp_path` counts them up, so a second run has another.
    base = str(config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]
    return [
        (rf"{re.escape(base)}(/[^/\s'\":,;]+)?", "<tmp>"),
        (re.escape(str(SHARED)), "<shared>"),
        (re.escape(sys.executable), "<python>"),
        (re.escape(str(REPOSITORY)), "<repository>"),
        (rf"{re.escape(tempfile.gettempdir())}/[^/\s'\":,;]+", "<tmp>"),
        (rf"(?<![\w/.>-]){re.escape(str(Path.home()))}(?![\w.-])", "<home>"),
        (rf"\b{re.escape(socket.gethostname())}\b", "<host>"),
        (rf"(?<=tfaot-pkg )v?{re.escape(__version__)}", "<version>"),
    ]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wording")
    group.addoption(
        "--accept-wording", action="store_true", help="rewrite tests/wording.snapshot if only words changed"
    )
    group.addoption("--accept-facts", action="store_true", help="... also if numbers, paths and names did")


def pytest_configure(config: pytest.Config) -> None:
    facts_too = config.getoption("accept_facts")
    accepts = config.getoption("accept_wording") or facts_too
    config.stash[_KEY] = Snapshot(path=SNAPSHOT, accepts=accepts, accepts_facts=facts_too, entries=read(SNAPSHOT))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Find entries whose test is gone, in a run of all tests. `make wording` drops them, and runs only what has words."""
    snapshot = config.stash[_KEY]
    if config.args == config.getini("testpaths"):
        tests = {_name(item) for item in items}
        gone = [key for key in snapshot.entries if key[0] not in tests]
        if snapshot.accepts:
            snapshot.changed.update(dict.fromkeys(gone))
        snapshot.without_test.extend(map(_title, gone))
    if snapshot.accepts:
        known = {name for name, _ in snapshot.entries}
        left = [item for item in items if _name(item) not in known and not _asks(item)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def entries_without_a_test(config: pytest.Config) -> list[str]:
    """What no test of this run compares any more; nothing if only some tests were collected."""
    return config.stash[_KEY].without_test


def _asks(item: pytest.Item) -> bool:
    """Whether the test, or a function of its module that it calls, compares words."""
    if not isinstance(item, pytest.Function):
        return False
    called = item.function.__code__.co_names
    parts = [vars(item.module).get(name) for name in called]
    names = {*called, *(name for part in parts if inspect.isfunction(part) for name in part.__code__.co_names)}
    return not names.isdisjoint({"reported", "worded"})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    global _running  # noqa: PLW0603 (pytest runs one test at a time)
    repeats = hasattr(getattr(item, "obj", None), "hypothesis")
    _running = _Test(name=_name(item), snapshot=item.config.stash[_KEY], places=_places(item.config), repeats=repeats)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    done = yield
    assert _running is not None
    if unused := _running.snapshot.unused(_running.name, _running.count):
        pytest.fail(f"`make wording` drops what the test no longer asks for: {', '.join(map(_title, unused))}")
    return done


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[_KEY].save()


_KEY = pytest.StashKey[Snapshot]()
