"""Check tfcompile's generated headers and objects, and read the facts about a unit from its header."""

from __future__ import annotations

import re
from pathlib import Path

from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.ground.signature import Signature

# All preprocessor directives that tfcompile writes.
_DIRECTIVES = re.compile(
    r"#(ifndef|define|endif  //) TFCOMPILE_GENERATED_\w+(  // NOLINT\(build/header_guard\))?"
    r'|#include "(absl|tensorflow|third_party|tsl|xla)(/\w+)+\.h"'
    r"|#include <\w+>"
)
# Constructs that could hide a directive (continued lines, digraphs, trigraphs, _Pragma) or read a file (.incbin in an
# asm).
_UNUSUAL = re.compile(r"\\\s*$|%:|\?\?|\b_Pragma\b|\b(__)?asm(__)?\b(?!\(\"__tfcompile_\w+\"\))", re.MULTILINE)
_RELOCATABLE = 1  # ET_REL of the ELF specification


def require_plain(header: Path) -> None:
    """ToolchainError for a header that would make the compiler read files other than TensorFlow's headers.

    It comes from a process that ran a model, which may be hostile, and the compiler runs without a sandbox.
    """
    text = header.read_text()
    odd = [line for line in text.splitlines() if "#" in line and not _DIRECTIVES.fullmatch(line)]
    odd += [found[0] for found in _UNUSUAL.finditer(text)]
    if odd:
        raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header} ({odd[0]!r})")


def require_object(code: Path) -> None:
    """ToolchainError unless it is an object file: a linker reads any text as a script, which may name other files."""
    with code.open("rb") as file:
        head = file.read(18)
    # Bytes 16 and 17 are the file's type (e_type).
    if not head.startswith(b"\x7fELF") or int.from_bytes(head[16:18], "little") != _RELOCATABLE:
        raise ToolchainError(f"TensorFlow wrote a file that is not an object file: {code.name}")


def correct(header: Path, toolchain: Toolchain) -> None:
    """Correct known faults of generated headers."""
    text = header.read_text()
    for pattern, replacement in toolchain.corrections:
        text = re.sub(pattern, replacement, text)
    header.write_text(text)


def number_of_buffers(header: Path) -> int:
    found = re.search(r"\bkNumBuffers = ([0-9]+);", header.read_text())
    if found is None:
        raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header}")
    return int(found.group(1))


def scratch_bytes(header: Path, *, arguments: bool = False) -> int:
    """Bytes of a unit's temporary buffers; with `arguments`, also of copies of its arguments."""
    text, total = header.read_text(), 0
    # tfcompile states them in a comment only ("Memory stats"); "aligned" includes the gaps between buffers.
    for kind in ("arg", "temp") if arguments else ("temp",):
        found = re.search(rf"^//   {kind} bytes aligned: +([0-9]+)$", text, re.MULTILINE)
        if found is None:
            raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header}")
        total += int(found[1])
    return total


def require_shapes(header: Path, signature: Signature, batch_size: int) -> None:
    """ModelError if an output's compiled shape is not what the signature says for this batch size."""
    text = header.read_text()
    sizes = _result_sizes(header, text)
    # As carried: a complex tensor is two floats to XLA (decision 047).
    for index, tensor in enumerate(each.carried for each in signature.outputs):
        shape = _result_shape(header, text, index)
        if shape != tensor.shape_at(batch_size):
            raise ModelError(
                f"output {tensor.name!r} has the shape {list(shape)} at batch size {batch_size}, but the signature "
                f"promises {list(tensor.shape_at(batch_size))}: only the first axis may depend on the batch size",
                hint="reshape the output so that its first axis is the batch, and its other axes are fixed",
            )
        # XLA stores the size of an array whose size depends on values after its elements.
        if sizes[index] != tensor.nbytes_at(batch_size):
            raise ModelError(
                f"the shape of output {tensor.name!r} depends on the values of the inputs",
                hint="compiled code has fixed shapes: return all rows, and a mask as another output",
            )


def _result_shape(header: Path, text: str, index: int) -> tuple[int, ...]:
    found = re.search(rf"\bkResult{index}Shapes\[\] = \{{([-0-9,\s]*)\}}", text)
    if found is None:
        raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header}")
    numbers = tuple(int(word) for word in found.group(1).replace(",", " ").split())
    return () if numbers == (-1,) else numbers  # a scalar's list is one -1: C++ has no empty arrays


def _result_sizes(header: Path, text: str) -> list[int]:
    """Bytes of each result's buffer."""
    # XLA encodes a buffer as its size shifted left by two bits, which hold its kind.
    sizes = [int(packed) >> 2 for packed in re.findall(r"Encoded\w+Info\{([0-9]+)ULL,", text)]
    found = re.search(r"\bkResultIndexToBufferIndex\[kNumResults\] = \{([-0-9,\s]*)\}", text)
    if found is None:
        raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header}")
    return [sizes[int(word)] for word in found.group(1).replace(",", " ").split()]
