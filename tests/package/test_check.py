"""Whether a package is rejected for what it holds, with the file and the fault named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.registry.conftest import write_tree
from tests.registry.tiny import tiny_files, tiny_info, tiny_libraries, tiny_uid
from tests.wording import reported
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.binary.findings import glibc_floor
from tfaot_pkg.package.check import Identity, package_faults, require_sound
from tfaot_pkg.package.listing import scan_tree

NAME = "tfaot-model-digits"
IDENTITY = Identity(package=NAME, version="1.0", key=Key("a" * 64))
INFO = f"share/{NAME}/info.json"


def faults(
    root: Path, changed: Mapping[str, bytes | str | None] | None = None, identity: Identity = IDENTITY
) -> tuple[str, ...]:
    """Of a package of which some files are others, or missing."""
    files = {**tiny_files("digits", "1.0"), **(changed or {})}
    write_tree(root, {path: content for path, content in files.items() if content is not None})
    return package_faults(root, scan_tree(root), identity)


def info(**changed: object) -> bytes:
    return json.dumps({**json.loads(tiny_info("digits", "1.0")), **changed}).encode()


def test_a_sound_package_has_no_faults(tmp_path: Path) -> None:
    assert faults(tmp_path) == ()


def test_foreign_files_are_all_named(tmp_path: Path) -> None:
    found = faults(tmp_path, {"bin/cmake": b"", "include/stdio.h": b""})
    assert [fault.split()[0] for fault in sorted(found)] == ["'bin/cmake'", "'include/stdio.h'"]


@pytest.mark.parametrize(
    "changed",
    [{"package": "tfaot-model-other"}, {"version": "2.0"}, {"uid": "0" * 12}, {"symbol": "system"}, {"uid": "../.."},
     {"version": None}, {"targets": "x86-64"}],
)  # fmt: skip
def test_what_info_json_says_must_be_the_entrys(changed: dict[str, object], tmp_path: Path) -> None:
    assert any("info.json" in fault for fault in faults(tmp_path, {INFO: info(**changed)}))


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_without_info_json_a_package_is_none(content: bytes | None, tmp_path: Path) -> None:
    assert "info.json" in faults(tmp_path, {INFO: content})[0]


def test_another_version_of_the_same_model_is_told(tmp_path: Path) -> None:
    found = faults(tmp_path, identity=Identity(package=NAME, version="2.0", key=Key("a" * 64)))
    assert found == (f"info.json says that it is {NAME}@1.0",)


def test_the_library_must_be_the_models(tmp_path: Path) -> None:
    static, shared = tiny_libraries("other", "1.0")
    found = faults(tmp_path, {f"lib/lib{NAME}.so": shared, f"lib/lib{NAME}.a": static})
    assert any("exports the symbol tfaot_model_other" in fault for fault in found)
    assert any("defines the symbol tfaot_model_other" in fault for fault in found)
    assert any("SONAME" in fault for fault in found)


def test_provenance_must_be_of_this_build(tmp_path: Path) -> None:
    def document(name: str, key: str) -> bytes:
        internal = {"internalParameters": {"key": key}}
        return json.dumps({"subject": [{"name": name}], "predicate": {"buildDefinition": internal}}).encode()

    path = f"share/{NAME}/provenance.json"
    assert faults(tmp_path / "own", {path: document(f"{NAME}@1.0", IDENTITY.key)}) == ()
    assert faults(tmp_path / "key", {path: document(f"{NAME}@1.0", "b" * 64)})
    assert faults(tmp_path / "name", {path: document(f"{NAME}@1.1", IDENTITY.key)})
    assert faults(tmp_path / "none", {path: b"{}"})


def test_links_lead_to_the_library_only(tmp_path: Path) -> None:
    link = f"lib/lib{NAME}.so.{tiny_uid('1.0')}"
    assert faults(tmp_path / "other", {link: f"lib{NAME}.a"})
    assert faults(tmp_path / "more", {f"share/{NAME}/x": "info.json"})
    assert faults(tmp_path / "file", {link: b""}) == (f"{link} is a file, not a link to the library",)
    assert len(faults(tmp_path / "code", {link: tiny_libraries("digits", "1.0")[1]})) == 2


def test_a_uid_that_none_can_be_is_told_before_anything_is_made_of_it(tmp_path: Path) -> None:
    assert faults(tmp_path, {INFO: info(uid="../..")}) == (
        f"{INFO}: the uid is '../..', not 1 to 64 hexadecimal digits",
    )


def test_two_documents_cannot_both_say_what_a_package_is(tmp_path: Path) -> None:
    """Readers of today take the one, readers of former spellings the other."""
    name = "tfaot-model-test-simple"
    files = {**tiny_files("test_simple", "1.0"), "share/tfaot-model-test_simple/info.json": tiny_info("other", "1.0")}
    write_tree(tmp_path, files)
    identity = Identity(package=name, version="1.0", key=Key("a" * 64))
    assert package_faults(tmp_path, scan_tree(tmp_path), identity) == ("it has more than one info.json",)


def test_the_header_must_be_that_of_the_library(tmp_path: Path) -> None:
    header, symbol = f"include/{NAME}/entry.h", f"tfaot_model_digits_{tiny_uid('1.0')}"
    assert faults(tmp_path / "own", {header: f"const void *{symbol}(void);\n".encode()}) == ()
    found = faults(tmp_path / "other", {header: f"const void *{symbol}0(void);\n".encode()})
    assert found == (f"{header} is not the header of {symbol}",)


def test_programs_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text('extern int system(const char *);\nint main(void) { return system("id"); }\n')
    run(["gcc", "-nostartfiles", "-Wl,-e,main", "a.c", "-o", "a"], cwd=tmp_path)
    path = "bin/digits_test"
    found = faults(tmp_path / "code", {path: (tmp_path / "a").read_bytes()})
    assert found == (f"{path}: it needs the symbol system",)
    (text,) = faults(tmp_path / "text", {path: b"#!/bin/sh\nid\n"})
    assert text.startswith(f"{path}: it is not an ELF file")


def test_only_packages_of_former_versions_may_carry_a_runtime(tmp_path: Path) -> None:
    code = "extern long syscall();\nstatic __attribute__((used)) long f(void) { return syscall(); }\n"
    path, shared = f"lib/lib{NAME}.so", tiny_libraries("digits", "1.0", code)[1]
    assert faults(tmp_path / "today", {path: shared}) == (f"{path}: it needs the symbol syscall",)
    former = json.loads(tiny_info("digits", "1.0"))
    del former["glibc"]
    assert faults(tmp_path / "former", {path: shared, INFO: json.dumps(former).encode()}) == ()


def test_a_library_may_not_need_a_newer_c_library_than_the_package_states(tmp_path: Path) -> None:
    code = "extern void *memcpy(void *, const void *, unsigned long);\n"
    code += "static __attribute__((used)) void f(void *a, void *b, unsigned long n) { memcpy(a, b, n); }\n"
    static, shared = tiny_libraries("digits", "1.0", code)
    floor = glibc_floor(memoryview(shared))
    files = {f"lib/lib{NAME}.so": shared, f"lib/lib{NAME}.a": static}
    assert faults(tmp_path / "stated", {**files, INFO: info(glibc=floor)}) == ()
    (found,) = faults(tmp_path / "older", {**files, INFO: info(glibc="2.1")})
    assert found == f"lib/lib{NAME}.so: it needs memcpy@GLIBC_{floor}, and info.json states glibc 2.1"
    assert "not a version" in faults(tmp_path / "none", {INFO: info(glibc="new")})[0]


def test_code_elsewhere_is_found(tmp_path: Path) -> None:
    static, shared = tiny_libraries("digits", "1.0")
    found = faults(tmp_path, {f"include/{NAME}/a.h": shared, f"share/{NAME}/licenses/b": static})
    assert len(found) == 2 and all("compiled code" in fault for fault in found)


def test_a_library_that_calls_system_is_rejected_with_its_name(tmp_path: Path) -> None:
    code = "extern int system(const char *);\nstatic __attribute__((used)) int f(void) { return system(0); }\n"
    static, shared = tiny_libraries("digits", "1.0", code)
    found = faults(tmp_path, {f"lib/lib{NAME}.so": shared, f"lib/lib{NAME}.a": static})
    assert found == (
        f"lib/lib{NAME}.a: static.o: it needs the symbol system",
        f"lib/lib{NAME}.so: it needs the symbol system",
    )
    with reported(TrustError):
        require_sound(tmp_path, scan_tree(tmp_path), IDENTITY)
