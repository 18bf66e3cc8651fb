"""The one template environment of the project: how values reach C++, CMake and pkg-config files.

Every value that is not from this code goes through the filter of the language that it is written into. Output depends
on template and context only: no clock, no path, no host name.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from pathlib import Path

import jinja2
from packaging.version import Version

from tfaot_pkg.ground import resources

SUFFIX = ".j2"


_RELEASED = "released"
"""The folder with the templates of releases, as `package`, `former`, `cmssw` and `source` were then."""


def releases() -> tuple[str, ...]:
    """What `render` takes for `release`: "" for the templates of now, then all releases, newest first."""
    folder = resources.templates() / _RELEASED
    return ("", *sorted((each.name for each in folder.iterdir() if each.is_dir()), key=Version, reverse=True))


def render(template: str, context: Mapping[str, object], release: str = "") -> str:
    """The text of `template` (a path below the templates folder, with `/`) for `context`, with those of `release`.

    Raises jinja2.UndefinedError for a name that the context lacks: a fault of ours, never of the user's.
    """
    return _environment().get_template(f"{_of(release)}{template}").render(**context)


def load_templates(*folders: str) -> None:
    """Parse all templates below `folders` now, which `render` would do one by one."""
    for folder in folders:
        for name in template_names(folder):
            _environment().get_template(name)


def template_names(folder: str, release: str = "") -> tuple[str, ...]:
    """All templates below `folder` (relative to the templates folder), sorted."""
    above = resources.templates() / _of(release)
    names = (path.relative_to(above).as_posix() for path in (above / folder).rglob(f"*{SUFFIX}"))
    return tuple(sorted(names))


def release_folder(release: str) -> Path:
    """The folder with the templates of a release."""
    return resources.templates() / _RELEASED / release


def _of(release: str) -> str:
    return f"{_RELEASED}/{release}/" if release else ""


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates()),
        # A name that is misspelled must fail, not vanish from generated code.
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # no output is HTML
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        c_string=c_string,
        product=math.prod,
        comment=comment,
        cmake_string=cmake_string,
        cmake_bracket=cmake_bracket,
        pc_value=pc_value,
        quoted=quoted,
        nix_string=nix_string,
        debian_text=debian_text,
    )
    return environment


def c_string(text: str) -> str:
    """`text` as a string literal of C and C++, in UTF-8 whatever the compiler's source encoding is."""
    return '"' + "".join(map(_c_byte, text.encode())) + '"'


def _c_byte(byte: int) -> str:
    char = chr(byte)
    if char in '"\\?':  # "??/" would be a trigraph
        return "\\" + char
    # Three octal digits end by themselves; a hexadecimal escape would swallow the digits after it.
    return char if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def comment(text: str) -> str:
    """`text` for the rest of a `//` or `#` comment's line: one line that cannot end or extend the comment.

    Characters that do not print, which includes those that change the direction of writing, become `?`.
    """
    line = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    return f"{line}." if line.endswith(("\\", "??/")) else line


def cmake_string(text: str) -> str:
    """`text` as a quoted argument of CMake, without any variable reference."""
    # `${NAME}` and, in files that are configured, `@NAME@` would be replaced.
    escaped = re.sub(r'([\\"$@])', r"\\\1", text)
    return '"' + escaped.replace("\n", "\\n") + '"'


def cmake_bracket(text: str) -> str:
    """`text` as a bracket argument of CMake: nothing in it is special."""
    equals = "="
    # A text that ends in `]=` would, with the `]` after it, close the bracket too early.
    while f"]{equals}]" in text or text.endswith("]" + equals):
        equals += "="
    return f"[{equals}[{text}]{equals}]"


def pc_value(text: str) -> str:
    """`text` as a value of a pkg-config file: one line, no variable, no comment."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("$", "$$").replace("#", r"\#")


def quoted(text: str) -> str:
    """`text`, one line of characters that print, as a string literal that JSON and Python read alike."""
    return '"' + _printed(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def nix_string(text: str) -> str:
    """`text`, one line of characters that print, as a string literal of Nix, without `${...}`."""
    return '"' + re.sub(r'([\\"$])', r"\\\1", _printed(text)) + '"'


def debian_text(text: str) -> str:
    """`text`, one line of characters that print, for debian/control: dpkg-gencontrol finds no variable in it."""
    return _printed(text).replace("$", "${}")


def _printed(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} has characters that do not print")
    return text
