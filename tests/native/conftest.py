"""Programs in C that use the sample models, and libraries of the samples for other targets and by other compilers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.kept import kept
from tests.samples import Published, Sample, assert_agrees, recipe, tfaot
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import Finished, run

HERE = Path(__file__).parent
C_FLAGS = (
    "-std=c11",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    f"-I{resources.headers()}",
    f"-I{HERE / 'c'}",
)
VALGRIND = ("--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=all", "--errors-for-leak-kinds=all", "-q")
# A CPU that has what the target's flags ask for and no more, and where the cross compiler's libraries are.
AARCH64_OPTIONS = ("-cpu", "cortex-a53", "-L", "/usr/aarch64-linux-gnu")
MOST_GROWTH = 256  # KiB over 900 loads: the heap moves by some pages, a leak of a page each makes 3600
# Emulated AVX reads beyond what a masked load (vmaskmovps) asks for, which a CPU does not: no guard pages there.
HEAP, ON_HEAP = "heap", ("aligned", "misaligned")
PLACEMENTS = ("aligned", "misaligned", "after-guard", "before-guard")


def compile_c(name: str, output: Path, *flags: str | Path, compiler: str = "gcc") -> Path:
    """The program c/NAME.c."""
    run([compiler, *C_FLAGS, HERE / "c" / f"{name}.c", *flags, "-ldl", "-o", output])
    return output


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`program("answers")`: the program c/answers.c, which opens a shared library."""
    folder = tmp_path_factory.mktemp("programs")

    def made(name: str) -> Path:
        path = folder / name
        return path if path.exists() else compile_c(name, path)

    return made


@pytest.fixture(scope="session")
def inputs(samples: Mapping[str, Sample], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with the held-out data of each sample."""
    root = tmp_path_factory.mktemp("inputs")
    return {name: sample.write_inputs(root / name) for name, sample in samples.items()}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The program c/answers.c, on the shared libraries of the samples and their held-out data."""

    published: Published
    samples: Mapping[str, Sample]
    inputs: Mapping[str, Path]
    program: Path

    def check(
        self, name: str, outputs: Path, *, target: str = "-", under: Sequence[str | Path] = (), on_heap: bool = False
    ) -> Finished:
        """Run it, as an argument of `under`, and compare what it writes into `outputs` with TensorFlow's answers."""
        outputs.mkdir(exist_ok=True)
        place, placements = ([HEAP], ON_HEAP) if on_heap else ([], PLACEMENTS)
        library = self.published.library(name, "so")
        done = run([*under, self.program, library, target, self.inputs[name], outputs, *place], timeout=300)
        check_answers(outputs, self.samples[name], placements)
        return done


@pytest.fixture(scope="session")
def answers(
    published: Published,
    samples: Mapping[str, Sample],
    inputs: Mapping[str, Path],
    program: Callable[[str], Path],
) -> Answers:
    return Answers(published=published, samples=samples, inputs=inputs, program=program("answers"))


Variant = Callable[..., Path]


@pytest.fixture(scope="session")
def variant(published: Published) -> Variant:
    """`variant("wine", targets=["x86-64-v4"], env={"CXX": "clang++"})`: the prefix of a sample, built so.

    `tensorflow` is another toolchain than the default; `more` are other values of the spec, by section.
    """

    def build(
        name: str,
        *,
        targets: Sequence[str],
        env: Mapping[str, str] | None = None,
        tensorflow: str | None = None,
        more: Mapping[str, Mapping[str, object]] | None = None,
    ) -> Path:
        document = yaml.safe_load((recipe(name) / "spec.yaml").read_text())
        document["source"] = {"path": str(recipe(name))}
        document["compilation"]["targets"] = list(targets)
        if tensorflow is not None:
            document["compilation"]["tensorflow"] = tensorflow
        for section, values in (more or {}).items():
            document.setdefault(section, {}).update(values)

        def make(folder: Path) -> None:
            (folder / "spec.yaml").write_text(yaml.safe_dump(document))
            tfaot(published.home, "build", folder / "spec.yaml", "-o", folder / "prefix", env=env)

        return kept(published.home, "variant", [document, env], make) / "prefix"

    return build


def check_answers(outputs: Path, sample: Sample, placements: Sequence[str] = PLACEMENTS) -> None:
    """What a program wrote into `outputs` is what TensorFlow answers, at every batch size and place of buffers."""
    sizes = {int(path.name.split(".")[1]) for path in outputs.iterdir()}
    assert len(list(outputs.iterdir())) == len(sizes) * len(placements) * len(sample.answers) > 0
    for size in sizes:
        for placement in placements:
            for name, answers in sample.answers.items():
                expected = answers[:size]
                data = (outputs / f"{placement}.{size}.{name}.bin").read_bytes()
                assert_agrees(np.frombuffer(data, expected.dtype).reshape(expected.shape), expected)
