"""A package as a wheel: a Python module with the model, and its prefix for C++. Pure: values in, files out.

    tfaot_model_NAME/__init__.py      `model`, `load`
    tfaot_model_NAME/_vendor/         the modules that call a library (vendored.py)
    tfaot_model_NAME/prefix/          the package's files, as in a prefix; licences stand below
    tfaot_model_NAME-VERSION.dist-info/{METADATA,WHEEL,RECORD,licenses/,sboms/}

Formats: the specifications of binary distributions (wheel 1.0), core metadata 2.4, platform tags (PEP 600), and SBOMs
(PEP 770) at packaging.python.org.
"""

from __future__ import annotations

import base64
import csv
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO

from tfaot_pkg._version import __version__
from tfaot_pkg.pipeline.distributions.facts import Facts, Platform
from tfaot_pkg.pipeline.distributions.files import Distribution, File, without_links, write_zip
from tfaot_pkg.pipeline.distributions.vendored import vendored

_OLDEST_GLIBC = 17
"""Of 2.N: numpy needs this one as well, and the installers of no supported Python know older ones of AArch64."""
_NUMPY = "numpy>=1.26"
_PYTHON = ">=3.10"


def platform_tag(platform: Platform) -> str:
    """`manylinux_2_17_x86_64`; `linux_x86_64`, which indexes do not take, for what needs more than glibc."""
    if platform.glibc is None:
        return f"linux_{platform.architecture}"
    return f"manylinux_2_{max(platform.glibc, _OLDEST_GLIBC)}_{platform.architecture}"


def wheel_of(facts: Facts, files: Iterable[File]) -> Distribution:
    """The wheel of a package with `files`. Raises RegistryError if its name can be none of Python's."""
    facts.require_plain_name("a wheel")
    module = facts.package.replace("-", "_")
    info = f"{module}-{facts.version}.dist-info"
    licences, sboms, others = _sorted(files)
    tag = f"py3-none-{platform_tag(facts.platform)}"
    members = [
        *(File.made(f"{module}/{path}", text) for path, text in sorted(vendored(module).items())),
        *(_at(f"{module}/prefix/{file.path}", file) for file in without_links(others)),
        *(_at(f"{info}/licenses/{PurePosixPath(file.path).name}", file) for file in licences),
        *(_at(f"{info}/sboms/{PurePosixPath(file.path).name}", file) for file in sboms),
        File.made(f"{info}/METADATA", _metadata(facts, module, [PurePosixPath(file.path).name for file in licences])),
        File.made(f"{info}/WHEEL", _wheel(tag)),
    ]
    members.append(File.made(f"{info}/RECORD", _record(members, f"{info}/RECORD")))
    return Distribution(name=f"{module}-{facts.version}-{tag}.whl", files=tuple(members), write=_write)


def _write(stream: BinaryIO, files: tuple[File, ...]) -> None:
    write_zip(stream, {file.path: file for file in files}, compression=zipfile.ZIP_DEFLATED)


def _sorted(files: Iterable[File]) -> tuple[list[File], list[File], list[File]]:
    """Licences, bills of materials, and the files of the prefix: a bill is in both."""
    licences: list[File] = []
    sboms: list[File] = []
    others: list[File] = []
    for file in sorted(files, key=lambda each: each.path):
        is_licence = re.fullmatch(r"share/[^/]+/licenses/[^/]+", file.path)
        (licences if is_licence else others).append(file)
        if re.fullmatch(r"share/[^/]+/sbom\.cdx\.json", file.path):
            sboms.append(file)
    return licences, sboms, others


def _at(path: str, file: File) -> File:
    return File(path=path, size=file.size, sha256=file.sha256, chunks=file.chunks, is_program=file.is_program)


def _metadata(facts: Facts, module: str, licences: Sequence[str]) -> str:
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", facts.package),
        ("Version", str(facts.version)),
        ("Summary", facts.description),
        ("Author", facts.author),
        _license(facts),
        *(("License-File", name) for name in licences),
        ("Project-URL", facts.homepage and f"Homepage, {facts.homepage}"),
        ("Classifier", "Operating System :: POSIX :: Linux"),
        ("Requires-Python", _PYTHON),
        ("Requires-Dist", _NUMPY),
        ("Description-Content-Type", "text/plain"),
    ]
    head = "".join(f"{name}: {value}\n" for name, value in fields if value)
    return f"{head}\n{_description(facts, module)}"


def _license(facts: Facts) -> tuple[str, str]:
    return ("License-Expression", facts.spdx) if facts.spdx else ("License", facts.license)


def _description(facts: Facts, module: str) -> str:
    return f"""{facts.description}

A model, compiled for {", ".join(facts.targets) or facts.platform.architecture}. In Python:

    from {module} import model
    print(model)    # inputs, outputs, batch sizes
    model(...)      # an array for each input, any number of rows; a dict of arrays

In C++, with CMake's find_package({facts.package}) or pkg-config:

    cmake -DCMAKE_PREFIX_PATH="$(python -m {module} --prefix)" ...
    export PKG_CONFIG_PATH="$(python -m {module} --pkg-config)"
"""


def _wheel(tag: str) -> str:
    return f"Wheel-Version: 1.0\nGenerator: tfaot-pkg {__version__}\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _record(files: Iterable[File], own: str) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    for file in files:
        digest = base64.urlsafe_b64encode(bytes.fromhex(file.sha256)).rstrip(b"=").decode()
        writer.writerow([file.path, f"sha256={digest}", file.size])
    writer.writerow([own, "", ""])
    return made.getvalue()
