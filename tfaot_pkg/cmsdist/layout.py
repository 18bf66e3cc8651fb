"""What `cms_tfaot_compile` writes: the files of a model where CMS's build scripts look for them.

    NAME_bsN.o, NAME_common.o            with --dev below lib/
    model.h, NAME.h, NAME_tfaot.h,
    NAME_cmssw.h, NAME_bsN.h             with --dev below include/TOOL/
    TOOL.xml                             the tool file of SCRAM, which links the objects

With --dev the tool can be used where it lies, and include/tfaot/ holds our headers. Without it CMSDIST moves the files:
objects to lib/, headers to include/TOOL/, the tool file to etc/scram.d/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.cmsdist.standalone import our_headers, standalone
from tfaot_pkg.errors import PrefixError
from tfaot_pkg.package.cmssw import alias_header, function_headers
from tfaot_pkg.package.render import render
from tfaot_pkg.package.scram import cmssw_area, tool_file
from tfaot_pkg.pipeline import Build
from tfaot_pkg.spec.names import package_name
from tfaot_pkg.storage import storage_errors, write_file
from tfaot_pkg.wording import shown

TOOL_BASE = "@TOOL_BASE@"
"""The base of a tool that is yet to be installed."""

_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")  # in capitals it is a variable, too
_BASE = re.compile(r"[A-Za-z0-9._+/@$~%{}-]+")  # SCRAM splits values at blanks; quotes would end the attribute
_TEMPLATES = "cmsdist/include"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool of SCRAM: its name, and the folder in which it says it is installed."""

    name: str
    base: str

    @property
    def file(self) -> str:
        return f"{self.name}.xml"


def tool(name: str | None, base: str | None, *, model: str, dev: bool, folder: Path, cmssw_base: str) -> Tool:
    """The tool that the options ask for; by default that of `model`, with --dev in `folder`, where the files are.

    Raises PrefixError for names that SCRAM cannot read, and where `folder` is none.
    """
    name = name or package_name(model)
    base = base or (_place(folder, cmssw_base) if dev else TOOL_BASE)
    if folder.exists() and not folder.is_dir():
        raise PrefixError(f"--output-directory: {folder} is not a folder", hint="name a folder, or one yet to be made")
    if not _TOOL_NAME.fullmatch(name):
        raise PrefixError(
            f"--tool-name: {shown(name)} cannot name a tool of SCRAM",
            hint="use letters, digits, _ and - only, such as tfaot-model-tagger",
        )
    if not _BASE.fullmatch(base):
        raise PrefixError(
            f"SCRAM cannot read the tool's base: {shown(base)}", hint="choose a folder without blanks and quotes"
        )
    return Tool(name=name, base=base)


def _place(folder: Path, cmssw_base: str) -> str:
    """`folder` by $CMSSW_BASE where it is inside of the area, else by its path."""
    try:
        return cmssw_area(cmssw_base, folder).base
    except PrefixError:
        return str(folder)


def layout(build: Build, tool: Tool, *, dev: bool) -> dict[str, bytes]:
    """All files by their paths in the output folder, the tool file last. The package of `build` has its objects."""
    objects = {path.name: path.read_bytes() for path in build.tree.objects}
    include, lib = (f"include/{tool.name}/", "lib/") if dev else ("", "")
    files = {lib + name: data for name, data in objects.items()}
    files |= {include + name: text.encode() for name, text in _headers(build, tool).items()}
    if dev:
        folder = resources.headers()
        files |= {f"include/{p.relative_to(folder).as_posix()}": p.read_bytes() for p in sorted(folder.glob("**/*.h"))}
    model = build.plan.spec.model
    text = tool_file(tool.name, model.version, model.homepage, tool.base, tuple(objects))
    return {**files, tool.file: text}


def _headers(build: Build, tool: Tool) -> dict[str, str]:
    spec, package = build.plan.spec, build.tree.package_name
    signature = build.frozen.signature
    name = spec.model.name
    context = {
        "tool": tool.name,
        "version": spec.model.version,
        "name": name,
        "namespace": spec.compilation.namespace,
        "symbol": build.library.symbol,
        "uid": build.library.uid,
        "unbatched": not all(tensor.has_batch_axis for tensor in (*signature.inputs, *signature.outputs)),
    }
    ours = our_headers()
    functions = function_headers(spec, signature, symbol=build.library.symbol, uid=build.library.uid, tool=tool.name)
    generated = (build.tree.root / "include" / package / "model.h").read_text()
    return {
        **{file: standalone(text, ours) for file, text in functions.items()},
        **alias_header(spec, tool.name),
        "model.h": render(f"{_TEMPLATES}/model.h.j2", context),  # after it: a model may be called model
        f"{name}_tfaot.h": standalone(generated, ours, also=("tfaot/version.h", "tfaot/model.h")),
        f"{name}_cmssw.h": standalone(render(f"{_TEMPLATES}/NAME_cmssw.h.j2", context), ours),
    }


def write_layout(files: Mapping[str, bytes], folder: Path, name: str) -> None:
    """Write `files` into `folder`, and remove the model's objects and headers of other batch sizes from there.

    The tool file comes last: what it links is there. Raises StorageError.
    """
    stale = re.compile(rf"{re.escape(name)}_bs\d+\.[oh]")
    with storage_errors(f"write into {folder}"):
        for place in {(folder / path).parent for path in files if stale.fullmatch(path.rpartition("/")[2])}:
            for old in place.glob("*_bs*"):
                if stale.fullmatch(old.name) and old.relative_to(folder).as_posix() not in files:
                    old.unlink()
        for path, data in files.items():
            write_file(folder / path, data)
