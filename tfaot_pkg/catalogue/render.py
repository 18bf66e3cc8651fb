"""Writing the catalogue: all of it, or the files that one package's change touches.

Each page is replaced atomically, and a page before those that link to it: package, lists, search, home. So a reader
finds either the old link or the new one at any moment, and both work. The catalogue is not signed: only the
registry can be trusted.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.catalogue import tree
from tfaot_pkg.catalogue.downloads import Downloads
from tfaot_pkg.catalogue.package import blob_link, page_context, pages_of
from tfaot_pkg.catalogue.reading import DocumentReader, document_reader
from tfaot_pkg.catalogue.record import Record, record_of, shown_entry
from tfaot_pkg.catalogue.relations import FILE, Relations
from tfaot_pkg.catalogue.site import LIST, WORDS, NodeShelf, Site, node_file, page_file
from tfaot_pkg.catalogue.snippets import Registry
from tfaot_pkg.errors import RegistryError, TfaotError
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Progress, Silent
from tfaot_pkg.ground.storage import locked, storage_errors
from tfaot_pkg.package.name import package_meant_by
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry
from tfaot_pkg.registry.files.layout import DOWNLOAD
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import RegistryReader
from tfaot_pkg.registry.static import StaticRegistry
from tfaot_pkg.registry.trust.keys import ROOT
from tfaot_pkg.registry.trust.roles import limit_of, metadata_path
from tfaot_pkg.registry.writable import WritableRegistry
from tfaot_pkg.spec.rules import model_version

FOLDER = "catalogue"
"""Where a registry's catalogue is, below the registry."""

NIGHTLY = "nightly"
"""The folder of the last night's report, below the catalogue; the front page links it if it exists."""

HOME = "home.json"
_FORMAT = 3
_FACETS = ("license", "target", "toolchain", "framework")
# Packages and values of a filter on the front page; words of which a browser proposes one (decision 057).
_NEWEST, _OPTIONS, _VOCABULARY = 30, 40, 4000
_OURS = frozenset({"packages", "list", "words", "assets"})
_LOCK, _LOCK_TIMEOUT = ".catalogue.lock", 60
_SMALL = 200
"""A publication writes a missing or damaged catalogue again up to this number of packages: at about 3 ms each
(decision 17), nobody waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The result of `render`; `damaged` are the errors of packages that could not be read."""

    folder: Path
    packages: int
    files: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _HomeFile:
    """The file home.json."""

    format: int
    url: str
    newest: list[object]
    facets: dict[str, dict[str, int]]
    words: dict[str, int]


@dataclass(slots=True)
class Home:
    """The front page without the list: the newest packages, and the number of packages per filter value.

    `url` is the address of the registry, if `render` was told one. `words` are those of search, with the number of
    packages, from which the browser proposes one that is like a misspelled one.
    """

    url: str = ""
    newest: list[Record] = field(default_factory=list)
    facets: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in _FACETS})
    words: dict[str, int] = field(default_factory=dict)

    def take(self, records: Iterable[Record]) -> None:
        """Add `records` to the newest; each replaces an older one of its package. Deprecated ones are hidden."""
        latest = {one.model: one for one in (*self.newest, *records)}
        offered = [one for one in latest.values() if not one.deprecated and not one.yanked]
        # The name decides between equal times: the same packages must give the same page.
        self.newest = heapq.nlargest(_NEWEST, offered, key=lambda one: (one.published, one.model))

    def count(self, record: Record, step: int = 1) -> None:
        """Count `record` in the filters; -1 removes an older state of a package."""
        kinds = ((record.license,), record.targets, (record.toolchain,), (record.framework,))
        for facet, values in zip(_FACETS, kinds, strict=True):
            _add(self.facets[facet], filter(None, values), step)
        # Names with numbers are no words, and a registry may have very many of them.
        _add(self.words, filter(str.isalpha, record.words()), step)

    def options(self) -> dict[str, list[tuple[str, int]]]:
        """The commonest values of each filter, sorted by name."""
        return {
            name: sorted(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_OPTIONS])
            for name, counts in self.facets.items()
        }

    def to_bytes(self) -> bytes:
        document: dict[str, object] = {"format": _FORMAT, "url": self.url, "newest": self.newest, "facets": self.facets}
        words = sorted(self.words.items(), key=lambda item: (-item[1], item[0]))[:_VOCABULARY]
        document["words"] = dict(sorted(words))
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> Home:
        """Raises ValueError."""
        document = convert(_HomeFile, read_json(data))
        if document.format != _FORMAT or document.facets.keys() != set(_FACETS):
            raise ValueError("another format")
        return cls(document.url, [Record.parse(one) for one in document.newest], document.facets, document.words)


def _add(counts: dict[str, int], values: Iterable[str], step: int) -> None:
    for value in values:
        counts[value] = counts.get(value, 0) + step
        # A filter must not offer a value that no package has any more.
        if counts[value] <= 0:
            del counts[value]


def render(
    reader: RegistryReader,
    output: Path,
    *,
    url: str = "",
    downloads: Downloads | None = None,
    progress: Progress | None = None,
) -> Rendered:
    """Write the whole catalogue of `reader` into `output`, and remove what an older one left there.

    `url` is the address of the registry, for its users; without it, that of an older catalogue, or that under which a
    browser loads the pages. Without `downloads`, those of an older catalogue stay. Raises RegistryError if `output`
    holds something else, TrustError for a registry that does not verify, StorageError.
    """
    progress = progress or Silent()
    _require_ours(output)
    with _writing(output) as site:
        before = _relations_before(site)
        relations = Relations(before.needs, before.downloads if downloads is None else downloads)
        renderer = _Renderer(site, reader, url or _url_before(site), relations)
        names = reader.names()
        records: dict[str, Record] = {}
        damaged: list[str] = []
        with progress.step("catalogue", total=len(names), unit="packages") as step:
            for name in names:
                try:
                    record = renderer.package(name)
                    if record is not None:
                        records[record.model] = record
                except RegistryError as error:
                    # A damaged index file must not hide all other packages.
                    damaged.append(error.message)
                step.advance()
        known = set(names)
        relations.needs = {name: needed for name, needed in relations.needs.items() if name in known}
        renderer.relate()
        renderer.lists(records.values())
        _lead_here(site, reader)
        # Last: until the new lists are written, readers follow the links of the old ones.
        site.remove_others(_OURS)
    return Rendered(folder=output, packages=len(records), files=len(site.written), damaged=tuple(damaged))


def update(reader: RegistryReader, output: Path, package: str) -> None:
    """Update the catalogue after a change of `package`; the cost does not grow with the registry.

    A missing or damaged catalogue of a small registry is written again; for a larger one RegistryError says how to.
    Raises StorageError.
    """
    package = package_meant_by(package)
    _require_ours(output)
    # The lock is released before `render` below takes it again.
    try:
        with _writing(output) as site:
            data = site.read(HOME)
            if data is not None:
                home = Home.parse(data)
                relations = Relations.parse(site.read(FILE) or Relations().to_bytes())
                _Renderer(site, reader, home.url, relations).change(package, home)
                return
        reason = "is not there"
    except ValueError as error:
        reason = f"is damaged ({error})"
    if len(reader.names()) > _SMALL:
        raise RegistryError(f"the catalogue {output} {reason}", hint="make it: tfaot-pkg registry render")
    render(reader, output)


def update_front(reader: RegistryReader, output: Path) -> None:
    """Write the front page again, if there is a catalogue, after a report was added or removed.

    Raises RegistryError (the catalogue is damaged), StorageError.
    """
    if not (output / HOME).exists():
        return
    with _writing(output) as site:
        data = site.read(HOME)
        site.assets()
        try:
            home = Home.parse(data or b"")
            _Renderer(site, reader, home.url, _relations_before(site)).front(NodeShelf(site, LIST), home)
        except ValueError as error:
            hint = "make it again: tfaot-pkg registry render"
            raise RegistryError(f"the catalogue {output} is damaged ({error})", hint=hint) from error


def update_or_note(registry: WritableRegistry, package: str, progress: Progress) -> None:
    """Update the catalogue after a publication of `package`; an error is a note: the publication remains.

    A bucket has none: `registry render` writes one into a folder.
    """
    if not isinstance(registry, FolderRegistry):
        return
    try:
        update(registry, registry.root / FOLDER, package)
    except TfaotError as error:
        hint = f" ({error.hint})" if error.hint else ""
        progress.note(f"the catalogue was not updated: {error.message}{hint}")


@contextmanager
def _writing(output: Path) -> Iterator[Site]:
    """The site in `output`, under its lock. Raises StorageError."""
    with storage_errors(f"write the catalogue {output}"):
        output.mkdir(parents=True, exist_ok=True)
        with locked(output / _LOCK, what=f"the catalogue {output}", timeout=_LOCK_TIMEOUT):
            yield Site(root=output)


class _Renderer:
    """Writes pages of `reader` into `site`."""

    def __init__(self, site: Site, reader: RegistryReader, url: str, relations: Relations) -> None:
        self._site = site
        self._relations, self._dependents = relations, relations.dependents()
        self._reader = reader
        self._read: DocumentReader = document_reader(reader)
        self._way = _way_to_registry(site.root, reader)
        self._download = _download(reader)
        address = url or (reader.location.rstrip("/") + "/" if "://" in reader.location else "")
        self._registry = Registry(url=address, fingerprint=_fingerprint(reader))

    def package(self, name: str) -> Record | None:
        """Write the page of a package. Returns its record, None if no version of it can be read."""
        entries, deprecation = self._reader.entries(name), self._reader.deprecation(name)
        self._relations.take(name, shown_entry(entries) if entries else None)
        if not entries:
            return None
        self._version_page(name, entries, deprecation, None)
        for entry in pages_of(entries).values():
            self._version_page(name, entries, deprecation, entry)
        offered = model_version(shown_entry(entries).version)
        self._site.redirect(page_file(name, offered), page_file(name))
        # Only the page of the package, which is written by now, leads to those of its versions.
        self._site.remove_others([f"packages/{name}"])
        # Links to the former spelling of a package's name stay valid (decision 034).
        for former in {entry.name for entry in entries} - {name}:
            self._site.redirect(page_file(former), page_file(name))
        return record_of(entries, deprecation, self._read)

    def relate(self) -> None:
        """Write the pages of packages again whose dependents changed, and the file of relations."""
        before, self._dependents = self._dependents, self._relations.dependents()
        for name in sorted(before.keys() | self._dependents.keys()):
            if before.get(name) != self._dependents.get(name):
                self._again(name)
        data = self._relations.to_bytes()
        if self._site.read(FILE) != data:
            self._site.write(FILE, data)

    def _again(self, name: str) -> None:
        try:
            self.package(name)
        except RegistryError:
            return  # it is damaged, which `render` told; or it is no package of this registry

    def _version_page(
        self,
        name: str,
        entries: Sequence[RegistryEntry],
        deprecation: Deprecation | None,
        entry: RegistryEntry | None,
    ) -> None:
        """Write the page of a version; None for that of the package."""
        up = "../" if entry and self._way is not None and "://" not in self._way else ""
        way = None if self._way is None else up + self._way
        link = blob_link(way, self._download)
        context = page_context(name, entries, deprecation, self._read, link, self._registry, entry)
        until = context["until"] = self._relations.downloads.until
        context["downloads"] = self._relations.counts(entries) if until else {}
        context["dependents"] = self._dependents.get(name, [])
        # The way from the page to the registry: a browser finds its address so.
        address = way if way and not self._registry.url else ""
        path = page_file(name, model_version(entry.version) if entry else "")
        self._site.page(path, "package.html.j2", {**context, "way": address})

    def lists(self, records: Iterable[Record]) -> None:
        """Write lists, search and home for all packages."""
        records = list(records)
        home = Home(url=self._registry.url)
        for record in records:
            home.count(record)
        home.take(records)
        lists, words = NodeShelf(self._site, LIST), NodeShelf(self._site, WORDS)
        for node, path in tree.build({one.model: list(one) for one in records}):
            lists.put(node, path)
        for node, path in tree.build(dict(pair for one in records for pair in _postings(one).items())):
            words.put(node, path)
        self._finish(lists, words, home)

    def change(self, name: str, home: Home) -> None:
        """Update one package. Raises ValueError if the catalogue is damaged."""
        record = self.package(name)
        self.relate()
        if record is None:
            return
        lists, words = NodeShelf(self._site, LIST), NodeShelf(self._site, WORDS)
        found = tree.find(lists, record.model)
        before = Record.parse(found) if found is not None else None
        # A yanked old version, for example, changes nothing outside of the package's page.
        # The assets' names have digests: if they are there, the front page is of this version of the tool.
        if before == record and self._site.has_assets():
            return
        postings = _postings(record)
        if before is not None:
            # The old record tells which filters and words counted the package.
            home.count(before, -1)
            for key in _postings(before).keys() - postings.keys():
                tree.remove(words, key)
        home.count(record)
        home.take([record])
        tree.insert(lists, record.model, list(record))
        for key, value in postings.items():
            tree.insert(words, key, value)
        self._finish(lists, words, home)

    def _finish(self, lists: NodeShelf, words: NodeShelf, home: Home) -> None:
        self._site.assets()
        words.write()
        lists.write()
        # Pages of longer prefixes first: shorter ones link them.
        for prefix in sorted(lists.changed, key=len, reverse=True):
            self._list_page(lists.nodes[prefix], lists.changed[prefix])
        self._site.write(HOME, home.to_bytes())
        self.front(lists, home)

    def front(self, lists: NodeShelf, home: Home) -> None:
        """Write the front page."""
        root = lists.get("") or tree.Node("")
        self._site.page(
            "index.html",
            "index.html.j2",
            {
                "count": root.count,
                "newest": home.newest,
                "children": _children(root),
                "facets": home.options(),
                # A path on the machine of the registry means nothing to readers.
                "location": self._reader.location if "://" in self._reader.location else "",
                "signed": self._reader.root_version is not None,
                "nightly": self._nightly(),
            },
        )

    def _nightly(self) -> str:
        page = f"{NIGHTLY}/index.html"
        return page if self._site.read(page) is not None else ""

    def _list_page(self, node: tree.Node, path: Sequence[str]) -> None:
        records = [Record.parse(value) for _, value in sorted(node.items.items())]
        context = {"prefix": node.prefix, "path": path, "records": records, "count": node.count}
        self._site.page(
            f"{node_file(LIST, node.prefix)}.html", "list.html.j2", {**context, "children": _children(node)}
        )


def _children(node: tree.Node) -> list[tuple[str, int]]:
    return sorted((prefix, count) for prefix, count in (node.children or {}).items() if count)


def _postings(record: Record) -> dict[str, list[object]]:
    return {f"{word} {record.model}": list(record) for word in record.words()}


def _download(reader: RegistryReader) -> str:
    return reader.config.download if isinstance(reader, StaticRegistry) else DOWNLOAD


def _lead_here(site: Site, reader: RegistryReader) -> None:
    """Let `/` of a registry be its catalogue, if this is in its folder. Raises OSError."""
    if isinstance(reader, FolderRegistry) and site.root.resolve() == (reader.root / FOLDER).resolve():
        Site(root=reader.root).redirect("index.html", f"{FOLDER}/")


def _fingerprint(reader: RegistryReader) -> str:
    """The SHA-256 of the registry's root, empty if it is not signed."""
    version = reader.root_version
    if version is None or not isinstance(reader, StaticRegistry):
        return ""
    return sha256_bytes(reader.files.get(metadata_path(ROOT, version), limit_of(ROOT)))


def _relations_before(site: Site) -> Relations:
    try:
        return Relations.parse(site.read(FILE) or b"")
    except ValueError:
        return Relations()


def _url_before(site: Site) -> str:
    try:
        return Home.parse(site.read(HOME) or b"").url
    except ValueError:
        return ""


def _way_to_registry(output: Path, reader: RegistryReader) -> str | None:
    """The path from a package's page to the registry: its URL if it has one, relative if the catalogue is in it."""
    if "://" in reader.location:
        return reader.location.rstrip("/") + "/"
    inside = output.resolve().is_relative_to(Path(reader.location).resolve())
    # 2 more, for packages/NAME/.
    depth = len(output.resolve().relative_to(Path(reader.location).resolve()).parts) + 2 if inside else 0
    return "../" * depth if inside else None


def _require_ours(output: Path) -> None:
    """Raise RegistryError if `output` has files, but no catalogue: `render` would delete some of them."""
    # The lock file marks a catalogue whose first rendering was killed.
    if output.is_dir() and not any((output / name).exists() for name in (HOME, _LOCK)):
        if any(not path.name.startswith(".") for path in output.iterdir()):
            raise RegistryError(
                f"{output} is not a catalogue and not empty", hint="name a new folder, or one that is empty"
            )
