"""What is found in files that no compiler writes: real ones, of which some bytes were changed."""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.binary.test_findings import ENTRY_ONLY, RULES, Workshop, archived, calling
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.binary.elf import opened, read_elf
from tfaot_pkg.package.binary.findings import object_findings, shared_library_findings, static_library_findings

only_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="made of x86-64's assembly")

DYNAMIC, STACK = 2, 0x6474E551  # kinds of program headers
NULL, SONAME, DEBUG, TEXTREL, FLAGS = 0, 14, 21, 22, 30  # tags of the dynamic section
COPY = {"x86_64": 5, "aarch64": 1024}


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def library(workshop: Workshop, code: str = "", *options: str) -> bytearray:
    return bytearray(workshop.library(code, *options).read_bytes())


def section(content: bytes | bytearray, name: str) -> tuple[int, int]:
    """Where a section is: its offset and its size."""
    (found,) = (each for each in read_elf(memoryview(content)).sections if each.name == name)
    return found.offset, found.size


def program_headers(content: bytes | bytearray) -> dict[int, int]:
    """Where they are, with their kinds."""
    (start,) = struct.unpack_from("<Q", content, 32)
    (count,) = struct.unpack_from("<H", content, 56)
    return {at: struct.unpack_from("<I", content, at)[0] for at in range(start, start + 56 * count, 56)}


def dynamic_entries(content: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Where each is, with its tag."""
    start, size = section(content, ".dynamic")
    for at in range(start, start + size, 16):
        yield at, struct.unpack_from("<q", content, at)[0]


def findings(content: bytes | bytearray) -> tuple[str, ...]:
    return shared_library_findings(memoryview(content), RULES)


def test_without_a_header_of_the_stack_it_is_executable(workshop: Workshop) -> None:
    content = library(workshop)
    (stack,) = (at for at, kind in program_headers(content).items() if kind == STACK)
    content[stack : stack + 4] = bytes(4)
    assert findings(content) == ("it makes the stack executable",)


def test_an_object_without_a_note_about_the_stack_makes_it_executable(workshop: Workshop) -> None:
    workshop.object_file(ENTRY_ONLY)
    run(["objcopy", "--remove-section", ".note.GNU-stack", "a.o"], cwd=workshop.folder)
    with opened(workshop.folder / "a.o") as data:
        assert object_findings(data, RULES) == ("it makes the stack executable",)


@only_x86_64
@pytest.mark.parametrize("left", ["tag", "flag"])
def test_one_sign_of_relocations_of_code_is_enough(workshop: Workshop, left: str) -> None:
    """Linkers write two; each makes the loader write into code."""
    content = library(workshop, '__asm__(".text\\n.quad tfaot_model_entry\\n");\n', "-Wl,-z,notext")
    at = {tag: at for at, tag in dynamic_entries(content)}
    if left == "tag":
        struct.pack_into("<Q", content, at[FLAGS] + 8, 0)
    else:
        struct.pack_into("<q", content, at[TEXTREL], DEBUG)
    assert findings(content) == ("its dynamic section has TEXTREL",)


def test_data_that_is_taken_over_from_another_library_is_found(workshop: Workshop) -> None:
    content = library(workshop, calling("malloc"))
    start, _ = section(content, ".rela.plt")
    struct.pack_into("<I", content, start + 8, COPY[platform.machine()])
    assert findings(content) == ("it takes data of other libraries over (COPY)",)


def test_a_version_that_is_not_glibcs_is_found(workshop: Workshop) -> None:
    """A library of that name and version would have to be somewhere."""
    (workshop.folder / "versions").write_text("OTHER_1.0 { global: exp; };\n")
    (workshop.folder / "other.c").write_text("double exp(double x) { return x; }\n")
    options = ["-Wl,-soname,libm.so.6", "-Wl,--version-script=versions", "-fno-builtin", "-nostdlib"]
    run(["gcc", "-shared", "-fPIC", *options, "other.c", "-o", "libother.so"], cwd=workshop.folder)
    found = workshop.shared(calling("exp"), "-Wl,--no-as-needed", "-L.", "-lother")
    assert found == ("it needs the version OTHER_1.0 of the system's libraries",)


def test_a_second_dynamic_section_is_refused(workshop: Workshop) -> None:
    content = library(workshop)
    (stack,) = (at for at, kind in program_headers(content).items() if kind == STACK)
    struct.pack_into("<I", content, stack, DYNAMIC)
    (finding,) = findings(content)
    assert "several dynamic sections" in finding


def test_a_tag_that_stands_twice_is_refused(workshop: Workshop) -> None:
    """One reader would take the first, another one the last."""
    content = library(workshop)
    entries = list(dynamic_entries(content))
    end = next(i for i, (_, tag) in enumerate(entries) if tag == NULL)
    assert entries[end + 1][1] == NULL, "the linker leaves some room"
    (name,) = (at for at, tag in entries if tag == SONAME)
    at = entries[end][0]
    content[at : at + 16] = content[name : name + 16]
    (finding,) = findings(content)
    assert "says 0xe twice" in finding


def test_a_number_of_a_version_that_stands_twice_is_refused(workshop: Workshop) -> None:
    content = library(workshop, calling("exp", "pow", "memcpy"))
    start, _ = section(content, ".gnu.version_r")
    numbers = []
    need = start
    while True:
        _, count, _, first, following = struct.unpack_from("<HHIII", content, need)
        at = need + first
        for _ in range(count):
            numbers.append(at + 6)
            at += struct.unpack_from("<I", content, at + 12)[0]
        if not following:
            break
        need += following
    assert len(numbers) > 1
    content[numbers[1] : numbers[1] + 2] = content[numbers[0] : numbers[0] + 2]
    (finding,) = findings(content)
    assert "an index twice" in finding


def test_names_that_overlap_are_refused(workshop: Workshop) -> None:
    """Many symbols with the same long name would take memory out of proportion to the file."""
    code = "".join(f"void f{number}(void) {{}}\n" for number in range(40))
    content = bytearray(workshop.object_file(f"{code}void {'x' * 60_000}(void) {{}}\n{ENTRY_ONLY}").read_bytes())
    names, _ = section(content, ".strtab")
    long = content.index(b"x" * 60_000, names) - names
    start, size = section(content, ".symtab")
    for number, at in enumerate(range(start + 24, start + size, 24)):
        struct.pack_into("<I", content, at, long + number)
    (finding,) = object_findings(memoryview(content), RULES)
    assert "its names overlap" in finding


def test_a_library_is_no_object_also_not_as_a_member(workshop: Workshop) -> None:
    content = library(workshop)
    assert object_findings(memoryview(content), RULES) == ("it is not an object",)
    (workshop.folder / "a.o").write_bytes(content)
    with opened(archived(workshop, "rcSD")) as data:
        assert static_library_findings(data, RULES) == ("a.o: it is not an object",)


def test_functions_of_an_object_that_choose_functions_are_found(workshop: Workshop) -> None:
    code = (
        "static int one(void) { return 1; }\nstatic int (*choose(void))(void) { return one; }\n"
        'static int f(void) __attribute__((ifunc("choose")));\n__attribute__((used)) static int g(void) { return f(); }\n'
    )
    assert workshop.objects(code) == ("it has functions that the loader calls to choose others (IFUNC)",)


@pytest.mark.parametrize("kind", ["init_array", "fini_array", "preinit_array"])
def test_a_section_that_runs_is_known_by_its_kind_whatever_its_name(workshop: Workshop, kind: str) -> None:
    code = f'__asm__(".section .mine,\\"aw\\",%{kind}\\n.quad 0\\n.text\\n");\n'
    assert workshop.objects(code) == ("its section .mine makes code run when it is loaded or unloaded",)


@pytest.mark.parametrize("more", [b"\0", b"hidden" * 1000])
def test_bytes_after_the_end_are_found(workshop: Workshop, more: bytes) -> None:
    """Neither a linker nor a loader looks at them."""
    found = f"there are {len(more):,} bytes after its end"
    assert shared_library_findings(memoryview(library(workshop) + more), RULES) == (found,)
    made = workshop.object_file(ENTRY_ONLY)
    made.write_bytes(made.read_bytes() + more)
    assert object_findings(memoryview(made.read_bytes()), RULES) == (found,)
    member = static_library_findings(memoryview(archived(workshop, "rcs").read_bytes()), RULES)
    assert member == (f"a.o: {found}",)
