"""Why a task is built: the inputs of its last build, compared with its inputs now. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping

from tfaot_pkg.ground.wording import counted
from tfaot_pkg.nightly.outcome import first_words
from tfaot_pkg.nightly.types import FAILURES, KnownBroken, Outcome, Reason
from tfaot_pkg.pipeline.package_key import (
    CODE,
    COMPILER,
    DEFINES,
    FLAGS,
    HEADERS,
    INPUTS,
    KERNELS,
    SOURCE,
    SPEC,
    STAGES,
    TEMPLATES,
    TOOL,
    TOOLCHAIN,
    TUNING,
    WORKER,
)

NEVER_BUILT = Reason(what="never built", detail="")
NO_RECORD = Reason(what="built from other inputs", detail="no record of them")

_SHOWN_FILES = 4
_SHOWN_CHARACTERS = 80
_VERSION = f"{SPEC}model.version"
"""Ignored: it has the build number, which differs between all builds of a model."""
_COMPILER_PARTS = ("", "linker ", "C library ", "machine ")
"""The labels of the parts of a compiler's identity (native/cxx/compiler.py)."""

Where = Callable[[str], str]
"""Where a field of the spec ("compilation.batch_sizes") is given: `spec.yaml:14`."""


def changes(before: Mapping[str, str], now: Mapping[str, str], *, tensorflow: str, where: Where) -> tuple[Reason, ...]:
    """The differences between the components of two keys of a task; `tensorflow` is its release, "" for none."""
    return (
        *_spec(before, now, where),
        *_source(before, now),
        *_tuning(before, now),
        *_toolchain(before, now, tensorflow),
        *_compiler(before, now),
        *_tool(before, now),
    )


def last_outcome(outcome: Outcome | None) -> tuple[Reason, ...]:
    """The reason from the last outcome, if it was a failure or withheld."""
    if outcome is not None and outcome.kind in FAILURES:
        # Classes such as "timed out" only repeat the kind.
        said = outcome.error_class if outcome.error_class not in ("", outcome.kind) else first_words(outcome.error)
        kind = "" if outcome.kind == "build failed" else outcome.kind
        return (Reason(what="last build failed", detail=": ".join(filter(None, (kind, said)))),)
    if outcome is not None and outcome.kind == "withheld":
        return (Reason(what="withheld", detail="verified, but too much else had failed"),)
    if outcome is not None and outcome.kind == "worse":
        return (Reason(what="worse", detail=first_words(outcome.error)),)
    return ()


def known_broken(broken: KnownBroken) -> Reason:
    return Reason(what="known broken", detail=f"since {broken.since} ({broken.issue})")


def unverified(targets: tuple[str, ...]) -> Reason:
    """For `targets` of a published package that ran nowhere; no targets mean that there is no validation report."""
    detail = f"{', '.join(targets)} did not run where it was built" if targets else "no record of a validation"
    return Reason(what="previously unverified", detail=detail)


def depends(before: Collection[str], now: Collection[str]) -> Reason:
    """For a package that needs other packages than before."""
    old, new = (", ".join(sorted(packages)) or "none" for packages in (before, now))
    return Reason(what="depends", detail=f"{old} -> {new}")


def _differing(before: Mapping[str, str], now: Mapping[str, str], prefix: str) -> Iterator[str]:
    names = dict.fromkeys(name for name in (*now, *before) if name.startswith(prefix))
    return (name for name in names if before.get(name) != now.get(name) and name != _VERSION)


def _spec(before: Mapping[str, str], now: Mapping[str, str], where: Where) -> Iterator[Reason]:
    for name in _differing(before, now, SPEC):
        path = name.removeprefix(SPEC)
        old, new = _value(before.get(name)), _value(now.get(name))
        yield Reason(what="spec", detail=f"{path} ({where(path)}): {old} -> {new}")
    for name in _differing(before, now, DEFINES):
        old, new = (values.get(name, "not given") for values in (before, now))
        yield Reason(what="spec", detail=f"env.{name.removeprefix(DEFINES)}: {_short(old)} -> {_short(new)}")


def _value(text: str | None) -> str:
    return "not given" if text is None else _short(json.dumps(json.loads(text), ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _source(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Reason]:
    names = list(_differing(before, now, SOURCE))
    groups = {
        "changed": [name for name in names if name in before and name in now],
        "added": [name for name in names if name not in before],
        "removed": [name for name in names if name not in now],
    }
    said = [f"{counted(len(group), 'file')} {verb}: {_listed(group)}" for verb, group in groups.items() if group]
    if said:
        yield Reason(what="source", detail="; ".join(said))


def _listed(names: list[str]) -> str:
    shown = [name.removeprefix(SOURCE) for name in sorted(names)]
    more = len(shown) - _SHOWN_FILES
    return ", ".join(shown[:_SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")


def _tuning(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Reason]:
    if before.get(TUNING) != now.get(TUNING):
        what = "changed" if TUNING in before and TUNING in now else "added" if TUNING in now else "removed"
        yield Reason(what=TUNING, detail=what)
    if before.get(INPUTS) != now.get(INPUTS) and "sha256" in now.get(INPUTS, ""):  # drawn ones are in the spec
        yield Reason(what=INPUTS, detail=f"{json.loads(now[INPUTS])['file']} changed")


def _toolchain(before: Mapping[str, str], now: Mapping[str, str], tensorflow: str) -> Iterator[Reason]:
    if before.get(TOOLCHAIN) != now.get(TOOLCHAIN):
        whose = f"tensorflow {tensorflow}'s" if tensorflow else "the front-end's"
        yield Reason(what=TOOLCHAIN, detail=f"{whose} lock file")


def _compiler(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Reason]:
    old, new = (values.get(COMPILER, "").split("; ") for values in (before, now))
    # Identities that are not of this form are shown whole.
    if len(old) == len(new) == len(_COMPILER_PARTS):
        pairs = zip(_COMPILER_PARTS, old, new, strict=True)
        differing = [f"{part}{one} -> {other}" for part, one, other in pairs if one != other]
    else:
        differing = [] if old == new else [f"{'; '.join(old)} -> {'; '.join(new)}"]
    gone, new_flags = _flags(before, now), _flags(now, before)
    if gone or new_flags:
        differing.append(f"flags {gone or 'none'} -> {new_flags or 'none'}")
    if differing:
        yield Reason(what=COMPILER, detail="; ".join(differing))


def _flags(these: Mapping[str, str], others: Mapping[str, str]) -> str:
    """The compiler's flags in these components that the others lack."""
    known = others.get(FLAGS, "").split()
    return " ".join(flag for flag in these.get(FLAGS, "").split() if flag not in known)


def _tool(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Reason]:
    if templates := [name.removeprefix(TEMPLATES) for name in _differing(before, now, TEMPLATES)]:
        yield Reason(what="templates", detail=", ".join(sorted(templates)))
    for name in (HEADERS, KERNELS, WORKER):
        if before.get(name) != now.get(name):
            yield Reason(what=name, detail="changed")
    version = [f"{before.get(TOOL)} -> {now.get(TOOL)}"] if before.get(TOOL) != now.get(TOOL) else []
    if said := [*version, *_code(before, now)]:
        yield Reason(what=TOOL, detail="; ".join(said))


def _code(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Later stages use the code of earlier ones, so their digests change too: name the first that differs."""
    changed = {name.removeprefix(CODE) for name in _differing(before, now, CODE)}
    if first := next((name for name in STAGES if name in changed), ""):
        yield f"its own code changed, from the stage {first!r} on"
