"""Search shards: what search shows of each package, in 256 files, so that a search reads 256 files and not all of them.

`search/XX.jsonl` holds a line per package whose name's SHA-256 begins with XX, sorted by name. A publication rewrites
one of them. In a signed registry they are TUF targets like index files, and change with them in one moment. In an
unsigned one a shard is written after the index file: where the publisher is killed between the two, search shows the
package's state before, until the command is repeated (install and resolve read the index file alone).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tfaot_pkg.documents import convert, read_json, write
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.package.name import model_of, spellings
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry, newest
from tfaot_pkg.static.layout import SEARCH

LIMIT = 256 << 20
SHARDS = tuple(f"{SEARCH}/{number:02x}.jsonl" for number in range(256))


def shard_path(package: str) -> str:
    """The shard that holds `package`."""
    return f"{SEARCH}/{hashlib.sha256(package.encode()).hexdigest()[:2]}.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSummary:
    """A package as search shows it: `version` is the best one, None where all are yanked."""

    name: str
    version: str | None
    description: str = ""
    license: str = ""
    deprecated: str = ""

    @property
    def model(self) -> str:
        return model_of(self.name)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name

    def line(self) -> bytes:
        return write(self)

    def matches(self, words: Iterable[str]) -> bool:
        text = f"{' '.join(spellings(self.name))} {self.description} {self.license}".casefold()
        return all(word in text for word in words)


def summary_of(package: str, entries: Sequence[RegistryEntry], deprecation: Deprecation | None) -> PackageSummary:
    """What search shows of a package with these versions."""
    best = newest(entries)
    return PackageSummary(
        name=package,
        version=best.version if best else None,
        description=best.description if best else "",
        license=best.license if best else "",
        deprecated=str(deprecation) if deprecation else "",
    )


def updated_shard(shard: bytes, file: str, name: str, summary: PackageSummary | None) -> bytes:
    """`shard` with `summary` (None: nothing) in place of what it said of the package `name`. Raises RegistryError."""
    kept = {one.name: one for one in summaries_in(shard, file) if one.name != name}
    if summary is not None:
        kept[name] = summary
    return b"".join(kept[name].line() for name in sorted(kept))


def summaries_in(shard: bytes, file: str, words: Sequence[str] = ()) -> Iterator[PackageSummary]:
    """The packages in a shard that hold all `words` (in case-folded form). Raises RegistryError where it is damaged.

    Names are as they stand there: in the former spelling, where all versions of the package are.
    """
    if shard and not shard.endswith(b"\n"):
        raise _damaged(file, "its end is missing")
    # Most lines do not match: looking at the text first is much quicker than parsing each.
    escaped = [_either_spelling(json.dumps(word, ensure_ascii=False)[1:-1]) for word in words]
    try:
        for line in shard.decode().split("\n")[:-1]:
            if not escaped or _holds(line, escaped):
                summary = convert(PackageSummary, read_json(line))
                if summary.matches(words):
                    yield summary
    except ValueError as error:
        raise _damaged(file, str(error)) from error


def _holds(line: str, words: Sequence[str]) -> bool:
    text = _either_spelling(line.casefold())
    return all(word in text for word in words)


def _either_spelling(text: str) -> str:
    return text.replace("_", "-")


def _damaged(file: str, reason: str) -> RegistryError:
    return RegistryError(
        f"{file}: damaged search shard ({reason})",
        hint="restore it from a copy of the registry; install and show do not need it",
    )
