"""The model that `tfaot_pkg.compile` returns: what `load` returns, with its spec, its report, and its package."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.live.report import Report
from tfaot_pkg.runtime.model import Model

if TYPE_CHECKING:
    from tfaot_pkg.measure.bench.results import Bench
    from tfaot_pkg.package.prefix.install import Installed
    from tfaot_pkg.pipeline.pipeline import Pipeline
    from tfaot_pkg.pipeline.publish import Publication
    from tfaot_pkg.spec.types import ModelSpec

ABOUT, SPEC = "about.json", "spec.yaml"
"""Files in the folder of a compiled model: what the build said, and the spec of the model."""


class CompiledModel(Model):
    """A model that was compiled here: call it as every Model.

    `report` says how it was verified, `spec` is what a registry or another machine needs to build it again.
    """

    def __init__(self, folder: Path, target: str | None, threads: int, *, progress: Progress) -> None:
        self._folder, self._progress = folder, progress
        self._about = json.loads((folder / ABOUT).read_text())
        super().__init__(folder / "prefix" / "lib" / f"lib{self._about['package']}.so", target, threads=threads)

    @cached_property
    def report(self) -> Report:
        """How it was verified: print it, or read `report.document`, which is validation.json of the package."""
        found = self._folder / "prefix" / "share" / self._about["package"] / "validation.json"
        return Report(text=self._about["report"], document=json.loads(found.read_text()))

    @cached_property
    def spec(self) -> ModelSpec:
        """The spec of its package, which `spec.path` names as a file."""
        from tfaot_pkg.spec.parse import load_spec

        return load_spec(Path(self._about["spec"]))

    def save(self, prefix: str | os.PathLike[str]) -> Installed:
        """Install its package into a prefix, for CMake, pkg-config, and `load`. Raises TfaotError."""
        from tfaot_pkg.package.prefix.install import install_built

        pipeline = self._pipeline()
        made = pipeline.build(pipeline.plan(self.spec))
        return install_built(made.tree, made.plan.key, Path(prefix))

    def publish(
        self,
        registry: str | os.PathLike[str] | None = None,
        *,
        keys: Sequence[str | os.PathLike[str]] = (),
        conan: bool = False,
        unverified: Sequence[str] = (),
    ) -> Publication:
        """Publish its package into a registry: its folder, name or `s3://BUCKET/PREFIX`; by default the user's own.

        `keys` are the folders of keys of a signed registry; a passphrase is asked for. `conan` makes the Conan package,
        too. `unverified` are targets that may be published although this machine cannot run them. Raises TfaotError.
        """
        from tfaot_pkg.pipeline.publish import publish
        from tfaot_pkg.registry.commit import open_keys
        from tfaot_pkg.registry.named import place_meant
        from tfaot_pkg.registry.trust.keys import secrets_from

        pipeline = self._pipeline()
        return publish(
            self.spec,
            place=place_meant(None if registry is None else os.fspath(registry), pipeline.folders),
            keys=open_keys([Path(each) for each in keys], *(secrets_from() for _ in keys)),
            pipeline=pipeline,
            conan=conan,
            unverified=unverified,
        )

    def benchmark(
        self, *, peers: Sequence[str] = (), batch_sizes: Sequence[int] = (), rounds: int = 15, core: int | None = None
    ) -> Bench:
        """Measure its library on this machine, as `tfaot-pkg bench` does, beside the engines named in `peers`.

        The result prints as a table. Raises TfaotError.
        """
        from tfaot_pkg.measure.bench.peers import peers_named
        from tfaot_pkg.measure.bench.run import Request, bench

        request = Request(peers=peers_named(peers), batch_sizes=tuple(batch_sizes), rounds=rounds, core=core)
        return bench(self.spec, request, self._pipeline())

    def _verdict(self) -> str:
        return self.report.verdict

    def _pipeline(self) -> Pipeline:
        from tfaot_pkg.ground.settings import Folders
        from tfaot_pkg.pipeline.pipeline import Pipeline

        return Pipeline(folders=Folders.of_user(), progress=self._progress)

    def __reduce__(self) -> Any:
        # Its folder is a cache, which another machine does not have: what is pickled is a Model.
        return super().__reduce__()
