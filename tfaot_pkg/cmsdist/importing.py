"""From a `tfaot-model-*.spec` of CMSDIST to a spec, with a note for each line that could not be translated."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tfaot_pkg.cmsdist.exporting import spec_text
from tfaot_pkg.cmsdist.rpmspec import MAX_BYTES, Note, RpmSpec, Tagged, read_rpm_spec
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.targets import DEFAULT_TARGETS, TARGETS
from tfaot_pkg.ground.wording import shown
from tfaot_pkg.package.name import model_of
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.rules import archive_url_fault, git_url_fault, name_fault, version_fault
from tfaot_pkg.spec.types import ArchiveSource, Compilation, FolderSource, GitSource, ModelInfo, ModelSpec, Source

COMPILES = "tfaot-compile"
"""The file of CMSDIST that spec files of models include."""

SHA256_MACRO = "source_sha256"
"""A macro of ours, which RPM ignores: the SHA-256 of an archive, which a spec must have and CMSDIST does not give."""

# Packages that compile models in CMSDIST: not dependencies here, where a toolchain compiles.
_TOOLS = frozenset({"py3-cms-tfaot", "py-cms-tfaot", "tensorflow-xla-runtime", "tensorflow", "py3-tensorflow"})
_TARGETS = {"x86_64": DEFAULT_TARGETS, "amd64": DEFAULT_TARGETS, "aarch64": ("aarch64",)}
_HINT = f"a model's spec file defines aot_config and says `## INCLUDE {COMPILES}`"
_BATCH_SIZES = (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """`spec` (its path is the output file), its `text`, and notes about what was not translated."""

    spec: ModelSpec
    text: str
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Where to look for the model's files: a folder that the user names, and a function that fetches a source."""

    folder: Path | None = None
    fetch: Callable[[Source], Path] | None = None


def import_spec(
    file: Path, output: Path, *, defines: Mapping[str, str] | None = None, files: ModelFiles | None = None
) -> Imported:
    """Translate the spec file `file` of CMSDIST into a spec for the file `output`, which is not written.

    `defines` are values of macros. Raises SpecError, with its line, if `file` is not such a file or describes no model;
    SourceError and NetworkError if a source cannot be fetched.
    """
    given = dict(defines or {})
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{file}: cannot read the spec file: {error.strerror}", hint=_HINT) from error
    rpm = read_rpm_spec(content, str(file), given, ("aot_config", "aot_source", SHA256_MACRO))
    return _Importer(rpm, Path(os.path.abspath(output)), given, files or ModelFiles()).imported()


@dataclass(slots=True)
class _Importer:
    rpm: RpmSpec
    output: Path
    defines: Mapping[str, str]
    files: ModelFiles
    notes: list[Note] = field(default_factory=list)

    def imported(self) -> Imported:
        place = self._config_place()
        self._note_includes_and_tags()
        source = self._source(place)
        found = self._find(place, source)
        spec = self._merged(found, source, place) if found else self._guessed(source, place)
        spec = replace(spec, compilation=self._compilation(spec.compilation))
        text = spec_text(spec, comment=f"From {Path(self.rpm.file).name} of CMSDIST.")
        # Read back: nothing is written that our own parser rejects.
        again = parse_spec(text.encode(), self.output)
        notes = sorted({*self.rpm.notes, *self.notes}, key=lambda note: (note.line, note.message))
        return Imported(spec=again, text=text, notes=tuple(notes))

    def _note(self, line: int, message: str) -> None:
        self.notes.append(Note(file=self.rpm.file, line=line, message=message))

    def _config_place(self) -> Tagged:
        place = self.rpm.macros.get("aot_config")
        if place is None or not place.value:
            line = next((tag.line for tag in self.rpm.includes if tag.value == COMPILES), 1)
            message = "no %define gives aot_config, the place of the model's aot_config.yaml"
            raise SpecError(list(self.rpm.fault(line, message).faults), hint=_HINT)
        return place

    def _note_includes_and_tags(self) -> None:
        included = [tag.value for tag in self.rpm.includes]
        for tag in self.rpm.includes:
            if tag.value != COMPILES:
                self._note(tag.line, f"the included file {tag.value}.file is not read")
        if COMPILES not in included:
            self._note(1, f"the file does not include {COMPILES}: how it compiles the model is not translated")
        for tag in self.rpm.tags:
            if re.fullmatch(r"source\d*", tag.tag):
                continue
            if tag.tag in ("requires", "buildrequires"):
                for package in re.findall(r"[A-Za-z][\w.+-]*", tag.value):
                    if package not in _TOOLS and not package.startswith("data-"):
                        self._note(tag.line, f"the dependency on {package} is not translated")
            else:
                self._note(tag.line, f"is not translated: {tag.tag}: {shown(tag.value)}")

    # The source of the model's files.

    def _source(self, place: Tagged) -> Source | None:
        """The source that the file names, whose root is the folder of aot_config.yaml; None if it names none."""
        first: Tagged | None = None
        for tag in self.rpm.tags:
            # Packages without sources, such as those whose files a data package brings, say `Source: none`.
            if tag.tag in ("source", "source0") and tag.value.lower() not in ("", "none"):
                first = tag
            elif re.fullmatch(r"source\d+", tag.tag):
                self._note(tag.line, f"only the first source is translated, not {shown(tag.value)}")
        if first is None:
            return None
        # A macro that is not known stays in the text.
        if "%{" in first.value:
            self._note(first.line, f"this source is not translated: {shown(first.value)}")
            return None
        if re.match(r"git(\+\w+)?://", first.value):
            return self._git(first, place)
        return self._archive(first, place)

    def _git(self, tag: Tagged, place: Tagged) -> Source | None:
        parts = urlsplit(tag.value)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        # A spec takes https, ssh and file; git:// neither encrypts nor authenticates.
        scheme = options.get("protocol") or parts.scheme.removeprefix("git+").replace("git", "https")
        url = parts._replace(scheme=scheme, query="", fragment="").geturl()
        revision = options.get("obj", "").rpartition("/")[2]
        if fault := git_url_fault(url):
            self._note(tag.line, f"this source is not translated: {fault}")
            return None
        # Tags and branches move, and short ids may become ambiguous.
        if not re.fullmatch(r"[0-9a-fA-F]{40}", revision):
            self._note(
                tag.line,
                f"this source is not translated: {shown(revision)} may change; a spec needs the full id of a commit",
            )
            return None
        subdir = self._inner_folder(place, "")
        return None if subdir is None else GitSource(url=url, revision=revision.lower(), subdir=subdir)

    def _archive(self, tag: Tagged, place: Tagged) -> Source | None:
        if fault := archive_url_fault(tag.value):
            self._note(tag.line, f"this source is not translated: {fault}")
            return None
        digest = self.rpm.macros.get(SHA256_MACRO)
        if digest is None or not re.fullmatch(r"[0-9a-fA-F]{64}", digest.value):
            self._note(
                tag.line,
                f"this source is not translated: a spec names an archive's SHA-256; give it with -D {SHA256_MACRO}=...",
            )
            return None
        unpacked = self.rpm.macros.get("aot_source")
        subdir = self._inner_folder(place, unpacked.value if unpacked else "")
        return None if subdir is None else ArchiveSource(url=tag.value, sha256=digest.value.lower(), subdir=subdir)

    def _inner_folder(self, place: Tagged, unpacked: str) -> str | None:
        """The folder of aot_config.yaml within the source; None if it is elsewhere."""
        if place.value.startswith(("/", "$", "~")):
            self._note(place.line, f"the source is not translated: {shown(place.value)} is not a path in it")
            return None
        return _inside(posixpath.join(unpacked, posixpath.dirname(place.value)))

    def _find(self, place: Tagged, source: Source | None) -> Path | None:
        """The model's aot_config.yaml on this machine."""
        inner, name = _without_variable(place.value), posixpath.basename(place.value)
        # The folder that the user names counts before all others; the source is fetched last, because it takes long.
        candidates = []
        if self.files.folder is not None:
            candidates += [self.files.folder / inner, self.files.folder / name]
        if found := re.match(r"\$\{?(\w+)\}?/", place.value):
            if root := self.defines.get(found[1]):
                candidates.append(Path(root) / inner)
        if place.value.startswith("/"):
            candidates.append(Path(place.value))
        # CMSDIST keeps files of a package in a folder of the package's name.
        beside = Path(self.rpm.file).parent
        candidates += [beside / self.rpm.name / name, beside / inner]
        if source is not None and self.files.fetch is not None:
            candidates.append(self.files.fetch(source) / name)
        found_file = next((path for path in candidates if path.is_file()), None)
        if found_file is None and self.files.folder is not None:
            raise SpecError(
                f"{self.files.folder} contains no {inner} and no {name}", hint="give the folder that contains it"
            )
        return found_file

    # The spec's other sections.

    def _merged(self, found: Path, source: Source | None, place: Tagged) -> ModelSpec:
        """The aot_config.yaml `found` as a spec, with the version and the source of the spec file."""
        config = parse_spec(found.read_bytes(), found)
        version = self._version(config.model.version)
        if self.rpm.name != config.model.package_name:
            self._note(1, f"the package {self.rpm.name} is {config.model.package_name} here, after {found.name}")
        if source is None or not isinstance(config.source, FolderSource):
            chosen: Source = config.source
        else:
            chosen = self._with_model(source, os.path.relpath(config.source.path, config.folder), place)
        return replace(config, path=self.output, model=replace(config.model, version=version), source=chosen)

    def _with_model(self, source: Source, folder: str, place: Tagged) -> Source:
        """`source` whose root is `folder`, a path relative to the present root."""
        assert not isinstance(source, FolderSource)
        subdir = _inside(posixpath.join(source.subdir, Path(folder).as_posix()))
        if subdir is None:
            raise self.rpm.fault(place.line, "the SavedModel of this aot_config.yaml is outside of the source")
        return replace(source, subdir=subdir)

    def _guessed(self, source: Source | None, place: Tagged) -> ModelSpec:
        name = model_of(self.rpm.name).lower()
        if fault := name_fault(name):
            raise self.rpm.fault(1, f"cannot derive a model name from {shown(self.rpm.name)}: {fault}")
        lacks = "model's name, signature, batch sizes and flags are guesses"
        where = "--model-files DIR names the folder that contains it" + (", --fetch gets the source" if source else "")
        self._note(place.line, f"{place.value} is not on this machine: {lacks} ({where})")
        return ModelSpec(
            path=self.output,
            model=ModelInfo(name=name, version=self._version("")),
            source=source or FolderSource(path=self.output.parent),
            compilation=Compilation(batch_sizes=_BATCH_SIZES),
        )

    def _version(self, configured: str) -> str:
        """The spec file's version, which is CMSDIST's; `configured` if that version is not valid here."""
        version = self.rpm.version
        if fault := version_fault(version):
            if not configured:
                raise self.rpm.fault(1, f"the version {fault}")
            self._note(1, f"the version is {configured}, after aot_config.yaml: {shown(version)} {fault}")
            return configured
        if configured and configured != version:
            self._note(1, f"the version is {version}, after this line; aot_config.yaml says {configured}")
        return version

    def _compilation(self, compilation: Compilation) -> Compilation:
        architecture = self.rpm.architecture
        if TARGETS[compilation.targets[0]].architecture == architecture:
            return compilation
        targets = _TARGETS.get(architecture)
        if targets is None:
            known = " and ".join(sorted({target.architecture for target in TARGETS.values()}))
            raise SpecError(f"there are no targets for {architecture}; supported: {known}")
        return replace(compilation, targets=targets)


def _without_variable(place: str) -> str:
    """`place` without the variable or slash at its beginning."""
    return re.sub(r"^(\$\{?\w+\}?)?/+", "", place)


def _inside(folder: str) -> str | None:
    """`folder`, normalized, "" for the root; None if it leads out of the source."""
    path = posixpath.normpath(folder) if folder else "."
    if path.startswith(("/", "..")):
        return None
    return "" if path == "." else path
