"""The catalogue's files: what they say, how few change, how large they get."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue.registries import (
    HOSTILE,
    entry_of,
    graph_document,
    publish,
    small_registry,
    validation_document,
)
from tests.registry.signing import make_signed
from tests.wording import reported
from tfaot_pkg.catalogue.difference import _made_of
from tfaot_pkg.catalogue.render import FOLDER, HOME, render, update, update_or_note
from tfaot_pkg.catalogue.tree import LEAF
from tfaot_pkg.errors import RegistryError, StorageError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.entry import Deprecation
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.promotion import promote, rollback, set_channels
from tfaot_pkg.registry.server.rules import FOREVER, find_file
from tfaot_pkg.registry.static import StaticRegistry
from tfaot_pkg.spec.rules import package_name

LARGEST = 200_000
"""Bytes that a page may have."""


@dataclass
class Notes(Silent):
    """Progress that remembers its notes."""

    notes: list[str]

    def note(self, text: str) -> None:
        self.notes.append(text)


def content(site: Path) -> dict[str, str]:
    return {
        path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in site.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def page(site: Path, model: str) -> str:
    return (site / f"packages/{package_name(model)}/index.html").read_text()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> FolderRegistry:
    """The small registry with its catalogue. Read only."""
    registry = small_registry(tmp_path_factory.mktemp("shown") / "registry")
    render(registry, registry.root / FOLDER)
    return registry


@pytest.fixture
def registry(tmp_path: Path) -> FolderRegistry:
    return small_registry(tmp_path / "registry")


def test_a_page_says_all_that_the_registry_knows_of_a_package(shown: FolderRegistry) -> None:
    text = page(shown.root / FOLDER, "digits")
    entry = shown.resolve("digits")
    for wanted in (entry.key, entry.tree, "N × 1 × 8 × 8", "x86-64-v3", "1, 2, 4, 8", "MIT", "trained on the wrong data",
                   "1.19e-07", "MatMul", "g++ 12.2.0", "GPL-3.0-or-later WITH GCC-exception-3.1"):  # fmt: skip
        assert wanted in text, wanted
    worst = re.search(r'aria-label="Largest differences".*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert worst and re.sub("<[^>]*>", " ", worst[1]).split() == ["digit", "8", "9.54e-07", "3.4e-07", "0"]
    for blob in entry.blobs.values():
        assert f'href="../../../blobs/sha256/{blob.sha256[:2]}/{blob.sha256[2:]}"' in text


@pytest.mark.parametrize("known", [True, False, None])
def test_a_page_says_if_only_compiled_batch_sizes_run(tmp_path: Path, known: bool | None) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, entry_of("centred", rows_independent=known))
    render(registry, tmp_path / "site")
    said = "no others: rows depend on one another" in page(tmp_path / "site", "centred")
    assert said == (known is False)


@pytest.mark.parametrize("any_size", [True, False])
def test_a_page_says_if_any_batch_size_runs(tmp_path: Path, any_size: bool) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, entry_of("tagger", any_batch_size=any_size))
    render(registry, tmp_path / "site")
    assert ('any <span class="note">(validated and measured: ' in page(tmp_path / "site", "tagger")) == any_size


def test_a_page_names_the_sizes_that_calls_bring(tmp_path: Path) -> None:
    tracks = Tensor(name="tracks", dtype=DType.FLOAT32, shape=(None, 40, 6), axes=("", "n", ""))
    signature = Signature(inputs=(tracks,), outputs=(tracks,), symbols=(Symbol(name="n", minimum=2, maximum=40),))
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, entry_of("tagger", signature=signature))
    render(registry, tmp_path / "site")
    text = page(tmp_path / "site", "tagger")
    assert text.count("N × n × 6</td>") == 2 and "Each call brings n, from 2 to 40." in text


def test_a_page_shows_the_model_card_and_what_is_proven(tmp_path: Path) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    card = f"## Use\n\n#### Deep\n\nFor *jets*: [paper](https://example.org/a), [no](javascript:alert(1)), ![x](https://example.org/x.png)\n\n{HOSTILE}\n\n| a |\n|---|\n| 1 |\n"
    info = {"author": "A. Nonymous", "homepage": "https://example.org/", "training_data": "run 3", "limits": "no pile-up",
            "card": card, "reproducible": "cpus", "other_bits": ["x86-64-v2"],
            "custom_operations": ["ConeWeights"]}  # fmt: skip
    publish(registry, entry_of("tagger", rows_independent=True, glibc="2.14", license="MIT"), info=info)
    publish(
        registry, entry_of("other", license="ours"), info={"homepage": "javascript:alert(1)", "card": 7, "author": []}
    )
    render(registry, tmp_path / "site")
    text = page(tmp_path / "site", "tagger")
    for wanted in ("A. Nonymous", 'href="https://example.org/"', "run 3", "no pile-up", "<h3>Use</h3>", "<h4>Deep</h4>", "<em>jets</em>",
                   'href="https://spdx.org/licenses/MIT.html"', "<td>1</td>", "rows independent",
                   "reproducible: cpus, except x86-64-v2, which lacks fused multiply-add",
                   "contains its author&#39;s operations", "computes ConeWeights", "inert except its author&#39;s operations", "glibc 2.14+", "not signed"):  # fmt: skip
        assert wanted in text, wanted
    assert 'href="https://example.org/a" rel="nofollow noopener noreferrer"' in text
    for name in ("tagger", "other"):
        assert not re.search(
            r'href="javascript|<img|window.hacked = 1</script>|onerror="', page(tmp_path / "site", name)
        )
    assert "spdx.org" not in page(tmp_path / "site", "other")


def test_a_page_states_the_price_of_reduced_precision(tmp_path: Path) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    errors = {
        "output": "digit",
        "elements": 40,
        "mean": 1e-3,
        "quantiles": {"0.999": 0.02, HOSTILE: "x"},
        "argmax": 0.99,
        "tasks": [{"name": "AUC", "ours": 0.98, "theirs": 0.99}, {"name": HOSTILE, "ours": "x"}, 7],
    }
    rows = [{**errors, "target": "x86-64-v2", "largest": 0.03}, {**errors, "target": "x86-64-v3", "largest": 0.04}]
    report = {**validation_document(), "precision": "bfloat16", "accuracy": rows}
    publish(registry, entry_of("tagger"), info={"precision": {"compute": "bfloat16"}}, validation=report)
    wrong = {
        **validation_document(),
        "precision": HOSTILE,
        "accuracy": [{"output": HOSTILE, "largest": "1", "mean": 2}, 7],
    }
    publish(registry, entry_of("other"), info={"precision": HOSTILE}, validation=wrong)
    publish(
        registry, entry_of("third"), info={"precision": {"compute": 7}}, validation={**wrong, "precision": ["bfloat16"]}
    )
    render(registry, tmp_path / "site")
    text = page(tmp_path / "site", "tagger")
    assert "reduced precision: bfloat16" in text and "layers multiply numbers of 8 significant bits" in text
    found = re.search(r'aria-label="Errors".*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert found and re.sub("<[^>]*>", " ", found[1]).split() == [
        *("digit", "0.04", "0.001", "0.999:", "0.02", "99", "%", "AUC", "0.98", "(float32", "0.99)")
    ]  # fmt: skip
    assert "allowed: relative" not in text
    for name in ("other", "third"):
        text = page(tmp_path / "site", name)
        assert "reduced precision" not in text and 'aria-label="Errors"' not in text and "allowed: relative" in text


def test_several_signatures_are_shown_by_name_and_programs_call_the_first(tmp_path: Path) -> None:
    x, z = (Tensor(name=name, dtype=DType.FLOAT32, shape=(None, 2)) for name in ("encode/x", "encode/z"))
    gain = Tensor(name="decode/z", dtype=DType.FLOAT32, shape=(None, 1))
    named = [{"name": "decode", "class": "m::coder_decode", "inputs": ["decode/z"], "outputs": ["encode/z"]},
             {"name": "encode", "class": "m::coder_encode", "inputs": ["encode/x"], "outputs": ["encode/z"]}]  # fmt: skip
    example = {"rows": 1, "inputs": {"decode/z": [0.1], "encode/x": [1, 2]}, "outputs": {"encode/z": [3, 4]}}
    registry = FolderRegistry.create(tmp_path / "registry")
    for number, listed in enumerate((named[1:] + named[:1], [{**named[0], "inputs": ["unknown"]}], [{}], 7, [HOSTILE])):
        entry = entry_of(f"coder{number}", signature=Signature(inputs=(gain, x), outputs=(z,)))
        publish(registry, entry, info={"signatures": listed}, validation={**validation_document(), "example": example})
    render(registry, tmp_path / "site")
    assert "tfaot::Shared&lt;tfaot_model::coder4&gt; model;" in page(
        tmp_path / "site", "coder4"
    )  # without a class in info.json
    text = page(tmp_path / "site", "coder0")
    for wanted in ('<h3 id="signature-encode"', 'aria-label="Inputs of decode"', "const tfaot::Shared&lt;m::coder_encode&gt; model;",
                   ".signatures[&#34;encode&#34;]", "-&gt;info-&gt;signatures[0].table", "const float x[]{", "1, 2"):  # fmt: skip
        assert wanted in text, wanted
    assert ">encode/x</th>" not in text
    for number in range(1, 5):
        assert ">encode/x</th>" in page(tmp_path / "site", f"coder{number}")


def test_each_version_has_a_page_with_what_changed(tmp_path: Path) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    rows: list[dict[str, Any]] = [{"target": "x86-64-v3", "batch_size": 1, "nanoseconds": 15_000, "spread": 0.01}]
    for version, answer, time, layers in (("1.0.0", 0.5, 15_000, 2), ("1.1.0", 0.75, 2_400_000, 3)):
        publish(
            registry, entry_of("tagger", version), graph=graph_document(layers),
            validation={**validation_document(), "example": {"rows": 1, "inputs": {"x": [1]}, "outputs": {"digit": [answer]}}},
            latency={"processor": "A CPU", "date": "2026-01-02", "load": 0.5,
                     "measurements": [{**rows[0], "nanoseconds": time, "spread": 0.5 if version == "1.1.0" else 0.01}]},
            bench={"processor": "A CPU" if version == "1.1.0" else "Another", "date": "2026-01-01",
                   "engines": [{"title": title, "version": "1.2.3", "is_ours": title == "tfaot",
                                "measurements": [{"batch_size": 1, "nanoseconds": cost}, {"batch_size": 4, "nanoseconds": cost}]}
                               for title, cost in (("Slow", 9e6), ("tfaot", 1e6), ("Fast", 2e6))] + [HOSTILE, {}]},
        )  # fmt: skip
    registry.yank("tagger", "1.0.0", "bad")
    render(registry, tmp_path / "site")
    folder = tmp_path / "site" / "packages" / "tfaot-model-tagger"
    new, old, moved = ((folder / name).read_text() for name in ("index.html", "1.0.0/index.html", "1.1.0/index.html"))
    for wanted in ("Since 1.0.0", "up to 0.25 apart", "15 µs", "2.4 ms", "MatMul: 2 → 3", "A CPU, 2026-01-02, load 0.5",
                   "Noisy: the machine was busy", "tfaot-model-tagger/1.0.0/index.html"):  # fmt: skip
        assert wanted in new, wanted
    assert new.index('<th scope="row">tfaot <span') < new.index(">Fast</th>") < new.index(">Slow</th>")
    assert "The dashed line is the fastest other engine, Fast." in new
    assert 'class="series series-4"' in new and "series-4" not in old
    assert "Since" not in old and "The current version is" in old and "Noisy" not in old
    assert 'href="../../../packages/tfaot-model-tagger/index.html"' in moved


def test_nothing_that_a_publisher_wrote_is_markup(shown: FolderRegistry) -> None:
    for path in (shown.root / FOLDER).rglob("*.html"):
        text = path.read_text()
        assert "window.hacked = 1</script>" not in text, path
        assert "<img" not in text, path
        assert "49" not in re.findall(r"\{\{.*?\}\}|pixels 49", text), path
    assert HOSTILE.replace("&", "&amp;").replace("<", "&lt;").split("'")[0].replace(">", "&gt;") in page(
        shown.root / FOLDER, "evil"
    )


def test_pages_have_no_inline_script_or_style_and_name_no_other_host(shown: FolderRegistry) -> None:
    for path in (shown.root / FOLDER).rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"<style|\sstyle=|\son\w+=[\"'](?!window)", re.sub(r"&\S+;", "", text)), path
        assert re.findall(r"<script[^>]*>([^<]*)", text) == ([] if "<title>Moved" in text else [""]), path
        assert not re.search(r'(?:src|<link[^>]* href)="(?:https?:)?//', text), path
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        assert "default-src &#39;none&#39;" in policy
        assert "unsafe" not in policy


def test_rendering_twice_gives_the_same_bytes_and_removes_what_is_gone(registry: FolderRegistry) -> None:
    site = registry.root / FOLDER
    render(registry, site)
    before = content(site)
    (site / "packages/tfaot-model-gone").mkdir()
    (site / "packages/tfaot-model-gone/index.html").write_text("old")
    (site / "assets/site.0123.js").write_text("old")
    done = render(registry, site)
    assert content(site) == before
    assert done.files == len(before)


@pytest.mark.slow
def test_following_every_change_gives_what_rendering_at_once_gives(registry: FolderRegistry, tmp_path: Path) -> None:
    site = registry.root / FOLDER
    render(registry, site)
    publish(registry, entry_of("digits", "2.0.0", description="Another description", license="BSD-3-Clause"))
    update(registry, site, "digits")
    registry.deprecate("wine", Deprecation(use="digits", reason="old"))
    update(registry, site, "tfaot-model-wine")
    registry.yank("jet_tagger", "0.9.0", "bad")
    update(registry, site, "jet_tagger")
    for number in range(LEAF + 20):  # a leaf of the trees is divided
        publish(registry, entry_of(f"many_{number}"))
        update(registry, site, f"many_{number}")
    at_once = tmp_path / "registry" / "again"
    render(registry, at_once)
    assert listed(site) == listed(at_once)
    assert json.loads((site / HOME).read_bytes()) == json.loads((at_once / HOME).read_bytes())
    for path in at_once.rglob("packages/*/index.html"):
        assert (site / path.relative_to(at_once)).read_bytes() == path.read_bytes(), path
    home = (site / "index.html").read_text()
    assert home == (at_once / "index.html").read_text()


def listed(site: Path, tree: str = "") -> dict[str, list[object]]:
    """All items of both trees by key."""
    items = {}
    for path in site.rglob(f"{tree or '*'}/*.json"):
        for key, value in json.loads(path.read_bytes())["items"]:
            items[f"{path.parent.name} {key}"] = value
    return items


def test_a_change_rewrites_its_page_its_shards_and_home_only(registry: FolderRegistry) -> None:
    site = registry.root / FOLDER
    render(registry, site)
    before = content(site)
    publish(
        registry,
        entry_of("wine", "2.0.0", description="Which cultivar a wine is of, from thirteen chemical measurements"),
    )
    update(registry, site, "wine")
    after = content(site)
    changed = {path for path, digest in after.items() if before.get(path) != digest}
    pages = {path for path in changed if path.startswith("packages/")}
    assert pages == {f"packages/tfaot-model-wine/{page}index.html" for page in ("", "1.0.0/", "2.0.0/")}
    assert changed - pages <= {
        HOME,
        "index.html",
        "list/l.html",
        "list/l.json",
        *(p for p in changed if p.startswith("words/")),
    }


def test_a_registry_without_catalogue_gets_a_whole_one_with_the_next_publication(registry: FolderRegistry) -> None:
    update(registry, registry.root / FOLDER, "wine")
    assert "digits" in (registry.root / FOLDER / "index.html").read_text()


@pytest.mark.parametrize("name", [HOME, "list/l.json", "words/w.json"])
def test_a_damaged_catalogue_is_made_anew(registry: FolderRegistry, name: str) -> None:
    site = registry.root / FOLDER
    render(registry, site)
    before = content(site)
    (site / name).write_bytes(b'{"items":')
    publish(registry, entry_of("wine", "2.0.0"))
    update(registry, site, "wine")
    assert json.loads((site / name).read_bytes())
    assert set(content(site)) >= {path for path in before if not path.startswith("words/")}


def test_a_catalogue_that_cannot_be_written_is_a_note_and_the_package_is_published(registry: FolderRegistry) -> None:
    (registry.root / FOLDER).write_text("in the way")
    progress = Notes(notes=[])
    update_or_note(registry, "wine", progress)
    assert len(progress.notes) == 1
    assert "the catalogue was not updated" in progress.notes[0]


def test_a_folder_that_holds_something_else_is_not_touched(registry: FolderRegistry, tmp_path: Path) -> None:
    precious = tmp_path / "project" / "packages" / "thesis.tex"
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    with reported(RegistryError):
        render(registry, tmp_path / "project")
    assert precious.read_text() == "precious"


def test_a_file_in_place_of_the_folder_is_a_storage_error(registry: FolderRegistry, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        render(registry, tmp_path / "file")


def test_documents_that_are_not_of_their_form_are_left_out(registry: FolderRegistry) -> None:
    nasty = {"comparisons": [1, {"batch_size": "x"}], "warnings": 7, "nodes": [{"inputs": [99]}], "components": [[]],
             "predicate": [], "measurements": [{"batch_size": 0, "nanoseconds": -1}]}  # fmt: skip
    publish(registry, entry_of("nasty"), validation=nasty, graph=nasty, sbom=nasty, provenance=nasty, latency=nasty)
    publish(registry, entry_of("nastier"), validation=b"\xff", graph=b"[" * 100_000, sbom=b"[]", provenance=b"null")
    render(registry, registry.root / FOLDER)
    assert "nasty" in page(registry.root / FOLDER, "nasty")
    assert "1 input, 1 operation, 1 output" in page(registry.root / FOLDER, "nastier")


def test_a_damaged_index_file_costs_its_own_package_only(registry: FolderRegistry) -> None:
    (registry.root / "index/wi/ne/tfaot-model-wine").write_bytes(b"{}\n")
    done = render(registry, registry.root / FOLDER)
    assert len(done.damaged) == 1
    assert "tfaot-model-wine" in done.damaged[0]
    assert done.packages == 7


def test_the_largest_pages_stay_below_their_limit(tmp_path: Path) -> None:
    """A package with as much of everything as a publisher can give, of characters that escaping makes long."""
    registry = FolderRegistry.create(tmp_path / "registry")
    long = "\"<&>'" * 70
    rows = [{"batch_size": n, "elements": 1, "failures": 0, "max_absolute": 0.1, "max_relative": 0.1,
             "target": long, "output": long} for n in range(300)]  # fmt: skip
    fields: dict[str, Any] = {
        "description": long * 50,
        "license": long,
        "toolchain": long,
        "targets": (long,) * 100,
        "batch_sizes": tuple(range(1, 1000)),
    }
    publish(
        registry, entry_of("large", **fields),
        validation={"comparisons": rows, "reference": long, "warnings": [long] * 1000, "not_run": [long] * 1000},
        sbom={"components": [{"name": long, "version": long, "licenses": [{"expression": long}] * 100}] * 1000},
        graph={"nodes": [{"name": long, "op": long, "kind": "operation", "dtype": long, "shape": [1] * 9, "inputs": [max(0, n - 1), max(0, n - 3)]} for n in range(120)]},
    )  # fmt: skip
    render(registry, registry.root / FOLDER)
    assert "120 operations" in page(registry.root / FOLDER, "large")
    assert {
        path.name: path.stat().st_size
        for path in (registry.root / FOLDER).rglob("*.html")
        if path.stat().st_size > LARGEST
    } == {}


def test_a_signed_registry_is_shown_too(tmp_path: Path) -> None:
    registry = make_signed(tmp_path)
    publish(registry, entry_of("digits"))
    reader: StaticRegistry = registry
    done = render(reader, registry.root / FOLDER)
    assert done.packages == 1
    assert "signed registry" in (registry.root / FOLDER / "index.html").read_text()


def test_all_files_of_a_catalogue_may_be_served_and_assets_are_kept_for_ever(registry: FolderRegistry) -> None:
    publish(registry, entry_of("deadbeefdeadbeef", description="ключ 鍵 _ part. keys/private deadbeefdeadbeefdead"))
    render(registry, registry.root / FOLDER)
    for path in content(registry.root / FOLDER):
        served = find_file(registry.root, f"/{FOLDER}/{path}")
        assert served is not None, path
        assert (served.cache_control == FOREVER) == path.startswith("assets/"), path


def test_a_page_offers_what_the_default_channel_has(tmp_path: Path) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, entry_of("digits", version="1.0.0+tf2.17.1.b1"))
    set_channels(registry, Channels())
    registry = FolderRegistry.open(registry.root)
    publish(registry, entry_of("digits", version="1.0.0+tf2.21.0.b1"))
    site = tmp_path / "site"
    render(registry, site, progress=Silent())
    assert _offered(site) == "1.0.0+tf2.17.1.b1"
    for channel in ("candidate", "stable"):
        promote(registry, ["digits"], channel)
    render(registry, site, progress=Silent())
    assert _offered(site) == "1.0.0+tf2.21.0.b1"
    rollback(registry, "digits", reason="wrong")
    render(registry, site, progress=Silent())
    assert _offered(site) == "1.0.0+tf2.17.1.b1"


def _offered(site: Path) -> str:
    """The version in whose row the page says so, with the channels that have it."""
    rows = [row for row in page(site, "digits").split("<tr") if ">offered<" in row]
    (row,) = rows
    assert ">stable<" in row
    found = re.search(r"1\.0\.0\+tf[0-9.]+b1", row)
    assert found is not None
    return found[0]


def test_a_version_says_which_inputs_differ_from_the_version_before() -> None:
    def provenance(model: str, compiler: str, version: str) -> dict[str, Any]:
        pinned = {"name": "numpy", "uri": "pkg:pypi/numpy", "digest": {"sha256": model}}
        return {
            "predicate": {
                "buildDefinition": {
                    "externalParameters": {"spec": {"model": {"name": "m", "version": version}}},
                    "internalParameters": {"compiler": {"version": compiler}, "toolchain": {"identity": "t"}},
                    "resolvedDependencies": [{"name": "model", "digest": {"sha256": model}}, pinned],
                },
                "runDetails": {"builder": {"version": {"tfaot-pkg": "1"}}},
            }
        }

    one = provenance("a", "12", "1.0")
    told = [
        _made_of(one, other)[0].after for other in (one, provenance("a", "13", "1.1"), provenance("b", "12", "1.1"))
    ]
    assert told == ["the same inputs", "compiler", "model"]
    assert _made_of(one, {}) == []
