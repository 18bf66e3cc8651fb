"""What the metadata of a wheel says about where the project is: a hook of the build backend.

The files name no host. Whoever publishes a release gives the repository's address in TFAOT_REPOSITORY (`make release
REPOSITORY=...`): then project URLs and absolute links in the README are made of it. Otherwise there are no URLs, and
links to files are plain text, since nothing is beside an installed README.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PAGES = {
    "Homepage": "",
    "Repository": "",
    "Documentation": "/blob/v{version}/docs/index.md",
    "Changelog": "/blob/v{version}/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/blob/v{version}/SECURITY.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def urls_for(repository: str, version: str) -> dict[str, str]:
    """Project URLs by their labels; none without a repository."""
    return {label: repository + page.format(version=version) for label, page in _PAGES.items()} if repository else {}


def readme_for(text: str, repository: str, version: str) -> str:
    """The README as a package index shows it: relative links and images are absolute, or gone without a repository."""

    def absolute(found: re.Match[str]) -> str:
        image, shown, path = found.groups()
        if not repository:
            return "" if image else shown
        return f"{image}[{shown}]({repository}/{'raw' if image else 'blob'}/v{version}/{path})"

    return _LINK.sub(absolute, text)


class ProjectMetadata(MetadataHookInterface):
    """Fills in the fields `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = os.environ.get("TFAOT_REPOSITORY", "").rstrip("/")
        if repository and not re.fullmatch(r"https://[\w.-]+(/[\w.~-]+)+", repository):
            raise ValueError(
                f"TFAOT_REPOSITORY={repository}: write the address of the repository, https://HOST/OWNER/NAME"
            )
        root = Path(self.root)
        (version,) = re.findall(r'^__version__ = "(.+)"$', (root / "tfaot_pkg/_version.py").read_text(), re.MULTILINE)
        text = readme_for((root / "README.md").read_text(), repository, version)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls_for(repository, version)
