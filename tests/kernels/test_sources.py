"""Kernels are the same source for all targets: what differs is in one file of each family of targets."""

from __future__ import annotations

import re

from tests.kernels.library import RECIPE

_SOURCES = RECIPE / "src"
_CHOOSING = {"target.h": "the target", "compiler.h": "the compiler"}


def test_only_one_file_asks_for_the_target_and_one_for_the_compiler() -> None:
    asking: dict[str, list[str]] = {}
    for path in sorted([*_SOURCES.rglob("*.h"), *_SOURCES.rglob("*.cpp")]):
        # All but the include guard, `#ifndef TFAOT_KERNELS_NAME_H_`.
        found = re.findall(
            r"^ *# *(?:if|ifdef|ifndef|elif)\b(?! TFAOT_KERNELS_\w+_H_$).*", path.read_text(), re.MULTILINE
        )
        if found:
            asking[path.relative_to(_SOURCES).as_posix()] = found
    assert {*asking} == {*_CHOOSING}


def test_only_files_of_targets_use_their_intrinsics() -> None:
    uses = re.compile(r"\b(?:_mm\d*_|__m\d+|v\w+q_f(?:32|64)\b)|(?:immintrin|arm_neon)\.h")
    files = [path for path in _SOURCES.rglob("*") if path.suffix in (".h", ".cpp") and uses.search(path.read_text())]
    assert {path.parent.name for path in files} == {"targets"}
