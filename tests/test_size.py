"""tools/check_size.py: no module or function of tfaot_pkg passes the limits."""

from __future__ import annotations

from pathlib import Path

from tools.check_size import faults, measured, summary


def _function(name: str, branches: int) -> str:
    tests = "\n".join(f"    if x == {place}:\n        return {place}" for place in range(branches))
    return f"def {name}(x):\n{tests}\n    return x\n\n\n"


def test_what_passes_a_limit_is_told(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        _function("good", 19) + "class A:\n    def worse(self, x):\n        return " + " or ".join("x" * 21)
    )
    (tmp_path / "large.py").write_text("".join(_function(f"f{place}", 19) for place in range(60)))
    modules = [measured(tmp_path, name) for name in ("plain.py", "large.py")]
    assert modules[0].functions == (("plain.py:good", 20), ("plain.py:A.worse", 21))
    found = [*faults(modules)]
    assert [line.partition(": ")[0] for line in found] == ["large.py", "plain.py:A.worse"]
    assert "at least 15" in found[0] and "complexity 21, at most 20" in found[1]
    assert "21 (plain.py:A.worse)" in summary(modules) and "(large.py)" in summary(modules)
