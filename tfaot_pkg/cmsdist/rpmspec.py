"""A spec file of CMSDIST, read line by line: the tags and macros of its preamble, and notes about all other lines.

The first line is `### RPM GROUP NAME VERSION`, `## INCLUDE NAME` includes a file of CMSDIST; the rest is RPM's syntax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tfaot_pkg.cmsdist.macros import MacroFault, Macros, holds
from tfaot_pkg.errors import Fault, SpecError
from tfaot_pkg.ground.wording import shown

MAX_BYTES = 1_000_000
DEFAULT_ARCHITECTURE = "x86_64"

_HEADER = re.compile(r"###\s*RPM\s+(\S+)\s+(\S+)\s+(\S+)\s*")
_INCLUDE = re.compile(r"##\s*(?:INCLUDE|IMPORT)\s+(\S+)\s*")
_DEFINE = re.compile(r"%(define|global)\s+([A-Za-z_][A-Za-z0-9_]*)(\([^)]*\))?\s+(.*)", re.DOTALL)
_IF_DEFINED = re.compile(r"%\{([!?]*\?[!?]*)([A-Za-z_][A-Za-z0-9_]*):\s*(%(?:define|global|undefine)\b.*)\}", re.DOTALL)
_UNDEFINE = re.compile(r"%undefine\s+([A-Za-z_][A-Za-z0-9_]*)\s*")
_CONDITION = re.compile(r"%(ifarch|ifnarch|ifos|ifnos|if|elifarch|elif|else|endif)\b\s*(.*)", re.DOTALL)
_SECTION = re.compile(
    r"%(prep|build|install|check|clean|files|description|package|changelog|pre|post|preun|postun)\b(.*)"
)
_TAG = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?:\([^)]*\))?\s*:\s*(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line that could not be translated, or only in part; `line` counts from 1."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """`TAG: VALUE`, or a macro's value, and its line."""

    line: int
    tag: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RpmSpec:
    """The content of a spec file, with macros expanded, for one architecture."""

    file: str
    group: str
    name: str
    version: str
    architecture: str
    tags: tuple[Tagged, ...]
    includes: tuple[Tagged, ...]
    macros: Mapping[str, Tagged]
    notes: tuple[Note, ...]

    def fault(self, line: int, message: str) -> SpecError:
        return SpecError([Fault(file=self.file, line=line, path="", message=message)])


def read_rpm_spec(content: bytes, file: str, defines: Mapping[str, str], wanted: tuple[str, ...] = ()) -> RpmSpec:
    """Read `content`; `defines` are macros that no line can change, `wanted` macros whose values the caller needs.

    `_target_cpu` in `defines` chooses the architecture. Raises SpecError with all faults, each with its line.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError([Fault(file=file, line=line, path="", message="is not UTF-8 text")]) from None
    if len(content) > MAX_BYTES or "\0" in text:
        raise SpecError([Fault(file=file, line=1, path="", message="is not a spec file")])
    lines = text.splitlines()
    header = next(((i, m) for i, line in enumerate(lines, 1) if (m := _HEADER.fullmatch(line))), None)
    if header is None:
        message = "no line says `### RPM external NAME VERSION`: this is not a spec file of CMSDIST"
        raise SpecError([Fault(file=file, line=1, path="", message=message)])
    reader = _Reader(file, header[1], defines)
    reader.read(lines)
    return reader.result(wanted)


@dataclass(slots=True)
class _Branch:
    """An open `%if`."""

    line: int
    active: bool
    taken: bool
    outer: bool
    has_else: bool = False


class _Reader:
    def __init__(self, file: str, header: re.Match[str], defines: Mapping[str, str]) -> None:
        self._file = file
        self._group, self._name, self._version = header.groups()
        self._architecture = defines.get("_target_cpu") or defines.get("_arch") or DEFAULT_ARCHITECTURE
        # CMSDIST's names for the words of the header.
        of_the_header = {"name": self._name, "n": self._name, "pkgname": self._name}
        of_the_header |= dict.fromkeys(("version", "v", "realversion"), self._version)
        # `nil` is RPM's own, for definitions without a value.
        of_the_machine = dict.fromkeys(("_arch", "_target_cpu"), self._architecture)
        self._macros = Macros({**of_the_header, **of_the_machine, "nil": ""}, defines, self._unknown)
        self._defined_at: dict[str, int] = {}
        self._tags: list[Tagged] = []
        self._includes: list[Tagged] = []
        self._notes: list[Note] = []
        self._faults: list[Fault] = []
        self._branches: list[_Branch] = []
        self._section = ""
        self._line = 1

    def read(self, lines: list[str]) -> None:
        number = 0
        while number < len(lines):
            self._line = number + 1
            text = lines[number]
            # As in RPM, a backslash continues a macro's definition, whose value keeps the line end.
            while text.endswith("\\") and number + 1 < len(lines):
                number += 1
                text = f"{text[:-1]}\n{lines[number]}"
            number += 1
            try:
                self._read_line(text.strip())
            except MacroFault as fault:
                self._fault(str(fault))
        for branch in self._branches:
            self._line = branch.line
            self._fault("this %if has no %endif")

    def result(self, wanted: tuple[str, ...]) -> RpmSpec:
        macros = {}
        for name in wanted:
            if name not in self._macros:
                continue
            # Macros are expanded when they are used; notes and faults must name the line that defines them.
            self._line = self._defined_at.get(name, 0)
            try:
                macros[name] = Tagged(line=self._line, tag=name, value=self._macros.expand(f"%{{{name}}}").strip())
            except MacroFault as fault:
                self._fault(str(fault))
        if self._faults:
            raise SpecError(sorted(self._faults, key=lambda fault: fault.line))
        return RpmSpec(
            file=self._file,
            group=self._group,
            name=self._name,
            version=self._version,
            architecture=self._architecture,
            tags=tuple(self._tags),
            includes=tuple(self._includes),
            macros=macros,
            notes=tuple(sorted(self._notes, key=lambda note: note.line)),
        )

    def _read_line(self, text: str) -> None:
        # Before all else: branches that are not taken are followed too, to find their %endif.
        if found := _CONDITION.fullmatch(text):
            self._condition(found[1], found[2])
            return
        if not all(branch.active for branch in self._branches) or not text or _HEADER.fullmatch(text):
            return
        if found := _INCLUDE.fullmatch(text):
            self._includes.append(Tagged(line=self._line, tag="INCLUDE", value=found[1]))
        elif text.startswith("#"):
            return
        elif found := _IF_DEFINED.fullmatch(text):
            if (found[2] in self._macros) != bool(found[1].count("!") % 2):
                self._read_line(found[3].strip())
        elif found := _DEFINE.fullmatch(text):
            self._define(found)
        elif found := _UNDEFINE.fullmatch(text):
            self._macros.undefine(found[1])
        elif found := _SECTION.fullmatch(text):
            self._section = f"%{found[1]}"
        # Sections are what RPM runs and packs: no field of a spec says the same.
        elif self._section:
            self._note(f"a line of {self._section} is not translated: {shown(text)}")
        elif found := _TAG.fullmatch(text):
            self._tags.append(
                Tagged(line=self._line, tag=found[1].lower(), value=self._macros.expand(found[2]).strip())
            )
        else:
            self._note(f"is not translated: {shown(text)}")

    def _define(self, found: re.Match[str]) -> None:
        kind, name, parameters, value = found.groups()
        if parameters:
            self._note(f"macros with parameters are not expanded: %{name}")
            return
        # %global is expanded where it is defined, %define where it is used.
        self._macros.define(name, self._macros.expand(value) if kind == "global" else value)
        self._defined_at[name] = self._line

    def _condition(self, kind: str, text: str) -> None:
        if kind.startswith("if"):
            outer = all(branch.active for branch in self._branches)
            # Conditions in branches that are not taken are not evaluated: their macros may be undefined.
            self._branches.append(_Branch(line=self._line, active=False, taken=False, outer=outer))
            if outer:
                self._take(self._holds(kind, text))
            return
        if not self._branches:
            self._fault(f"%{kind} without %if")
            return
        branch = self._branches[-1]
        if kind == "endif":
            self._branches.pop()
        elif branch.has_else:
            self._fault(f"%{kind} after %else")
        elif kind == "else":
            branch.has_else = True
            branch.active, branch.taken = branch.outer and not branch.taken, True
        elif branch.outer:
            branch.active = False
            self._take(not branch.taken and self._holds(kind.removeprefix("el"), text))

    def _take(self, decision: bool) -> None:
        self._branches[-1].active = decision
        self._branches[-1].taken |= decision

    def _holds(self, kind: str, text: str) -> bool:
        words = self._macros.expand(text)
        if kind == "if":
            return holds(words)
        listed = (self._architecture if kind.endswith("arch") else "linux") in re.split(r"[\s,]+", words)
        decision = listed != kind.startswith("ifn")
        if not decision and kind.endswith("arch"):
            self._note(
                f"the next lines are not for {self._architecture}; -D _target_cpu=... chooses another architecture"
            )
        return decision

    def _unknown(self, name: str) -> None:
        self._note(f"the macro %{{{name}}} is not known: give its value with -D {name}=VALUE")

    def _note(self, message: str) -> None:
        note = Note(file=self._file, line=self._line, message=message)
        if note not in self._notes:
            self._notes.append(note)

    def _fault(self, message: str) -> None:
        self._faults.append(Fault(file=self._file, line=self._line, path="", message=message))
