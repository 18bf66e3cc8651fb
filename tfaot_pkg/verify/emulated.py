"""Runs of the built library under an emulator, by a small program that is compiled for the library's machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tfaot_pkg import resources
from tfaot_pkg.arrays import Array
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.emulator import Emulator
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.sandbox import Limits, Sandbox
from tfaot_pkg.sandbox.command import Command
from tfaot_pkg.signature import Signature
from tfaot_pkg.targets import Target
from tfaot_pkg.verify.oracle import Tried
from tfaot_pkg.verify.part import Part

_SLOWER = 10
"""Times the seconds that a class of inputs may take natively."""


class EmulatedRuns:
    """Runs `library`, whose interface is `signature`; `folder` is for files that no model can write to."""

    def __init__(
        self,
        *,
        emulator: Emulator,
        compiler: Compiler,
        library: NativeLibrary,
        signature: Signature,
        batch_sizes: Sequence[int],
        folder: Path,
    ) -> None:
        self._emulator, self._compiler, self._library = emulator, compiler, library
        self._signature, self._sizes, self._folder = signature, tuple(batch_sizes), folder
        self._program = folder / f"batches-{compiler.architecture}"

    def command(self, target: Target, parts: Sequence[Part], *, writable: Path, flush: bool) -> Command:
        """Raises CompilerError."""
        program = self._compiled()
        inputs = [self._prepared(part.tried) for part in parts]
        arguments: list[str | Path] = []
        for part, prepared in zip(parts, inputs, strict=True):
            seconds = math.ceil((part.tried.seconds or 0) * _SLOWER)
            arguments += [prepared, part.answers, str(seconds)]
        root = self._compiler.sysroot
        box = Sandbox(
            readable=(self._library.shared, program, *([root] if root else []), *inputs),
            writable=(writable,),
            limits=Limits.of_user(),
        )
        emulator: list[str | Path] = [self._emulator.program, "-cpu", self._emulator.cpu]
        if root:
            emulator += ["-L", root]
        mode = "flush" if flush else "keep"
        return box.native([*emulator, program, self._library.shared, target.name, mode, *arguments])

    def answers(self, part: Part) -> dict[str, Array]:
        """What the program wrote. Raises ValueError if these are not the answers for such inputs."""
        counts = self._counts(part.tried)
        expected = sum(count * self._bytes(size) for size, count in counts.items())
        if part.answers.stat().st_size != expected:
            raise ValueError(f"the library gave {part.answers.stat().st_size} bytes, {expected} were expected")
        data, at = part.answers.read_bytes(), 0
        found: dict[str, list[Array]] = {}
        for size, count in counts.items():
            for _ in range(count):
                for tensor in self._signature.outputs:
                    shape, dtype = tensor.shape_at(size), np.dtype(tensor.dtype.value)
                    elements = math.prod(shape)
                    array = np.frombuffer(data, dtype, elements, at).reshape(shape)
                    at += elements * dtype.itemsize
                    found.setdefault(f"{size}/{tensor.name}", []).append(array)
        stacked = {tensor.name for tensor in self._signature.outputs if tensor.has_batch_axis}
        return {
            name: np.concatenate(arrays) if name.partition("/")[2] in stacked else arrays[0]
            for name, arrays in found.items()
        }

    def _compiled(self) -> Path:
        if not self._program.exists():
            source = resources.templates() / "verify" / "batches.cc"
            self._compiler.program(source, self._program, includes=[resources.headers()])
        return self._program

    def _counts(self, tried: Tried) -> dict[int, int]:
        """The number of batches of each size."""
        batched = any(tensor.has_batch_axis for tensor in self._signature.inputs)
        counts = {size: tried.rows // size if batched else 1 for size in self._sizes}
        return counts if tried.most is None else {size: min(count, tried.most) for size, count in counts.items()}

    def _bytes(self, size: int) -> int:
        """Of the outputs of one batch."""
        outputs = self._signature.outputs
        return sum(math.prod(each.shape_at(size)) * np.dtype(each.dtype.value).itemsize for each in outputs)

    def _prepared(self, tried: Tried) -> Path:
        """The inputs as the program reads them."""
        path = self._folder / f"{tried.inputs.stem}.batches"
        if path.exists():
            return path
        with np.load(tried.inputs, allow_pickle=False) as file:
            inputs: Mapping[str, Array] = dict(file)
        with path.open("wb") as stream:
            for size, count in self._counts(tried).items():
                stream.write(np.array([size, count], np.int64).tobytes())
                for batch in range(count):
                    rows = slice(batch * size, (batch + 1) * size)
                    for tensor in self._signature.inputs:
                        array = inputs[tensor.name][rows] if tensor.has_batch_axis else inputs[tensor.name]
                        stream.write(np.ascontiguousarray(array, tensor.dtype.value).tobytes())
        return path
