"""The files of the site, whose names need no escaping and which are replaced atomically; the parts that pages share."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from tfaot_pkg.catalogue.tree import Node
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.wording import counted, duration, size_text
from tfaot_pkg.package.drawing import sizes_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'"
)
"""Content-Security-Policy of the pages: nothing inline, nothing from elsewhere. Servers add frame-ancestors."""

LIST, WORDS = "list", "words"
# The prefix of a root is empty, and its file needs a name.
_PREFIXES = {LIST: "l", WORDS: "w"}


def node_file(tree: str, prefix: str) -> str:
    """The path of a node, without its suffix. Characters other than a-z and 0-9 become `_HEX_`, as in site.js."""
    coded = "".join(c if c in "abcdefghijklmnopqrstuvwxyz0123456789" else f"_{ord(c):x}_" for c in prefix)
    return f"{tree}/{_PREFIXES[tree]}{coded}"


def page_file(package: str, version: str = "") -> str:
    """The page of a package, which is that of the version it offers, or of any version."""
    return f"packages/{package}/{version}/index.html" if version else f"packages/{package}/index.html"


@dataclass(slots=True, kw_only=True)
class Site:
    """A catalogue's folder. `written` are the paths that were written through this object."""

    root: Path
    written: set[str] = field(default_factory=set)

    def read(self, path: str) -> bytes | None:
        """Raises OSError."""
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        """Replace a file in one step. Raises OSError.

        Not synced to the disk: everything can be made again, and a publication must not wait for it.
        """
        final = self.root / path
        # Servers give no name that begins with a dot, so readers never see half a file.
        temporary = final.with_name(f".{final.name}.part")
        try:
            file = temporary.open("wb")
        except FileNotFoundError:
            final.parent.mkdir(parents=True, exist_ok=True)
            file = temporary.open("wb")
        with file:
            file.write(data)
        os.replace(temporary, final)
        self.written.add(path)

    def redirect(self, path: str, target: str) -> None:
        """Write a page that leads to `target`, another page of the site. Raises OSError."""
        self.page(path, "moved.html.j2", {"target": target})

    def page(self, path: str, template: str, context: Mapping[str, object]) -> None:
        """Render a page. Raises OSError."""
        self.write(path, render(template, path, context))

    def has_assets(self) -> bool:
        """Whether style and script of this version of the tool exist. Raises OSError."""
        return all((self.root / name).exists() for name in _assets())

    def assets(self) -> None:
        """Write style and script, under names with their digests: browsers cache them forever. Raises OSError."""
        for name, data in _assets().items():
            if self.read(name) != data:
                self.write(name, data)
            self.written.add(name)

    def remove_others(self, folders: Iterable[str]) -> None:
        """Remove the files in `folders` that this object did not write: old pages. Raises OSError."""
        for top in folders:
            # From the bottom up, so that folders that became empty can be removed.
            for folder, _, names in os.walk(self.root / top, topdown=False):
                for name in names:
                    path = Path(folder) / name
                    if path.relative_to(self.root).as_posix() not in self.written:
                        path.unlink()
                if not os.listdir(folder):
                    os.rmdir(folder)


@dataclass(slots=True)
class NodeShelf:
    """The nodes of one tree in a site, each read and written once; `changed` are those to be written, by prefix."""

    site: Site
    tree: str
    nodes: dict[str, Node] = field(default_factory=dict)
    changed: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def get(self, prefix: str) -> Node | None:
        if prefix not in self.nodes:
            data = self.site.read(f"{node_file(self.tree, prefix)}.json")
            if data is None:
                return None
            self.nodes[prefix] = Node.parse(prefix, data)
        return self.nodes[prefix]

    def put(self, node: Node, path: Sequence[str]) -> None:
        self.nodes[node.prefix] = node
        self.changed[node.prefix] = tuple(path)

    def write(self) -> None:
        """Write what changed, children first. Raises OSError."""
        # A browser that walks the tree meanwhile finds every child that a node names.
        for prefix in sorted(self.changed, key=len, reverse=True):
            self.site.write(f"{node_file(self.tree, prefix)}.json", self.nodes[prefix].to_bytes())


def render(template: str, path: str, context: Mapping[str, object]) -> bytes:
    """The page at `path` from a template of templates/catalogue or nightly: every value is escaped."""
    top = "../" * path.count("/")
    css, js = (next(name for name in _assets() if name.endswith(ending)) for ending in (".css", ".js"))
    page = _environment().get_template(template)
    return page.render(top=top, css=top + css, js=top + js, policy=POLICY, **context).encode()


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([resources.templates() / name for name in ("catalogue", "nightly")]),
        undefined=jinja2.StrictUndefined,
        # Publishers wrote most of what the pages show.
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        bytes=size_text,
        counted=counted,
        duration=duration,
        sizes=sizes_of,
        node_page=lambda prefix: f"{node_file(LIST, prefix)}.html",
    )
    return environment


@functools.cache
def _assets() -> dict[str, bytes]:
    found = {}
    for name in ("site.css", "site.js"):
        data = (resources.templates() / "catalogue" / name).read_bytes()
        stem, _, ending = name.partition(".")
        # 16 digits: by such a name servers recognize files that never change (registry/server/rules.py).
        found[f"assets/{stem}.{hashlib.sha256(data).hexdigest()[:16]}.{ending}"] = data
    return found
