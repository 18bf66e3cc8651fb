"""The default toolchain, made from the network (once; it is kept between runs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.folders import Folders
from tfaot_pkg.process import run
from tfaot_pkg.progress import Silent
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.toolchain.environment import ensure, installed

_PROGRAM = """
import keras, tensorflow
from tensorflow.python import _pywrap_tfcompile
assert callable(_pywrap_tfcompile.Compile)
print(tensorflow.__version__)
"""


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
def test_the_default_toolchain_is_made_and_has_tensorflow_and_tfcompile(shared_home: Path) -> None:
    folders = Folders.of_user()
    made = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    assert run([made.python, "-I", "-B", "-c", _PROGRAM]).stdout.strip() == DEFAULT_VERSION
    assert made.runtime_sources.is_dir() and made.include.is_dir() and made.notices
    assert made in installed(folders)
