#!/usr/bin/env python3
"""Runs static programs on an emulated CPU with AVX-512 (Bochs), for machines that have none.

    python tools/avx512/run.py PROGRAM [ARGUMENT...] <INPUT >OUTPUT
    python tools/avx512/run.py --batch FOLDER <RUNS

The emulated machine has PROGRAM, or the files below FOLDER under the same paths; files that are made or changed there
come back. Each line of RUNS is a run: the files of its input and output, and PROGRAM [ARGUMENT...], with tabs
between. The exit status is that of the program, or of the first run that failed; 128 and the number of a signal.

It starts in about 25 seconds and executes about 40 million instructions a second. Needs Debian's packages bochs,
bochs-term, bochsbios, vgabios, isolinux, syslinux-common, xorriso and g++. A kernel (linux-image-cloud-amd64) is
downloaded by apt-get and unpacked to build/avx512, not installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "build" / "avx512"
SHARE = Path("/usr/share/bochs")
MARK = b"\0avx512\0"

SETTINGS = """\
config_interface: textconfig
display_library: rfb, options="timeout=0"
cpu: model=corei7_skylake_x, count=1, ips=50000000, reset_on_triple_fault=0
clock: sync=none
memory: guest={memory}, host={memory}
romimage: file={share}/BIOS-bochs-latest, options=fastboot
vgaromimage: file=/usr/share/vgabios/vgabios.bin
pci: enabled=1, chipset=i440fx
ata0-master: type=cdrom, path={folder}/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev={folder}/kernel.log
port_e9_hack: enabled=1
speaker: enabled=0, mode=none
log: {folder}/bochs.log
panic: action=fatal
error: action=ignore
info: action=report
"""
BOOT = """\
default run
prompt 0
label run
kernel /kernel
append initrd=/files console=ttyS0 quiet mitigations=off clearcpuid=xsavec,xsaves panic=-1
"""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What the program wrote, by path, and its exit status."""

    files: dict[str, bytes]
    status: int


def kernel() -> Path:
    """A kernel of Debian, which is downloaded once."""
    if not (found := sorted(KEPT.glob("boot/vmlinuz-*"))):
        KEPT.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(
            ["apt-cache", "depends", "linux-image-cloud-amd64"], check=True, capture_output=True, text=True
        )
        package = next(line.split()[-1] for line in listed.stdout.splitlines() if "Depends: linux-image-" in line)
        subprocess.run(["apt-get", "download", "--quiet", package], check=True, cwd=KEPT, stdout=sys.stderr)
        for archive in KEPT.glob("*.deb"):
            subprocess.run(["dpkg", "--extract", archive, KEPT], check=True)
            archive.unlink()
        shutil.rmtree(KEPT / "lib", ignore_errors=True)  # modules
        found = sorted(KEPT.glob("boot/vmlinuz-*"))
    return found[-1]


def init() -> Path:
    source, made = HERE / "init.cc", KEPT / "init"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        KEPT.mkdir(parents=True, exist_ok=True)
        part = KEPT / f"init.{os.getpid()}"
        subprocess.run(["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-static", source, "-o", part], check=True)
        part.rename(made)
    return made


def archive(files: dict[str, bytes]) -> Iterator[bytes]:
    """The form "newc" of cpio: Documentation/driver-api/early-userspace/buffer-format.rst of Linux."""
    folders = {str(parent) for path in files for parent in Path(path).parents if str(parent) != "/"}
    entries: list[tuple[str, int, bytes]] = [(path, stat.S_IFDIR | 0o755, b"") for path in sorted(folders)]
    entries += [(path, stat.S_IFREG | 0o755, data) for path, data in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    for number, (path, mode, data) in enumerate(entries, 1):
        name = path.lstrip("/").encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        for part in (head, data):
            yield part + bytes(-len(part) % 4)


def prepare(folder: Path, home: Path, runs: Sequence[Sequence[str]]) -> int:
    """Writes the disk that Bochs boots from; returns the MiB of its files."""
    files = {str(path): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    job = [str(home), *("\t".join(each) for each in runs)]
    files |= {"/init": init().read_bytes(), "/job": "".join(f"{line}\n" for line in job).encode()}
    disk = folder / "disk"
    disk.mkdir()
    with (disk / "files").open("wb") as file:
        file.writelines(archive(files))
    shutil.copyfile(kernel(), disk / "kernel")
    shutil.copyfile("/usr/lib/ISOLINUX/isolinux.bin", disk / "isolinux.bin")
    shutil.copyfile("/usr/lib/syslinux/modules/bios/ldlinux.c32", disk / "ldlinux.c32")
    (disk / "isolinux.cfg").write_text(BOOT)
    options = "-no-emul-boot -boot-load-size 4 -boot-info-table".split()
    made: list[str | Path] = ["-b", "isolinux.bin", "-c", "boot.cat", *options, "-o", folder / "boot.iso", disk]
    subprocess.run(["xorriso", "-as", "mkisofs", "-quiet", *made], check=True, stderr=subprocess.DEVNULL)
    return sum(map(len, files.values())) >> 20


def run(home: Path, runs: Sequence[Sequence[str]]) -> Result:
    with tempfile.TemporaryDirectory(prefix="tfaot-avx512-") as name:
        folder = Path(name)
        size = prepare(folder, home, runs)
        (folder / "bochsrc").write_text(SETTINGS.format(share=SHARE, folder=folder, memory=512 + 4 * size))
        (folder / "commands").write_text("continue\n")  # Debian's Bochs waits for commands of its debugger
        argv: list[str | Path] = ["bochs-bin", "-q", "-f", folder / "bochsrc", "-rc", folder / "commands"]
        with (folder / "output").open("wb") as output:
            subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        written = (folder / "output").read_bytes()
        if MARK not in written:
            for log in ("bochs.log", "kernel.log"):
                sys.stderr.write(f"{log}:\n{(folder / log).read_text(errors='replace')[-4000:]}\n")
            raise SystemExit("the emulated machine did not run the program")
        return parsed(written[written.index(MARK) + len(MARK) :])


def parsed(written: bytes) -> Result:
    files = {}
    path, _, rest = written.partition(b"\0")
    while path:
        size, _, rest = rest.partition(b"\0")
        files[path.decode()] = rest[: int(size)]
        path, _, rest = rest[int(size) :].partition(b"\0")
    return Result(files=files, status=int(rest.partition(b"\0")[0]))


def place(home: Path, runs: Sequence[Sequence[str]]) -> int:
    """Runs, writes the files that come back, and gives the exit status."""
    result = run(home, runs)
    for path, data in result.files.items():
        Path(path).write_bytes(data)
    return result.status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=Path, metavar="FOLDER", help="many runs, which standard input lists")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENT...]")
    given = parser.parse_args()
    if given.batch:
        return place(given.batch.resolve(), [line.rstrip("\n").split("\t") for line in sys.stdin])
    program, *arguments = given.command
    with tempfile.TemporaryDirectory(prefix="tfaot-avx512-") as name:
        home, copy = Path(name), Path(name) / "program"
        shutil.copy(program, copy)
        (home / "input").write_bytes(sys.stdin.buffer.read())
        status = place(home, [[str(home / "input"), str(home / "output"), str(copy), *arguments]])
        sys.stdout.buffer.write((home / "output").read_bytes())
        return status


if __name__ == "__main__":
    sys.exit(main())
