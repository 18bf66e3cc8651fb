from __future__ import annotations

import pytest

from tfaot_pkg.ground.wording import counted


@pytest.mark.parametrize(("count", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (12_345, "12,345 files")])
def test_one_is_singular(count: int, said: str) -> None:
    assert counted(count, "file") == said
