"""Runs the libraries of an installed prefix on the pinned inputs, and compares the hashes of their answers.

Only libraries whose files match their manifest are run: by installing a package, the user trusts its code. Each target
runs in a process of its own:

    python -m tfaot_pkg.verify.installed LIBRARY TARGET HASHES.json SIZE...

which writes the hashes as JSON, by batch size and output.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.documents import convert, fields_of, read_json, write
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.sandbox import Limits
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.prefix.manifest import HEADERS, PartReport, PrefixReport
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.verify.corpus import MOST, corpus, sizes_of
from tfaot_pkg.verify.hashes import FORMAT, Batches, Group, Hashes, OtherBits, digests, unlike
from tfaot_pkg.verify.report import hashes_in
from tfaot_pkg.verify.runner import answers_of

_PACKAGE = Path(__file__).resolve().parents[1]
_REPORT = "validation.json"
_MOST_BYTES = 1 << 28
"""The limit of a report in bytes: those of models with hundreds of outputs have megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersReport:
    """How a package's answers compare with those of its build.

    `checked` are the targets that were run. `not_checked` says why none was. `failed` has, by target, the reason why
    the library gave no answers.
    """

    name: str
    version: str
    checked: tuple[str, ...] = ()
    not_checked: str = ""
    different: tuple[OtherBits, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not (self.different or self.failed)

    def as_dict(self) -> dict[str, object]:
        return {**fields_of(self), "ok": self.ok}


def check_answers(report: PrefixReport) -> Iterator[AnswersReport]:
    """Run the packages of `report`, whose files were just compared, one after the other. Raises StorageError."""
    for part in report.parts:
        if part.name != HEADERS:
            yield _checked(report.prefix, part)


def _checked(prefix: Path, part: PartReport) -> AnswersReport:
    found = _hashes(prefix, part)
    if isinstance(found, str):
        return AnswersReport(name=part.name, version=part.version, not_checked=found)
    # Also targets that the build machine could not run: they must have the bits of their group (decision 039).
    here = [name for group in found.groups for name in group.targets if name in TARGETS and runs_here(TARGETS[name])]
    if not here:
        why = "this CPU can run none of its targets"
        return AnswersReport(name=part.name, version=part.version, not_checked=why)
    different: list[OtherBits] = []
    failed: dict[str, str] = {}
    for target in here:
        group = found.of(target)
        assert group is not None
        answers = _answers(prefix / f"lib/lib{part.name}.so", target, group)
        if isinstance(answers, str):
            failed[target] = answers
        else:
            different += unlike(target, answers, group.batches)
    return AnswersReport(
        name=part.name, version=part.version, checked=tuple(here), different=tuple(different), failed=failed
    )


def _hashes(prefix: Path, part: PartReport) -> Hashes | str:
    """The hashes of an installed package; or the reason why there are none, or none to rely on."""
    if not part.ok:
        return "its files are not those that were installed"
    path = prefix / "share" / part.name / _REPORT
    with storage_errors(f"read {path}"):
        if not path.is_file():
            return "it has no validation report"
        if path.stat().st_size > _MOST_BYTES:
            return f"its {_REPORT} is too large"
        data = path.read_bytes()
    try:
        document = read_json(data)
        found = hashes_in(document) if isinstance(document, dict) else None
    except ValueError as error:
        return f"its {_REPORT} is damaged: {error}"
    if found is None:
        return "it was built by a version that stored no hashes of answers"
    if found.format != FORMAT:
        return f"this version knows no hashes of format {found.format}: upgrade tfaot-pkg"
    return found if found.groups else f"it has no hashes of answers ({found.reason})"


def _answers(library: Path, target: str, group: Group) -> Batches | str:
    """The hashes of the library's answers; or the reason why there are none."""
    program = [sys.executable, "-m", "tfaot_pkg.verify.installed"]
    with temporary_folder(prefix="tfaot-answers-") as scratch:
        hashes = scratch / "hashes.json"
        try:
            # In this package's folder: with -m, Python imports modules of the current folder first.
            run(
                [*program, library, target, hashes, *map(str, group.sizes)],
                cwd=_PACKAGE.parent,
                timeout=Limits.of_user().timeout,
            )
            return convert(dict[int, dict[str, str]], read_json(hashes.read_bytes()))
        except CommandFailed as error:
            return f"{error.reason}: {error.tail}" if error.tail else error.reason
        except (OSError, ValueError) as error:
            return f"it wrote no hashes: {error}"


def main(argv: list[str]) -> None:
    """Raises RunError if the library does not run, or `argv` has sizes that are not in the corpus."""
    library, target, file, *words = argv
    sizes = tuple(map(int, words))
    model = load(Path(library), target=target)
    # A modified document must not make this process use all memory.
    if not set(sizes) <= set(sizes_of(model.signature)):
        raise RunError(f"a batch of {max(sizes)} rows is too large for the pinned inputs")
    inputs = corpus(model.signature, sizes)
    answers = {
        f"{size}/{name}": array
        for size in sizes
        for name, array in answers_of(model, inputs, size, MOST).items()
    }  # fmt: skip
    Path(file).write_bytes(write(digests(answers, model.signature, sizes)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RunError as error:
        sys.exit(error.message)
