"""What is found in compiled files: one real library per finding, made by the compiler of this machine."""

from __future__ import annotations

import platform
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tfaot_pkg.ground.process import run
from tfaot_pkg.package.binary.elf import opened, read_elf
from tfaot_pkg.package.binary.findings import (
    Rules,
    above_floor,
    glibc_floor,
    object_findings,
    program_findings,
    shared_library_findings,
    static_library_findings,
)

SYMBOL = "tfaot_model_a_0123456789ab"
SONAME = "libtfaot-model-a.so.0123456789ab"
RULES = Rules(architecture=platform.machine(), symbol=SYMBOL, soname=SONAME)
ENTRY = f"const void *{SYMBOL}(void) {{ return 0; }}\nconst void *tfaot_model_entry(void) {{ return {SYMBOL}(); }}\n"
ENTRY_ONLY = ENTRY.splitlines()[0] + "\n"
FLAGS = ("-O1", "-fPIC", "-fno-builtin", "-fvisibility=hidden")
VISIBLE = "#pragma GCC visibility push(default)\n"

only_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="made of x86-64's assembly")


class Workshop:
    """Makes files and says what is found in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def object_file(self, code: str, *flags: str, name: str = "a.o") -> Path:
        (self.folder / "a.c").write_text(VISIBLE + code)
        run(["gcc", *FLAGS, *flags, "-c", "a.c", "-o", name], cwd=self.folder)
        return self.folder / name

    def library(self, code: str = "", *options: str, soname: str = SONAME) -> Path:
        self.object_file(code + ENTRY)
        command = ["gcc", "-shared", "-nostartfiles", f"-Wl,-soname,{soname}", "-Wl,-z,noexecstack", *options]
        run([*command, "a.o", "-o", "a.so", "-Wl,--as-needed", "-lm"], cwd=self.folder)
        return self.folder / "a.so"

    def shared(self, code: str = "", *options: str, rules: Rules = RULES, soname: str = SONAME) -> tuple[str, ...]:
        with opened(self.library(code, *options, soname=soname)) as data:
            return shared_library_findings(data, rules)

    def objects(self, code: str = "", *flags: str, entry: str = ENTRY_ONLY) -> tuple[str, ...]:
        with opened(self.object_file(code + entry, *flags)) as data:
            return object_findings(data, RULES)

    def program(self, code: str, *options: str, rules: Rules = RULES) -> tuple[str, ...]:
        self.object_file(code)
        begin = () if rules.carries_runtime else ("-nostartfiles", "-Wl,-e,main")
        run(["gcc", "a.o", *begin, *options, "-o", "a"], cwd=self.folder)
        with opened(self.folder / "a") as data:
            return program_findings(data, rules)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def calling(*names: str) -> str:
    """C that calls functions without their headers."""
    declared = "".join(f"extern long {name}(); " for name in names)
    return (
        f"{declared}\nstatic __attribute__((used)) long use(void) {{ return {' + '.join(f'{n}()' for n in names)}; }}\n"
    )


# --- shared libraries -------------------------------------------------------------------------------------------------


def test_a_library_that_computes_has_no_findings(workshop: Workshop) -> None:
    assert workshop.shared(calling("memcpy", "malloc", "free", "exp", "powf", "snprintf", "posix_memalign")) == ()


@pytest.mark.parametrize(
    "name", ["system", "execve", "dlopen", "socket", "fopen", "getenv", "open", "mmap", "syscall", "fork", "connect"]
)
def test_a_function_that_no_model_needs_is_found(workshop: Workshop, name: str) -> None:
    assert workshop.shared(calling(name)) == (f"it needs the symbol {name}",)


def test_a_weak_reference_counts(workshop: Workshop) -> None:
    code = "__attribute__((weak)) int system(const char*);\nstatic __attribute__((used)) int f(void) { return system(0); }\n"
    assert workshop.shared(code) == ("it needs the symbol system",)


def test_an_address_that_is_only_stored_counts(workshop: Workshop) -> None:
    assert workshop.shared("extern int system(const char*);\nint (*volatile kept)(const char*) = system;\n") == (
        "it needs the symbol system",
        "it exports the symbol kept",
    )


def test_all_of_the_section_headers_may_be_missing(workshop: Workshop) -> None:
    """The loader does not look at them."""
    library = workshop.library(calling("system"))
    content = bytearray(library.read_bytes())
    content[0x28:0x30] = bytes(8)  # e_shoff
    content[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    library.write_bytes(content[: read_elf(memoryview(content)).end])
    with opened(library) as data:
        assert shared_library_findings(data, RULES) == ("it needs the symbol system",)


def test_another_hash_table_hides_nothing(workshop: Workshop) -> None:
    for style in ("sysv", "gnu", "both"):
        assert workshop.shared(calling("system"), f"-Wl,--hash-style={style}") == ("it needs the symbol system",)


def test_another_library_is_found(workshop: Workshop) -> None:
    run(
        ["gcc", "-shared", "-x", "c", "/dev/null", "-o", "libother.so", "-Wl,-soname,libother.so.1"],
        cwd=workshop.folder,
    )
    found = workshop.shared("", "-Wl,--no-as-needed", "libother.so")
    assert found == ("it needs the library libother.so.1",)


def test_memory_that_is_writable_and_executable_is_found(workshop: Workshop) -> None:
    code = '__asm__(".section .both,\\"awx\\",%progbits\\n.byte 0\\n.text\\n");\n'
    assert workshop.shared(code) == ("it has memory that is both writable and executable",)


def test_an_executable_stack_is_found(workshop: Workshop) -> None:
    assert workshop.shared("", "-Wl,-z,execstack") == ("it makes the stack executable",)


@pytest.mark.parametrize(
    ("code", "when"),
    [
        ('__attribute__((constructor)) static void f(void) { __asm__(""); }\n', "loaded"),
        ('__attribute__((destructor)) static void f(void) { __asm__(""); }\n', "unloaded"),
        ("void _init(void) {}\n", "loaded"),
        ("void _fini(void) {}\n", "unloaded"),
    ],
)
def test_code_that_runs_by_itself_is_found(workshop: Workshop, code: str, when: str) -> None:
    assert any(f"runs code when it is {when}" in finding for finding in workshop.shared(code))


@only_x86_64
def test_relocations_of_code_are_found(workshop: Workshop) -> None:
    code = '__asm__(".text\\n.quad tfaot_model_entry\\n");\n'
    assert "its dynamic section has TEXTREL" in workshop.shared(code, "-Wl,-z,notext")


def test_functions_that_choose_functions_are_found(workshop: Workshop) -> None:
    code = (
        "static int one(void) { return 1; }\nstatic int (*choose(void))(void) { return one; }\n"
        'static int f(void) __attribute__((ifunc("choose")));\n__attribute__((used)) static int g(void) { return f(); }\n'
    )
    assert "it has functions that the loader calls to choose others (IFUNC)" in workshop.shared(code)


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("-Wl,-rpath,/tmp,--enable-new-dtags", "RUNPATH"),
        ("-Wl,-rpath,/tmp,--disable-new-dtags", "RPATH"),
        ("-Wl,--audit,liba.so", "AUDIT"),
        ("-Wl,--depaudit,liba.so", "DEPAUDIT"),
        ("-Wl,-F,libc.so.6", "FILTER"),
        ("-Wl,-f,libc.so.6", "AUXILIARY"),
    ],
)
def test_what_makes_the_loader_look_elsewhere_is_found(workshop: Workshop, option: str, what: str) -> None:
    assert f"its dynamic section has {what}" in workshop.shared("", option)


def test_an_interpreter_is_found(workshop: Workshop) -> None:
    code = 'const char interp[] __attribute__((section(".interp"))) = "/tmp/loader";\n'
    assert "it names a program interpreter" in workshop.shared(code)


def test_other_exports_are_found(workshop: Workshop) -> None:
    assert workshop.shared("int malloc(int n) { return n; }\n") == ("it exports the symbol malloc",)


def test_another_name_is_found(workshop: Workshop) -> None:
    assert "SONAME" in workshop.shared(soname="libc.so.6")[0]


def test_another_machine_is_found(workshop: Workshop) -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    rules = Rules(architecture=other, symbol=SYMBOL, soname=SONAME)
    assert "another machine" in workshop.shared(rules=rules)[0]
    content = bytearray(workshop.library().read_bytes())
    content[18:20] = struct.pack("<H", 3)  # i386
    unknown = Rules(architecture="", symbol=SYMBOL, soname=SONAME)
    assert "another machine" in shared_library_findings(memoryview(content), unknown)[0]


def test_libraries_with_the_old_runtime_may_need_what_that_needs_and_no_more(workshop: Workshop) -> None:
    rules = Rules(architecture=RULES.architecture, symbol=SYMBOL, soname=SONAME, carries_runtime=True)
    assert workshop.shared(calling("dl_iterate_phdr", "syscall"), rules=rules) == ()
    assert workshop.shared(calling("system"), rules=rules) == ("it needs the symbol system",)


# --- the floor --------------------------------------------------------------------------------------------------------


def test_the_floor_is_the_newest_version_that_is_needed(workshop: Workshop) -> None:
    with opened(workshop.library(calling("exp", "memcpy", "calloc"))) as data:
        assert glibc_floor(data) == "2.29"
        assert above_floor(data, "2.28") == ("exp@GLIBC_2.29",)
        assert above_floor(data, "2.29") == ()
    with opened(workshop.library()) as data:
        assert glibc_floor(data) == ""


# --- objects and static libraries -------------------------------------------------------------------------------------


def test_an_object_that_computes_has_no_findings(workshop: Workshop) -> None:
    assert workshop.objects(calling("memcpy", "malloc", "exp", "__mulsc3", "__udivti3")) == ()


@pytest.mark.parametrize("name", ["system", "dlopen", "_ZNSt10filesystem6removeERKNS_4pathE"])
def test_an_object_may_not_need_other_functions(workshop: Workshop, name: str) -> None:
    assert workshop.objects(calling(name)) == (f"it needs the symbol {name}",)


def test_an_object_may_not_define_other_symbols(workshop: Workshop) -> None:
    assert workshop.objects("int main(void) { return 0; }\nint common;\n", "-fcommon") == (
        "it defines the symbol common",
        "it defines the symbol main",
    )


@pytest.mark.parametrize(
    "section", [".init_array", ".init_array.00100", ".ctors", ".preinit_array", ".fini_array", ".dtors"]
)
def test_an_object_may_hold_no_code_that_runs_by_itself(workshop: Workshop, section: str) -> None:
    code = f'static void f(void) {{}}\nstatic void (*p)(void) __attribute__((used, section("{section}"))) = f;\n'
    assert any("makes code run when it is loaded" in finding for finding in workshop.objects(code))


def test_an_object_may_not_make_the_stack_or_data_executable(workshop: Workshop) -> None:
    with_note = '__asm__(".section .note.GNU-stack,\\"x\\",%progbits\\n");\n'
    assert "it makes the stack executable" in workshop.objects(with_note)
    writable = '__asm__(".section .both,\\"awx\\",%progbits\\n.byte 0\\n.text\\n");\n'
    assert "its section .both is both writable and executable" in workshop.objects(writable)


def test_an_object_may_hold_no_code_that_only_the_linker_reads(workshop: Workshop) -> None:
    assert any(".gnu.lto_" in finding for finding in workshop.objects("", "-flto", "-ffat-lto-objects"))


def archived(workshop: Workshop, *options: str) -> Path:
    library = workshop.folder / "a.a"
    library.unlink(missing_ok=True)
    run(["ar", *options, library, "a.o"], cwd=workshop.folder)
    return library


def test_a_static_library_is_the_findings_of_its_objects(workshop: Workshop) -> None:
    workshop.object_file(calling("system") + ENTRY_ONLY)
    with opened(archived(workshop, "rcsD")) as data:
        assert static_library_findings(data, RULES) == ("a.o: it needs the symbol system",)


def test_a_static_library_of_objects_elsewhere_is_refused(workshop: Workshop) -> None:
    workshop.object_file(ENTRY_ONLY)
    with opened(archived(workshop, "rcsTD")) as data:
        assert "thin" in static_library_findings(data, RULES)[0]


@pytest.mark.parametrize("name", ["/etc/passwd", "../a.o", "a/b.o"])
def test_members_with_folders_in_their_names_are_refused(workshop: Workshop, name: str) -> None:
    """As GNU's ar writes them with P: names in a table of their own."""
    code = workshop.object_file(ENTRY_ONLY).read_bytes()
    code += bytes(len(code) % 2)
    names = f"{name}/\n".encode()
    names += b"\n" * (len(names) % 2)
    head = "{:16}0           0     0     644     {:<10}`\n".format
    library = b"!<arch>\n" + head("//", len(names)).encode() + names + head("/0", len(code)).encode() + code
    assert "has the name" in static_library_findings(memoryview(library), RULES)[0]


def test_long_names_and_the_index_are_read(workshop: Workshop) -> None:
    workshop.object_file(calling("system") + ENTRY_ONLY, name="an_object_with_a_rather_long_name.o")
    library = workshop.folder / "a.a"
    run(["ar", "rcsD", library, "an_object_with_a_rather_long_name.o"], cwd=workshop.folder)
    with opened(library) as data:
        assert static_library_findings(data, RULES) == (
            "an_object_with_a_rather_long_name.o: it needs the symbol system",
        )


# --- programs ---------------------------------------------------------------------------------------------------------


def test_a_program_may_read_files_and_print_but_start_nothing(workshop: Workshop) -> None:
    body = "int main(void) {{ return (int)({}); }}\n"
    reads = "extern long fopen(), printf(), strtod();\n" + body.format("fopen() + printf() + strtod()")
    assert workshop.program(reads) == ()
    assert workshop.program("extern long system();\n" + body.format("system()")) == ("it needs the symbol system",)
    assert "it is started by /tmp/loader" in workshop.program(reads, "-Wl,--dynamic-linker,/tmp/loader")
    assert "its dynamic section has RUNPATH" in workshop.program(reads, "-Wl,-rpath,/tmp,--enable-new-dtags")


def test_programs_run_nothing_before_they_begin_and_need_no_unwinder_unless_they_are_old(workshop: Workshop) -> None:
    early = (
        "extern long dl_iterate_phdr();\nstatic long v; static __attribute__((constructor)) void f(void) { v = 1; }\n"
    )
    code = early + "int main(void) { return (int)(dl_iterate_phdr() + v); }\n"
    assert set(workshop.program(code)) == {
        "it needs the symbol dl_iterate_phdr",
        "it runs code when it is loaded (constructors: 1, allowed: 0)",
    }
    old = Rules(architecture=RULES.architecture, symbol=SYMBOL, soname=SONAME, carries_runtime=True)
    assert workshop.program(code, rules=old) == ()


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    workshop = Workshop(tmp_path_factory.mktemp("genuine"))
    shared = workshop.library(calling("memcpy", "malloc", "exp")).read_bytes()
    workshop.object_file(ENTRY_ONLY)
    return {
        "shared": shared,
        "static": archived(workshop, "rcsD").read_bytes(),
        "object": (workshop.folder / "a.o").read_bytes(),
    }


LOOKS: dict[str, Callable[[memoryview, Rules], tuple[str, ...]]] = {
    "shared": shared_library_findings,
    "static": static_library_findings,
    "object": object_findings,
}


@pytest.mark.parametrize("kind", LOOKS)
def test_a_file_that_is_cut_off_anywhere_ends_in_findings(kind: str, genuine: dict[str, bytes]) -> None:
    content = genuine[kind]
    cuts = sorted({*range(0, min(len(content), 1024), 7), *range(0, len(content), 211)})
    clean = [cut for cut in cuts if not LOOKS[kind](memoryview(content[:cut]), RULES)]
    # What the loader does not read may be missing: section headers, and an archive without objects.
    assert not clean or (kind == "static" and clean == [8]) or kind == "shared"


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOOKS)
@pytest.mark.parametrize("value", [0, 0xFF, 0x7F])
def test_any_byte_may_be_wrong(kind: str, value: int, genuine: dict[str, bytes]) -> None:
    content = genuine[kind]
    interesting = [*range(min(len(content), 2048)), *range(2048, len(content), 31)]
    for at in interesting:
        changed = bytearray(content)
        changed[at] = value
        assert isinstance(LOOKS[kind](memoryview(changed), RULES), tuple)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOOKS)
def test_counts_and_offsets_may_be_huge(kind: str, genuine: dict[str, bytes]) -> None:
    content = genuine[kind]
    for at in [*range(0, min(len(content), 1024), 4), *range(1024, len(content) - 8, 64)]:
        for size in (4, 8):
            changed = bytearray(content)
            changed[at : at + size] = b"\xff" * size
            assert isinstance(LOOKS[kind](memoryview(changed), RULES), tuple)


def test_an_empty_file_and_a_text_are_no_libraries(tmp_path: Path) -> None:
    for text in ("", "\x7fELF", "#!/bin/sh\n", "INPUT(libc.so.6)\n"):
        (tmp_path / "a.so").write_text(text)
        with opened(tmp_path / "a.so") as data:
            assert "not an ELF file" in shared_library_findings(data, RULES)[0]


def test_segments_that_overlap_are_refused(genuine: dict[str, bytes]) -> None:
    """The loader would see the later one; the reader might see the earlier."""
    content = bytearray(genuine["shared"])
    (headers,) = struct.unpack_from("<Q", content, 32)
    (count,) = struct.unpack_from("<H", content, 56)
    loads = [headers + 56 * i for i in range(count) if struct.unpack_from("<I", content, headers + 56 * i)[0] == 1]
    content[loads[1] + 16 : loads[1] + 24] = content[loads[0] + 16 : loads[0] + 24]  # p_vaddr
    (finding,) = shared_library_findings(memoryview(content), RULES)
    assert "segment" in finding
