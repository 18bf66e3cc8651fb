"""How the kernel library multiplies rows by panels of a matrix that is computed, too, in float32 and in bfloat16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tfaot_pkg.compiler.bfloat16 import BLOCK
from tfaot_pkg.compiler.bfloat16_layers import words_of_rows
from tfaot_pkg.compiler.elements import Place
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.instructions import Struct, Written
from tfaot_pkg.compiler.layers import PANEL, reaches
from tfaot_pkg.compiler.program import ONE, Size

_NONE = "Activation::none"


class Form(Protocol):
    """`pack` writes the panels, `size` elements of `dtype`; `multiply` writes the product with rows."""

    @property
    def dtype(self) -> str: ...

    @property
    def pack(self) -> str: ...

    def size(self, inner: Size, width: Size) -> Size: ...

    def multiply(
        self, emitter: Emitter, extent: tuple[Size, Size], packed: Place, count: Size, read: tuple[Place, Size],
        written: tuple[Written, Size],
    ) -> None: ...  # fmt: skip


@dataclass(frozen=True, slots=True)
class InFloat32:
    dtype: str = "f32"
    pack: str = "pack"

    def size(self, inner: Size, width: Size) -> Size:
        # If the width is known at run time only: an upper bound.
        padded = Size(-(-width.constant // PANEL) * PANEL) if width.is_constant else width + Size(PANEL - 1)
        return padded * inner

    def multiply(
        self, emitter: Emitter, extent: tuple[Size, Size], packed: Place, count: Size, read: tuple[Place, Size],
        written: tuple[Written, Size],
    ) -> None:  # fmt: skip
        inner, width = extent
        emitter.call("dense", "dispatch", Struct((*extent, packed, "nullptr", _NONE)), count, *read, *written)
        if inner.is_constant and width.is_constant:
            reaches(emitter, f"product({inner.constant}, {width.constant}, {_NONE}", count)
        else:
            emitter.reached["products()"] = None


@dataclass(frozen=True, slots=True)
class InBfloat16:
    """Both sizes are known. Behind the packed matrix is the memory for rounded rows."""

    dtype: str = "u32"
    pack: str = "bfloat16Pack"

    def size(self, inner: Size, width: Size) -> Size:
        return Size(self._packed(inner, width) + words_of_rows(inner.constant, 1))

    @staticmethod
    def _packed(inner: Size, width: Size) -> int:
        return -(-width.constant // PANEL) * PANEL * (-(-inner.constant // BLOCK) * BLOCK // 2)

    def multiply(
        self, emitter: Emitter, extent: tuple[Size, Size], packed: Place, count: Size, read: tuple[Place, Size],
        written: tuple[Written, Size],
    ) -> None:  # fmt: skip
        numbers = ", ".join(str(size.constant) for size in extent)
        words = self._packed(*extent)
        emitter.remark(f"static_assert(packedBfloat16Size({numbers}) == {words});")
        needed = self.size(*extent).constant - words
        emitter.remark(f"static_assert(bfloat16DenseScratch({extent[0].constant}, 1) <= {needed});")
        target, step = written
        layer = Struct((*extent, "nullptr", "nullptr", _NONE, ONE, "false", "false", "nullptr", step))
        emitter.call("bfloat16Product", "dispatch", layer, count, *read, target, Written(packed))
        emitter.uses_tiles = True
        emitter.reached[f"activating({_NONE})"] = None


IN_FLOAT32, IN_BFLOAT16 = InFloat32(), InBfloat16()
