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
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tfaot_pkg.errors import ModelError
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL, Format
from tfaot_pkg.spec.recognition import is_qonnx, recognized
from tfaot_pkg.spec.wire_format import LENGTH, VARINT, Damaged, fields

_LARGE = 24 << 20
"""Bytes up to which a text is read as a whole. Of longer ones, which would take more than a second, ends are read."""
_END = 256
_AGAIN = "copy it again, or export it again; or name the right file"
_TITLES: Mapping[Format, str] = {
    SAVED_MODEL: "a SavedModel",
    **{name: each.title for name, each in FILE_FORMATS.items()},
}


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
    except (Damaged, ValueError, RecursionError) as error:
        is_other = found is not None and found.field != wanted
        looks = f"; if it is {found.title}, say so in the spec: model.{found.field}" if found and is_other else ""
        what = "is damaged" if isinstance(error, Damaged) and error.is_cut else f"is damaged, or not {_TITLES[wanted]}"
        raise ModelError(f"{path} {what}: {_short(error)}", hint=f"{_AGAIN}{looks}") from error


def _short(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:200]


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """The content of the file, read as it is used."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise Damaged("it is empty", is_cut=True)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def _message(known: Mapping[int, int], needed: int, what: str) -> Callable[[Path], None]:
    """A check of a file that is one message: `known` are the kinds of its fields, `needed` one that it must have."""

    def check(path: Path) -> None:
        with _mapped(path) as content:
            found = set()
            for each in fields(content):
                if known.get(each.number, each.kind) != each.kind:
                    raise Damaged(f"its field {each.number} has another type")
                found.add(each.number)
            if needed not in found:
                raise Damaged(f"it has no {what}")

    return check


_ONNX = _message({1: VARINT, 2: LENGTH, 3: LENGTH, 4: LENGTH, 5: VARINT, 6: LENGTH, 7: LENGTH, 8: LENGTH,
                  14: LENGTH, 20: LENGTH, 25: LENGTH}, 7, "graph")  # fmt: skip
_GRAPH = _message({1: LENGTH, 2: LENGTH, 3: VARINT, 4: LENGTH, 5: LENGTH}, 1, "nodes")
_META_GRAPH = _message(dict.fromkeys(range(1, 8), LENGTH), 2, "graph")
_SAVED_MODEL = _message({1: VARINT, 2: LENGTH}, 2, "graph")
"""ModelProto of ONNX; GraphDef, MetaGraphDef and SavedModel of TensorFlow."""


def _onnx(path: Path) -> None:
    files = sorted(path.glob("*.onnx")) if path.is_dir() else [path]
    for each in files:
        _ONNX(each)


def _qonnx(path: Path) -> None:
    _onnx(path)
    if not is_qonnx(path):
        raise Damaged("it has no operators of QONNX, such as Quant")


def _hls4ml(path: Path) -> None:
    """A tar file, compressed by gzip, of which the names are read."""
    try:
        with gzip.open(path) as file:
            names = {each.rsplit("/", 1)[-1] for each, _ in zip(_tar_names(file), range(_MOST_MEMBERS), strict=False)}
    except (EOFError, zlib.error) as error:
        raise Damaged(f"it is cut off, or damaged: {error}", is_cut=True) from error
    except (tarfile.TarError, gzip.BadGzipFile) as error:
        raise Damaged(f"it is no archive: {error}") from error
    if missing := sorted({"config.json", "graph_state.json", "model_arch.json"} - names):
        raise Damaged(f"it has no {missing[0]}, as files of hls4ml's serialize_model have")


def _conifer(path: Path) -> None:
    """JSON, of which the keys are read."""
    try:
        document = json.loads(path.read_bytes())
    except RecursionError as error:
        raise Damaged("its brackets are too deep") from error
    keys = {"n_classes", "n_features", "trees", "config"}
    if not isinstance(document, dict) or (missing := sorted(keys - document.keys())):
        raise Damaged(f"it has no {'trees' if not isinstance(document, dict) else missing[0]}, as conifer's files have")


def _tar_names(file: gzip.GzipFile) -> Iterator[str]:
    """The names in the headers of a tar file; those that stand in headers of their own, as they are long, cut off.

    The module tarfile skips as many bytes as a header claims, also behind the end, and reads long names as a whole.
    """
    read = 0
    while (block := file.read(tarfile.BLOCKSIZE)).strip(b"\0"):
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        yield info.name
        left = 0 if info.type in _WITHOUT_CONTENT else -(-info.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        read += max(left, tarfile.BLOCKSIZE)
        if left < 0 or read > _MOST_BYTES:
            raise Damaged(f"its member {info.name!r:.80} claims {info.size} bytes")
        while left:
            part = file.read(min(left, 1 << 20))
            if not part:
                raise EOFError(f"it ends within {info.name!r:.80}")
            left -= len(part)


_WITHOUT_CONTENT = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE,
)  # fmt: skip
_MOST_BYTES = 1 << 30
"""Of a file of hls4ml, as its reader has it."""
_MOST_MEMBERS = 100_000
_INDEX_ENDS = struct.pack("<Q", 0xDB4775248B80FB57)
"""The last bytes of a table of variables (tensorflow/core/lib/io/format.h)."""


def _saved_model(path: Path) -> None:
    if path.is_dir() and (path / "saved_model.pb").is_file():
        try:
            _SAVED_MODEL(path / "saved_model.pb")
        except Damaged as fault:
            raise Damaged(f"saved_model.pb is damaged or empty: {fault}") from fault
    index = path / "variables" / "variables.index"
    if index.is_file() and _last_bytes(index, 8) != _INDEX_ENDS:
        raise Damaged(f"its variables are damaged: {index.name} is cut off", is_cut=True)


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
        except Damaged:
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
        raise Damaged("its first bytes are cut off, or of an unknown version of HDF5")
    width, place = (head[13], 24) if version < 2 else (head[9], 12)
    if width not in (2, 4, 8) or len(head) < place + 3 * width:
        raise Damaged(f"its addresses have {width} bytes")
    # Base address, another address, end of the file.
    place += (4 if version == 1 else 0) + 2 * width
    end = int.from_bytes(head[place : place + width], "little")
    if end > size:
        raise Damaged(f"it should have {end} bytes, and has {size}", is_cut=True)


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
            raise Damaged(f"it is cut off, or damaged: {error}", is_cut=True) from error
        raise Damaged("it is no archive") from error
    except RecursionError:  # a RuntimeError, of a member that is a document
        raise
    except (EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise Damaged(f"a member of it is damaged: {error}", is_cut=True) from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    found = next((each for each in archive.infolist() if each.filename.rpartition("/")[2] == name), None)
    if found is None:
        raise Damaged(f"it has no {name}")
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
            raise Damaged("it has a program in PyTorch's core operators")
        if any(name.endswith("tfaot/model.onnx") for name in archive.namelist()):  # else its reader says what to do
            _member(archive, "model.onnx")


def _aten(path: Path) -> None:
    with _archive(path) as archive:
        document = json.loads(_member(archive, "program.json"))
        # An empty document stands for one that is too large to look at.
        if not isinstance(document, dict) or (document and "nodes" not in document):
            raise Damaged("its program.json has no nodes")


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
            raise Damaged("it has no table of its parts")
        # The module is bytes in a vector, with their number before them.
        begins = content.find(_BYTECODE)
        if begins < 4:
            raise Damaged("it has no module of MLIR")
        (length,) = struct.unpack_from("<I", content, begins - 4)
        if begins + length > size:
            raise Damaged(f"its module should end at byte {begins + length}, and the file ends at {size}", is_cut=True)


def _mlir(path: Path) -> None:
    with path.open("rb") as file:
        is_text = b"\0" not in file.read(4096)
    if is_text:
        words = rb"(?:module\b|func\.func\b|func\s+@|\"builtin\.module\"|#\w|!\w|\{-#)"
        _require_text(path, rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n)*" + words, comment=rb"//[^\n]*")
    else:
        _jax(path)


def _require_sections(content: mmap.mmap) -> None:
    """MLIR's bytecode (its Bytecode Format): a version, the name of its writer, then sections with their lengths."""
    _, at = _prefixed(content, 4)
    at = content.find(b"\0", at) + 1
    if not at:
        raise Damaged("it ends within the name of its writer", is_cut=True)
    while at < len(content):
        kind, at = content[at], at + 1
        size, at = _prefixed(content, at)
        if kind & 128:  # aligned: the next bytes are padding
            alignment, at = _prefixed(content, at)
            if not alignment or alignment & (alignment - 1):
                raise Damaged(f"a section is aligned to {alignment} bytes")
            at = -(-at // alignment) * alignment
        at += size
    if at > len(content):
        raise Damaged(f"it should end at byte {at}, and ends at {len(content)}", is_cut=True)


def _prefixed(content: mmap.mmap, at: int) -> tuple[int, int]:
    """A number whose first byte says by its lowest bits how many follow, and where it ends."""
    if at >= len(content):
        raise Damaged("it ends within a number", is_cut=True)
    first = content[at]
    count = 9 if not first else (first & -first).bit_length()
    if at + count > len(content):
        raise Damaged("it ends within a number", is_cut=True)
    whole = int.from_bytes(content[at : at + count], "little")
    return (whole >> 8 if count == 9 else whole >> count), at + count


_STRING = rb"\"(?:[^\"\\]|\\[\s\S])*\""


def _require_text(path: Path, begins: bytes, *, comment: bytes) -> None:
    """A text with balanced braces that begins so."""
    content = _whole_or_ends(path)
    if re.match(begins, content) is None:
        raise Damaged("it begins with none of its words")
    if len(content) < path.stat().st_size:
        return
    plain = re.sub(_STRING + rb"|" + comment, b"", content)
    opened, closed = plain.count(b"{"), plain.count(b"}")
    if opened != closed:
        raise Damaged(f"it has {opened} opening and {closed} closing braces", is_cut=True)


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
        raise Damaged(
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
        raise Damaged(f"it is cut off, or damaged: {error}", is_cut=True) from error


def _require_xml(content: bytes) -> None:
    if b"<MethodSetup" not in content:
        raise Damaged("it has no element MethodSetup, as weight files of TMVA have")
    if not content.rstrip().endswith(b"</MethodSetup>"):
        raise Damaged("it ends before its element MethodSetup does", is_cut=True)


def _require_xgboost(path: Path) -> None:
    content = _whole_or_ends(path)
    is_json = content.lstrip()[1:2] in (b'"', b" ", b"\n", b"\r", b"\t", b"}")
    if is_json and len(content) == path.stat().st_size:
        document = json.loads(content)
        if not isinstance(document, dict) or "learner" not in document:
            raise Damaged("it has no learner")
    elif b"learner" not in content[:_END]:
        raise Damaged("it has no learner")
    # UBJSON, or a long text: each ends with the brace of its document.
    elif not content.rstrip(b" \t\r\n").endswith(b"}"):
        raise Damaged("it ends before its document does", is_cut=True)


def _require_lightgbm(path: Path) -> None:
    with _mapped(path) as content:
        # Behind the trees are parameters and the importance of features.
        if re.search(rb"^end of trees", content, re.MULTILINE) is None:
            raise Damaged("it ends before its trees do", is_cut=True)


_CHECKS: Mapping[Format, Callable[[Path], None]] = {
    SAVED_MODEL: _saved_model,
    "keras": _keras,
    "onnx": _onnx,
    "qonnx": _qonnx,
    "hls4ml": _hls4ml,
    "conifer": _conifer,
    "aten": _aten,
    "torch": _torch,
    "jax": _jax,
    "mlir": _mlir,
    "trees": _trees,
    "graph": _graph,
}
