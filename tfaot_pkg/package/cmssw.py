"""`NAME_bsN.h` and `NAME.h`: the headers that code for cms-tfaot includes beside model.h (package.cmssw).

`NAME_bsN.h` has the class that tfcompile generates there for one batch size: buffers by index and by name, and `Run`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.package.listing import OBJECTS
from tfaot_pkg.spec.rules import cpp_identifiers
from tfaot_pkg.spec.types import ModelSpec

_MEMBERS = ("_data", "_size", "_count")
_NAME_PREFIXES = {"arg": "arg_feed_", "result": "result_fetch_"}  # as TensorFlow's saved_model_cli names them


def function_headers(
    spec: ModelSpec, signature: Signature, *, symbol: str, uid: str, tool: str, release: str = ""
) -> dict[str, str]:
    """`NAME_bsN.h` for each batch size, by name. `tool` is what the folder of the headers is called."""
    return {
        f"{spec.model.name}_bs{size}.h": render(
            "cmssw/NAME_bsN.h.j2",
            {
                "tool": tool,
                "version": spec.model.version,
                "name": spec.model.name,
                "class_name": spec.class_name,
                "namespace": spec.compilation.namespace,
                "symbol": symbol,
                "uid": uid,
                "size": size,
                "num_args": len(signature.inputs),
                "num_results": len(signature.outputs),
                "tensors": [*_tensors("arg", signature.inputs, size), *_tensors("result", signature.outputs, size)],
            },
            release,
        )
        for size in spec.compilation.batch_sizes
    }


def alias_header(spec: ModelSpec, tool: str, release: str = "") -> dict[str, str]:
    """`NAME.h`, another name of model.h; by its name."""
    context = {"tool": tool, "version": spec.model.version}
    return {f"{spec.model.name}.h": render("cmssw/NAME.h.j2", context, release)}


def _tensors(kind: str, tensors: tuple[Tensor, ...], size: int) -> Iterator[dict[str, object]]:
    identifiers = cpp_identifiers(tensor.name for tensor in tensors)
    taken = set(identifiers.values())
    for index, tensor in enumerate(tensors):
        shape, identifier = tensor.shape_at(size), identifiers[tensor.name]
        # The members of `x` and of `x_data` would have the same names.
        is_clear = not any(identifier + member in taken for member in _MEMBERS)
        yield {
            "kind": kind,
            "index": index,
            "names": [f"{kind}{index}", *([_NAME_PREFIXES[kind] + identifier] if is_clear else [])],
            "cpp": tensor.dtype.global_cpp,
            "count": tensor.nbytes_at(size) // tensor.dtype.itemsize,
            "parameters": ", ".join(f"::std::size_t dim{axis}" for axis in range(len(shape))),
            "offset": _offset(shape),
            "shown": str(tensor),
        }


def _offset(shape: tuple[int, ...]) -> str:
    """The C++ expression for the place of an element, row-major."""
    offset = ""
    for axis, length in enumerate(shape):
        offset = f"({offset}) * {length} + dim{axis}" if offset else f"dim{axis}"
    return offset or "0"


TOOL_ROOT = "@TOOL_ROOT@"
"""CMS's tool installation replaces this by the folder that the package is installed in."""

DEFAULT_FOLDER = "tfaot"
"""Where packages of a developer go, below $CMSSW_BASE."""

_PLAIN = re.compile(r"[A-Za-z0-9._+/-]*")  # SCRAM splits values at blanks and expands $


@dataclass(frozen=True, slots=True, kw_only=True)
class CmsswArea:
    """A prefix inside of a CMSSW area: `prefix` is `place` below `root`, the folder that $CMSSW_BASE names."""

    root: Path
    place: str

    @property
    def prefix(self) -> Path:
        return self.root / self.place

    @property
    def base(self) -> str:
        """The prefix as SCRAM reads it, in any shell and on any machine."""
        return f"$CMSSW_BASE/{self.place}".rstrip("/")


def cmssw_area(cmssw_base: str, output: Path | None) -> CmsswArea:
    """The place of `output` in the CMSSW area `cmssw_base` (the variable's value); `tfaot` below it by default.

    Raises PrefixError if there is no such area, or `output` is outside of it.
    """
    if not cmssw_base:
        raise PrefixError(
            "CMSSW_BASE is not set: a tool file for development refers to it",
            hint="run cmsenv in your CMSSW area first; or leave out --dev",
        )
    root = Path(cmssw_base)
    if not root.is_dir():
        raise PrefixError(f"CMSSW_BASE names no folder: {cmssw_base}", hint="run cmsenv in your CMSSW area")
    prefix = root / DEFAULT_FOLDER if output is None else output.absolute()
    try:
        # Both resolved, because either may lead through links.
        place = prefix.resolve().relative_to(root.resolve())
    except ValueError:
        raise PrefixError(
            f"{prefix} is outside the CMSSW area {root}: a tool file could not name it by $CMSSW_BASE",
            hint=f"choose a folder below it, such as -o {root / DEFAULT_FOLDER}",
        ) from None
    if not _PLAIN.fullmatch(place.as_posix()):
        raise PrefixError(
            f"SCRAM cannot read the folder's name: {place.as_posix()!r}",
            hint="use letters, digits, and the characters . _ + - only",
        )
    return CmsswArea(root=root, place="" if place == Path() else place.as_posix())


def tool_files(
    *, package: str, version: str, homepage: str = "", base: str = TOOL_ROOT, objects: tuple[str, ...] = ()
) -> dict[str, bytes]:
    """The tool files of `package` by name, installed in `base` (a path, `TOOL_ROOT`, or one with a variable).

    The tool PACKAGE links the library. If there are `objects` (names of files below lib/), the tool PACKAGE-objects
    links these into each of its users, so that no library has to be found at run time.
    """
    tools = {package: tool_file(package, version, homepage, base, ())}
    if objects:
        tools[package + OBJECTS] = tool_file(package + OBJECTS, version, homepage, base, objects)
    return {f"{name}.xml": text for name, text in tools.items()}


def tool_file(name: str, version: str, homepage: str, base: str, objects: tuple[str, ...]) -> bytes:
    """The tool `name`, installed in `base`: it links `objects` (files below lib/), or the library of its name."""
    # Names of variables hold no `-`.
    variable = name.upper().replace("-", "_") + "_BASE"
    tool = ET.Element("tool", {"name": name, "version": version})
    if homepage:
        ET.SubElement(tool, "info", {"url": homepage})
    client = ET.SubElement(tool, "client")
    for key, default in ((variable, base), ("LIBDIR", f"${variable}/lib"), ("INCLUDE", f"${variable}/include")):
        ET.SubElement(client, "environment", {"name": key, "default": default})
    for file in objects:
        ET.SubElement(tool, "flags", {"LDFLAGS": f"$LIBDIR/{file}"})
    # Objects in place of the library: both would define the entry function.
    if not objects:
        ET.SubElement(tool, "lib", {"name": name})
    ET.indent(tool)
    text: bytes = ET.tostring(tool, encoding="us-ascii", xml_declaration=False)
    return text + b"\n"
