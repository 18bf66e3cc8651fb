"""Files of PyTorch modules become programs that give the answers that PyTorch left in the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aten_lowering.aten_files import ARTIFACTS, difference_from_pytorch
from tests.frozen.test_torch_files import HELPER, python_with_pytorch
from tests.kept import kept
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run

_MAKER = Path(__file__).with_name("torch_modules.py")
_FROZEN = Path(__file__).resolve().parents[1] / "frozen"


@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem) for each in sorted(ARTIFACTS.glob("*.aten"))])
def test_modules_give_pytorchs_answers(path: Path) -> None:
    """Files that PyTorch 2.13 wrote (torch_modules.py), with no PyTorch here."""
    assert difference_from_pytorch(path) <= 1e-5


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.timeout(3600)
def test_modules_that_pytorch_exports_now_give_its_answers(shared_home_folder: Path) -> None:
    """All modules and networks, exported by one process: with PyTorch 2.13, or the Python in TFAOT_TEST_TORCH."""
    python = python_with_pytorch(shared_home_folder)
    makers = [_MAKER, HELPER, *(_FROZEN / name for name in ("torch_files.py", "torch_networks.py"))]
    exported = kept(
        shared_home_folder,
        "aten_files",
        {"python": str(python), "digests": [sha256_file(each) for each in makers]},
        lambda folder: run([python, "-I", _MAKER, HELPER, folder], timeout=3000),
    )
    found = {path.stem: difference_from_pytorch(path) for path in sorted(exported.glob("*.aten"))}
    assert len(found) >= 85
    assert {name: difference for name, difference in found.items() if difference > 1e-5} == {}
