"""Documents that are wrong in any way: the error of that document, with its exit code, and never anything else.

Hypothesis changes real documents: values of other types, half characters, numbers without end, bytes in between. What is
read is used as well: written again, shown, compared.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.provenance.materials import make_materials
from tests.registry.conftest import MakePackage, make_package, registry
from tests.registry.signing import make_signed
from tests.spec.test_tuning import TUNING
from tfaot_pkg.catalogue.package import page_context
from tfaot_pkg.catalogue.render import Home
from tfaot_pkg.catalogue.snippets import Registry
from tfaot_pkg.catalogue.tree import Node
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.documents import plain, read_json, write
from tfaot_pkg.ground.keys import canonical_json, sha256_bytes
from tfaot_pkg.package.drawing import nodes_of_document
from tfaot_pkg.package.listing import Member, Tree
from tfaot_pkg.package.prefix.manifest import Manifest, encode_pending, read_prefix
from tfaot_pkg.pipeline.conan.upload import ConanRemotes
from tfaot_pkg.provenance.statement import read_statement, statement
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.dependencies.lock import Lock
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry, newest
from tfaot_pkg.registry.files.files import MissingFile
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import IndexFile, summaries_in, summary_of, updated_shard
from tfaot_pkg.registry.named import Remotes
from tfaot_pkg.registry.static import RegistryConfig
from tfaot_pkg.registry.trust.client import Anchor, SignedIndex
from tfaot_pkg.registry.trust.rotation import Rotation
from tfaot_pkg.registry.trust.state import SignedState
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.tuning import parse_tuning, tuning_bytes

__all__ = ["make_package", "registry"]

REPOSITORY = Path(__file__).resolve().parent.parent

PACKAGE = "tfaot-model-digits"
HALF = "\\ud800"
"""As it stands in JSON: a surrogate without its other half."""


@contextmanager
def expected() -> Iterator[None]:
    """A TfaotError that can be shown, or no error at all."""
    try:
        yield
    except TfaotError as error:
        json.dumps(plain(error)).encode()
        f"{error.message}\n{error.hint}".encode()


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 1 << 31, 1 << 63, 1 << 64, 10**30, 10**400]),
    st.sampled_from([0.5, -1e300, 1e-300, "NaN", "1e400"]),
    st.sampled_from(["", "\ud800", "a\udfff", "\x00", "\x1b[31m", "../x", "/x", "x" * 5000, "ü", "1.0", "{{", "http://[::1", "0" * 64]),
    st.text(max_size=8),
    st.just([]),
    st.just({}),
    st.just([[[]]]),
    st.just({"\ud800": "\udc00"}),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=3),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values inside of a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def changed(draw: st.DrawFn, document: Any) -> bytes:
    """A JSON document that was `document`, with up to three values changed or left out, and sometimes its bytes."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from([*places(document)]))
        if not path:
            document = copy.deepcopy(draw(VALUES))
            continue
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and draw(st.booleans()):
            value = holder.pop(path[-1])
            if draw(st.booleans()):
                holder[draw(st.sampled_from(["\ud800", "x", ""]))] = value
        else:
            holder[path[-1]] = copy.deepcopy(draw(VALUES))
    return draw(damaged(json.dumps(document).replace('"NaN"', "NaN").replace('"1e400"', "1e400").encode()))


_FORGOTTEN: tuple[Any, ...] = ("\ud800", None, 10**400, [], {"": {}})


def replaced(document: Any) -> Iterator[bytes]:
    """The document with each of its values in turn replaced by what is most often forgotten."""
    for path in [*places(document)][1:]:
        for value in _FORGOTTEN:
            copied = copy.deepcopy(document)
            holder = copied
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            yield json.dumps(copied).encode()


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """`data`, with some bytes put in the place of others."""
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 4)))
        more = draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"\n", b"\xff", HALF.encode(), b"[" * 5000, b"9" * 5000]))
        )
        data = data[:start] + more + data[end:]
    return data  # fmt: skip


@pytest.fixture
def entry(make_package: MakePackage) -> RegistryEntry:
    return make_package(description="of digits").entry


_SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
Fuzz = Callable[[Any, Callable[[bytes], object]], None]


@pytest.fixture
def fuzz() -> Fuzz:
    """`fuzz(document, use)`: give `use` the document in many wrong forms."""

    def run(document: Any, use: Callable[[bytes], object], form: Any = changed) -> None:
        @settings(_SETTINGS, max_examples=80)
        @given(form(document))
        def check(data: bytes) -> None:
            with expected():
                use(data)

        for data in replaced(document) if form is changed else ():
            with expected():
                use(data)
        check()

    return run


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"', '["\\udc00\\ud800"]', '{"\\ud834": 1}', "NaN", "-Infinity", "1e400", "[" * 100_000, "9" * 5000, "", "{",
        '{"a": 1} x',
    ],
)  # fmt: skip
def test_what_is_no_json_that_can_be_written_again_is_refused(text: str) -> None:
    for data in (text, text.encode()):
        with pytest.raises(ValueError, match=r"."):
            read_json(data)


@pytest.mark.parametrize("data", [b"\xff\xfe1\x00", b"\xed\xa0\x80", b'"\xff"'])
def test_what_is_not_utf8_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(data)


def test_whole_characters_are_taken_however_they_are_written() -> None:
    assert read_json('["\\ud83d\\ude00", "\U0001f600", "\\\\ud800"]') == ["\U0001f600", "\U0001f600", "\\ud800"]


def use_index(data: bytes) -> None:
    index = IndexFile.parse(data, "file", PACKAGE)
    for one in index.entries:
        _ = (one.line(), str(one), one.rank, one.order, canonical_json(plain(one)), str(one.signature))
        index.with_yanked(one.version, "because")
    newest(index.entries)
    summary = summary_of(PACKAGE, index.entries, index.deprecation)
    updated_shard(b"", "file", PACKAGE, summary)
    index.with_deprecation(None).to_bytes()
    if index.entries:
        context = page_context(PACKAGE, index.entries, index.deprecation, lambda *_: None, lambda _: "", Registry())
        repr(context).encode()


def test_index_lines(fuzz: Fuzz, entry: RegistryEntry) -> None:
    fuzz(json.loads(entry.line()), lambda data: use_index(data + b"\n"))
    fuzz({"v": 1, "kind": "package", "name": PACKAGE, "deprecated": {"use": "x", "reason": "y"}}, lambda d: use_index(d + b"\n"))  # fmt: skip


def test_search_shards(fuzz: Fuzz, entry: RegistryEntry) -> None:
    summary = summary_of(PACKAGE, [entry], None)

    def use(data: bytes) -> None:
        for one in summaries_in(data + b"\n", "file"):
            _ = (one.line(), str(one), one.matches(["x"]))
        updated_shard(data + b"\n", "file", PACKAGE, summary)

    fuzz(plain(summary), use)


def test_config_json(fuzz: Fuzz) -> None:
    fuzz(json.loads(RegistryConfig().to_bytes()), lambda data: RegistryConfig.parse(data, "file").to_bytes())


def test_manifests_of_prefixes(fuzz: Fuzz, tmp_path: Path) -> None:
    manifest = Manifest(
        name=PACKAGE, version="1.0", key="0" * 64, tree="1" * 64, files={"lib/a": "2" * 64}, links={"lib/b": "a"},
        uses_headers=True,
    )  # fmt: skip
    folder = tmp_path / "share" / PACKAGE
    folder.mkdir(parents=True)

    def use(name: str) -> Callable[[bytes], object]:
        def read(data: bytes) -> None:
            (folder / name).write_bytes(data)
            prefix = read_prefix(tmp_path)
            repr([write(one) for one in prefix.manifests.values()])
            encode_pending(prefix.owned_by(PACKAGE))
            (tmp_path / "x".join(prefix.owners())[:20]).exists()

        return read

    fuzz(plain(manifest), use("manifest.json"))
    (folder / "manifest.json").unlink()
    fuzz(json.loads(encode_pending(frozenset({"lib/a"}))), use("pending.json"))


def test_lock_files(fuzz: Fuzz) -> None:
    document = {
        "schema": 1,
        "requirements": ["digits"],
        "targets": ["x86-64-v3"],
        "toolchain": "",
        "registry": {"location": "../models"},
        "packages": [
            {"name": PACKAGE, "version": "1.0", "tree": "0" * 64, "dependencies": [],
             "blobs": {"archive": {"sha256": "1" * 64, "size": 1}}}
        ],
    }  # fmt: skip

    def use(data: bytes) -> None:
        lock = Lock.parse(data, "file")
        _ = (lock.to_bytes(), str(lock.packages), lock.versions)

    fuzz(document, use)


def test_provenance(fuzz: Fuzz) -> None:
    tree = Tree(members=(Member(path="lib/a", kind="file", content="0" * 64),))
    fuzz(statement(make_materials(), tree), lambda data: canonical_json(dict(read_statement(data, PACKAGE).spec)))


@pytest.mark.parametrize("role", ["validation", "provenance", "sbom", "graph", "latency", "info"])
def test_documents_of_packages_on_their_page(fuzz: Fuzz, entry: RegistryEntry, role: str) -> None:
    tree = Tree(members=(Member(path="lib/a", kind="file", content="0" * 64),))
    documents: dict[str, Any] = {
        "validation": {
            "passed": True, "reference": "TensorFlow", "rtol": 1, "atol": 0, "not_run": ["aarch64"], "warnings": ["x"],
            "comparisons": [{"batch_size": 1, "elements": 2, "failures": 0, "max_absolute": 0.5, "max_relative": 0.5,
                             "target": "x86-64", "output": "y"}],
            "example": {"rows": 1, "inputs": {"x": [1.5, 2]}, "outputs": {"y": [0.5]}},
        },
        "info": {"cpp": {"class": "tfaot_model::digits"}},
        "provenance": statement(make_materials(), tree),
        "sbom": {"components": [{"name": "a", "version": "1", "type": "library", "licenses": [{"license": {"id": "MIT"}}]}]},
        "graph": {"nodes": [{"name": "a", "op": "Dense", "inputs": [], "shape": [1]}, {"name": "b", "inputs": [0]}]},
        "latency": {"measurements": [{"target": "a", "batch_size": 1, "nanoseconds": 5}, {"target": "a", "batch_size": 2, "nanoseconds": 5}]},
    }  # fmt: skip

    def use(data: bytes) -> None:
        try:
            document = read_json(data)
        except ValueError:
            return
        if isinstance(document, dict):
            read = lambda _, asked: document if asked == role else None  # noqa: E731
            repr(page_context(PACKAGE, [entry], None, read, lambda _: "", Registry())).encode()

    fuzz(documents[role], use)


def test_what_is_remembered_of_registries_and_remotes(fuzz: Fuzz, tmp_path: Path) -> None:
    known = {"format": 1, "registries": {"r": {"url": "https://host/", "allow_http": False, "root": "{}"}}}

    def registries(data: bytes) -> None:
        (tmp_path / "registries.json").write_bytes(data)
        Remotes(file=tmp_path / "registries.json").all()

    def remotes(data: bytes) -> None:
        (tmp_path / "remotes.json").write_bytes(data)
        ConanRemotes(file=tmp_path / "remotes.json").all()

    fuzz(known, registries)
    fuzz({"format": 1, "remotes": [{"name": "r", "url": "https://host/", "user": "me", "password_file": ""}]}, remotes)


def test_tunings(fuzz: Fuzz) -> None:
    fuzz(json.loads(tuning_bytes(TUNING)), lambda data: tuning_bytes(parse_tuning(data, "file", "digits")))


def test_pages_of_the_catalogue_that_were_written_before(fuzz: Fuzz) -> None:
    def only_value_errors(parse: Callable[[bytes], object]) -> Callable[[bytes], object]:
        def use(data: bytes) -> None:
            try:
                parse(data)
            except ValueError:
                pass

        return use

    fuzz(
        {"items": [["a", [1]]], "children": {"ab": 1}}, only_value_errors(lambda data: Node.parse("a", data).to_bytes())
    )
    fuzz({"format": 1, "newest": [], "facets": {}}, only_value_errors(Home.parse))
    fuzz({"nodes": []}, only_value_errors(lambda data: nodes_of_document(read_json(data))))


SPEC = (Path(__file__).parent.parent / "recipes" / "tfaot-model-digits" / "all" / "spec.yaml").read_bytes()


def test_specs(fuzz: Any, tmp_path: Path) -> None:
    def use(data: bytes) -> None:
        canonical_json(spec_document(parse_spec(data, tmp_path / "spec.yaml")))

    fuzz(SPEC, use, damaged)
    for line in SPEC.split(b"\n"):
        if b": " in line:
            with expected():
                use(SPEC.replace(line, line.partition(b": ")[0] + b': "\\ud800"'))


class Changing:
    """The files of a registry, of which one is changed."""

    location = "memory"

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def get(self, path: str, limit: int) -> bytes:
        if path not in self.files:
            raise MissingFile(path)
        return self.files[path]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["timestamp", "1.snapshot", "1.root", "1.targets"])
def test_signed_metadata(fuzz: Fuzz, tmp_path: Path, name: str) -> None:
    registry = make_signed(tmp_path)
    files = {p.relative_to(registry.root).as_posix(): p.read_bytes() for p in registry.root.rglob("*") if p.is_file()}
    root, path, number = files["metadata/1.root.json"], f"metadata/{name}.json", 0

    def use(data: bytes) -> None:
        nonlocal number
        number += 1
        changing: Any = Changing({**files, path: data})
        first = data if name == "1.root" else root
        with expected():
            SignedState.load(changing, first)
        SignedIndex(changing, Anchor(folder=tmp_path / f"trust{number}", root=first), "").refresh()

    fuzz(json.loads(files[path]), use)


def test_changes_of_keys(fuzz: Fuzz, tmp_path: Path) -> None:
    root = json.loads((make_signed(tmp_path).root / "metadata" / "1.root.json").read_bytes())
    second = copy.deepcopy(root)
    second["signed"]["version"] = 2
    fuzz({"format": 1, "base": root, "steps": [second]}, lambda data: Rotation.parse(data, "file").to_bytes())


NAMES = st.one_of(
    st.sampled_from([b"a", b"\xff", b"\xed\xa0\x80", b"../a", b"/a", b"a/../b", b"x" * 100, b"", b"a\x00b", b"."]),
    st.binary(max_size=100),
)


@settings(_SETTINGS, max_examples=300)
@given(NAMES, NAMES, st.sampled_from([b"0", b"2", b"5", b"x", b"g", b"L", b"\0"]), st.binary(max_size=12))
def test_names_in_archives(
    tmp_path_factory: pytest.TempPathFactory, name: bytes, link: bytes, kind: bytes, size: bytes
) -> None:
    """Headers that no library writes: names of any bytes, any kind, any size."""
    header = bytearray(tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT))
    header[0:100], header[156:157], header[157:257] = name.ljust(100, b"\0"), kind, link.ljust(100, b"\0")
    if size:
        header[124:136] = size.ljust(12, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    packed = gzip.compress(bytes(header) + bytes(1024), 1)
    with expected():
        unpack(io.BytesIO(packed), tmp_path_factory.mktemp("tree"), what="it")


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"nonsense", b"\xff", b'{"a": "\\ud800"}', b"[1]", b'"x"'])
def test_a_damaged_document_is_shown_to_be_damaged(
    registry: FolderRegistry, make_package: MakePackage, data: bytes
) -> None:
    package = make_package()
    blobs = {**package.blobs, "sbom": data}
    entry = replace(
        package.entry, blobs={**package.entry.blobs, "sbom": BlobRef(sha256=sha256_bytes(data), size=len(data))}
    )
    registry.publish(entry, blobs)
    for flags in ([], ["--json"]):
        done = shown("--sbom", "--registry", str(registry.root), *flags)
        assert done.returncode in (0, 16), done.stderr
        assert (done.returncode == 0) == (data[:1] in b'["')


def test_a_description_in_any_language_is_shown_on_any_terminal(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    package = make_package(description="Zahlen \u00fcber \U0001f600")
    registry.publish(package.entry, package.blobs)
    done = shown("--registry", str(registry.root))
    assert done.returncode == 0, done.stderr
    assert "Zahlen \\xfcber" in done.stdout


_TOGETHER = """
import sys
from dataclasses import make_dataclass
from threading import Barrier, Thread
from tfaot_pkg.ground.documents import convert

sys.setswitchinterval(1e-6)
names = [f"field{number}" for number in range(20)]
value = dict.fromkeys(names, 1)
for number in range(50):
    inner = make_dataclass("Inner", [(name, int) for name in names])
    outer = make_dataclass("Outer", [("one", inner), ("more", tuple[inner, ...])])
    barrier, read = Barrier(8), []

    def work():
        barrier.wait()
        read.append(convert(outer, {"one": value, "more": [value] * 3}))

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [outer(inner(**value), (inner(**value),) * 3)] * 8
"""


def test_threads_that_read_documents_of_a_new_type_at_once_get_them() -> None:
    """In a process of its own: it was killed by SIGSEGV."""
    done = subprocess.run(
        [sys.executable, "-c", _TOGETHER], cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def shown(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`tfaot-pkg show digits` on a terminal that knows ASCII."""
    argv = [sys.executable, "-m", "tfaot_pkg", "show", "digits", *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    return subprocess.run(
        argv, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
