"""The C++ compiler and the binary tools that come with it."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath

from tfaot_pkg.errors import CompilerError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import CommandFailed, Finished, run
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.ground.storage import refusal_in, refused
from tfaot_pkg.native.cxx.relocations import drop_empty

# " .text.__mulsc3  0x0000000000001180  0x3c1 /usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a(_mulsc3.o)"; a long name of a
# section has a line of its own. Discarded sections have the address 0.
_PLACED = re.compile(r"^ (?:\S+)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*\.a)\(([^()]+)\)$", re.MULTILINE)

ARCHIVES = "archives.json"
"""The file of a build's folder that lists the members of archives in its linked files."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ArchiveMember:
    """An object of an archive whose code or data is in a linked file: `libgcc.a`, `_mulsc3.o`."""

    archive: str
    member: str

    def __str__(self) -> str:
        return f"{self.archive}({self.member})"


def archive_members(link_map: str, *, own: frozenset[str] = frozenset()) -> tuple[ArchiveMember, ...]:
    """The members of archives that contributed to the linked file, without those of the archives named `own`."""
    found = {
        ArchiveMember(archive=PurePath(archive).name, member=member)
        for address, size, archive, member in _PLACED.findall(link_map)
        if int(address, 16) and int(size, 16)
    }
    return tuple(sorted(member for member in found if member.archive not in own))


def members_text(members: Mapping[str, Sequence[ArchiveMember]]) -> str:
    """The content of ARCHIVES: members by name of the linked file."""
    return json.dumps({name: [asdict(member) for member in listed] for name, listed in sorted(members.items())})


def read_members(text: str) -> dict[str, tuple[ArchiveMember, ...]]:
    """What `members_text` wrote."""
    return {name: tuple(ArchiveMember(**member) for member in listed) for name, listed in json.loads(text).items()}


_TIMEOUT = 1800.0
_NONE: Mapping[str, Path] = {}
_CANDIDATES = ("g++", "c++", "clang++")
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-DNDEBUG",
    "-fPIC",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-ffunction-sections",
    "-fdata-sections",
)
# GCC's "unique" symbols are merged between all libraries of a process, whatever their visibility: two models would
# share their statics. Clang has no such symbols, and no such option.
_GCC_FLAGS = ("-fno-gnu-unique",)


# Libraries and programs carry no C++ runtime: no unwinder, which would need a C library of 2022, and nothing that runs
# when they are loaded. templates/native/runtime.cc has what the standard library's headers need instead.
_LIBRARY_FLAGS = ("-fno-exceptions", "-fno-rtti")
# GCC's helpers for atomics look at the CPU when a library is loaded.
_LIBRARY_FLAGS_BY_MACHINE = {"aarch64": ("-mno-outline-atomics",)}

# Functions of the C library that got a new version after 2.28, and the oldest version that all machines of an
# architecture have: the older ones differ in how they report errors, not in what they compute.
_RENEWED = ("exp", "exp2", "pow", "log", "log2", "fmod", "fmodf", "hypot", "hypotf", "__libc_start_main")
_FIRST_GLIBC = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}

# The compiler's start files and default libraries would ask for the C library of the build machine
# (docs/decisions/033). Everything is bound at load time, so that tables of functions can be read-only afterwards.
_LINK_FLAGS = (
    "-nostartfiles",
    "-nodefaultlibs",
    "-Wl,-z,defs",
    "-Wl,-z,relro,-z,now",
    "-Wl,-z,noexecstack",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
    "-Wl,--hash-style=gnu",
    "-Wl,--as-needed",
    "-s",
)
# The C library, and the compiler's own for arithmetic that the machine does not have.
_SYSTEM = ("-lm", "-lc", "-lgcc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A C++17 compiler for one architecture.

    `version` and `linker` are version lines, `libc` is the C library that is linked against. `identity` is these and
    the target: the same compiler elsewhere has the same one. `log` collects what is run and printed; `output` gets
    what is printed too. `runner` starts the programs: like `process.run`, which is what it is by default.
    """

    command: tuple[str, ...]
    version: str
    linker: str
    libc: str
    machine: str
    is_gcc: bool
    tools: Mapping[str, str]
    log: Path
    output: Callable[[str], None]
    runner: Callable[..., Finished] = field(default=run, repr=False, compare=False)

    @property
    def identity(self) -> str:
        return f"{self.version}; {self.linker}; {self.libc}; {self.machine}"

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags for every source."""
        return (*_FLAGS, *(_GCC_FLAGS if self.is_gcc else ()))

    @property
    def architecture(self) -> str:
        return self.machine.partition("-")[0]

    @property
    def sysroot(self) -> Path | None:
        """Where the C library of another machine lies, as an emulator needs it; None for this machine's compiler."""
        if self.architecture == platform.machine():
            return None
        named = _ask([*self.command, "-print-sysroot"]) if self.is_gcc else ""
        if named and Path(named).is_dir() and Path(named).resolve() != Path("/"):
            return Path(named).resolve()
        # Debian's cross compilers name none, and have theirs in /usr/TRIPLE.
        library = Path(_ask([*self.command, "-print-file-name=libc.so.6"]))
        return library.resolve().parents[1] if library.is_absolute() else None

    @property
    def library_flags(self) -> tuple[str, ...]:
        """Flags for sources of libraries, ours and those of XLA's runtime, and of programs that go into packages."""
        return (*_LIBRARY_FLAGS, *_LIBRARY_FLAGS_BY_MACHINE.get(self.architecture, ()))

    @property
    def all_flags(self) -> tuple[str, ...]:
        """All flags that the code of libraries depends on: for keys and records."""
        return (*self.flags, *self.library_flags)

    @property
    def first_versions(self) -> Mapping[str, str]:
        """Functions of the C library -> their first version, which libraries and programs use: old systems have it."""
        first = _FIRST_GLIBC.get(self.architecture)
        return {name: f"{name}@{first}" for name in _RENEWED} if first else {}

    def compile(self, source: Path, output: Path, *, flags: Sequence[str | Path], folder: Path) -> None:
        """Compile one source file with `flags` besides ours, running in `folder`. Raises CompilerError."""
        # Relative names keep the machine's paths out of the object.
        prefix_map = f"-ffile-prefix-map={folder}=."
        self._run([*self.command, *self.flags, prefix_map, *flags, "-c", source, "-o", output], folder)

    def check(self, source: Path, *, flags: Sequence[str | Path], folder: Path) -> None:
        """Compile one source file without any output. Raises CompilerError."""
        self._run([*self.command, *self.flags, *flags, "-fsyntax-only", source], folder)

    def preprocess(self, source: Path, output: Path, *, flags: Sequence[str | Path], folder: Path) -> None:
        """The text of one source file with all that it includes, and lines that tell where each part is from.

        Its name is relative to `folder`. Raises CompilerError.
        """
        self._run([*self.command, *self.flags, *flags, "-E", source.relative_to(folder), "-o", output], folder)

    def merge(
        self, objects: Sequence[Path], output: Path, *, keep: Sequence[str], contents: Mapping[str, Path] = _NONE
    ) -> None:
        """Link `objects` into one relocatable object in which only the symbols `keep` are global.

        Last, sections get the `contents` of files, by name: large ones should be in no object that is linked.

        Sections that these do not need are removed, so that programs which link the static library need no
        --gc-sections. COMDAT groups are dissolved first: a linker merges them by name even if their symbols are local,
        and would use one target's code for another's.
        """
        options = ["-r", "-nostdlib", "-Wl,--force-group-allocation", "-Wl,--build-id=none"]
        if keep:
            options += ["-Wl,--gc-sections", *(f"-Wl,--undefined={name}" for name in keep)]
        if not self.is_gcc:
            # Only GNU ld has --force-group-allocation; Clang may be set to use another linker.
            options.append("-fuse-ld=bfd")
        self._run([*self.command, *options, *objects, "-o", output], output.parent)
        drop_empty(output)
        kept = [f"--keep-global-symbol={name}" for name in keep]
        kept += [f"--update-section={name}={file}" for name, file in contents.items()]
        self._run([self.tools["objcopy"], *kept, "--strip-unneeded", output], output.parent)

    def archive(self, objects: Sequence[Path], output: Path) -> None:
        """A static library whose bytes depend on the objects only."""
        self._run([self.tools["ar"], "rcsD", output, *[path.name for path in objects]], objects[0].parent)

    def link_shared(
        self, objects: Sequence[Path], output: Path, *, soname: str, exports: Path
    ) -> tuple[ArchiveMember, ...]:
        """A shared library that needs only the C library, and exports what the version script `exports` names.

        `soname` is the name by which programs that are linked with it look for it. Returns what is in it of the
        compiler's own library.
        """
        # --exclude-libs: functions of the compiler's own library must not be exported.
        named = (f"-Wl,--version-script={exports}", f"-Wl,-soname,{soname}", "-Wl,--exclude-libs,ALL")
        return self._link(["-shared", *named], objects, output)

    def link_program(self, objects: Sequence[Path], output: Path) -> tuple[ArchiveMember, ...]:
        """A program for other machines: it needs only the C library. Its bytes depend on the objects only.

        Returns what is in it of the compiler's own library. Archives among `objects` are ours, and do not count.
        """
        return self._link(["-pie"], objects, output)

    def _link(self, options: Sequence[str], objects: Sequence[Path], output: Path) -> tuple[ArchiveMember, ...]:
        link_map = output.with_name(f"{output.name}.map")
        argv: list[str | Path] = [
            *self.command,
            *options,
            *_LINK_FLAGS,
            f"-Wl,-Map={link_map}",
            *objects,
            *_SYSTEM,
            "-o",
            output,
        ]
        self._run(argv, output.parent)
        found = archive_members(link_map.read_text(), own=frozenset(path.name for path in objects))
        link_map.unlink()
        return found

    def program(self, source: Path, output: Path, *, includes: Sequence[Path]) -> None:
        """Compile and link a program of one source file, with the shared libraries of the C and C++ runtimes.

        Raises CompilerError.
        """
        flags = [flag for include in includes for flag in ("-I", include)]
        # dlopen is a part of libc itself only since glibc 2.34.
        self._run([*self.command, *self.flags, *flags, source, "-o", output, "-ldl"], output.parent)

    def disassembled(self, code: Path) -> str:
        """The instructions of an object, with the names of what they refer to. Raises CompilerError."""
        options = ["--disassemble", "--reloc", "--demangle", "--no-show-raw-insn"]
        tool = _tool(self.command, "objdump", self.machine)
        return self._run([tool, *options, code.name], code.parent).stdout

    def demangled(self, names: Sequence[str]) -> list[str]:
        """The C++ names of symbols, without parameters; those of C stay. Raises CompilerError."""
        tool = _tool(self.command, "c++filt", self.machine)
        listed = "".join(f"{name}\n" for name in names)
        return run([tool, "--no-params"], stdin=listed.encode(), env=_environment(), timeout=60).stdout.splitlines()

    def rename_symbols(self, code: Path, names: Mapping[str, str]) -> None:
        """Rename symbols of an object in place."""
        listing = code.with_suffix(".names")
        listing.write_text("".join(f"{old} {new}\n" for old, new in sorted(names.items())))
        self._run([self.tools["objcopy"], f"--redefine-syms={listing}", code], code.parent)
        listing.unlink()

    def _run(self, argv: Sequence[str | Path], folder: Path) -> Finished:
        try:
            # Its temporary files go with the folder, also when it is killed.
            environment = {**_environment(), "TMPDIR": str(folder)}
            finished = self.runner(argv, cwd=folder, env=environment, timeout=_TIMEOUT, log=self.log)
            self.output(f"$ {shlex.join(map(str, argv))}\n{finished.stdout}{finished.stderr}")
            return finished
        except CommandFailed as error:
            if line := refusal_in(error.output):
                raise refused(f"compile in {folder}", line) from error
            raise CompilerError(
                f"{Path(error.argv[0]).name} failed on generated code ({error.reason}):\n{error.tail}".rstrip(":\n"),
                hint="the log has the whole command and its output",
                log=self.log,
            ) from error


def find_compiler(architecture: str, *, log: Path, output: Callable[[str], None], command: str = "") -> Compiler:
    """The compiler for `architecture` ("x86_64"): `command`, else $CXX, else the system's; for another machine's, the
    cross compiler.

    Raises CompilerError if there is none, with the package that has it.
    """
    words = _command(architecture, command or os.environ.get("CXX", ""))
    version = _ask([*words, "--version"]).partition("\n")[0]
    machine = _ask([*words, "-dumpmachine"])
    if not machine.startswith(architecture):
        raise CompilerError(
            f"the C++ compiler {shlex.join(words)} makes code for {machine}, not for {architecture}",
            hint=f"set CXX to a compiler for {architecture}",
        )
    return Compiler(
        command=tuple(words),
        version=version,
        linker=_ask([_tool(words, "ld", machine), "--version"]).partition("\n")[0],
        libc=_libc(architecture),
        machine=machine,
        # By the version line: `c++` may be either of the two.
        is_gcc="clang" not in version.lower(),
        tools={name: _tool(words, name, machine) for name in ("objcopy", "ar")},
        log=log,
        output=output,
    )


def _command(architecture: str, named: str) -> list[str]:
    if named:
        try:
            command = shlex.split(named)
        except ValueError as error:
            raise CompilerError(f"CXX is not a command: {error}, in {named}", hint="correct or unset CXX") from error
        if command and shutil.which(command[0]):
            return command
        raise CompilerError(f"the C++ compiler that CXX names does not exist: {named}", hint="correct or unset CXX")
    native = architecture == platform.machine()
    for name in _CANDIDATES if native else (f"{architecture}-linux-gnu-g++",):
        if shutil.which(name):
            return [name]
    package = "g++" if native else f"g++-{architecture.replace('_', '-')}-linux-gnu"
    raise CompilerError(
        f"no C++ compiler for {architecture} is installed", hint=f"install one (Debian, Ubuntu: apt install {package})"
    )


def _tool(command: Sequence[str], name: str, machine: str) -> str:
    """The binary tool `name` that belongs to the compiler."""
    answer = _ask([*command, f"-print-prog-name={name}"])
    for candidate in (answer, f"{machine}-{name}", name):
        found = shutil.which(candidate)
        if found:
            return found
    raise CompilerError(f"{name} is not installed", hint="install it (Debian, Ubuntu: apt install binutils)")


def _libc(architecture: str) -> str:
    """`glibc 2.36`: libraries carry the versions of its symbols. Empty for another machine's, which is unknown."""
    return (os.confstr("CS_GNU_LIBC_VERSION") or "") if architecture == platform.machine() else ""


def _ask(argv: Sequence[str]) -> str:
    try:
        return run(argv, env=_environment(), timeout=60).stdout.strip()
    except CommandFailed as error:
        said = error.output.strip().partition("\n")[0]
        raise CompilerError(
            f"the C++ compiler does not work: {shlex.join(argv)}: {error.reason}" + (f": {said}" if said else ""),
            hint="set CXX to a C++17 compiler (GCC or Clang), or unset it",
        ) from error


def _environment() -> dict[str, str]:
    """English messages, and no variables that would change what a compiler does."""
    dropped = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "LD_RUN_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}


_VARIABLES = {"LC_ALL": "C", "SOURCE_DATE_EPOCH": "0", "CCACHE_DISABLE": "1"}  # a cache would be outside
_READABLE = (Path("/usr"), Path("/bin"))


def confined(compiler: Compiler, *, limits: Limits | None = None) -> Compiler:
    """`compiler` in a sandbox: it reads only our and the system's files, and writes to the folder that it runs in."""
    programs = [found for name in (*compiler.command[:1], *compiler.tools.values()) if (found := shutil.which(name))]
    # Beside its bin/, a compiler's prefix holds its own libraries and headers.
    prefixes = {Path(program).resolve().parents[1] for program in programs}
    own = (resources.templates(), resources.headers(), resources.kernels())
    box = Sandbox(
        readable=(*_READABLE, *sorted(prefixes), *own), limits=limits or Limits.of_user(), starts_programs=True
    )

    def run(argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], timeout: float, log: Path) -> Finished:
        here = replace(box, writable=(cwd,), limits=replace(box.limits, timeout=min(timeout, box.limits.timeout)))
        return here.native(argv, env={"PATH": env.get("PATH", os.defpath), **_VARIABLES}).run(log=log)

    return replace(compiler, runner=run)
