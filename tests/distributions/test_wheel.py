"""Wheels: their names, metadata and records, for packages of every kind, hostile ones too."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import platform
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from tests.distributions.conftest import Publish, members
from tests.registry.tiny import tiny_libraries
from tests.wording import reported
from tfaot_pkg.errors import PrefixError, RegistryError
from tfaot_pkg.pipeline.distributions.exporting import export_published
from tfaot_pkg.pipeline.distributions.facts import Facts, Platform
from tfaot_pkg.pipeline.distributions.files import File
from tfaot_pkg.pipeline.distributions.wheel import platform_tag, wheel_of
from tfaot_pkg.registry.folder import FolderRegistry

HERE = Platform(architecture="x86_64", glibc=17)


def metadata_of(wheel: Path) -> tuple[str, Metadata]:
    """The folder of a wheel's metadata, and the metadata, checked as an index checks them."""
    (name,) = (name for name in members(wheel) if name.endswith("/METADATA"))
    return name.removesuffix("/METADATA"), Metadata.from_email(members(wheel)[name])


def test_name_metadata_and_record_are_those_of_the_version(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    version = "1.2.3+tf2.17.1.b10"
    publish(version)
    (wheel,) = export_published(registry, f"digits@{version}", "wheel", tmp_path / "out").files
    name, parsed, _, (tag,) = parse_wheel_filename(wheel.name)
    assert (name, parsed, tag.interpreter, tag.abi) == ("tfaot-model-digits", Version(version), "py3", "none")
    folder, metadata = metadata_of(wheel)
    assert folder == f"tfaot_model_digits-{Version(version)}.dist-info"
    assert (metadata.name, metadata.version) == ("tfaot-model-digits", Version(version))
    assert metadata.license_files == ["LICENSE.txt"]
    files = members(wheel)
    rows = {path: (digest, size) for path, digest, size in csv.reader(files[f"{folder}/RECORD"].decode().splitlines())}
    assert rows.pop(f"{folder}/RECORD") == ("", "")
    digests = {path: base64.urlsafe_b64encode(hashlib.sha256(data).digest()) for path, data in files.items()}
    expected = {path: (f"sha256={digests[path].decode().rstrip('=')}", str(len(data))) for path, data in files.items()}
    assert rows == {path: row for path, row in expected.items() if path != f"{folder}/RECORD"}
    assert {f"{folder}/licenses/LICENSE.txt", f"{folder}/sboms/sbom.cdx.json"} <= files.keys()
    library = "tfaot_model_digits/prefix/lib/libtfaot-model-digits.so"
    assert [files[path] for path in files if path.startswith(library)] == 2 * [files[library]], "links are copies"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the cross compiler is that of x86-64")
def test_each_architecture_has_a_wheel_with_its_tag(registry: FolderRegistry, publish: Publish, tmp_path: Path) -> None:
    publish("1.0")
    publish("1.0", compiler="aarch64-linux-gnu-gcc", target="aarch64")
    done = export_published(registry, "digits", "wheel", tmp_path / "out")
    names = {f"tfaot_model_digits-1.0-py3-none-manylinux_2_17_{each}.whl" for each in ("x86_64", "aarch64")}
    assert {path.name for path in done.files} == {path.name for path in (tmp_path / "out").iterdir()} == names
    (other,) = export_published(registry, "digits", "wheel", tmp_path / "other", "aarch64").files
    (library,) = (data for path, data in members(other).items() if path.endswith("digits.so"))
    assert library[18:20] == (183).to_bytes(2, "little")
    with reported(RegistryError):
        publish("2.0")
        export_published(registry, "digits@2.0", "wheel", tmp_path / "none", "aarch64")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="symbols are those of x86-64")
@pytest.mark.parametrize(
    ("code", "options", "tag"),
    [
        ("int gettid(void); int call(void) { return gettid(); }\n", (), "manylinux_2_30_x86_64"),
        ("", ("-Wl,--no-as-needed", "-lgcc_s"), "linux_x86_64"),
    ],
    ids=["a symbol of glibc 2.30", "a library that is not glibc's"],
)
def test_the_tag_is_what_the_library_needs(code: str, options: tuple[str, ...], tag: str) -> None:
    _, shared = tiny_libraries("digits", "1.0", code, *options)
    assert platform_tag(Platform.of([shared], "digits")) == tag


HOSTILE = "first\nName: other\r\n\r\nBody\x00\x1b[31m\u2028 \u202e"


def test_texts_of_an_author_add_no_line_to_metadata(tmp_path: Path) -> None:
    info = dict.fromkeys(("description", "author", "license", "homepage"), HOSTILE)
    facts = Facts.of("tfaot-model-digits", "1.0", json.dumps({**info, "targets": [HOSTILE]}).encode(), HERE)
    made = wheel_of(facts, [File.made("lib/libtfaot-model-digits.so", b"")])
    made.write_to(tmp_path / made.name)
    _, metadata = metadata_of(tmp_path / made.name)
    assert (metadata.name, metadata.version) == ("tfaot-model-digits", Version("1.0"))
    assert metadata.summary and metadata.summary.startswith("first Name: other Body")
    assert metadata.project_urls in (None, {}) and not metadata.license_expression


def test_what_can_be_no_wheel_is_rejected() -> None:
    for name in ("tfaot-model-a--b", "tfaot-model-a-"):
        with reported(RegistryError):
            wheel_of(Facts.of(name, "1.0", b"{}", HERE), [])
    for version, info in [("1.0\nName: other", b"{}"), ("1.0", b"[]"), ("1.0", b"{")]:
        with reported(PrefixError):
            Facts.of("tfaot-model-digits", version, info, HERE)
