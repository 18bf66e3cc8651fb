"""The text of an operation that a model's author supplies: which C++ it may consist of (docs/decisions/053).

Pure: text in, text or ModelError out. The author's file is checked twice: as it is written (`own_text`), so that no
directive, header or reserved name can make it another program on another machine, and after preprocessing
(`require_computes`), so that macros hide nothing. The text that is checked is the text that is compiled and shipped.

No function that does more than compute can be named, in a branch that only another machine compiles either. C++ looks
names up in scopes, behind a qualifier, and in the namespaces of arguments, so there is a rule for each: `hidden` names
are declared as objects in a scope around the file, `std::` leads to listed names, and the file's own functions are not
called like those of headers.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfaot_pkg.errors import ModelError
from tfaot_pkg.native.compiled.authored_names import KEYWORDS, OWN, STANDARD

OWN_HEADER = "tfaot/operation.h"
HEADERS = frozenset(
    "algorithm array bitset cfloat cinttypes climits cmath complex cstddef cstdint cstdlib cstring functional"
    " initializer_list iterator limits numeric ratio tuple type_traits utility float.h inttypes.h limits.h math.h"
    " stddef.h stdint.h stdlib.h string.h".split()
)
"""What an operation may include besides OWN_HEADER. All of these are included before its first line."""

_ATTRIBUTES = frozenset(
    "maybe_unused nodiscard noreturn fallthrough likely unlikely gnu::always_inline gnu::noinline".split()
)
_FORBIDDEN = {
    "asm": "machine code in it cannot be checked",
    "extern": "it names nothing outside of its file",
    "thread_local": "an operation keeps nothing between calls",
    "import": "an operation is one file",
    "export": "an operation is one file",
}
_RESERVED = re.compile(r"_[A-Z]\w*|\w*__\w*")
_OF_COMPILERS = frozenset(("__restrict", "__restrict__"))
_OF_MACROS = _OF_COMPILERS | frozenset(
    "__null __builtin_offsetof __builtin_inf __builtin_inff __builtin_infl __builtin_nan __builtin_nanf __builtin_nanl"
    " __builtin_huge_val __builtin_huge_valf __builtin_huge_vall".split()
)
"""Reserved names that macros of HEADERS stand for: INFINITY, NAN, NULL, offsetof."""

_TYPE_KEYS = frozenset("class struct union enum namespace typename".split())
_SCOPES = re.compile(r"""(?P<literal>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')|(?P<mark>[{};])|(?P<word>[A-Za-z_]\w*)""")
_SPLICE = re.compile(r"\\[ \t]*\n")
_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+|//[^\n]*|/\*.*?\*/)
    |(?P<line>\n)
    |(?P<literal>(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])+'))
    |(?P<number>\.?[0-9](?:[eEpP][+-]|'[A-Za-z0-9_]|[A-Za-z0-9_.])*)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>\#\#|::|[][{}()<>;:,.?!~=+\-*/%^&|\#])""",
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(r'(?:u8|[uUL])?R"')
_OTHER_SPELLINGS = re.compile(r"\?\?[=/'()!<>-]|<:|:>|<%|%>|%:")
_INCLUDE = re.compile(r'(?:<([\w./+-]+)>|"([\w./+-]+)")[ \t]*(?://.*|/\*.*\*/[ \t]*)?')
MOST_TEXT = 1 << 20
"""Bytes that an operation's file may have; after preprocessing, eight times as many."""
HINT = "tfaot-pkg help custom-operations says what an operation may consist of"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnText:
    """An operation's file without its includes, line for line; what it includes, and the macros that it defines.

    `hidden` are its names for which headers may have another meaning, which must not be reached.
    """

    text: str
    headers: tuple[str, ...]
    macros: tuple[str, ...]
    hidden: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str
    begin: int
    line: int


def own_text(name: str, source: bytes) -> OwnText:
    """The text of the operation `name` from its file. Raises ModelError, with the line, for what it may not contain."""
    text = _decoded(name, source)
    headers: list[str] = []
    macros: list[str] = []
    removed: list[tuple[int, int]] = []
    for tokens in _lines(name, text):
        words = [each for each in tokens if each.kind != "blank"]
        if words and words[0].text == "#":
            begin, end = words[0].begin, tokens[-1].begin + len(tokens[-1].text)
            if not _directive(name, words[1:], text[begin:end], headers, macros):
                removed.append((begin, end))
        elif any(each.text in ("#", "##") for each in words):
            raise fault(name, words[0].line, "# is allowed at the beginning of a line only")
        _require_own_names(name, words)
    for begin, end in reversed(removed):
        # Line for line: the compiler's messages name lines of the author's file.
        text = text[:begin] + "\n" * text.count("\n", begin, end) + text[end:]
    return OwnText(
        text=text,
        headers=tuple(dict.fromkeys(headers)),
        macros=tuple(dict.fromkeys(macros)),
        hidden=tuple(sorted(words_of(name, text) - KEYWORDS - STANDARD - OWN - _OF_COMPILERS)),
    )


def words_of(name: str, text: str) -> frozenset[str]:
    """The words of the file `text` of the operation `name`, also those of its directives. Raises ModelError."""
    return frozenset(each.text for line in _lines(name, text) for each in line if each.kind == "word")


def names_of_headers(text: str) -> frozenset[str]:
    """All names in declarations of the preprocessed headers `text`, in whichever namespace, except those of members.

    Those of parameters are among them, but reserved.
    """
    names: set[str] = set()
    opened: list[bool] = []  # whether each brace that is open is that of a namespace or of `extern "C"`
    statement: list[str] = []
    for found in _SCOPES.finditer(text):
        if found[0] == "{":
            is_scope = "namespace" in statement[:2] or statement == ["extern"]
            opened.append(is_scope)
        elif found[0] == "}" and opened:
            opened.pop()
        if found["mark"]:
            statement = []
        elif found["word"] and all(opened):
            statement.append(found[0])
            names.add(found[0])
    return frozenset(names)


def require_computes(name: str, text: str, own: frozenset[str], headers: frozenset[str]) -> None:
    """Raise ModelError if `text`, preprocessed, does anything but compute with what it is given.

    It ends in the scope in which it begins. `own` are the words of the file before, `headers` the names that headers
    declare.
    """
    tokens = [each for line in _lines(name, text) for each in line if each.kind not in ("blank", "line")]
    reached = headers - KEYWORDS - STANDARD - OWN
    scopes = _Scopes()
    depth = 0
    for place, token in enumerate(tokens):
        if token.text == "#":
            raise fault(name, token.line, "#pragma is not allowed in an operation: it may change its arithmetic")
        if token.kind == "word":
            _require_word(name, token, _OF_MACROS)
            _require_known(name, token, own)
            _require_std_by_name(name, tokens, place, scopes)
            if token.text in reached and scopes.declares(tokens, place):
                raise fault(name, token.line, f"{token.text} is declared in a header: call it otherwise")
        if token.text == "::":
            _require_qualified(name, tokens, place, reached)
        if token.text == "[" and tokens[place + 1 : place + 2] and tokens[place + 1].text == "[":
            _require_attributes(name, tokens, place)
        scopes.pass_by(token)
        depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if depth < 0:
            raise fault(name, token.line, "} closes a brace that its file has not opened")
    if depth:
        raise fault(name, tokens[-1].line, f"{depth} of its braces are not closed")


class _Scopes:
    """Where a token is: which braces are open, and how many parentheses."""

    def __init__(self) -> None:
        self._opened: list[bool] = []  # whether each open brace is that of a namespace
        self._statement: list[str] = []
        self._parentheses = 0

    @property
    def is_nested(self) -> bool:
        """Whether declarations stand in a namespace within the file."""
        return bool(self._opened) and self._opened[-1]

    def pass_by(self, token: _Token) -> None:
        if token.text == "{":
            self._opened.append("namespace" in self._statement[:2])
        elif token.text == "}" and self._opened:
            self._opened.pop()
        if token.text in ("{", "}", ";"):
            self._statement, self._parentheses = [], 0
            return
        self._statement.append(token.text)
        self._parentheses += {"(": 1, ")": -1}.get(token.text, 0)

    def declares(self, tokens: Sequence[_Token], place: int) -> bool:
        """Whether the word at `place` may be the name of a function that is declared in a namespace.

        In C++, only such functions make a compiler look for others of their name in the namespaces of arguments.
        """
        before = tokens[place - 1].text if place else ""
        after, next_one = ([each.text for each in tokens[place + 1 : place + 3]] + ["", ""])[:2]
        is_array = after == "[" and next_one != "["  # else an attribute of a function
        if not all(self._opened) or before in (*_TYPE_KEYS, "::", ".") or is_array or after in ("=", "{", "::"):
            return False
        # A parameter has a type before it, and no parameters of its own.
        return self._parentheses == 0 or before == "(" or after in ("(", "[")


def fault(name: str, line: int, why: str) -> ModelError:
    return ModelError(f"{name}.cpp, line {line}: {why}", hint=HINT)


def _decoded(name: str, source: bytes) -> str:
    if len(source) > MOST_TEXT:
        raise ModelError(f"{name}.cpp has more than {MOST_TEXT >> 20} MiB", hint=HINT)
    try:
        text = source.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"{name}.cpp is not UTF-8 text", hint=HINT) from error
    for number, line in enumerate(text.split("\n"), 1):
        for character in line:
            # Compilers do not agree which of them end a line, and editors which of them are shown.
            if character != "\t" and unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp"):
                raise fault(name, number, f"the character U+{ord(character):04X} is not allowed in an operation")
        if "??/" in line:  # a backslash to some compilers, also in comments
            raise fault(name, number, "??/ is not allowed in an operation")
    return text if text.endswith("\n") else f"{text}\n"


def _lines(name: str, text: str, first: int = 1) -> Iterator[list[_Token]]:
    """The tokens of each line, with blanks and comments, after continued lines are joined, as a compiler does it.

    `begin` of a token is its place in `text`.
    """
    joined, places = _joined(text)
    ends = [place for place, character in enumerate(text) if character == "\n"]
    line: list[_Token] = []
    at = 0
    while at < len(joined):
        number = first + bisect_right(ends, places[at] - 1)
        if _RAW.match(joined, at):
            raise fault(name, number, "raw strings are not allowed in an operation")
        found = _TOKEN.match(joined, at)
        if found is None:
            raise fault(name, number, f"{joined[at]!r} is not allowed here in an operation")
        kind, word = str(found.lastgroup), found[0]
        if kind != "blank" and not word.isascii():
            raise fault(name, number, "only comments may have letters beyond ASCII")
        if kind == "mark" and (other := _OTHER_SPELLINGS.match(joined, at)):
            raise fault(
                name, number, f"{other[0]} is not allowed in an operation: write the character that it stands for"
            )
        line.append(_Token(kind=kind, text=word, begin=places[at], line=number))
        at = found.end()
        if kind == "line":
            yield line
            line = []
    if line:
        yield line


def _joined(text: str) -> tuple[str, list[int]]:
    """`text` without the ends of continued lines, and where each of its characters was."""
    pieces: list[str] = []
    places: list[int] = []
    at = 0
    for found in _SPLICE.finditer(text):
        pieces.append(text[at : found.start()])
        places += range(at, found.start())
        at = found.end()
    places += range(at, len(text))
    return "".join((*pieces, text[at:])), places


def _directive(name: str, words: Sequence[_Token], text: str, headers: list[str], macros: list[str]) -> bool:
    """Whether this directive stays in the text: macros do, headers move to `headers`."""
    line, kind = words[0].line, words[0].text
    said = [each.text for each in words[1:] if each.kind != "line"]
    if kind == "include":
        found = _INCLUDE.fullmatch(_SPLICE.sub("", text).partition("include")[2].strip())
        header = (found[1] or found[2]) if found else ""
        if header != OWN_HEADER and header not in HEADERS:
            raise fault(
                name,
                line,
                f"an operation may include {OWN_HEADER} and headers of C++ that only compute, such as <cmath>, "
                "<algorithm>, <limits> and <cstdint>, not this",
            )
        headers.append(header)
        return False
    if kind == "pragma" and said == ["once"]:
        return False
    if kind == "define" and said and words[1].kind == "word":
        if "#" in said or "##" in said:
            raise fault(
                name, line, "# and ## are not allowed in a macro of an operation: they make words that are not in it"
            )
        if said[0] == "defined":
            raise fault(name, line, "defined cannot be a macro")
        macros.append(said[0])
        return True
    if kind == "undef" and len(said) == 1 and said[0] in macros:
        return True
    if kind == "\n":
        return False
    raise fault(
        name,
        line,
        f"#{kind} is not allowed in an operation, which is the same program for every compiler and machine",
    )


def _require_own_names(name: str, words: Sequence[_Token]) -> None:
    for token in words:
        if token.kind == "word":
            _require_word(name, token, _OF_COMPILERS)


def _require_word(name: str, token: _Token, reserved: frozenset[str]) -> None:
    if why := _FORBIDDEN.get(token.text):
        raise fault(name, token.line, f"{token.text} is not allowed in an operation: {why}")
    if token.text.startswith("tfaot_") or token.text == "authored":
        raise fault(name, token.line, f"{token.text} is not allowed in an operation: the code around it has such names")
    if _RESERVED.fullmatch(token.text) and token.text not in reserved:
        raise fault(
            name,
            token.line,
            f"{token.text} is not allowed in an operation: names with two underscores, or with one before a capital "
            "letter, are the compiler's",
        )


def _require_known(name: str, token: _Token, own: frozenset[str]) -> None:
    """Raise ModelError for a name that a macro of a header brought, except for what computes."""
    if token.text not in own and token.text not in KEYWORDS | STANDARD | _OF_MACROS:
        raise fault(name, token.line, f"a macro stands for {token.text}, which no operation may use")


def _require_std_by_name(name: str, tokens: Sequence[_Token], place: int, scopes: _Scopes) -> None:
    """Raise ModelError if a word at `place` is `std`, and neither qualifies a listed name nor is used as a whole."""
    if tokens[place].text != "std":
        return
    before = [each.text for each in tokens[max(0, place - 2) : place]]
    following = [each.text for each in tokens[place + 1 : place + 3]]
    # The names that a namespace uses could be reached through its own name.
    is_used = before == ["using", "namespace"] and following[:1] == [";"] and not scopes.is_nested
    if is_used or (following[:1] == ["::"] and following[1:] and following[1] in STANDARD):
        return
    said = "".join(("std", *following)) if following[:1] == ["::"] else "std"
    raise fault(name, tokens[place].line, f"{said} is not allowed in an operation: only names of std that compute are")


def _require_qualified(name: str, tokens: Sequence[_Token], place: int, reached: frozenset[str]) -> None:
    """Raise ModelError if `::` at `place` may lead out of the operation's namespace, except to `std` and `tfaot`."""
    token, following = tokens[place], tokens[place + 1].text if place + 1 < len(tokens) else ""
    before = tokens[place - 1] if place else None
    is_word = before is not None and before.kind == "word" and before.text not in KEYWORDS
    # `>` and `)` may be operators, before a name of the global namespace.
    is_qualified = is_word or (before is not None and before.text in (">", ")") and following not in reached)
    if not is_qualified and following not in ("std", "tfaot"):
        raise fault(name, token.line, f"::{following} is not allowed in an operation: it uses its own names and std::")


def _require_attributes(name: str, tokens: Sequence[_Token], place: int) -> None:
    """Raise ModelError for an attribute, whose list begins at `place`, that is not allowed by name."""
    words: list[str] = []
    for each in tokens[place + 2 :]:
        if each.text == "]":
            break
        words.append(each.text)
    for attribute in "".join(words).split(","):
        if attribute not in _ATTRIBUTES:
            raise fault(
                name,
                tokens[place].line,
                f"the attribute [[{attribute[:60]}]] is not allowed in an operation; these are: "
                f"{', '.join(sorted(_ATTRIBUTES))}",
            )
