"""settings.yaml: what options and environment variables default to, in a file that the user writes.

An option comes before the environment variable, and that before the file. Only what asks for a setting reads the file:
a fault in it never stops `help`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tfaot_pkg.errors import SpecError, StorageError
from tfaot_pkg.ground.settings import DEFAULT_PREFIX, Folders
from tfaot_pkg.ground.storage import storage_errors, write_file

if TYPE_CHECKING:
    from tfaot_pkg.ground.forms.document import Document
    from tfaot_pkg.ground.settings_form import SettingsForm

REGISTRY_VARIABLE = "TFAOT_REGISTRY"
KEYS_VARIABLE = "TFAOT_REGISTRY_KEYS"
VARIABLES: Mapping[str, str] = {"registry": REGISTRY_VARIABLE, "keys": KEYS_VARIABLE}
"""The environment variables that come before the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds if no option says otherwise. `lines`: where in the file each setting is that it gives."""

    registry: str | None = None
    """The registry that is asked alone, and that is written to."""
    registries: tuple[str, ...] = ()
    """Names or folders of registries: which are asked first for a package."""
    prefix: Path = DEFAULT_PREFIX
    offline: bool = False
    conan: bool = True
    keys: tuple[Path, ...] = ()
    wheelhouse: Path | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_file(cls, folders: Folders) -> Settings:
        """What the file says. Raises SpecError with every fault of it, StorageError."""
        file = folders.settings_file
        if file is None or not file.exists():
            return cls()
        form, document = _read(file)
        return cls(
            registry=_expanded(form.registry) if form.registry is not None else None,
            registries=tuple(map(_expanded, form.registries or ())),
            prefix=Path(form.prefix).expanduser() if form.prefix is not None else DEFAULT_PREFIX,
            offline=bool(form.offline),
            conan=form.conan is not False,
            keys=tuple(Path(each).expanduser() for each in form.keys or ()),
            wheelhouse=Path(form.wheelhouse).expanduser() if form.wheelhouse is not None else None,
            lines={name: document.line_of((name,)) for name in form.model_fields_set},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A setting that holds; `origin`: the variable or the line of the file that says so, empty for the default."""

    name: str
    value: object
    origin: str

    @property
    def text(self) -> str:
        """The value, as the file writes it."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return (", ".join(map(str, self.value)) if isinstance(self.value, tuple) else str(self.value or "")) or "-"


def holding(settings: Settings) -> list[Holding]:
    """All settings, after the environment variables."""
    told = {name: os.environ[variable] for name, variable in VARIABLES.items() if os.environ.get(variable)}
    values = {each.name: getattr(settings, each.name) for each in fields(Settings) if each.name != "lines"}
    if "keys" in told:
        values["keys"] = tuple(map(Path, told["keys"].split(os.pathsep)))
    values["registry"] = standing_registry(settings)
    origins = {
        **{name: f"line {line}" for name, line in settings.lines.items()},
        **{name: VARIABLES[name] for name in told},
    }
    return [Holding(name=name, value=_plain(value), origin=origins.get(name, "")) for name, value in values.items()]


def _plain(value: object) -> object:
    """`value` with texts for paths."""
    if isinstance(value, tuple):
        return tuple(map(str, value))
    return str(value) if isinstance(value, Path) else value


def standing_registry(settings: Settings) -> str | None:
    """The registry that is asked alone: the one in TFAOT_REGISTRY, else the file's."""
    return os.environ.get(REGISTRY_VARIABLE) or settings.registry


def write_registries(names: Sequence[str], folders: Folders) -> None:
    """Set `registries` in the file, whose other lines stay as they are. Raises SpecError, StorageError."""
    file = folders.settings_file
    assert file is not None, "only the user's folders have an order"
    said = Settings.of_file(folders)
    if tuple(names) == said.registries:
        return
    place = Path(os.path.realpath(file))  # it may be a link into a folder of such files
    with storage_errors(f"write {file}"):
        before = place.read_bytes().decode("utf-8-sig") if place.exists() else ""
        after = _with_registries(before, names)
        if not _says(after, names):
            raise StorageError(
                f"{file} is written in a form that no command changes", hint=f"write there: {_written(names)}"
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, after.encode())


def fault_of(folders: Folders, path: tuple[str | int, ...], message: str) -> SpecError:
    """The error for a setting in the file that is well-formed, but means nothing here."""
    from tfaot_pkg.ground.forms.form import faults_error
    from tfaot_pkg.ground.settings_form import REFERENCE

    assert folders.settings_file is not None
    _, document = _read(folders.settings_file)
    document.report(path, message)
    return faults_error(document, REFERENCE)


def _read(file: Path) -> tuple[SettingsForm, Document]:
    from tfaot_pkg.ground.forms.form import read_content
    from tfaot_pkg.ground.settings_form import parsed  # pydantic, which most users need for no setting

    return parsed(read_content(file, "settings", hint="correct or delete it"), str(file))


def _expanded(registry: str) -> str:
    return str(Path(registry).expanduser()) if registry.startswith("~") else registry


def _written(names: Sequence[str]) -> str:
    import yaml

    listed: str = yaml.safe_dump(list(names), default_flow_style=True, width=float("inf"), allow_unicode=True)
    return f"registries: {listed.strip()}"


def _with_registries(text: str, names: Sequence[str]) -> str:
    """`text` with the list; comments and other settings stay."""
    from tfaot_pkg.ground.forms.document import read_document

    document = read_document(text.encode(), "")
    lines = text.splitlines()
    starts = sorted(line for path, line in document.lines.items() if len(path) == 1)
    line = document.lines.get(("registries",))
    if line is None:
        return "\n".join([*lines, _written(names), ""])
    end = min((start for start in starts if start > line), default=len(lines) + 1) - 1
    while end > line and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return "\n".join([*lines[: line - 1], *([_written(names)] if names else []), *lines[end:], ""])


def _says(text: str, names: Sequence[str]) -> bool:
    """Whether the file `text` is a whole one that has this list."""
    from tfaot_pkg.ground.settings_form import parsed

    try:
        return (parsed(text.encode(), "")[0].registries or []) == list(names)
    except SpecError:
        return False
