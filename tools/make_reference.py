"""Write docs/reference/ from the types: commands, spec, errors, toolchains and targets; and the manual page.

    python tools/make_reference.py [--check]

With --check nothing is written; exit code 1 if a page is outdated. Output depends on the code only.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from typer.main import get_command  # noqa: E402 (after the path to the checkout)

from tfaot_pkg import errors  # noqa: E402
from tfaot_pkg._version import __version__  # noqa: E402
from tfaot_pkg.cli.app import app  # noqa: E402
from tfaot_pkg.cli.bench import SLOWER  # noqa: E402
from tfaot_pkg.cli.run import INTERNAL, INTERRUPTED  # noqa: E402
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, TOOLCHAINS  # noqa: E402
from tfaot_pkg.ground.forms.fields import all_fields  # noqa: E402
from tfaot_pkg.ground.settings_form import REFERENCE as SETTINGS_FILE  # noqa: E402
from tfaot_pkg.ground.targets import DEFAULT_TARGETS, TARGETS  # noqa: E402
from tfaot_pkg.nightly.form import REFERENCE as REGISTRY_FILE  # noqa: E402
from tfaot_pkg.nightly.report.report import UNFINISHED  # noqa: E402
from tfaot_pkg.nightly.run import FAILED, INFRASTRUCTURE, WITHHELD  # noqa: E402
from tfaot_pkg.spec.form import json_schema  # noqa: E402
from tfaot_pkg.verify.inputs import ARRANGED, MAIN  # noqa: E402
from tfaot_pkg.verify.rules import CORNERS, RULES, USUAL, Rule  # noqa: E402
from tfaot_pkg.worker_program.messages.unspecified_results import OPERATIONS  # noqa: E402
from tools import compiler_reference  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
MANUAL = ROOT / "share" / "man" / "man1" / "tfaot-pkg.1"
_NOTE = "<!-- Written by tools/make_reference.py; do not edit. -->\n"
_PROGRAM = "tfaot-pkg"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    made = {
        "cli.md": _cli(),
        "spec.md": _spec(),
        "registry-yaml.md": _registry(),
        "settings-yaml.md": _settings(),
        "errors.md": _errors(),
        "toolchains.md": _toolchains(),
        "validation-rules.md": _rules(),
        "operations.md": compiler_reference.operations(_table),
        "passes.md": compiler_reference.passes(),
    }
    return {name: _NOTE + text.rstrip() + "\n" for name, text in made.items()}


def files() -> dict[Path, str]:
    """Every file that this tool writes."""
    return {**{REFERENCE / name: text for name, text in pages().items()}, MANUAL: _manual()}


def outdated() -> list[str]:
    """The files that differ from what the code generates now."""
    return [str(path.relative_to(ROOT)) for path, text in files().items() if not _is(path, text)]


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


_RULES = """# Rules of validation

An answer that is not the framework's within the tolerance fails the validation, unless one of these rules excuses it.
The report (`validation.json`: `rule`, `operations`, `elements`) and `build` name the rule, the operations and how many
elements it excused. An element counts for the first rule that excuses it. "Float64" is the framework's own graph in
float64. [How differences are judged](../decisions/030-validation-by-classes-of-inputs.md).

A rule with operations holds for the rows of a batch in which one of them met operands that leave its result open.
Validation finds these by running the framework's graph node by node; if it cannot, such a rule holds for all rows, but
not for the main inputs.
"""


def _rules() -> str:
    rows = [(each.name, each.kind, _classes(each), each.elements, each.source) for each in RULES]
    table = _table(("rule", "kind", "classes", "elements", "why the framework leaves it open"), rows)
    named = [(each.name, _operations_of(each)) for each in RULES if each.operations or each.freedom]
    return "\n".join([_RULES, table, "", "## Operations", "", _table(("rule", "operations"), named)])


def _classes(rule: Rule) -> str:
    names = sorted(CORNERS & rule.classes)
    names = [*names, *(each for each in (MAIN, ARRANGED) if each in rule.classes)]
    if USUAL in rule.classes:
        names = ["all"] if {MAIN, *CORNERS} <= rule.classes else [*names, "all others"]
    return ", ".join(names)


def _operations_of(rule: Rule) -> str:
    return ", ".join(f"`{each}`" for each in sorted(rule.operations or OPERATIONS[rule.freedom]))


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


# --- commands -------------------------------------------------------------------------------------------------------


def _cli() -> str:
    command = get_command(app)
    context = command.make_context(_PROGRAM, [], resilient_parsing=True)
    names = [f"[`{path}`](#{path.replace(' ', '-')})" for path, _ in _commands(command, context, "")]
    intro = "`--help` shows the same. `--json` prints one JSON document, also of an error; `--debug` a traceback.\n"
    parts = ["# Commands\n", intro, ", ".join(names)]
    parts += [_command(path, each) for path, each in _commands(command, context, "")]
    return "\n".join(parts)


def _commands(group: Any, context: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands by their path ("toolchain add"), in the order of `--help`."""
    for name in group.list_commands(context):
        command, where = group.get_command(context, name), f"{path} {name}".strip()
        if hasattr(command, "list_commands"):
            yield from _commands(command, context, where)
        else:
            yield where, command


def _command(path: str, command: Any) -> str:
    text, _, example = (command.help or "").partition("Example")
    rows = [(_names(parameter), _help(parameter)) for parameter in command.params if parameter.name != "help"]
    parts = [f"\n## {path}\n", _plain(text)]
    if example:
        given = example.partition(":")[2]
        examples = re.split(r";\s+", given) if example.startswith("s:") else [given]
        parts.append("\n```sh\n" + "\n".join(line.strip() for line in examples) + "\n```")
    return "\n".join([*parts, "", _table(("argument or option", "meaning"), rows)])


def _plain(text: str) -> str:
    """Paragraphs, each on lines of their own."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def _names(parameter: Any) -> str:
    shown = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return f"`{shown or parameter.name.upper()}`"
    flags = [*parameter.opts, *parameter.secondary_opts]
    kind = "" if parameter.is_flag else f" {shown or _kind(parameter.default)}"
    return ", ".join(f"`{flag}{kind}`" for flag in flags)


def _kind(default: object) -> str:
    return "PATH" if isinstance(default, Path) else "NUMBER" if isinstance(default, (int, float)) else "TEXT"


def _help(parameter: Any) -> str:
    text = parameter.help or ""
    if parameter.required and parameter.param_type_name == "option":
        text += " Required."
    default = parameter.default
    if isinstance(default, (str, Path, int, float)) and not isinstance(default, bool) and str(default):
        text += f" Default: `{default}`."
    if default is True and parameter.secondary_opts:
        text += " On by default."
    return text


# --- the manual page ------------------------------------------------------------------------------------------------


def _manual() -> str:
    """`man tfaot-pkg`: all commands in one page, in the macros of man(7)."""
    command = get_command(app)
    context = command.make_context(_PROGRAM, [], resilient_parsing=True)
    about, _, more = (command.help or "").partition("\n")
    codes = " ".join(more.partition("Exit codes:")[2].split())
    parts = [
        '.\\" Written by tools/make_reference.py; do not edit.',
        f'.TH TFAOT-PKG 1 "" "tfaot-pkg {__version__}" "User commands"',
        f".SH NAME\ntfaot-pkg \\- {_roff(about.partition(':')[0].lower())}",
        ".SH SYNOPSIS\n.B tfaot-pkg\n.I COMMAND\n[arguments] [options]",
        f".SH DESCRIPTION\n{_roff(about)}",
        ".SH COMMANDS",
        *(_manual_command(path, each) for path, each in _commands(command, context, "")),
        f".SH EXIT STATUS\n{_roff(codes)}",
        ".SH ENVIRONMENT",
        *(f".TP\n.B {name}\n{_roff(meaning)}" for name, meaning in _VARIABLES),
        ".SH SEE ALSO\n.B tfaot-pkg help\nlists pages of the documentation, and prints them.",
    ]
    return "\n".join(parts) + "\n"


_VARIABLES = (
    ("TFAOT_HOME", "The folder of caches and data. Default: folders by the rules of XDG."),
    ("TFAOT_REGISTRY", "The registry of commands without --registry: a name, a folder or an address."),
    ("TFAOT_REGISTRY_KEYS", "Folders with the keys of a signed registry, divided by colons."),
    ("CXX", "The C++ compiler."),
    ("NO_COLOR", "If set, no text has colours."),
)


def _manual_command(path: str, command: Any) -> str:
    text, _, _ = (command.help or "").partition("Example")
    lines = [f".SS tfaot-pkg {_roff(path)}", _roff(_plain(text)).replace("\n\n", "\n.PP\n")]
    named = ((_names(each), _help(each)) for each in command.params if each.name != "help")
    return "\n".join([*lines, *(f".TP\n.B {_roff(name)}\n{_roff(meaning)}" for name, meaning in named)])


def _roff(text: str) -> str:
    """`text` without anything that roff would take as its own: escapes, and dots or quotes that begin a line."""
    escaped = text.replace("`", "").replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


# --- the spec -------------------------------------------------------------------------------------------------------


def _spec() -> str:
    schema = json_schema()
    parts = [
        "# The spec\n",
        "A YAML file; a superset of the `aot_config.yaml` of cms-tfaot. Unknown keys are errors. Strings may contain",
        "`{{ model.NAME }}` (a value of the spec itself), `{{ env.NAME }}` (given with `-D NAME=VALUE`) and",
        "`{{ 'text' }}` (for text with braces), such as `'{{ model.name }}-{{ env.release }}'`. Relative paths are",
        "relative to the spec.\n",
        "The same as a JSON Schema for editors: `tfaot-pkg schema`, or [spec.schema.json](../spec.schema.json).",
        "`tfaot-pkg schema model.name` describes one field.",
    ]
    for name, value in schema["properties"].items():
        form = schema["$defs"][_form_of(value)]
        required = " Required." if name in schema.get("required", ()) else ""
        parts += [f"\n## {name}\n", f"{form['description']}{required}\n", _fields(schema, name, form)]
    return "\n".join(parts)


def _form_of(value: Mapping[str, Any]) -> str:
    choices = [value, *value.get("anyOf", ())]
    return str(next(each["$ref"] for each in choices if "$ref" in each)).rpartition("/")[2]


def _fields(schema: Mapping[str, Any], section: str, form: Mapping[str, Any]) -> str:
    rows = []
    for name, meaning in all_fields(schema):
        inside, _, key = name.partition(".")
        if inside == section and key:
            field = form["properties"].get(key, {})
            default = _shown(field.get("default"), required=key in form.get("required", ()))
            rows.append((f'<a id="{name}"></a>`{key}`', default, meaning))
    return _table(("key", "default", "meaning"), rows)


def _registry() -> str:
    rows = [(f'<a id="{name}"></a>`{name}`', meaning) for name, meaning in all_fields(REGISTRY_FILE.schema())]
    return "\n".join([
        "# The file registry.yaml\n",
        "The models that `tfaot-pkg nightly run` builds ([how to write the file](../how-to/nightly.md)). Unknown keys",
        "are errors. Relative paths are relative to the file.\n",
        "The same as a JSON Schema for editors: `tfaot-pkg schema --registry`, or",
        "[registry.schema.json](../registry.schema.json). `tfaot-pkg schema --registry policy.timeout` describes one",
        "field.\n",
        _table(("field", "meaning"), rows),
    ])  # fmt: skip


def _settings() -> str:
    rows = [(f'<a id="{name}"></a>`{name}`', meaning) for name, meaning in all_fields(SETTINGS_FILE.schema())]
    return "\n".join([
        "# The file settings.yaml\n",
        "What options default to, for one user. `tfaot-pkg settings` prints where the file is and what holds: it is",
        "`~/.config/tfaot-pkg/settings.yaml`, or `settings.yaml` in the folder that `TFAOT_HOME` names. An option",
        "comes before an environment variable, and that before the file. Unknown keys are errors, with their line; a",
        "fault never stops `help` and other commands that ask for no setting.\n",
        "```yaml",
        "registries: [cms, /srv/models]   # asked first, in this order",
        "prefix: ~/models                 # where install puts packages",
        "conan: false",
        "```\n",
        "The same as a JSON Schema for editors: `tfaot-pkg schema --settings`, or",
        "[settings.schema.json](../settings.schema.json). `tfaot-pkg schema --settings prefix` describes one field.\n",
        _table(("field", "meaning"), rows),
    ])  # fmt: skip


def _shown(default: object, *, required: bool) -> str:
    if required:
        return "required"
    if default is None or default in ("", []):
        return ""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    text = f"[{', '.join(map(str, default))}]" if isinstance(default, list) else f"{default}"
    return f"`{text}`"


# --- errors ---------------------------------------------------------------------------------------------------------


def _errors() -> str:
    # Of that module alone: what else is imported by now has subclasses of its own, which nobody sees.
    found = [one for one in errors.TfaotError.__subclasses__() if one.__module__ == errors.__name__]
    families = sorted(found, key=lambda family: family.exit_code)
    rows = [(family.exit_code, f"`{family.kind}`", _first(family.__doc__ or ""), _NEXT[family]) for family in families]
    rows += [(code, "", meaning, what) for code, meaning, what in _RESULTS]
    rows.append((INTERNAL, "`internal`", "A fault of tfaot-pkg itself.", "Report it, with the output of `--debug`."))
    rows.append((INTERRUPTED, "", "Interrupted (Ctrl-C); no partial result is kept.", "Repeat the command."))
    return "\n".join([
        "# Errors and exit codes\n",
        "An error is a message, a hint what to do next and, if a tool failed, the name of its log, on standard",
        'error. With `--json` it is an object on standard output, `{"error": {"kind", "exit_code", "message", "hint",',
        '"log"}}`; errors of a spec add `faults`, each with `file`, `line`, `path` and `message`.\n',
        "Messages, and what to do about each: [troubleshooting](../how-to/troubleshooting.md).\n",
        _table(
            ("exit code", "kind", "meaning", "what to do"),
            [(str(code), *rest) for code, *rest in sorted(rows)],
        ),
    ])  # fmt: skip


_RESULTS = (
    (0, "Done.", ""),
    (1, "`doctor` found that something needed is missing.", "Install what its lines name."),
    (2, "Wrong usage: an unknown command, option or value.", "See `--help` of the command."),
    (FAILED, "`nightly run`: models failed; others are published.", "Read [the report](../how-to/nightly-report.md)."),
    (WITHHELD, "`nightly run`: so many models failed that nothing was published (`policy.max_failures`).",
     "Mend the cause, or raise the limit; the next night publishes what was verified."),
    (INFRASTRUCTURE, "`nightly run`: machines failed.", "Repeat the command: it continues the night."),
    (UNFINISHED, "`nightly report`: the night is not over.", "Let `nightly run` finish it."),
    (SLOWER, "`bench --since`: the library is slower than before, beyond noise.", "Repeat on a quiet machine."),
)  # fmt: skip

_NEXT: dict[type[errors.TfaotError], str] = {
    errors.SpecError: "Correct the fields that the message names; [all fields](spec.md).",
    errors.SourceError: "Correct `model` or `source` in the spec; compare the checksum with the author's.",
    errors.ModelError: "`tfaot-pkg check SPEC` names the operations; move them out of the model, or export it again.",
    errors.ToolchainError: "Read the log; `tfaot-pkg doctor`; raise `TFAOT_WORKER_TIMEOUT` or `TFAOT_WORKER_MEMORY`.",
    errors.CompilerError: "Install a C++17 compiler (`apt-get install g++`), or set `CXX`; read the log.",
    errors.ValidationError: "See [how answers are compared](../how-to/validation.md); give real inputs, or tolerances.",
    errors.RegistryError: "`tfaot-pkg search` lists packages; raise `model.version` for other content.",
    errors.NetworkError: "Repeat the command; check proxies; `--offline` and `--wheelhouse` need no network.",
    errors.TrustError: "Ask the registry's maintainer; do not use the content.",
    errors.ConanError: "Read the log; `--no-conan` publishes without Conan.",
    errors.StorageError: "Free space, or set `TFAOT_HOME` to a folder that you can write to.",
    errors.RunError: "Give arrays of the dtypes and shapes that the message names.",
    errors.PrefixError: "Use another prefix, or repair this one with `tfaot-pkg install`.",
    errors.RebuildError: "Use the publisher's compiler and version of the tool, which the message names.",
    errors.SandboxError: "Install bubblewrap, or use Linux 6.2; [what is confined](../security.md#the-sandbox).",
}


def _first(text: str) -> str:
    """The first paragraph."""
    return _plain(text.partition("\n\n")[0])


# --- toolchains and targets -----------------------------------------------------------------------------------------


def _toolchains() -> str:
    toolchains = [
        (
            f"`{each.version}`" + (" (default)" if each.version == DEFAULT_VERSION else ""),
            f"`{each.python}`",
            "one entry function per model" if each.interface == "classic" else "kernels and code that calls them",
            f"{each.alignment} bytes",
            " ".join(f"`{flag}`" for flag in each.xla_flags),
        )
        for each in TOOLCHAINS.values()
    ]
    targets = [
        (
            f"`{each.name}`" + (" (default)" if each.name in DEFAULT_TARGETS else ""),
            each.architecture,
            f"`{' '.join(each.flags)}`",
            " ".join(sorted(each.features)),
        )
        for each in TARGETS.values()
    ]
    return "\n".join([
        "# Toolchains and targets\n",
        "## Toolchains\n",
        "`compilation.tensorflow` names one. Its environment is made on demand (`tfaot-pkg toolchain add VERSION`).\n",
        _table(("TensorFlow", "Python", "form of XLA's code", "alignment", "XLA flags always set"), toolchains),
        "\n## Targets\n",
        "`compilation.targets` names those that the library has code for, all of one architecture. A program uses the",
        "best one that its CPU can run. Levels are those of the x86-64 psABI.\n",
        _table(("target", "architecture", "compiler flags", "what the CPU must have"), targets),
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, say what is outdated")
    if parser.parse_args().check:
        print("\n".join(f"outdated: {path}" for path in outdated()))
        return 1 if outdated() else 0
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
