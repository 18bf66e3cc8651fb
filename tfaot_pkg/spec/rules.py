"""Rules for the strings of a spec: functions that return the fault of a string ("" if it has none).

Licences are SPDX expressions (https://spdx.org/licenses), which other tools understand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from packaging.version import InvalidVersion, Version

from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.ground.wording import shown
from tfaot_pkg.spec.macros import MACROS

MAX_BATCH_SIZE = 65_536
INPUT_CLASSES = ("scaled", "large", "huge", "subnormal", "boundary", "integers", "nonfinite", "branches")
"""Classes of inputs that validation tries in addition to those of the spec (tfaot_pkg/verify/inputs.py)."""
# XLA splits XLA_FLAGS at blanks and reads quotes, so a flag with them would become several.
FLAG_PATTERN = r"--[A-Za-z][A-Za-z0-9_]*(=[^\s'\"\\`$]*)?"
GLIBC_PATTERN = r"2\.[0-9]{1,3}"
# NEL, LS and PS end lines in YAML 1.1 and in JavaScript; control characters reach terminals and XML.
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_OF_A_NIGHT = re.compile(r"\+(?P<toolchain>tf[0-9][^+]*|tfaot)\.b(?P<number>[1-9][0-9]*)$")
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


BATCH_AXIS = "batch"
"""The word for the batch axis in a shape."""
_SYMBOL = r"[A-Za-z][A-Za-z0-9_]{0,31}"
SYMBOL_PATTERN = rf"\s*([0-9]{{1,9}}\s*<=\s*)?{_SYMBOL}(\s*<=\s*[0-9]{{1,9}})?\s*"


LIMIT_PATTERN = rf"\s*{_SYMBOL}(\s*[+-]\s*[0-9]{{1,9}})?\s*"


def limit_fault(text: str) -> str:
    if re.fullmatch(LIMIT_PATTERN, text):
        return ""
    return f"must be a number, or a symbol of model.shapes such as `n` or `n - 1`, got {shown(text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A number, plus the size of `symbol` if there is one."""

    number: float
    symbol: str = ""

    def at(self, sizes: Mapping[str, int]) -> float:
        return self.number + (sizes[self.symbol] if self.symbol else 0)

    @classmethod
    def read(cls, text: str) -> Limit:
        """The limit `n - 1`, which has no limit_fault."""
        found = re.fullmatch(rf"\s*({_SYMBOL})\s*(.*?)\s*", text)
        assert found is not None
        return cls(number=int(found[2].replace(" ", "") or 0), symbol=found[1])

    @property
    def written(self) -> float | str:
        """As a spec has it."""
        if not self.symbol:
            return self.number
        return f"{self.symbol} {'-' if self.number < 0 else '+'} {abs(self.number):g}" if self.number else self.symbol


def line_fault(text: str) -> str:
    if _CONTROL.search(text):
        return f"must be one line without control characters, got {shown(text)}"
    return f"must have at most 1000 characters, got {len(text)}" if len(text) > 1000 else ""


LONGEST_CARD = 40_000
"""Characters of a model card, which is a part of the package's page."""


def text_fault(text: str) -> str:
    bad = _CONTROL_IN_TEXT.search(text)
    return f"must not contain the control character U+{ord(bad[0]):04X}" if bad else ""


def card_fault(text: str) -> str:
    if len(text) > LONGEST_CARD:
        return f"must have at most {LONGEST_CARD:,} characters, got {len(text):,}"
    return text_fault(text)


def filled_line_fault(text: str) -> str:
    return line_fault(text) if text.strip() else "must not be empty"


def flag_fault(flag: str) -> str:
    if re.fullmatch(FLAG_PATTERN, flag):
        return ""
    return f"must be one flag such as --xla_cpu_enable_fast_math=true, without blanks or quotes, got {shown(flag)}"


def quantile_fault(text: str) -> str:
    """A number between 0 and 1, as a text."""
    if re.fullmatch(r"0?\.[0-9]{1,9}", text) and float(text) > 0:
        return ""
    return f"its keys must be numbers between 0 and 1, such as 0.999, got {shown(text)}"


def glibc_fault(version: str) -> str:
    if re.fullmatch(GLIBC_PATTERN, version):
        return ""
    return f"must be a version of glibc such as 2.28, got {shown(version)}"


def symbol_fault(text: str) -> str:
    if not re.fullmatch(SYMBOL_PATTERN, text):
        return f"must be a size, null, or a symbol such as `n <= 128` (`n` for its other axes), got {shown(text)}"
    name, minimum, maximum = symbol_of(text)
    if name == BATCH_AXIS:
        return f"{BATCH_AXIS} is the batch axis, which is the first one: give this symbol another name"
    if maximum is None and minimum is not None:
        return f"needs a maximum, such as `{text.strip()} <= 128`"
    # The compiler reads the model at several sizes of each symbol, to find how shapes depend on it (decision 043).
    least = 1 if minimum is None else minimum
    if maximum is not None and not 1 <= least <= maximum - 4:
        return f"must allow five sizes or more, the smallest at least 1, got {shown(text)}"
    return ""


def symbol_of(text: str) -> tuple[str, int | None, int | None]:
    """Name, minimum and maximum of `8 <= n <= 128`; None for what it does not say."""
    parts = [part.strip() for part in text.split("<=")]
    place = next(i for i, part in enumerate(parts) if not part.isdigit())
    before, behind = parts[:place], parts[place + 1 :]
    return parts[place], int(before[0]) if before else None, int(behind[0]) if behind else None


def target_fault(target: str) -> str:
    if target in TARGETS:
        return ""
    return f"unknown target {shown(target)}: there are {', '.join(TARGETS)}"


def operation_fault(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or len(name) > _MAX_NAME or name in CPP_KEYWORDS | MACROS:
        return (
            f"an operation has the name of its C++ function: at most {_MAX_NAME} letters, digits and _, and no keyword "
            f"or macro, got {shown(name)}"
        )
    return ""


def class_fault(name: str) -> str:
    return "" if name in INPUT_CLASSES else f"must be one of {', '.join(INPUT_CLASSES)}, got {shown(name)}"


def path_fault(path: str) -> str:
    if fault := filled_line_fault(path):
        return fault
    if "$" in path:
        return (
            f"environment variables are not read, got {shown(path)}: "
            "write '{{ env.NAME }}' and give -D NAME=... on the command line"
        )
    return f"must be a path with '/', got {shown(path)}" if "\\" in path else ""


def inner_path_fault(path: str) -> str:
    """Why `path` cannot be a path inside a fetched source."""
    if fault := path_fault(path):
        return fault
    # `~` too, which paths of a spec expand.
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        return f"must be a relative path inside the source, got {shown(path)}"
    return ""


def subdir_fault(path: str) -> str:
    return inner_path_fault(path) if path else ""


def digest_fault(digest: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        return ""
    return f"must be a SHA-256 digest of 64 hexadecimal digits, got {shown(digest, 70)}"


def revision_fault(revision: str) -> str:
    # The full id only: it names the content, and an abbreviation may become ambiguous as the repository grows.
    if re.fullmatch(r"[0-9a-fA-F]{40}", revision):
        return ""
    return f"must be a full commit id of 40 hexadecimal digits (branches and tags move), got {shown(revision)}"


def homepage_fault(url: str) -> str:
    parts = _split_url(url)
    if url == "" or (parts and parts.scheme in ("http", "https") and parts.hostname):
        return ""
    return f"must be an http:// or https:// address, got {shown(url)}"


def archive_url_fault(url: str) -> str:
    """Why `url` cannot be the address of an archive."""
    parts = _split_url(url)
    if parts is None or not _has_place(parts, ("https", "file")):
        return f"must be an https:// or file:// URL, got {shown(url)}"
    return _secret_fault(parts)


def git_url_fault(url: str) -> str:
    """Why `url` cannot be a git repository's. git runs commands for `ext::` and for options in place of URLs."""
    # git@HOST:PATH, scp's form: no part begins with a dash, which ssh would take for an option.
    if re.fullmatch(r"[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][\w.-]*:[\w./~][\w./~-]*", url):
        return ""
    parts = _split_url(url)
    if parts is None or not _has_place(parts, ("https", "ssh", "file")) or (parts.hostname or "").startswith("-"):
        return f"must be an https://, ssh:// or file:// URL of a git repository, got {shown(url)}"
    return _secret_fault(parts)


def _split_url(url: str) -> SplitResult | None:
    """The parts of `url`; None if it is not a URL, or contains blanks, quotes or control characters."""
    # Such characters could end the URL in a file of CMake, Conan or SCRAM that it is written into.
    if re.search(r"[\s\x00-\x1f\x7f'\"\\`<>]", url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is no number: urlsplit does not look
    except ValueError:
        return None
    return parts


def _has_place(parts: SplitResult, schemes: tuple[str, ...]) -> bool:
    if parts.scheme not in schemes:
        return False
    if parts.scheme == "file":
        return parts.netloc in ("", "localhost") and len(parts.path) > 1
    return bool(parts.hostname)


def _secret_fault(parts: SplitResult) -> str:
    return "must not contain a password: specs are published with packages" if parts.password else ""


_WORDS = re.compile(r"\b(the|licen[cs]e|version)\b|,", re.IGNORECASE)


def licence_note(text: str) -> str:
    """A note about the licence `text` of a model; "" if it is an SPDX expression in canonical form."""
    canonical = _canonical(text)
    if not text or canonical == text:
        return ""
    if canonical:
        return f"model.license: SPDX writes {shown(text)} as {canonical}"
    meant = next(filter(None, map(_canonical, _variants(text))), "")
    instead = (
        f"did you mean {meant}?" if meant else "give an identifier of spdx.org/licenses, or LicenseRef-NAME for another"
    )
    return (
        f"model.license: {shown(text)} is not an SPDX expression, so other tools cannot tell what it allows; {instead}"
    )


def _canonical(text: str) -> str:
    """`text` in SPDX's canonical form; "" if it is not an SPDX expression."""
    # Imported here, because most commands look at no licence.
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        return ""


def _variants(text: str) -> Iterator[str]:
    """Identifiers that `text` may mean: `Apache License, Version 2.0`, `BSD 3-Clause`, `GPLv3`, `Apache 2`."""
    words = "-".join(_WORDS.sub(" ", text).split())
    # SPDX writes a digit after a dash, and whole versions of some licences with .0: Apache-2.0, GPL-3.0.
    for name in (words, re.sub(r"-?v?(\d)", r"-\1", words, count=1, flags=re.IGNORECASE)):
        yield name
        yield f"{name}.0"


PACKAGE_PREFIX = "tfaot-model-"

NAME_PATTERN = r"[a-z][a-z0-9_]*"
CLASS_PATTERN = r"[A-Za-z][A-Za-z0-9_]*"
NAMESPACE_PATTERN = rf"{CLASS_PATTERN}(::{CLASS_PATTERN})*"
VERSION_PATTERN = r"[0-9][a-z0-9.+-]+"
TENSORFLOW_PATTERN = r"[0-9]+\.[0-9]+\.[0-9]+(rc[0-9]+)?"

_MAX_NAME = 64
_MAX_VERSION = 64
_MAX_IDENTIFIER = 120

# C++20, [lex.key] and [lex.digraph], and the words that are special in later or transactional C++.
CPP_KEYWORDS = frozenset(
    """
    alignas alignof asm auto bool break case catch char char8_t char16_t char32_t class concept const consteval
    constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
    new noexcept nullptr operator private protected public register reinterpret_cast requires return short signed
    sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while
    and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq
    """.split()
)

# Namespaces of other libraries: a model's class in them could collide with theirs.
_FOREIGN_NAMESPACES = frozenset({"std", "posix", "tfaot", "tensorflow", "tsl", "xla", "Eigen", "absl"})


def package_name(name: str) -> str:
    """The package of the model `name`, as CMake, Conan, pkg-config and SCRAM name it: with `-` for `_`."""
    return PACKAGE_PREFIX + name.replace("_", "-")


def name_fault(name: str) -> str:
    """Why `name` cannot name a model: it becomes a C++ class and a part of package and CMake target names."""
    if not re.fullmatch(NAME_PATTERN, name):
        return (
            "must start with a lower-case letter and contain only lower-case letters, digits and '_' "
            f"(it becomes a C++ class and a package name), got {shown(name)}{_name_suggestion(name)}"
        )
    if len(name) > _MAX_NAME:
        return f"must have at most {_MAX_NAME} characters, got {len(name)}"
    if name.endswith("_objects"):
        return "must not end in '_objects': SCRAM tools that link another model's objects have such names"
    return _identifier_fault(name)


def namespace_fault(namespace: str) -> str:
    """Why `namespace` (identifiers, joined by `::`) cannot contain the generated class."""
    if not re.fullmatch(NAMESPACE_PATTERN, namespace):
        return f"must be a C++ namespace such as tfaot_model or my::models, got {shown(namespace)}"
    if len(namespace) > _MAX_NAME:
        return f"must have at most {_MAX_NAME} characters, got {len(namespace)}"
    parts = namespace.split("::")
    if parts[0] in _FOREIGN_NAMESPACES:
        return f"must not be inside '{parts[0]}', which belongs to other code"
    return next(filter(None, map(_identifier_fault, parts)), "")


def model_name_fault(name: str) -> str:
    """As name_fault, for the key of a spec: it says where a name with capitals belongs."""
    fault = name_fault(name)
    has_capitals = name != name.lower() and not class_name_fault(name)
    return f"{fault}; the C++ class may have capitals: compilation.class_name: {name}" if has_capitals else fault


def class_name_fault(name: str) -> str:
    """Why `name` cannot name the generated C++ class. An empty one stands for the model's name."""
    if name == "":
        return ""
    if not re.fullmatch(CLASS_PATTERN, name):
        return (
            "must start with a letter and contain only letters, digits and '_', such as MatMulComp "
            f"(its namespace is compilation.namespace), got {shown(name)}"
        )
    if len(name) > _MAX_NAME:
        return f"must have at most {_MAX_NAME} characters, got {len(name)}"
    return _identifier_fault(name)


def version_fault(version: str) -> str:
    """Why `version` cannot be a package's version, by the rules of PEP 440 and of Conan."""
    try:
        Version(version)
    except InvalidVersion:
        return f"must be a version such as 1.0.0, got {shown(version)}"
    if len(version) == 1:
        return f"must have two characters or more (Conan's rule), got {shown(version)}: write {version}.0"
    if len(version) > _MAX_VERSION:
        return f"must have at most {_MAX_VERSION} characters, got {len(version)}"
    if not re.fullmatch(VERSION_PATTERN, version):
        return (
            "must start with a digit and contain only digits, lower-case letters, '.', '+' and '-' "
            f"(Conan's rule), got {shown(version)}"
        )
    return ""


def model_version(version: str) -> str:
    """`version` without what nights append (nightly/types.py): toolchain and number of a build are the package's."""
    return _OF_A_NIGHT.sub("", version)


def build_in(version: str) -> tuple[str, int] | None:
    """The toolchain (`tf2.17.1`, `tfaot`) and the number of a build that a night published; None for other versions."""
    found = _OF_A_NIGHT.search(version)
    return (found["toolchain"], int(found["number"])) if found else None


def tensorflow_fault(version: str) -> str:
    """Why `version` cannot name a TensorFlow release. It is not checked whether a toolchain of it exists."""
    if re.fullmatch(TENSORFLOW_PATTERN, version):
        return ""
    return f"must be a full TensorFlow version such as 2.17.1, got {shown(version)}"


def cpp_identifiers(names: Iterable[str], *, taken: Collection[str] = ()) -> dict[str, str]:
    """A C++ identifier for each of `names` (tensor names such as `dense/out:0` or `my-input`), all distinct.

    No identifier is a keyword, reserved, a common macro, or in `taken`. A name that is a valid identifier is kept. The
    result does not depend on the order of `names`.
    """
    used = set(taken)
    result: dict[str, str] = {}
    # Names that are valid identifiers come first, so that `a_b` stays `a_b` beside `a/b`.
    for name in sorted(set(names), key=lambda name: (_identifier_from(name) != name, name)):
        result[name] = _unused(_identifier_from(name), used)
        used.add(result[name])
    return result


def _identifier_from(name: str) -> str:
    # TensorFlow appends `:0` to the first output of a node.
    stem = re.sub(r":0\Z", "", name)
    # `_` too separates: C++ reserves names with two of them, and some that begin with one.
    identifier = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:_MAX_IDENTIFIER].rstrip("_")
    if not identifier:
        return "tensor"
    if identifier[0].isdigit():
        return f"t{identifier}"
    return f"{identifier}_" if identifier in CPP_KEYWORDS | MACROS else identifier


def _unused(identifier: str, used: Collection[str]) -> str:
    candidate, number = identifier, 2
    # Without the underscore at the end: two in succession are reserved.
    while candidate in used or candidate in MACROS:
        candidate, number = f"{identifier.rstrip('_')}_{number}", number + 1
    return candidate


def _identifier_fault(identifier: str) -> str:
    if identifier in CPP_KEYWORDS:
        return f"'{identifier}' is a C++ keyword"
    if identifier in MACROS:
        return f"'{identifier}' is a macro of compilers or of the C library"
    if identifier.startswith("TFAOT_"):
        return f"'{identifier}' may be a macro of the headers of tfaot, which begin with TFAOT_"
    if "__" in identifier:
        return f"must not contain '__', which C++ reserves for compilers, got '{identifier}'"
    return ""


def _name_suggestion(name: str) -> str:
    suggestion = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    plain = re.fullmatch(r"[\w. -]+", name) and re.fullmatch(NAME_PATTERN, suggestion)
    return f": '{suggestion}' is valid" if plain and not name_fault(suggestion) else ""
