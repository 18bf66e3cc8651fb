"""How a compiled model was verified, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfaot_pkg.pipeline.pipeline import Build


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`text` is what `tfaot-pkg build` prints, `document` is validation.json of the package."""

    text: str
    document: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """The first line: verified against which framework, with the largest difference."""
        return self.text.partition("\n")[0]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def report_of(made: Build) -> str:
    """What `tfaot-pkg build` says of a build."""
    from tfaot_pkg.cli.build import built_text

    return built_text(made)
