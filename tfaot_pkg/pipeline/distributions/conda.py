"""A package as a conda package: its prefix as it is, for C++ in conda environments. Pure: values in, files out.

The headers that all packages share are a conda package of their own (`tfaot-headers`), because two conda packages must
not own one file: an environment has the newest one that any of its models asks for, as a prefix has.

Format: `.conda` of conda-package-handling (a zip of two tar.zst), and the files of info/ in the documentation of
conda-build. `prefix` placeholders are not needed: nothing in a package names its place.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from tfaot_pkg.ground.keys import canonical_json, sha256_bytes
from tfaot_pkg.package.listing import VERSION_FILE, headers_version
from tfaot_pkg.pipeline.distributions.facts import Facts
from tfaot_pkg.pipeline.distributions.files import Distribution, File, write_zip
from tfaot_pkg.pipeline.distributions.zstandard import StoredFrame

_HEADERS = "tfaot-headers"
_HEADERS_FOLDER = "include/tfaot/"
_PER_MAJOR = 10_000  # of TFAOT_HEADERS_VERSION, as in package/prefix/plan.py
_SUBDIRS = {"x86_64": "linux-64", "aarch64": "linux-aarch64"}


def conda_packages_of(facts: Facts, files: Iterable[File]) -> tuple[Distribution, ...]:
    """The conda package of a package with `files`, after that of the shared headers if it has some."""
    every = sorted(files, key=lambda each: each.path)
    shared = [file for file in every if file.path.startswith(_HEADERS_FOLDER)]
    own = [file for file in every if not file.path.startswith(_HEADERS_FOLDER)]
    depends = [f"__glibc >=2.{facts.platform.glibc}"] if facts.platform.glibc else ["__glibc"]
    made = []
    if shared:
        version = _headers_version(shared)
        depends.append(f"{_HEADERS} >={version},<{(version // _PER_MAJOR + 1) * _PER_MAJOR}")
        made.append(_headers(version, shared))
    made.append(_model(facts, own, depends))
    return tuple(made)


def _headers_version(shared: Iterable[File]) -> int:
    file = next((file for file in shared if file.path == VERSION_FILE), None)
    return headers_version(b"".join(file.chunks()).decode(errors="replace")) if file else 0


def _headers(version: int, files: Sequence[File]) -> Distribution:
    about = {"license": "Apache-2.0", "summary": "Headers that compiled models of tfaot-pkg share"}
    index = {"name": _HEADERS, "version": str(version), "subdir": "noarch", "noarch": "generic", "depends": []}
    return _package(index, about, files)


def _model(facts: Facts, files: Sequence[File], depends: Sequence[str]) -> Distribution:
    architecture = facts.platform.architecture
    index = {
        "name": facts.package,
        "version": str(facts.version),
        "subdir": _SUBDIRS[architecture],
        "arch": architecture,
        "platform": "linux",
        "depends": [*depends],
    }
    about = {"license": facts.license, "summary": facts.description, "home": facts.homepage}
    return _package(index, {name: value for name, value in about.items() if value}, files)


def _package(index: Mapping[str, Any], about: Mapping[str, Any], files: Sequence[File]) -> Distribution:
    content = sha256_bytes(canonical_json([[file.path, file.sha256, file.link] for file in files]))
    # Packages of one version with other files are different builds, and names of files must differ.
    build = f"h{content[:7]}_0"
    index = {**index, "build": build, "build_number": 0, "license": about.get("license", "")}
    name = f"{index['name']}-{index['version']}-{build}"
    info = [
        _document("info/about.json", about),
        File.made("info/files", "".join(f"{file.path}\n" for file in files)),
        _document("info/index.json", index),
        *(
            File(path=f"info/licenses/{PurePosixPath(file.path).name}", size=file.size, sha256=file.sha256,
                 chunks=file.chunks)
            for file in files if "/licenses/" in file.path
        ),
        _document("info/paths.json", {"paths": [_path(file, files) for file in files], "paths_version": 1}),
    ]  # fmt: skip
    return Distribution(
        name=f"{name}.conda", folder=str(index["subdir"]), files=(*info, *files), write=partial(_write, name)
    )


def _path(file: File, files: Sequence[File]) -> dict[str, object]:
    if not file.link:
        return {"_path": file.path, "path_type": "hardlink", "sha256": file.sha256, "size_in_bytes": file.size}
    # Of what the link leads to, as conda-build writes it.
    place = str(PurePosixPath(file.path).parent / file.link)
    target = next(each for each in files if each.path == place)
    return {"_path": file.path, "path_type": "softlink", "sha256": target.sha256, "size_in_bytes": target.size}


def _document(path: str, value: Mapping[str, Any]) -> File:
    return File.made(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def _write(name: str, stream: BinaryIO, files: tuple[File, ...]) -> None:
    info = [file for file in files if file.path.startswith("info/")]
    members = [
        File.made("metadata.json", '{"conda_pkg_format_version": 2}'),
        _archive(f"pkg-{name}.tar.zst", [file for file in files if not file.path.startswith("info/")]),
        _archive(f"info-{name}.tar.zst", info),
    ]
    write_zip(stream, {member.path: member for member in members}, compression=zipfile.ZIP_STORED)


def _archive(path: str, files: Sequence[File]) -> File:
    # A tar archive and its frame are a little larger than the files; the size only says whether it needs Zip64.
    size = sum(file.size + 2_048 for file in files) + (1 << 16)
    return File(path=path, size=size, sha256="", chunks=partial(_tar, files))


def _tar(files: Sequence[File]) -> Iterator[bytes]:
    made = io.BytesIO()
    frame = StoredFrame(made)
    for file in files:
        info = tarfile.TarInfo(file.path)
        info.mode, info.size = (0o777, 0) if file.link else (file.mode, file.size)
        info.type, info.linkname = (tarfile.SYMTYPE, file.link) if file.link else (tarfile.REGTYPE, "")
        frame.write(info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict"))
        for chunk in file.chunks():
            frame.write(chunk)
            yield _taken(made)
        frame.write(bytes(-info.size % tarfile.BLOCKSIZE))
    frame.write(bytes(2 * tarfile.BLOCKSIZE))
    frame.close()
    yield _taken(made)


def _taken(made: io.BytesIO) -> bytes:
    data = made.getvalue()
    made.seek(0)
    made.truncate()
    return data
