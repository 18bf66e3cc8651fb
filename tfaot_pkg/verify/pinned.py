"""The pinned inputs (corpus.py) in a validation: a program is run on them, and its answers are hashed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tfaot_pkg.errors import ValidationError
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.native.compiled.program import Engine
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.corpus import corpus, sizes_of
from tfaot_pkg.verify.hashes import ENDS_LATE, Hashes, grouped
from tfaot_pkg.verify.inputs import CORPUS
from tfaot_pkg.verify.oracle import Oracle, Tried
from tfaot_pkg.verify.runs import ENDLESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The pinned inputs of a model that `engine` computes."""

    spec: ModelSpec
    frozen: FrozenModel
    engine: Engine

    @property
    def reason(self) -> str:
        """Why there are no hashes; empty if there are."""
        return str(self.engine.bits.get("difference", "")) or ("" if self.sizes else "a row of the model is too large")

    @property
    def sizes(self) -> tuple[int, ...]:
        return sizes_of(self.frozen.signature, self.frozen.work.operations_per_row)

    def tried(self, oracle: Oracle) -> list[Tried]:
        """The inputs as a class of validation; empty if the package gets no hashes."""
        return [] if self.reason else [oracle.corpus(corpus(self.frozen.signature, self.sizes), self.sizes)]

    def hashes(self, ours: Mapping[str, Mapping[str, Mapping[str, Array] | str]]) -> Hashes:
        """The hashes of the library's answers, which are by target and class.

        Raises ValidationError if the library crashed, or targets that promise the same bits give others.
        """
        if self.reason:
            return Hashes(reason=self.reason)
        found = {target: classes[CORPUS] for target, classes in ours.items()}
        # Not an error: a loop that counts to a large input may take any time (decision 039).
        if ENDLESS in found.values():
            return Hashes(reason=ENDS_LATE)
        answers: dict[str, Mapping[str, Array]] = {}
        for target, each in found.items():
            if isinstance(each, str):
                raise ValidationError(
                    f"the compiled model {self.spec.model.name} does not run on the pinned inputs for target {target}: "
                    f"{each}",
                    hint="this is a fault of the toolchain or of this tool: try another toolchain, and report it",
                )
            answers[target] = each
        spec = self.spec
        return grouped(spec.model.name, spec.compilation.targets, answers, self.frozen.signature, self.sizes)
