"""`build --dev`: a package inside a CMSSW area, its tool files for `scram setup`, and the steps to use it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.package.cmssw import CmsswArea, cmssw_area, tool_files
from tfaot_pkg.package.tree import PackageTree
from tfaot_pkg.spec.types import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DevTool:
    """A tool of SCRAM: its tool files, as `scram setup` takes them, the usual one first, and the headers to include."""

    files: tuple[str, ...]
    package: str
    headers: tuple[str, ...]
    cpp_class: str

    def as_dict(self) -> dict[str, object]:
        return {
            "tool_files": list(self.files),
            "setup": self._setup,
            "use": self._use,
            "includes": list(self.headers),
            "class": f"tfaot::Model<{self.cpp_class}>",
        }

    def text(self) -> str:
        """The four steps to use the tool."""
        first, *more = self.headers
        lines = [
            f"1. tell SCRAM of the tool:    {self._setup}",
            f"2. use it, in BuildFile.xml:  {self._use}",
            f"3. include its header:        #include <{first}>",
            *[f"                              #include <{header}>" for header in more],
            f"4. make a model:              tfaot::Model<{self.cpp_class}> model;",
        ]
        return "in CMSSW:\n" + "\n".join(f"  {line}" for line in lines)

    @property
    def _setup(self) -> str:
        return f"scram setup {self.files[0]}"

    @property
    def _use(self) -> str:
        return f'<use name="{self.package}"/>'


def area_for(output: Path | None) -> CmsswArea:
    """Where `build --dev -o OUTPUT` installs. Raises PrefixError outside of a CMSSW area."""
    return cmssw_area(os.environ.get("CMSSW_BASE", ""), output)


def write_tools(area: CmsswArea, spec: ModelSpec, tree: PackageTree) -> DevTool:
    """Write the tool files of the package, which is installed in `area`. Raises StorageError."""
    model = spec.model
    texts = tool_files(
        package=tree.package_name,
        version=model.version,
        homepage=model.homepage,
        base=area.base,
        objects=tuple(path.name for path in tree.objects),
    )
    # After the package: a tool file must not name libraries that are missing.
    with storage_errors(f"write into {area.prefix}"):
        for name, text in texts.items():
            write_file(area.prefix / name, text)
    return DevTool(
        files=tuple(f"{area.base}/{name}" for name in texts),
        package=tree.package_name,
        headers=("tfaot/model.h", f"{tree.package_name}/model.h"),
        cpp_class=spec.cpp_class,
    )
