"""registry.yaml: what it means, and every fault of it at once with line and path."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.nightly.plans import SPEC, Lab
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.nightly.definition import load_definition
from tfaot_pkg.nightly.form import json_schema
from tfaot_pkg.nightly.types import GitSpec, KnownBroken, Mail, ModelEntry, Notify, Policy, Webhook

ROOT = Path(__file__).resolve().parents[2]
FULL = """\
registry: registry
models:
  - spec: models/a/spec.yaml
    toolchains: [2.17.1]
    targets: [x86-64-v3]
    defines: {kind: small, number: 1.0}
    depends: [b]
    known_broken: {2.21.0: {since: 2026-11-01, issue: https://example.org/issues/7}}
    owners: [ada@example.org, bob+models@example.org]
  - spec:
      git: https://example.org/models.git
      revision: "0123456789012345678901234567890123456789"
      path: b/spec.yaml
toolchains: [2.17.1, 2.21.0]
targets: [x86-64-v2, x86-64-v3]
remotes: [models]
owners: [all@example.org]
notify:
  mail: {server: smtp.example.org, port: 465, security: tls, sender: nightly@example.org, user: nightly}
  webhooks: [https://chat.example.org/hooks/1, {variable: SECRET_HOOK}]
policy: {max_failures: 12.5%, timeout: 1.5 h, memory: 512 MiB, output: 1 GiB, retries: 0, reproduce: true, keep_nights: 30}
"""


_BROKEN_SINCE = """\
registry: r
models:
  - spec: models/a/spec.yaml
    known_broken: {{2.21.0: {{since: {}, issue: https://example.org/issues/7}}}}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    made.model("a")
    return made


def faults(lab: Lab, text: str) -> list[str]:
    lab.define(text)
    with pytest.raises(SpecError) as error:
        load_definition(lab.definition)
    assert all(fault.file == str(lab.definition) and fault.line for fault in error.value.faults)
    return [str(fault).replace(f"{lab.definition}:", "").replace(str(lab.root), "DIR") for fault in error.value.faults]


def test_every_key_has_its_meaning(lab: Lab) -> None:
    lab.define(FULL)
    read = load_definition(lab.definition)
    assert (read.registry, read.toolchains, read.targets, read.remotes) == (
        lab.root / "registry", ("2.17.1", "2.21.0"), ("x86-64-v2", "x86-64-v3"), ("models",),
    )  # fmt: skip
    assert read.policy == Policy(
        max_failures=0.125, timeout=5400, memory=512 * 2**20, output=2**30, retries=0, reproduce=True, keep_nights=30
    )
    broken = KnownBroken(since=date(2026, 11, 1), issue="https://example.org/issues/7")
    revision = "0123456789012345678901234567890123456789"
    assert read.models == (
        ModelEntry(
            specs="models/a/spec.yaml", toolchains=("2.17.1",), targets=("x86-64-v3",), depends=("b",),
            defines={"kind": "small", "number": "1.0"}, known_broken={"2.21.0": broken},
            owners=("ada@example.org", "bob+models@example.org"),
        ),
        ModelEntry(specs=GitSpec(url="https://example.org/models.git", revision=revision, path="b/spec.yaml")),
    )  # fmt: skip
    assert read.owners == ("all@example.org",)
    assert read.notify == Notify(
        mail=Mail(server="smtp.example.org", port=465, security="tls", sender="nightly@example.org", user="nightly"),
        webhooks=(Webhook(url="https://chat.example.org/hooks/1"), Webhook(variable="SECRET_HOOK")),
    )
    assert read.notify.secrets == ("TFAOT_MAIL_PASSWORD", "SECRET_HOOK")


def test_faults_of_who_is_told_name_their_places(lab: Lab) -> None:
    text = """\
registry: r
models: [{spec: models/a/spec.yaml, owners: [Ada]}]
owners: ["a@example.org\\nBcc: b@example.org"]
notify:
  mail: {server: "a b", port: 0, security: ssl, from: x}
  webhooks: [http://chat.example.org/x, https://user:word@chat.example.org/x, 5, {name: X}]
"""
    assert sorted(faults(lab, text)) == sorted(
        [
            "2: models[0].owners[0]: must be an address of a mailbox such as ada@example.org, got 'Ada'",
            "3: owners[0]: must be an address of a mailbox such as ada@example.org, got 'a@example.org\\nBcc: b@example.org'",
            "5: notify.mail.server: must be the name of a host such as smtp.example.org, got 'a b'",
            "5: notify.mail.port: must be from 1 to 65535, got the number 0",
            "5: notify.mail.security: must be starttls, tls or none, got the string 'ssl'",
            "5: notify.mail.sender: is required",
            "5: notify.mail.from: unknown key; the nearest known key is port (all: server, sender, port, security, user)",
            "6: notify.webhooks[0]: must be an address of HTTPS without a password such as https://HOST/hooks/1, got 'http://chat.example.org/x'",
            "6: notify.webhooks[1]: must be an address of HTTPS without a password such as https://HOST/hooks/1, got 'https://user:word@chat.example.org/x'",
            "6: notify.webhooks[2]: must be an address, or a mapping with variable, got the number 5",
            "6: notify.webhooks[3].variable: is required",
            "6: notify.webhooks[3].name: unknown key; the nearest known key is variable (all: variable)",
        ]
    )


def test_passwords_are_not_for_open_connections(lab: Lab) -> None:
    mail = "{server: a.example, sender: a@a.example, user: a, security: none}"
    text = f"registry: r\nmodels: [{{spec: models/a/spec.yaml}}]\nnotify: {{mail: {mail}}}\n"
    assert faults(lab, text) == ["3: notify.mail.security: must not be none: the user's password would be readable"]


def test_what_is_not_given_has_the_default_of_its_type(lab: Lab) -> None:
    lab.define("registry: r\nmodels: [{spec: models/a/spec.yaml, depends: null}]\npolicy: {retries: 3}\n")
    read = load_definition(lab.definition)
    assert (read.policy, read.toolchains) == (Policy(retries=3), ())


def test_all_faults_are_told_at_once_in_the_files_order(lab: Lab) -> None:
    text = """\
regstry: build
models:
  - spec: nothing/*.yaml
  - spec: models/b/spec.yaml
  - spec: {git: "ext::sh", revision: main, pth: x}
  - spec: [a]
  - {}
  - spec: models/a/spec.yaml
    toolchains: [2.17]
    targets: [x86-64-v9]
    known_broken: {2.99.0: {since: yesterday, issue: x}}
    depends: digits
    defines: {the kind: [1], on: true}
toolchains: []
targets: [x86-64-v2, aarch64]
remotes: [-x]
policy: {max_failures: 0.2, timeout: 30, memory: 4 GB, retries: 11, reproduce: maybe, output: 0 B, keep_nights: 0, colour: 1}
"""
    policy = [field.name for field in fields(Policy)]
    assert sorted(faults(lab, text)) == sorted(
        [
            "1: regstry: unknown key; did you mean registry?",
            "1: registry: is required",
            "3: models[0].spec: matches no file: DIR/nothing/*.yaml",
            "4: models[1].spec: there is no such file: DIR/models/b/spec.yaml",
            "5: models[2].spec.path: is required",
            "5: models[2].spec.git: must be an https://, ssh:// or file:// URL of a git repository, got 'ext::sh'",
            "5: models[2].spec.revision: must be a full commit id of 40 hexadecimal digits (branches and tags move), got 'main'",
            "5: models[2].spec.pth: unknown key; did you mean path?",
            "6: models[3].spec: must be a path, or a mapping with git, revision and path, got a list",
            "7: models[4].spec: is required",
            "9: models[5].toolchains[0]: unknown toolchain '2.17': there are 2.17.1, 2.18.1, 2.19.1, 2.20.0, 2.21.0",
            f"10: models[5].targets[0]: unknown target 'x86-64-v9': there are {', '.join(TARGETS)}",
            "11: models[5].known_broken['2.99.0']: unknown toolchain '2.99.0': there are 2.17.1, 2.18.1, 2.19.1, 2.20.0, 2.21.0",
            "11: models[5].known_broken['2.99.0'].issue: must be an address such as https://HOST/issues/1, got 'x'",
            "11: models[5].known_broken['2.99.0'].since: must be a date such as 2026-11-01, got 'yesterday'",
            "12: models[5].depends: must be a list, got the string 'digits'",
            "13: models[5].defines['the kind']: must be a name of letters, digits and _ such as KIND, got 'the kind'",
            "13: models[5].defines['the kind']: must be a string, got a list",
            "13: models[5].defines.on: must be a string, got true",
            "14: toolchains: must have at least one item",
            "15: targets: must all be of one architecture, got aarch64 and x86_64: name them at their models",
            "16: remotes[0]: must be the name of a Conan remote such as models, got '-x'",
            "17: policy.max_failures: must be a percentage such as 20%, got '0.2'",
            "17: policy.timeout: must be a time with its unit (s, min, h) such as 30 min, got '30'",
            "17: policy.memory: must be a size with its unit (B, KiB, MiB, GiB) such as 4 GiB, got '4 GB'",
            "17: policy.retries: must be from 0 to 10, got the number 11",
            "17: policy.reproduce: must be true or false, got the string 'maybe'",
            "17: policy.output: must be at least 1 B",
            "17: policy.keep_nights: must be at least 1, got the number 0",
            f"17: policy.colour: unknown key; the nearest known key is changed_source (all: {', '.join(policy)})",
        ]
    )
    lines = [int(fault.partition(":")[0]) for fault in faults(lab, text)]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    "text, fault",
    [
        ("", "1: must be a mapping with registry and models, got nothing"),
        ("[]", "1: must be a mapping with registry and models, got a list"),
        ("registry: r\nmodels: []\n", "2: models: must have at least one item"),
        (
            "registry: r\nmodels:\n  - models/*/spec.yaml\n",
            "3: models[0]: must be a mapping, such as `- spec: models/*/spec.yaml`, got the string 'models/*/spec.yaml'",
        ),
        ("registry: $HOME\nmodels: [{spec: models/a/spec.yaml}]\n", "1: registry: environment variables are not read"),
        ("registry: r\nregistry: s\nmodels: [{spec: models/a/spec.yaml}]\n", "2: registry: is given twice"),
        *(
            (
                _BROKEN_SINCE.format(day),
                f"4: models[0].known_broken['2.21.0'].since: must be a date such as 2026-11-01, got '{day}'",
            )
            for day in ("20261101", "2026-W44-7", "2026-11-31")
        ),
    ],
)
def test_other_faults(lab: Lab, text: str, fault: str) -> None:
    assert [one[: len(fault)] for one in faults(lab, text)] == [fault]


def test_a_spec_is_named_by_one_pattern_and_by_itself_once(lab: Lab) -> None:
    text = "registry: r\nmodels:\n" + "".join(f"  - spec: models/{name}/spec.yaml\n" for name in ("*", "a", "a", "[a]"))
    assert faults(lab, text) == [
        "5: models[2].spec: DIR/models/a/spec.yaml is already named by models[1]",
        "6: models[3].spec: DIR/models/a/spec.yaml is already named by models[0]",
    ]


def test_a_spec_in_another_repository_is_taken_from_its_commit(lab: Lab) -> None:
    repository = Lab(lab.root / "elsewhere")
    spec = repository.model("b")
    git = ["git", "-C", str(repository.root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        run([*git, *words])
    commit = run([*git, "rev-parse", "HEAD"]).stdout.strip()
    spec.write_text("changed since")
    place = f"{{git: 'file://{repository.root}', revision: '{commit}', path: models/b/spec.yaml}}"
    lab.define(f"registry: registry\nmodels:\n  - spec: {place}\n")
    for _ in range(2):
        (decision,) = lab.plan()
        assert (decision.task.id, decision.action) == ("b@1.0.0+tf2.17.1", "build")
        assert decision.task.spec.read_text() == SPEC.format(name="b")


# --- the schema -----------------------------------------------------------------------------------------------------


def valid(data: Any) -> bool:
    return bool(Draft202012Validator(json_schema()).is_valid(data))


def test_the_schema_takes_what_the_parser_takes_and_tells_every_key() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    texts = yaml.load(FULL, yaml.BaseLoader)
    texts["notify"]["mail"]["port"] = 465
    assert valid(texts | {"policy": {"retries": 2, "reproduce": True}})
    for form in (schema, *schema["$defs"].values()):
        assert form["additionalProperties"] is False
        assert all(value["description"] for value in form["properties"].values())


@pytest.mark.parametrize(
    "change",
    [
        {"registy": "x"},
        {"toolchains": ["2.17"]},
        {"policy": {"memory": "4 GB"}},
        {"policy": {"retries": 11}},
        {"policy": {"keep_nights": 0}},
        {"models": 1},
    ],
)
def test_the_schema_refuses_what_the_parser_refuses(change: dict[str, Any]) -> None:
    good = {"registry": "r", "models": [{"spec": "a.yaml"}]}
    assert valid(good)
    assert not valid(good | change)


def test_the_schema_that_this_repository_names_is_the_current_one() -> None:
    schema = ROOT / "docs" / "registry.schema.json"
    assert json.loads(schema.read_text()) == json.loads(json.dumps(json_schema())), "outdated: make reference"
    definition = ROOT / "registry" / "registry.yaml"
    first = definition.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../docs/registry.schema.json"
    assert load_definition(definition).models
