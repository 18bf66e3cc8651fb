"""Every sample, alone in an empty folder: the steps of its README, literally."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.commands import completed
from tests.samples import REPOSITORY
from tfaot_pkg.ground import resources
from tfaot_pkg.pipeline.starters import sample_names, write_sample

EXAMPLES = [name for name in sample_names() if not (resources.samples()[name] / "saved_model").is_dir()]
_PRINTED = {
    "c": "accuracy on 360", "cmake-consumer": "accuracy on 360", "cmake-require": "accuracy on 360",
    "conan-consumer": "accuracy on 360",
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_says_how_it_is_built_and_names_nothing_outside(name: str, tmp_path: Path) -> None:
    made = write_sample(name, tmp_path / name)
    assert "tfaot-pkg" in made.steps
    texts = [
        file.read_text()
        for file in (tmp_path / name).rglob("*")
        if file.suffix in (".md", ".txt", ".yaml", ".cpp", ".c", ".ipynb")
    ]
    assert not any("recipes/" in text or "docs/" in text for text in texts)


@pytest.mark.sweep(night=["cmake-require", "conan-consumer", "graphdef", "stateful"])
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "notebook"])  # tests/live runs its cells
def test_its_steps_end_in_numbers(name: str, tmp_path: Path, shared_home: Path) -> None:
    made = write_sample(name, tmp_path / name)
    # Names as a user has them: `tfaot-pkg`, `cmake` and `conan` are beside the Python that runs this.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {"PATH": path, "PYTHONPATH": str(REPOSITORY), "TFAOT_HOME": str(shared_home), "CMAKE_PREFIX_PATH": ""}
    if name == "conan-consumer":
        # Publishing changes data that other tests share.
        (tmp_path / "home").mkdir()
        (tmp_path / "home/cache").symlink_to(shared_home / "cache")
        variables["TFAOT_HOME"] = str(tmp_path / "home")
        made_profile = "conan profile detect --exist-ok >/dev/null 2>&1\n"
        made = type(made)(files=made.files, steps=made.steps.replace("conan install", f"{made_profile}conan install"))
    done = completed(
        ["bash", "-euo", "pipefail", "-c", made.steps],
        cwd=tmp_path / name,
        env={**os.environ, **variables},
        timeout=800,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert _PRINTED.get(name, "") in done.stdout
    assert any(letter.isdigit() for letter in done.stdout.splitlines()[-1])
