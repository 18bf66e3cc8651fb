"""What the errors of a disk advise."""

from __future__ import annotations

import errno
import os

import pytest

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.storage import storage_errors


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT])
def test_a_home_that_cannot_be_written_has_another_place(number: int) -> None:
    with pytest.raises(StorageError) as caught, storage_errors("write the build cache"):
        raise OSError(number, os.strerror(number), "/home/user/.cache/tfaot-pkg")
    assert "TFAOT_HOME" in caught.value.hint, caught.value.hint
