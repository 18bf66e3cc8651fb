"""YAML text to plain data, with the line of every value.

It reads the subset of YAML that configuration files use: one document, no anchors and aliases (so nothing can expand),
no tags except `!!str`, no repeated keys, limited size, depth and number of values. Plain scalars follow YAML 1.2's core
schema: `1e-4` is a number; `1:30`, `no` and dates are strings. The module does not know specs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from tfaot_pkg.errors import Fault
from tfaot_pkg.ground.wording import shown

MAX_BYTES = 1 << 20
MAX_DEPTH = 16
MAX_VALUES = 10_000

Path = tuple[str | int, ...]
"""Where a value is: keys and list positions from the top."""

# libyaml is much faster, but PyYAML may be installed without it.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = (None, "!", "tag:yaml.org,2002:str")
# YAML 1.2, 5.1: the characters that a document may contain. PyYAML's own error has no line.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
# Python raises ValueError for integers of more than 4300 digits, and nobody writes such a number on purpose.
_MAX_DIGITS = 400
_QUOTE_HINT = "put an expression in quotes: '{{ ... }}'"


@dataclass(slots=True, kw_only=True)
class Document:
    """A parsed file.

    `lines` has the line (from 1) of the key or list item at each path, `texts` every scalar as it was written, `faults`
    the errors in the YAML; `data` is None at the place of a fault.
    """

    file: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=lambda: {(): 1})
    texts: dict[Path, str] = field(default_factory=dict)
    faults: list[tuple[Path, Fault]] = field(default_factory=list)
    _positions: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int:
        """The line of `path`, or of the nearest enclosing value in the file."""
        return self.lines[self._known(path)]

    def position_of(self, path: Path) -> int:
        """A number that sorts paths in the order of the file, also those on one line."""
        # Made once and not per fault: a file may have thousands of both.
        if len(self._positions) != len(self.lines):
            self._positions = {known: position for position, known in enumerate(self.lines)}
        return self._positions[self._known(path)]

    def _known(self, path: Path) -> Path:
        while path not in self.lines:
            path = path[:-1]
        return path

    def report(self, path: Path, message: str, *, line: int = 0) -> None:
        """Add a fault at `path`."""
        line = line or self.line_of(path)
        self.faults.append((path, Fault(file=self.file, line=line, path=dotted(path), message=message)))


def dotted(path: Path) -> str:
    """`("compilation", "batch_sizes", 1)` as `compilation.batch_sizes[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]{1,60}", part):
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text


def read_document(content: bytes, file: str) -> Document:
    """Parse `content`; `file` is its name in faults. Never raises: look at `faults`."""
    document = Document(file=file)
    text = _decode(content, document)
    if text is None:
        return document
    if file.endswith(".json"):
        # JSON strings hold no raw tabs, so these are indentation, which YAML would refuse.
        text = text.replace("\t", " ")
    try:
        _Builder(document).run(yaml.parse(text, Loader=_Loader))
    except _Stop:
        document.data = None
    except yaml.YAMLError as error:
        document.data = None
        line, message = _syntax_fault(error, text)
        document.report((), message, line=line)
    return document


def scalar(text: str) -> object:
    """The value of a plain scalar: null, boolean, number or string."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    # Longer ones stay strings, which the form then rejects with a message of its own.
    if len(text) > _MAX_DIGITS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if special := _SPECIAL_FLOAT.fullmatch(text):
        return math.copysign(float(special[2].lower()), -1.0 if special[1] == "-" else 1.0)
    return text


def _decode(content: bytes, document: Document) -> str | None:
    # Before decoding: the reader cuts the file at one byte above the limit, perhaps inside a character.
    if len(content) > MAX_BYTES:
        document.report((), f"is too large: a spec has at most {MAX_BYTES} bytes, this file has {len(content)}")
        return None
    try:
        # Editors on Windows write a byte order mark.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        document.report((), f"is not UTF-8 text: byte {content[error.start]:#04x} cannot be read", line=line)
        return None
    if bad := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        document.report((), f"is not YAML: it contains the control character U+{ord(bad[0]):04X}", line=line)
        return None
    return text


class Dumper(yaml.SafeDumper):
    """Writes what `read_document` reads back: a string that would be read as another type, such as `0E0`, is quoted."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if scalar(text) == text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Dumper.add_representer(str, _represent_text)


def _syntax_fault(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be parsed"
    context = getattr(error, "context", None)
    detail = f"{problem} ({context})" if context else str(problem)
    line = mark.line if mark else 0
    lines = text.splitlines()
    return min(line, max(len(lines) - 1, 0)) + 1, f"is not YAML: {detail}{_syntax_hint(lines[line : line + 1])}"


def _syntax_hint(line: list[str]) -> str:
    if any("{{" in text for text in line):
        return f"; {_QUOTE_HINT}"
    if any("\t" in text for text in line):
        return "; indent with spaces, not with tabs"
    return ""


class _Stop(Exception):
    """Ends the reading of a document at a fault."""


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is being filled; `key` is the key whose value comes next."""

    path: Path
    value: list[Any] | dict[str, Any]
    key: str | None = None
    dropped: bool = False


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


class _Builder:
    """Builds data from parser events without recursion, so that nesting cannot exhaust the stack."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._frames: list[_Frame] = []
        self._documents = 0
        self._events = 0

    def run(self, events: Iterator[yaml.Event]) -> None:
        for event in events:
            self._check(event)
            match event:
                case yaml.DocumentStartEvent():
                    self._start_document(event)
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.SequenceStartEvent():
                    self._open([], event)
                case yaml.MappingStartEvent():
                    self._open({}, event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self._frames.pop()

    def _check(self, event: yaml.Event) -> None:
        self._events += 1
        if self._events > MAX_VALUES:
            self._stop(event, f"contains more than {MAX_VALUES} keys and values")
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent):
            self._stop(event, f"aliases (*{anchor}) are not allowed in a spec: write the value out")
        if anchor:
            self._stop(event, f"anchors (&{anchor}) are not allowed in a spec")
        if tag not in _PLAIN_TAGS:
            self._stop(event, f"tags are not allowed in a spec, got {shown(str(tag))}")

    def _stop(self, event: yaml.Event, message: str) -> NoReturn:
        frame = self._frames[-1] if self._frames else _Frame(path=(), value=[])
        path = frame.path if frame.key is None else (*frame.path, frame.key)
        self._document.report(path, message, line=_line(event))
        raise _Stop

    def _start_document(self, event: yaml.Event) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop(event, "contains a second YAML document ('---'): a spec is one document")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        line = _line(event)
        frame = self._frames[-1] if self._frames else None
        if frame and isinstance(frame.value, dict) and frame.key is None:
            self._key(frame, event.value, line)
            return
        plain = event.implicit[0]
        path = self._put(scalar(event.value) if plain else event.value, line)
        if path is not None:
            self._document.texts[path] = event.value

    def _key(self, frame: _Frame, key: str, line: int) -> None:
        assert isinstance(frame.value, dict)
        # Repeated keys are reported, because YAML readers differ in which of the two values they use.
        frame.key, path = key, (*frame.path, key)
        frame.dropped = key in frame.value
        if frame.dropped:
            first = self._document.line_of(path)
            self._document.report(path, f"is given twice (first on line {first})", line=line)
        else:
            self._document.lines[path] = line

    def _put(self, value: Any, line: int) -> Path | None:
        """Store `value` at the parser's position and return its path; None for the value of a repeated key."""
        if not self._frames:
            self._document.data = value
            self._document.lines[()] = line
            return ()
        frame = self._frames[-1]
        if isinstance(frame.value, list):
            path: Path = (*frame.path, len(frame.value))
            frame.value.append(value)
            self._document.lines[path] = line
            return path
        assert frame.key is not None
        path, dropped = (*frame.path, frame.key), frame.dropped
        if not dropped:
            frame.value[frame.key] = value
        frame.key = None
        return None if dropped else path

    def _open(self, value: list[Any] | dict[str, Any], event: yaml.Event) -> None:
        line = _line(event)
        if len(self._frames) >= MAX_DEPTH:
            self._stop(event, f"is nested more than {MAX_DEPTH} levels deep")
        frame = self._frames[-1] if self._frames else None
        if frame and isinstance(frame.value, dict) and frame.key is None:
            self._stop(event, f"a list or mapping cannot be a key; {_QUOTE_HINT}")
        path = self._put(value, line)
        if path is None:
            # Values below a repeated key are read for their faults, but stored nowhere.
            path = (*self._frames[-1].path, "(repeated)")
        self._frames.append(_Frame(path=path, value=value))
