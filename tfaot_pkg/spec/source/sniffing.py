"""Look at a model's file before anything is installed for it: is it of its format, and is it whole?

Only the structure is read: lengths, marks and brackets, in linear time. Readers check the content later, in the
sandbox. What is accepted here may still be rejected there; what is rejected here, no reader could read.
"""

from __future__ import annotations

import gzip
import json
import mmap
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tfaot_pkg.errors import ModelError
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL, Format
from tfaot_pkg.spec.recognition import recognized

_LARGE = 24 << 20
"""Bytes up to which a text is read as a whole. Of longer ones, which would take more than a second, ends are read."""
_END = 256
_AGAIN = "copy it again, or export it again; or name the right file"
_TITLES: Mapping[Format, str] = {
    SAVED_MODEL: "a SavedModel",
    **{name: each.title for name, each in FILE_FORMATS.items()},
}


class _Fault(ValueError):
    """Why a file is not read; `is_cut` if it has the right beginning."""

    def __init__(self, why: str, *, is_cut: bool = False) -> None:
        super().__init__(why)
        self.is_cut = is_cut


def require_whole(wanted: Format, path: Path) -> None:
    """Raise ModelError if the model at `path` is not of the format `wanted`, or is cut off.

    Files that are known and not read have errors that say what to name instead. A file that cannot be opened is left to
    the code that copies it.
    """
    found = recognized(path)
    try:
        _CHECKS[wanted](path)
    except OSError:
        return
    except (_Fault, ValueError, RecursionError) as error:
        is_other = found is not None and found.field != wanted
        looks = f"; if it is {found.title}, say so in the spec: model.{found.field}" if found and is_other else ""
        what = "is damaged" if isinstance(error, _Fault) and error.is_cut else f"is damaged, or not {_TITLES[wanted]}"
        raise ModelError(f"{path} {what}: {_short(error)}", hint=f"{_AGAIN}{looks}") from error


def _short(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:200]


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """The content of the file, read as it is used."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise _Fault("it is empty", is_cut=True)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


# Protocol Buffers (https://protobuf.dev/programming-guides/encoding/): a message is fields, each with a number, a kind
# of its value, and the value or its length.
_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5


def _message(known: Mapping[int, int], needed: int, what: str) -> Callable[[Path], None]:
    """A check of a file that is one message: `known` are the kinds of its fields, `needed` one that it must have."""

    def check(path: Path) -> None:
        with _mapped(path) as content:
            found = set()
            for number, kind in _fields(content):
                if known.get(number, kind) != kind:
                    raise _Fault(f"its field {number} has another type")
                found.add(number)
            if needed not in found:
                raise _Fault(f"it has no {what}")

    return check


def _fields(content: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Number and kind of each field."""
    at, end = 0, len(content)
    while at < end:
        start = at
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if not number or number >= 1 << 29 or kind not in (_VARINT, _EIGHT, _LENGTH, _FOUR):
            raise _Fault(f"no field of a message begins at byte {start}")
        if kind == _VARINT:
            _, at = _varint(content, at)
        elif kind == _LENGTH:
            size, at = _varint(content, at)
            at += size
        else:
            at += 8 if kind == _EIGHT else 4
        if at > end:
            why = f"its field {number}, at byte {start}, reaches to byte {at}, and the file ends at {end}"
            raise _Fault(why, is_cut=start > 0)
        yield number, kind


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and where it ends."""
    value = 0
    for place in range(10):
        if at + place >= len(content):
            raise _Fault("it ends within a number")
        byte = content[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise _Fault(f"no number begins at byte {at}")


_ONNX = _message({1: _VARINT, 2: _LENGTH, 3: _LENGTH, 4: _LENGTH, 5: _VARINT, 6: _LENGTH, 7: _LENGTH, 8: _LENGTH,
                  14: _LENGTH, 20: _LENGTH, 25: _LENGTH}, 7, "graph")  # fmt: skip
_GRAPH = _message({1: _LENGTH, 2: _LENGTH, 3: _VARINT, 4: _LENGTH, 5: _LENGTH}, 1, "nodes")
_META_GRAPH = _message(dict.fromkeys(range(1, 8), _LENGTH), 2, "graph")
_SAVED_MODEL = _message({1: _VARINT, 2: _LENGTH}, 2, "graph")
"""ModelProto of ONNX; GraphDef, MetaGraphDef and SavedModel of TensorFlow."""


def _onnx(path: Path) -> None:
    files = sorted(path.glob("*.onnx")) if path.is_dir() else [path]
    for each in files:
        _ONNX(each)


_INDEX_ENDS = struct.pack("<Q", 0xDB4775248B80FB57)
"""The last bytes of a table of variables (tensorflow/core/lib/io/format.h)."""


def _saved_model(path: Path) -> None:
    if path.is_dir() and (path / "saved_model.pb").is_file():
        try:
            _SAVED_MODEL(path / "saved_model.pb")
        except _Fault as fault:
            raise _Fault(f"saved_model.pb is damaged or empty: {fault}") from fault
    index = path / "variables" / "variables.index"
    if index.is_file() and _last_bytes(index, 8) != _INDEX_ENDS:
        raise _Fault(f"its variables are damaged: {index.name} is cut off", is_cut=True)


def _last_bytes(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - count))
        return file.read(count)


def _graph(path: Path) -> None:
    if path.suffix in (".pbtxt", ".txt", ".prototxt"):
        _require_text(path, rb"(?:\s|#[^\n]*\n)*[a-z_]+\s*:?\s*[\[{<\"\d]", comment=rb"#[^\n]*")
    elif path.name.startswith("saved_model.pb"):
        return  # its reader says what to name instead
    elif path.suffix == ".meta":
        _META_GRAPH(path)
    else:
        try:
            _GRAPH(path)
        except _Fault:
            # A SavedModel's graph under another name: the reader says what to name instead.
            _SAVED_MODEL(path)


def _keras(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(64)
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        _require_hdf5(head, path.stat().st_size)
        return
    # A Keras file of the newest form, or a folder as Keras 3 unpacks it, has its network as JSON.
    with _archive(path) as archive:
        for name in ("config.json", "metadata.json"):
            json.loads(_member(archive, name))


def _require_hdf5(head: bytes, size: int) -> None:
    """HDF5's superblock says where the file ends (its File Format Specification, II.A)."""
    version = head[8] if len(head) == 64 else 255
    if version > 3:
        raise _Fault("its first bytes are cut off, or of an unknown version of HDF5")
    width, place = (head[13], 24) if version < 2 else (head[9], 12)
    if width not in (2, 4, 8) or len(head) < place + 3 * width:
        raise _Fault(f"its addresses have {width} bytes")
    # Base address, another address, end of the file.
    place += (4 if version == 1 else 0) + 2 * width
    end = int.from_bytes(head[place : place + width], "little")
    if end > size:
        raise _Fault(f"it should have {end} bytes, and has {size}", is_cut=True)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip archive at `path`, whose list of members stands at its end."""
    with path.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except zipfile.BadZipFile as error:
        if is_zip:
            raise _Fault(f"it is cut off, or damaged: {error}", is_cut=True) from error
        raise _Fault("it is no archive") from error
    except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise _Fault(f"a member of it is damaged: {error}", is_cut=True) from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    found = next((each for each in archive.infolist() if each.filename.rpartition("/")[2] == name), None)
    if found is None:
        raise _Fault(f"it has no {name}")
    if found.file_size > _LARGE:
        return b"{}"
    return archive.read(found)


def _torch(path: Path) -> None:
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    if not is_archive:  # the export as ONNX, under another name
        _ONNX(path)
        return
    with _archive(path) as archive:
        if "program.json" in archive.namelist():
            raise _Fault("it has a program in PyTorch's core operators")
        if any(name.endswith("tfaot/model.onnx") for name in archive.namelist()):  # else its reader says what to do
            _member(archive, "model.onnx")


def _aten(path: Path) -> None:
    with _archive(path) as archive:
        document = json.loads(_member(archive, "program.json"))
        # An empty document stands for one that is too large to look at.
        if not isinstance(document, dict) or (document and "nodes" not in document):
            raise _Fault("its program.json has no nodes")


_BYTECODE = b"ML\xefR"
"""The first bytes of MLIR's bytecode."""


def _jax(path: Path) -> None:
    """FlatBuffers: a file begins with the place of its root table, which begins with the distance of its own table."""
    with _mapped(path) as content:
        if content[:4] == _BYTECODE:
            _require_sections(content)
            return
        size = len(content)
        (root,) = struct.unpack_from("<I", content) if size >= 8 else (size,)
        (back,) = struct.unpack_from("<i", content, root) if 4 <= root <= size - 4 else (0,)
        places = root - back
        if not 4 <= places <= size - 4 or struct.unpack_from("<H", content, places)[0] < 4:
            raise _Fault("it has no table of its parts")
        # The module is bytes in a vector, with their number before them.
        begins = content.find(_BYTECODE)
        if begins < 4:
            raise _Fault("it has no module of MLIR")
        (length,) = struct.unpack_from("<I", content, begins - 4)
        if begins + length > size:
            raise _Fault(f"its module should end at byte {begins + length}, and the file ends at {size}", is_cut=True)


def _mlir(path: Path) -> None:
    with path.open("rb") as file:
        is_text = b"\0" not in file.read(4096)
    if is_text:
        words = rb"(?:module\b|func\.func\b|\"builtin\.module\"|#\w|!\w|\{-#)"
        _require_text(path, rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n)*" + words, comment=rb"//[^\n]*")
    else:
        _jax(path)


def _require_sections(content: mmap.mmap) -> None:
    """MLIR's bytecode (its Bytecode Format): a version, the name of its writer, then sections with their lengths."""
    _, at = _prefixed(content, 4)
    at = content.find(b"\0", at) + 1
    if not at:
        raise _Fault("it ends within the name of its writer", is_cut=True)
    while at < len(content):
        kind, at = content[at], at + 1
        size, at = _prefixed(content, at)
        if kind & 128:  # aligned: the next bytes are padding
            alignment, at = _prefixed(content, at)
            if not alignment or alignment & (alignment - 1):
                raise _Fault(f"a section is aligned to {alignment} bytes")
            at = -(-at // alignment) * alignment
        at += size
    if at > len(content):
        raise _Fault(f"it should end at byte {at}, and ends at {len(content)}", is_cut=True)


def _prefixed(content: mmap.mmap, at: int) -> tuple[int, int]:
    """A number whose first byte says by its lowest bits how many follow, and where it ends."""
    if at >= len(content):
        raise _Fault("it ends within a number", is_cut=True)
    first = content[at]
    count = 9 if not first else (first & -first).bit_length()
    if at + count > len(content):
        raise _Fault("it ends within a number", is_cut=True)
    whole = int.from_bytes(content[at : at + count], "little")
    return (whole >> 8 if count == 9 else whole >> count), at + count


_STRING = rb"\"(?:[^\"\\]|\\[\s\S])*\""


def _require_text(path: Path, begins: bytes, *, comment: bytes) -> None:
    """A text with balanced braces that begins so."""
    content = _whole_or_ends(path)
    if re.match(begins, content) is None:
        raise _Fault("it begins with none of its words")
    if len(content) < path.stat().st_size:
        return
    plain = re.sub(_STRING + rb"|" + comment, b"", content)
    opened, closed = plain.count(b"{"), plain.count(b"}")
    if opened != closed:
        raise _Fault(f"it has {opened} opening and {closed} closing braces", is_cut=True)


def _whole_or_ends(path: Path) -> bytes:
    """The content of a file, or the first and last bytes of a large one."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= _LARGE:
            return file.read()
        head = file.read(_END)
        file.seek(size - _END)
        return head + file.read()


def _trees(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(512)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"PK"):
        with _archive(path) as archive:
            json.loads(_member(archive, "schema.json"))
    elif head.startswith(b"\x1f\x8b"):
        _require_xml(_unpacked(path))
    elif start.startswith(b"<"):
        _require_xml(_whole_or_ends(path))
    elif start.startswith(b"{"):
        _require_xgboost(path)
    elif start.startswith(b"tree"):
        _require_lightgbm(path)
    else:
        raise _Fault(
            "XGBoost's models as JSON or UBJSON, LightGBM's as text, scikit-learn's as skops files and TMVA's "
            ".weights.xml files are read, and it begins as none of them"
        )


def _unpacked(path: Path) -> bytes:
    """The first bytes of a compressed file; all of them if they are few."""
    try:
        with gzip.open(path) as file:
            content = file.read(_LARGE)
            return content if not file.read(1) else content + b"</MethodSetup>"
    except (EOFError, OSError, zlib.error) as error:
        raise _Fault(f"it is cut off, or damaged: {error}", is_cut=True) from error


def _require_xml(content: bytes) -> None:
    if b"<MethodSetup" not in content:
        raise _Fault("it has no element MethodSetup, as weight files of TMVA have")
    if not content.rstrip().endswith(b"</MethodSetup>"):
        raise _Fault("it ends before its element MethodSetup does", is_cut=True)


def _require_xgboost(path: Path) -> None:
    content = _whole_or_ends(path)
    is_json = content.lstrip()[1:2] in (b'"', b" ", b"\n", b"\r", b"\t", b"}")
    if is_json and len(content) == path.stat().st_size:
        document = json.loads(content)
        if not isinstance(document, dict) or "learner" not in document:
            raise _Fault("it has no learner")
    elif b"learner" not in content[:_END]:
        raise _Fault("it has no learner")
    # UBJSON, or a long text: each ends with the brace of its document.
    elif not content.rstrip(b" \t\r\n").endswith(b"}"):
        raise _Fault("it ends before its document does", is_cut=True)


def _require_lightgbm(path: Path) -> None:
    with _mapped(path) as content:
        # Behind the trees are parameters and the importance of features.
        if re.search(rb"^end of trees", content, re.MULTILINE) is None:
            raise _Fault("it ends before its trees do", is_cut=True)


_CHECKS: Mapping[Format, Callable[[Path], None]] = {
    SAVED_MODEL: _saved_model,
    "keras": _keras,
    "onnx": _onnx,
    "aten": _aten,
    "torch": _torch,
    "jax": _jax,
    "mlir": _mlir,
    "trees": _trees,
    "graph": _graph,
}
