"""What machine code a library holds, by objdump."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tfaot_pkg.ground.process import run

# "  3f0:\tvaddps %ymm0,%ymm1,%ymm2": with --no-show-raw-insn.
_INSTRUCTION = re.compile(
    r"^\s*[0-9a-f]+:\t(?:(?:lock|rep\w*|data16|cs|ds|bnd|notrack) )*([a-z]\w*)(.*)$", re.MULTILINE
)


def instructions(path: Path) -> Counter[str]:
    """How often each mnemonic occurs in the code of an object, archive or library."""
    text = run(["objdump", "-d", "--no-show-raw-insn", path], timeout=120).stdout
    return Counter(match.group(1) for match in _INSTRUCTION.finditer(text))


def uses_register(path: Path, name: str) -> bool:
    """Whether registers such as %ymm0 ("ymm") are used."""
    return f"%{name}" in run(["objdump", "-d", "--no-show-raw-insn", path], timeout=120).stdout


def vex(found: Counter[str]) -> set[str]:
    """Instructions in VEX or EVEX encoding: AVX and later, FMA, BMI. `verr` and `verw` are old ones."""
    bmi = {"andn", "bextr", "blsi", "blsmsk", "blsr", "bzhi", "mulx", "pdep", "pext", "rorx", "sarx", "shlx", "shrx"}
    return {name for name in found if (name.startswith("v") and name not in {"verr", "verw"}) or name in bmi}


_LATER = re.compile(
    "popcnt|crc32[bwlq]?|movbe|lzcnt|tzcnt|pshufb|pabs[bwd]|pmulld|pmuldq|pm(in|ax)(s[bd]|u[wd])|round[sp][sd]|dpp[sd]|"
    "p?blend.*|p(ins|ext)r[bdq]|insertps|extractps|h(add|sub)p[sd]|phadd.*|addsubp[sd]|palignr|lddqu|ptest|packusdw|pcmpgtq"
)


def beyond_sse2(found: Counter[str]) -> set[str]:
    """Instructions that the first level of x86-64 lacks: SSE3 to SSE4.2, POPCNT, and all in VEX encoding."""
    return vex(found) | {name for name in found if _LATER.fullmatch(name)}
