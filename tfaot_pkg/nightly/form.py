"""The written form of registry.yaml: pydantic models, from which its JSON Schema is made too.

Only the parser (definition.py) and the schema know these classes. As in specs, a field that was not given is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema

from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS
from tfaot_pkg.ground.forms.fields import Reference
from tfaot_pkg.ground.forms.form import DISTINCT, FILLED, Form, checked, problem
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.ground.wording import described, shown
from tfaot_pkg.nightly.types import MAIL_PASSWORD, OWN
from tfaot_pkg.spec.rules import (
    NAME_PATTERN,
    git_url_fault,
    inner_path_fault,
    name_fault,
    path_fault,
    revision_fault,
    target_fault,
)
from tfaot_pkg.spec.values import one_architecture

SECONDS = {"s": 1, "min": 60, "h": 3600}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# Pauses double from 5 s (executors.FIRST_PAUSE) on: the tenth takes 43 minutes.
MAX_RETRIES = 10
_ISSUE = r"https?://[^\s\x00-\x1f<>\"']+"
_PERCENT = r"(100|[0-9]{1,2}(\.[0-9]+)?) ?%"
_BUILDERS = r"[1-9] of [1-9]"
_PUBLIC_KEY = r"[0-9a-f]{64}"
_KEY = r"[A-Za-z][A-Za-z0-9_]*"
_REMOTE = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_USER = r"[^\s\x00-\x1f]{1,256}"
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
# Far fewer addresses than RFC 5322 allows: what stands here ends up in headers of mails.
_MAIL = rf"[A-Za-z0-9_][A-Za-z0-9_.+-]*@{_HOST}"
_WEBHOOK = r"https://[^\s\x00-\x1f<>\"'@]+|http://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?/[^\s\x00-\x1f<>\"'@]*"


def _quantity(units: dict[str, int]) -> str:
    return rf"[0-9]+(\.[0-9]+)? ?({'|'.join(units)})"


def quantity(text: str, units: dict[str, int]) -> float:
    """The value of a text such as `30 min`, in the unit whose factor is 1."""
    number, unit = re.fullmatch(r"([0-9.]+) ?([A-Za-z]+)", text).groups()  # type: ignore[union-attr]
    return float(number) * units[unit]


def _written(pattern: str) -> WithJsonSchema:
    """The JSON Schema of a string that `pattern` matches whole."""
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern})$"})


def _like(pattern: str, example: str, what: str) -> Callable[[str], str]:
    def fault(text: str) -> str:
        return "" if re.fullmatch(pattern, text) else f"must be {what} such as {example}, got {shown(text)}"

    return fault


def _place_fault(path: str) -> str:
    return f"environment variables are not read, got {shown(path)}" if "$" in path else path_fault(path)


def _toolchain_fault(version: str) -> str:
    known = ", ".join(TOOLCHAINS)
    return "" if version in TOOLCHAINS else f"unknown toolchain {shown(version)}: there are {known}"


def _maker_fault(name: str) -> str:
    return "" if name == OWN else _toolchain_fault(name)


def _date_fault(text: str) -> str:
    try:
        # Since Python 3.11 it reads other forms of ISO 8601, too.
        is_date = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_date = False
    return "" if is_date else f"must be a date such as 2026-11-01, got {shown(text)}"


def duration_fault(text: str) -> str:
    """Why `text` is no time such as `30 min`; empty if it is one."""
    fault = _like(_quantity(SECONDS), "30 min", "a time with its unit (s, min, h)")(text)
    return fault or ("" if quantity(text, SECONDS) > 0 else "must be greater than 0")


def _builders_fault(text: str) -> str:
    if fault := _like(_BUILDERS, "2 of 3", "the number that must agree, of those that may build")(text):
        return fault
    needed, most = builders(text)
    return "" if needed <= most else f"more must agree than may build: {shown(text)}"


def builders(text: str) -> tuple[int, int]:
    """The numbers in `2 of 3`."""
    needed, most = text.split(" of ")
    return int(needed), int(most)


def _size(text: str) -> str:
    fault = _like(_quantity(BYTES), "4 GiB", "a size with its unit (B, KiB, MiB, GiB)")(text)
    return fault or ("" if quantity(text, BYTES) >= 1 else "must be at least 1 B")


def _retries(value: int) -> int:
    if not 0 <= value <= MAX_RETRIES:
        raise problem(f"must be from 0 to {MAX_RETRIES}, got {described(value)}")
    return value


def _port(value: int) -> int:
    if not 1 <= value <= 65535:
        raise problem(f"must be from 1 to 65535, got {described(value)}")
    return value


def _factor(value: float) -> float:
    if not 1 <= value <= 1000:
        raise problem(f"must be a number from 1 to 1000, such as 1.1, got {described(value)}")
    return value


def _kept(value: int) -> int:
    if value < 1:
        raise problem(f"must be at least 1, got {described(value)}")
    return value


def _kind_of_webhook(value: object) -> str:
    return "address" if isinstance(value, str) else "variable"


def _kind_of_spec(value: object) -> str:
    return "path" if isinstance(value, str) else "git"


Place = Annotated[str, checked(_place_fault), _written(r"[^$\\]+")]
Toolchain = Annotated[str, checked(_toolchain_fault), _written("|".join(map(re.escape, TOOLCHAINS)))]
Maker = Annotated[str, checked(_maker_fault), _written("|".join(map(re.escape, (*TOOLCHAINS, OWN))))]
Toolchains = Annotated[list[Toolchain], FILLED, DISTINCT]
Target = Annotated[str, checked(target_fault), _written("|".join(TARGETS))]
Targets = Annotated[list[Target], FILLED, DISTINCT, one_architecture("name them at their models")]
Model = Annotated[str, checked(name_fault), _written(NAME_PATTERN)]
Models = Annotated[list[Model], FILLED, DISTINCT]
Duration = Annotated[str, checked(duration_fault), _written(_quantity(SECONDS))]
Size = Annotated[str, checked(_size), _written(_quantity(BYTES))]
Percentage = Annotated[str, checked(_like(_PERCENT, "20%", "a percentage")), _written(_PERCENT)]
Day = Annotated[str, checked(_date_fault), _written("[0-9]{4}-[0-9]{2}-[0-9]{2}")]
Address = Annotated[str, checked(_like(_ISSUE, "https://HOST/issues/1", "an address")), _written(_ISSUE)]
Remote = Annotated[str, checked(_like(_REMOTE, "models", "the name of a Conan remote")), _written(_REMOTE)]
MailAddress = Annotated[str, checked(_like(_MAIL, "ada@example.org", "an address of a mailbox")), _written(_MAIL)]
Owners = Annotated[list[MailAddress], FILLED, DISTINCT]
Server = Annotated[str, checked(_like(_HOST, "smtp.example.org", "the name of a host")), _written(_HOST)]
WebhookAddress = Annotated[
    str, checked(_like(_WEBHOOK, "https://HOST/hooks/1", "an address of HTTPS without a password")), _written(_WEBHOOK)
]
Key = Annotated[str, checked(_like(_KEY, "KIND", "a name of letters, digits and _")), _written(_KEY)]
Port = Annotated[int, AfterValidator(_port), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65535})]
PublicKey = Annotated[str, checked(_like(_PUBLIC_KEY, "3d40...511a", "64 hexadecimal digits")), _written(_PUBLIC_KEY)]
Retries = Annotated[
    int, AfterValidator(_retries), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_RETRIES})
]
Factor = Annotated[float, AfterValidator(_factor), WithJsonSchema({"type": "number", "minimum": 1, "maximum": 1000})]
Kept = Annotated[int, AfterValidator(_kept), WithJsonSchema({"type": "integer", "minimum": 1})]


class GitSpecForm(Form):
    """A spec in another repository."""

    git: Annotated[str, checked(git_url_fault)] = Field(description="URL of the git repository.")
    revision: Annotated[str, checked(revision_fault), _written("[0-9a-fA-F]{40}")] = Field(
        description="Full id of the git commit (40 hexadecimal digits)."
    )
    path: Annotated[str, checked(inner_path_fault)] = Field(description="The spec's path in the repository.")


class KnownBrokenForm(Form):
    """A model does not build with a toolchain, and this is known."""

    since: Day = Field(description="The date on which the failure was found.")
    issue: Address = Field(description="The address of the issue that describes it.")


class ModelEntryForm(Form):
    """One model, or all models whose specs match a pattern."""

    spec: Annotated[
        Annotated[Place, Tag("path")] | Annotated[GitSpecForm, Tag("git")], Discriminator(_kind_of_spec)
    ] = Field(
        description="The path of a spec, relative to this file; a pattern (*, ?, **) that matches several; "
        "or a spec in a repository.",
        examples=["../recipes/*/all/spec.yaml"],
    )
    toolchains: Toolchains | None = Field(
        None, description="TensorFlow releases for this model, instead of those for all models."
    )
    targets: Targets | None = Field(None, description="Targets for this model, instead of those for all models.")
    defines: dict[Key, str] | None = Field(None, description="Values of `env.*` in the specs, as `-D` gives them.")
    depends: Models | None = Field(
        None, description="Models that are installed with this one. They are published first."
    )
    known_broken: dict[Maker, KnownBrokenForm] | None = Field(
        None,
        description=f"Toolchains with which this model is not built; "
        f"`{OWN}` if no TensorFlow reads it (ONNX, PyTorch, trees).",
    )
    owners: Owners | None = Field(
        None, description="Mail addresses of who answers for these models, instead of those for all models."
    )


class RegressionForm(Form):
    """What is not published: a build that is so many times as slow, large, imprecise or hungry as the published one."""

    speed: Factor | None = Field(
        None, description="Latency, at any batch size, taken in turns with the published library."
    )
    size: Factor | None = Field(None, description="Size of the shared library.")
    error: Factor | None = Field(None, description="The largest difference to the framework's answers.")
    memory: Factor | None = Field(None, description="Scratch memory of a call with the largest batch size.")
    answers: Literal["publish", "refuse"] | None = Field(
        None, description="Answers to the pinned inputs with other bits: publish (the default), or refuse."
    )


class PolicyForm(Form):
    """Limits and options of a night."""

    max_failures: Percentage | None = Field(
        None, description="If a larger share of the builds of a toolchain newly fails, none of them is published."
    )
    timeout: Duration | None = Field(None, description="The longest time of a build.")
    memory: Size | None = Field(None, description="The largest amount of memory that a build may use.")
    output: Size | None = Field(None, description="The largest size of the files that a build may write.")
    retries: Retries | None = Field(None, description="How often a build is retried after a failure of a machine.")
    reproduce: bool | None = Field(None, description="Build every model twice, and compare the packages.")
    keep_nights: Kept | None = Field(
        None, description="How many nights are kept, with their logs, reports and builds (by default: all)."
    )
    keep_builds: Kept | None = Field(
        None,
        description="How many builds of a version and toolchain stay in the registry, the newest (by default: all). "
        "What channels and lock files name always stays.",
    )
    keep_toolchains: Kept | None = Field(
        None,
        description="With how many toolchains the builds of a version stay in the registry, the newest and those "
        "of the definition (by default: all).",
    )
    keep_locked: Annotated[list[str], FILLED, DISTINCT] | None = Field(
        None, description="Lock files, or patterns of their paths (*, ?, **), whose builds stay."
    )
    changed_source: Literal["refuse", "build"] | None = Field(
        None,
        description="If a model's files change but its version does not: refuse (the default), or build it as the "
        "next build of that version.",
    )
    worker_wait: Duration | None = Field(
        None, description="How long a night waits for the first worker of a cluster that has none (by default 30 min)."
    )
    unverified_targets: Annotated[list[Target], FILLED, DISTINCT] | None = Field(
        None, description="Targets to publish without validation if the machine cannot run their code."
    )
    regression: RegressionForm | None = Field(
        None, description="How much worse than the published one a build may be (by default: any)."
    )
    builders: Annotated[str, checked(_builders_fault), _written(_BUILDERS)] | None = Field(
        None,
        description="`2 of 3`: a package is published if two of at most three builders, with different keys, made the "
        "same bytes. Needs `builders`.",
    )
    retime_days: Kept | None = Field(
        None, description="After how many days packages that did not change are timed again (by default: never)."
    )


class MailForm(Form):
    """The server that sends notices to the owners of models."""

    server: Server = Field(description="The server's host.")
    sender: MailAddress = Field(description="The sender's address.")
    port: Port | None = Field(None, description="The server's port (by default 587).")
    security: Literal["starttls", "tls", "none"] | None = Field(
        None, description="How the connection is encrypted: starttls (the default), tls from the first byte, or none."
    )
    user: Annotated[str, checked(_like(_USER, "nightly", "a name"))] | None = Field(
        None, description=f"A user of the server, whose password is in the variable `{MAIL_PASSWORD}`."
    )


class WebhookForm(Form):
    """An address that is a secret."""

    variable: Key = Field(description="The environment variable that has the address.")


WebhookEntry = Annotated[
    Annotated[WebhookAddress, Tag("address")] | Annotated[WebhookForm, Tag("variable")], Discriminator(_kind_of_webhook)
]


class NotifyForm(Form):
    """How `nightly report --notify` tells people what is new."""

    mail: MailForm | None = Field(None, description="Mails to owners.")
    webhooks: Annotated[list[WebhookEntry], FILLED, DISTINCT] | None = Field(
        None, description="Addresses to which notices are posted as JSON; or `variable`, which has a secret one."
    )


class DefinitionForm(Form):
    """The models of a registry, and how they are built each night."""

    registry: Place = Field(description="The registry's folder, relative to this file.")
    models: Annotated[list[ModelEntryForm], FILLED] = Field(
        description="The models to build: a list, in which each item has these fields."
    )
    toolchains: Toolchains | None = Field(
        None, description="TensorFlow releases to build with (by default: each spec's own)."
    )
    targets: Targets | None = Field(None, description="Kinds of CPU (by default: each spec's own).")
    remotes: Annotated[list[Remote], FILLED, DISTINCT] | None = Field(
        None, description="Conan remotes to which the packages are uploaded too."
    )
    builders: Annotated[list[PublicKey], FILLED, DISTINCT] | None = Field(
        None,
        description="Public keys (64 hexadecimal digits) of the workers of a farm that may build (by default: any).",
    )
    timing: Annotated[list[PublicKey], FILLED, DISTINCT] | None = Field(
        None,
        description="Public keys of the timing workers that take turns of old and new libraries (by default: the "
        "coordinator's machine does). Needs `nightly run --results`.",
    )
    policy: PolicyForm | None = Field(None, description="Limits and options of a night.")
    owners: Owners | None = Field(
        None, description="Mail addresses of who answers for the registry, and for models without owners of their own."
    )
    notify: NotifyForm | None = Field(None, description="How owners are told what is new.")


SCHEMA_ID = "https://tfaot-pkg.invalid/schema/registry-1.json"
"""The schema's name. Nothing is served there: editors are given a file."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of definitions."""
    schema = DefinitionForm.model_json_schema(mode="validation")
    forms = schema["$defs"]
    for form in (schema, *forms.values()):
        for value in form["properties"].values():
            # Titles repeat the names; the defaults are null, which means "not given" here.
            value.pop("title", None)
            value.pop("default", None)
    for name in list(forms):
        forms[name]["title"] = name.removesuffix("Form")
    schema["title"] = "tfaot-pkg registry"
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **schema}


REFERENCE = Reference(schema=json_schema, page="registry-yaml", command="tfaot-pkg schema --registry")
