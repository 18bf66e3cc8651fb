"""registry.yaml to a `NightlyDefinition`, or all of its faults at once, in the file's order, with line and path."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.forms.document import Document, read_document
from tfaot_pkg.ground.forms.document import Path as Place
from tfaot_pkg.ground.forms.form import faults_error, read_content, unknown_among, validated
from tfaot_pkg.ground.wording import described
from tfaot_pkg.nightly.form import (
    BYTES,
    REFERENCE,
    SECONDS,
    DefinitionForm,
    GitSpecForm,
    KnownBrokenForm,
    MailForm,
    ModelEntryForm,
    NotifyForm,
    PolicyForm,
    RegressionForm,
    WebhookForm,
    builders,
    quantity,
)
from tfaot_pkg.nightly.types import (
    Builders,
    GitSpec,
    KnownBroken,
    Mail,
    ModelEntry,
    NightlyDefinition,
    Notify,
    Policy,
    Regression,
    Webhook,
)
from tfaot_pkg.spec.rules import path_fault

# Fields of text whose values YAML may read as numbers.
_TEXTS = frozenset(
    (
        "registry spec revision since max_failures timeout worker_wait memory output toolchains remotes builders timing"
    ).split()
)


def load_definition(path: Path) -> NightlyDefinition:
    """Read the definition at `path`; the specs that it names must be there, and are not read.

    Raises SpecError with every fault; faults name the file as `path` does.
    """
    document = read_document(_content(path), str(path))
    form = _validated(document)
    # Even if the form has faults: all faults are reported at once.
    _check_files(document, path.parent)
    if form is not None and form.notify is not None and (mail := form.notify.mail) is not None:
        if mail.user is not None and mail.security == "none":
            document.report(("notify", "mail", "security"), "must not be none: the user's password would be readable")
    if form is not None and form.policy is not None and form.policy.builders is not None:
        most, known = builders(form.policy.builders)[1], len(form.builders or ())
        if known < most:
            document.report(("policy", "builders"), f"needs {most} keys in builders, which has {known}")
    if form is not None and "://" in form.registry:
        document.report(("registry",), f"must be a folder: a night publishes into one, and not into {form.registry}")
    if document.faults or form is None:
        raise faults_error(document, REFERENCE)
    return _definition(form, Path(os.path.abspath(path)))


def spec_files(entry: ModelEntry, folder: Path) -> tuple[Path, ...]:
    """The specs in this file system that `entry` names, sorted; `folder` is the definition's."""
    return _matches(entry.specs, folder) if isinstance(entry.specs, str) else ()


def names_several(specs: str | GitSpec) -> bool:
    """Whether it is a pattern."""
    return isinstance(specs, str) and glob.has_magic(specs)


def definition_error(definition: NightlyDefinition, faults: Iterable[tuple[Place, str]]) -> SpecError:
    """The error for faults that only the specs show, each with the line of its path."""
    document = read_document(_content(definition.path), str(definition.path))
    for path, message in faults:
        document.report(path, message)
    return faults_error(document, REFERENCE)


def line_of(definition: NightlyDefinition, path: Place) -> int:
    """The line of `path` in the definition."""
    return read_document(_content(definition.path), str(definition.path)).line_of(path)


def _content(path: Path) -> bytes:
    return read_content(path, "definition", hint="name the file: `tfaot-pkg nightly plan REGISTRY.yaml`")


def _validated(document: Document) -> DefinitionForm | None:
    if not isinstance(document.data, dict):
        if not document.faults:
            document.report((), f"must be a mapping with registry and models, got {described(document.data)}")
        return None
    data = _as_written(document.data, (), document)
    return validated(
        DefinitionForm,
        data,
        document,
        path_of=_path,
        unknown_key=lambda path: unknown_among(str(path[-1]), list(_form_at(path[:-1]).model_fields)),
        special=_special,
    )


def _as_written(value: Any, path: Place, document: Document) -> Any:
    """`value` without nulls ("not given"), and with texts that look like numbers as they were written."""
    if isinstance(value, dict):
        return {key: _as_written(one, (*path, key), document) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_as_written(one, (*path, number), document) for number, one in enumerate(value)]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    return document.texts[path] if is_number and (name in _TEXTS or "defines" in path) else value


def _path(location: tuple[int | str, ...]) -> Place:
    """Pydantic's place as the document's: without its words for the kind of a spec, and for keys."""
    if location[:1] == ("models",) and location[2:3] == ("spec",):
        location = (*location[:3], *location[4:])
    if location[:2] == ("notify", "webhooks"):
        location = (*location[:3], *location[4:])
    return tuple(part for part in location if part != "[key]")


def _special(path: Place, value: object) -> str:
    if path[2:] == ("spec",):
        return f"must be a path, or a mapping with git, revision and path, got {described(value)}"
    if path[:2] == ("notify", "webhooks") and len(path) == 3 and not isinstance(value, str):
        return f"must be an address, or a mapping with variable, got {described(value)}"
    if path[:1] == ("models",) and len(path) == 2 and isinstance(value, str):
        return f"must be a mapping, such as `- spec: models/*/spec.yaml`, got {described(value)}"
    words = _WORDS.get(path, "")
    return f"must be {words}, got {described(value)}" if words else ""


_WORDS: dict[Place, str] = {
    ("policy", "changed_source"): "refuse or build",
    ("policy", "regression", "answers"): "publish or refuse",
    ("notify", "mail", "security"): "starttls, tls or none",
}


def _form_at(path: Place) -> type[BaseModel]:
    match path:
        case ():
            return DefinitionForm
        case ("policy",):
            return PolicyForm
        case ("policy", "regression"):
            return RegressionForm
        case ("models", int()):
            return ModelEntryForm
        case ("notify",):
            return NotifyForm
        case ("notify", "mail"):
            return MailForm
        case ("notify", "webhooks", int()):
            return WebhookForm
        case ("models", int(), "spec"):
            return GitSpecForm
        case _:
            return KnownBrokenForm


def _check_files(document: Document, folder: Path) -> None:
    """Report patterns and paths that match no spec, and specs that are named twice in the same way."""
    # A spec may be in a pattern and have an entry of its own, which then counts (models.py).
    named: dict[tuple[bool, Path], int] = {}
    for number, place in _places(document.data):
        path = ("models", number, "spec")
        several = names_several(place)
        found = _matches(place, folder)
        if not found and not path_fault(place):
            what = "matches no file" if several else "there is no such file"
            document.report(path, f"{what}: {folder / place}")
        for spec in found:
            first = named.setdefault((several, spec), number)
            if first != number:
                document.report(path, f"{spec} is already named by models[{first}]")


def _places(data: Any) -> Iterator[tuple[int, str]]:
    """The paths and patterns of all entries, valid or not, with the number of the entry."""
    models = data.get("models") if isinstance(data, dict) else None
    for number, entry in enumerate(models if isinstance(models, list) else ()):
        if isinstance(entry, dict) and isinstance(entry.get("spec"), str):
            yield number, entry["spec"]


def _matches(pattern: str, folder: Path) -> tuple[Path, ...]:
    expanded = os.path.expanduser(pattern)
    if not glob.has_magic(expanded):
        path = Path(os.path.abspath(folder / expanded))
        return (path,) if path.is_file() else ()
    found = {Path(os.path.abspath(folder / name)) for name in glob.glob(expanded, root_dir=folder, recursive=True)}
    return tuple(sorted(path for path in found if path.is_file()))


def _definition(form: DefinitionForm, path: Path) -> NightlyDefinition:
    return NightlyDefinition(
        path=path,
        registry=Path(os.path.abspath(path.parent / os.path.expanduser(form.registry))),
        models=tuple(map(_entry, form.models)),
        toolchains=tuple(form.toolchains or ()),
        targets=tuple(form.targets or ()),
        remotes=tuple(form.remotes or ()),
        builders=tuple(form.builders or ()),
        timing=tuple(form.timing or ()),
        policy=_policy(form.policy) if form.policy is not None else Policy(),
        owners=tuple(form.owners or ()),
        notify=_notify(form.notify) if form.notify is not None else Notify(),
    )


def _notify(form: NotifyForm) -> Notify:
    mail, hooks = form.mail, form.webhooks or ()
    given = {} if mail is None else {name: getattr(mail, name) for name in ("port", "security", "user")}
    return Notify(
        mail=None
        if mail is None
        else Mail(
            server=mail.server,
            sender=mail.sender,
            **{name: value for name, value in given.items() if value is not None},
        ),
        webhooks=tuple(Webhook(url=one) if isinstance(one, str) else Webhook(variable=one.variable) for one in hooks),
    )


def _entry(form: ModelEntryForm) -> ModelEntry:
    specs = form.spec
    if isinstance(specs, GitSpecForm):
        # Lower case, as git writes commits: tasks are compared, and one commit must not make two.
        specs_of: str | GitSpec = GitSpec(url=specs.git, revision=specs.revision.lower(), path=specs.path)
    else:
        specs_of = specs
    return ModelEntry(
        specs=specs_of,
        toolchains=tuple(form.toolchains or ()),
        targets=tuple(form.targets or ()),
        defines=dict(form.defines or {}),
        depends=tuple(form.depends or ()),
        known_broken=_known_broken(form.known_broken or {}),
        owners=tuple(form.owners or ()),
    )


def _known_broken(forms: Mapping[str, KnownBrokenForm]) -> dict[str, KnownBroken]:
    return {
        toolchain: KnownBroken(since=date.fromisoformat(form.since), issue=form.issue)
        for toolchain, form in forms.items()
    }


def _policy(form: PolicyForm) -> Policy:
    # Only the fields that are given, so that Policy alone has the defaults.
    given: dict[str, Any] = {}
    if form.max_failures is not None:
        given["max_failures"] = float(form.max_failures.rstrip(" %")) / 100
    for name in ("timeout", "worker_wait"):
        if (duration := getattr(form, name)) is not None:
            given[name] = quantity(duration, SECONDS)
    for name in ("memory", "output"):
        if (size := getattr(form, name)) is not None:
            given[name] = int(quantity(size, BYTES))
    kept = ("keep_nights", "keep_builds", "keep_toolchains")
    for name in ("retries", "reproduce", *kept, "changed_source", "retime_days"):
        if (value := getattr(form, name)) is not None:
            given[name] = value
    if form.keep_locked is not None:
        given["keep_locked"] = tuple(form.keep_locked)
    if form.unverified_targets is not None:
        given["unverified_targets"] = tuple(form.unverified_targets)
    if (regression := form.regression) is not None:
        limits = {name: getattr(regression, name) for name in RegressionForm.model_fields}
        given["regression"] = Regression(**{name: value for name, value in limits.items() if value is not None})
    if form.builders is not None:
        needed, most = builders(form.builders)
        given["builders"] = Builders(needed=needed, most=most)
    return Policy(**given)
