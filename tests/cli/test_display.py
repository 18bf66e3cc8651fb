from __future__ import annotations

import pytest

from tfaot_pkg.cli.display import PlainProgress


@pytest.mark.parametrize(
    ("total", "said"), [(None, "build ..."), (1, "build (1 package) ..."), (2000, "build (2,000 packages) ...")]
)
def test_a_line_says_how_much_there_is_to_do(
    total: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with PlainProgress(verbose=False).step("build", total=total, unit="packages"):
        pass
    assert capsys.readouterr().err.splitlines()[0] == said
