"""`SourceTree`: the model's files in a local folder, the digest of those that are used, and a private copy.

Other programs may write the model's files at any time (a training job that exports again). So a build does not read
them: workers read a copy, made once, whose digests must equal those of the source tree (decision 031).
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.errors import SourceError, TfaotError
from tfaot_pkg.ground.keys import Digest, sha256_file, sha256_listing
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.walk import MOST_LEVELS
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL, Format
from tfaot_pkg.spec.source.address import inside
from tfaot_pkg.spec.source.archive import fetch_archive
from tfaot_pkg.spec.source.git import fetch_git
from tfaot_pkg.spec.types import ArchiveSource, FolderSource, GitSource, ModelInfo, Source

# A limit against mistakes: `saved_model: /` would otherwise hash the whole disk.
_MOST_FILES = 10_000
# The Git LFS specification: a pointer file starts so, and has less than 1024 bytes.
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/"
_LFS_MOST_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTree:
    """A folder with the model's files, and `model` at or below it: the SavedModel's folder, or the model's file.

    `digest` is the SHA-256 over names and contents of the files that the model uses; it does not depend on the
    folder's path or other content. `files` maps the name of each file, relative to `folder`, to its SHA-256.
    """

    root: Path
    model: Path
    folder: Path
    digest: str
    files: Mapping[str, str]


def fetch(source: Source, *, folders: Folders, progress: Progress) -> Path:
    """The local folder of `source` (absolute; its `subdir`, if one is given).

    Archives and revisions are fetched once and kept below `folders.downloads`; later calls need no network.
    Raises SourceError, NetworkError, StorageError.
    """
    match source:
        case FolderSource():
            return local_folder(source.path)
        case ArchiveSource():
            root = fetch_archive(source.url, source.sha256, folders=folders, progress=progress)
        case GitSource():
            root = fetch_git(source.url, source.revision, folders=folders, progress=progress)
    return local_folder(inside(root, source.subdir, what="source.subdir"))


def source_tree(
    root: Path,
    used: Path,
    digest: Digest = sha256_file,
    *,
    field: Format = SAVED_MODEL,
    beside: Mapping[str, str] | None = None,
) -> SourceTree:
    """The tree at `root`, of which the model uses `used`: a folder, or a file with the parts of its format beside it.

    `field` of `model` in the spec names it; `beside` has other files by the spec's fields (ModelInfo). `used`
    is relative to `root` or below it. Names are relative to the SavedModel's folder, or the lowest folder above all
    files, so moving it changes nothing. Raises SourceError if files are missing, unreadable, outside `root`, not
    regular, or Git LFS pointers.
    """
    path = inside(root, used, what=f"model.{field}")
    others = [file for name, place in (beside or {}).items() for file in _named(root, place, what=name)]
    folder = path if path.is_dir() else path.parent
    try:
        files = [file for each in (path, *_parts(path, field), *others) for file in _files(each, root.resolve(), ())]
        if not files:
            raise SourceError(f"{path} contains no files", hint="export the model again")
        for file in files:
            _refuse_lfs_pointer(file)
        folder = Path(os.path.commonpath([folder, *(file.parent for file in others)]))
        digests = {file.relative_to(folder).as_posix(): digest(file) for file in files}
        return SourceTree(root=root, model=path, folder=folder, digest=sha256_listing(digests), files=digests)
    except OSError as error:
        raise SourceError(
            f"cannot read {error.filename or path}: {error.strerror}", hint="check the rights of the model's files"
        ) from error
    except UnicodeEncodeError as error:
        raise SourceError(f"a file name below {path} is not UTF-8", hint="rename it") from error


def _parts(path: Path, field: Format) -> list[Path]:
    """The other files of the model, which lie beside `path`."""
    parts = FILE_FORMATS[field].parts if field in FILE_FORMATS and path.is_file() else ()
    named = [path.with_name(path.name + part) for part in parts]
    return [part for part in named if os.path.lexists(part)]


def local_files(root: Path, model: ModelInfo) -> list[Path]:
    """The SavedModel's folder or the files of `model` in its source at `root`, checkpoints by all of their files."""
    places = [root / place for place in model.all_files]
    places += _parts(places[0], model.files.format)
    return [file for place in places for file in _files_of(place) or [place]]


def _named(root: Path, place: str, *, what: str) -> list[Path]:
    """The file `root / place`, and the files of the checkpoint whose names begin with it. Raises SourceError."""
    above = inside(root, Path(place).parent, what=what)
    found = _files_of(above / Path(place).name)
    if not found and (checkpoints := sorted(file.stem for file in above.glob("*.index"))):
        raise SourceError(
            f"{what}: there is no file or checkpoint {place!r} in {root}",
            hint=f"checkpoints there: {', '.join(ascii(name)[1:-1] for name in checkpoints[:8])}",
        )
    return found or [inside(root, place, what=what)]


def _files_of(place: Path) -> list[Path]:
    """`place`, if there is such a file or folder, and the files of a checkpoint with this name."""
    name = glob.escape(place.name)
    found = [*place.parent.glob(f"{name}.index"), *place.parent.glob(f"{name}.data-*")]
    return sorted([place, *found] if place.exists() else found)


def _files(path: Path, root: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """The files at or below `path`. Links are followed inside `root` (resolved) only; `above` finds their loops."""
    real = path.resolve()
    if not real.is_relative_to(root):
        raise SourceError(
            f"{path} is a link that leads out of the source folder {root}", hint="put the file itself in its place"
        )
    if real.is_file():
        yield path
    elif not real.is_dir():
        raise SourceError(f"{path} is neither a file nor a folder", hint="remove it, or repair the link")
    # `above` has real paths, so that a loop through differently named links is found too.
    elif real in above:
        raise SourceError(f"{path} is a link to a folder that contains it", hint="remove the link")
    elif len(above) > MOST_LEVELS:
        raise SourceError(
            f"{above[0]} contains folders nested deeper than {MOST_LEVELS} levels",
            hint="the spec must name the model itself, not a folder above it",
        )
    else:
        yield from _files_in(path, real, root, above)


def _files_in(path: Path, real: Path, root: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    count = 0
    with os.scandir(path) as found:
        # Sorted, so that the same model always gives the same first fault.
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        inner = path / entry.name
        # A regular file needs no check: resolving each path would take most of the time of a plan.
        for file in (inner,) if entry.is_file(follow_symlinks=False) else _files(inner, root, (*above, real)):
            count += 1
            if count > _MOST_FILES:
                raise SourceError(
                    f"{path} holds more than {_MOST_FILES} files",
                    hint="the spec must name the model itself, not a folder above it",
                )
            yield file


def _refuse_lfs_pointer(file: Path) -> None:
    if file.stat().st_size > _LFS_MOST_BYTES:
        return
    with file.open("rb") as content:
        head = content.read(len(_LFS_MAGIC))
    if head == _LFS_MAGIC:
        raise SourceError(
            f"{file} is a pointer of Git LFS, not the file itself",
            hint="fetch the content with 'git lfs pull' and use the folder, or publish the model as an archive",
        )


def local_folder(path: Path) -> Path:
    """`path` made absolute. Raises SourceError if it is not a readable folder, or is empty."""
    path = path.expanduser().absolute()
    try:
        with os.scandir(path) as entries:
            empty = next(entries, None) is None
    except FileNotFoundError:
        raise SourceError(f"no folder {path}", hint=_nearest(path)) from None
    except NotADirectoryError:
        raise SourceError(
            f"{path} is not a folder", hint="source names a folder; model names a folder or file in it"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"cannot read the folder {path}: {reason}", hint="check its rights") from error
    if empty:
        raise SourceError(f"the folder {path} is empty", hint="put the SavedModel there, or name another folder")
    return path


def _nearest(path: Path) -> str:
    """A hint that says which part of a missing path exists."""
    there = next((parent for parent in path.parents if os.path.isdir(parent)), Path("/"))
    return f"{there} exists, {path.relative_to(there).parts[0]!r} in it does not; relative paths start at the spec"


_FICLONE = 0x40049409  # ioctl_ficlone(2)
_CHUNK = 1 << 20


class Snapshot:
    """A copy of the files of `source`, made at its first use in a folder from `new_folder`."""

    def __init__(self, source: SourceTree, new_folder: Callable[[str], Path]) -> None:
        self._source = source
        self._new_folder = new_folder
        self._model: Path | None = None
        self._folder = Path()

    @property
    def model(self) -> Path:
        """The SavedModel's folder, or the model's file, in the copy. Raises SourceError, StorageError."""
        if self._model is None:
            self._folder = folder = self._new_folder("model")
            for name, digest in self._source.files.items():
                self._copy(name, digest, folder)
            self._model = folder / self._source.model.relative_to(self._source.folder)
        return self._model

    def beside(self, place: str) -> Path:
        """Another file of the model, `place` in the source, in the copy."""
        assert self._model is not None, "the model is copied first"
        return self._folder / (self._source.root / place).relative_to(self._source.folder)

    @contextmanager
    def named(self) -> Iterator[Path]:
        """`model`; errors raised in the block name the user's files instead of the copy."""
        copy = self.model
        try:
            yield copy
        except TfaotError as error:
            error.message = error.message.replace(str(copy), str(self._source.model))
            error.message = error.message.replace(str(self._folder), str(self._source.folder))
            # str() of an exception comes from args, not from message.
            error.args = (error.message,)
            raise

    def _copy(self, name: str, digest: str, folder: Path) -> None:
        origin, place = self._source.folder / name, folder / name
        try:
            content = open(origin, "rb", opener=_at_once)  # noqa: SIM115 (the next block closes it)
        except OSError as error:
            raise _changed(origin) from error
        # A disk error while reading the user's file is a StorageError too: opening it has succeeded.
        with content, storage_errors("copy the model's files"):
            place.parent.mkdir(parents=True, exist_ok=True)
            if copy_hashed(content, place) != digest:
                raise _changed(origin)


def copy_hashed(content: BinaryIO, place: Path) -> str:
    """Copy `content` to the new file `place`; return the SHA-256 of the copy. Raises OSError.

    If the file system can share blocks between files (Btrfs, XFS), no block is copied until one file is written.
    """
    digest = hashlib.sha256()
    with place.open("xb+") as copy:
        # After a clone the copy is read, not the original, which may have changed since.
        reading, writing = (copy, None) if _cloned(content, copy) else (content, copy)
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            if writing is not None:
                writing.write(chunk)
    return digest.hexdigest()


def _cloned(content: BinaryIO, copy: BinaryIO) -> bool:
    try:
        fcntl.ioctl(copy.fileno(), _FICLONE, content.fileno())
    except OSError:  # another file system, or one that cannot
        return False
    return True


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a named pipe in its place would block forever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _changed(file: Path) -> SourceError:
    return SourceError(
        f"the model's files changed while the model was built: {file}",
        hint="build again when nothing writes to them any more; nothing was kept",
    )
