"""Rules for names and versions that a user chooses, before any of them reaches C++, CMake, Conan or XML.

Every rule is a function from a text to what is wrong with it ("" when nothing is), so that the parser can put
file, line and path before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from packaging.version import InvalidVersion, Version

from tfaot_pkg.wording import shown

PACKAGE_PREFIX = "tfaot-model-"

NAME_PATTERN = r"[a-z][a-z0-9_]*"
NAMESPACE_PATTERN = r"[A-Za-z][A-Za-z0-9_]*(::[A-Za-z][A-Za-z0-9_]*)*"
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

# Names that compilers and the C library replace before C++ sees them; `linux` and `unix` are 1 in GCC's default mode.
_MACROS = frozenset(
    """
    linux unix i386 errno assert offsetof setjmp stdin stdout stderr va_arg va_copy va_end va_start
    major minor makedev NULL EOF BUFSIZ RAND_MAX CHAR_BIT NAN INFINITY
    """.split()
)

# Namespaces that belong to someone else.
_FOREIGN_NAMESPACES = frozenset({"std", "posix", "tfaot", "tensorflow", "tsl", "xla", "Eigen", "absl"})


def package_name(name: str) -> str:
    """The package of the model `name`, by which CMake, Conan, pkg-config and SCRAM know it: `-` stands for `_`."""
    return PACKAGE_PREFIX + name.replace("_", "-")


def name_fault(name: str) -> str:
    """Why `name` cannot name a model: it is a C++ class, and a part of a package's and of a CMake target's name."""
    if not re.fullmatch(NAME_PATTERN, name):
        return (
            "must start with a lower-case letter and hold only lower-case letters, digits and '_' "
            f"(it becomes a C++ class and a package name), got {shown(name)}{_name_suggestion(name)}"
        )
    if len(name) > _MAX_NAME:
        return f"must have at most {_MAX_NAME} characters, got {len(name)}"
    if name.endswith("_objects"):
        return "must not end in '_objects': the tools of SCRAM that link another model's objects are called so"
    return _identifier_fault(name)


def namespace_fault(namespace: str) -> str:
    """Why `namespace` (identifiers, joined by `::`) cannot hold the generated class."""
    if not re.fullmatch(NAMESPACE_PATTERN, namespace):
        return f"must be a C++ namespace such as tfaot_model or my::models, got {shown(namespace)}"
    if len(namespace) > _MAX_NAME:
        return f"must have at most {_MAX_NAME} characters, got {len(namespace)}"
    parts = namespace.split("::")
    if parts[0] in _FOREIGN_NAMESPACES:
        return f"must not be inside '{parts[0]}', which belongs to other code"
    return next(filter(None, map(_identifier_fault, parts)), "")


def version_fault(version: str) -> str:
    """Why `version` cannot be a package's version: Python's rules (PEP 440) hold, and Conan's."""
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
            "must start with a digit and hold only digits, lower-case letters, '.', '+' and '-' "
            f"(Conan's rule), got {shown(version)}"
        )
    return ""


def tensorflow_fault(version: str) -> str:
    """Why `version` cannot name a TensorFlow release. Whether a toolchain of it exists is not asked here."""
    if re.fullmatch(TENSORFLOW_PATTERN, version):
        return ""
    return f"must be a full TensorFlow version such as 2.17.1, got {shown(version)}"


def cpp_identifiers(names: Iterable[str], *, taken: Collection[str] = ()) -> dict[str, str]:
    """A C++ identifier for each of `names` (tensor names such as `dense/out:0` or `my-input`), all distinct.

    No identifier is a keyword, reserved, a common macro, or in `taken`. A name that is a good identifier keeps
    it. The result does not depend on the order of `names`.
    """
    used = set(taken)
    result: dict[str, str] = {}
    # Names that are identifiers already go first, so that `a_b` stays `a_b` beside `a/b`.
    for name in sorted(set(names), key=lambda name: (_identifier_from(name) != name, name)):
        result[name] = _unused(_identifier_from(name), used)
        used.add(result[name])
    return result


def _identifier_from(name: str) -> str:
    stem = re.sub(r":0\Z", "", name)
    identifier = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_")[:_MAX_IDENTIFIER].rstrip("_")
    if not identifier:
        return "tensor"
    if identifier[0].isdigit():
        return f"t{identifier}"
    return f"{identifier}_" if identifier in CPP_KEYWORDS | _MACROS else identifier


def _unused(identifier: str, used: Collection[str]) -> str:
    candidate, number = identifier, 2
    while candidate in used:
        candidate, number = f"{identifier.rstrip('_')}_{number}", number + 1
    return candidate


def _identifier_fault(identifier: str) -> str:
    if identifier in CPP_KEYWORDS:
        return f"'{identifier}' is a C++ keyword"
    if identifier in _MACROS:
        return f"'{identifier}' is a macro of compilers or of the C library"
    if "__" in identifier:
        return f"must not hold '__', which C++ reserves for compilers, got '{identifier}'"
    return ""


def _name_suggestion(name: str) -> str:
    suggestion = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    plain = re.fullmatch(r"[\w. -]+", name) and re.fullmatch(NAME_PATTERN, suggestion)
    return f": '{suggestion}' would do" if plain and not name_fault(suggestion) else ""
