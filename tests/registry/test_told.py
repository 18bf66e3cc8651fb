"""Packages of every kind agree with their index lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.package.conftest import SIGNATURE, make_contents, make_spec
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.signature import DType, Part, Signature, Symbol, Tensor
from tfaot_pkg.package.listing import scan_tree
from tfaot_pkg.package.tree import PackageContents, render
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.told import require_told

_X = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 8, 2), axes=("", "n", ""))
_FIXED = replace(_X, axes=())
SIGNATURES = {
    "usual": SIGNATURE,
    "sizes": Signature(
        inputs=(_X,), outputs=(replace(_X, name="y"),), symbols=(Symbol(name="n", minimum=3, maximum=8),)
    ),
    "several": Signature(
        inputs=(replace(_FIXED, name="a/x"), replace(_FIXED, name="b/x")),
        outputs=(replace(_FIXED, name="a/y"), replace(_FIXED, name="b/y")),
        parts=(Part(name="a", inputs=("a/x",), outputs=("a/y",)), Part(name="b", inputs=("b/x",), outputs=("b/y",))),
    ),
}


def _line(made: PackageContents) -> RegistryEntry:
    model, compilation = made.spec.model, made.spec.compilation
    return RegistryEntry(
        name=made.package_name, model=model.name, version=model.version, key=Key("0" * 64), tree="0" * 64,
        toolchain=made.toolchain, targets=compilation.targets, batch_sizes=compilation.batch_sizes,
        signature=made.signature, license=model.license, description=model.description, glibc=made.glibc, blobs={},
        rows_independent=made.rows.independent, any_batch_size=made.any_batch_size,
    )  # fmt: skip


@pytest.mark.parametrize("kind", SIGNATURES)
def test_what_is_built_agrees_and_a_changed_line_does_not(kind: str, tmp_path: Path) -> None:
    made = make_contents(make_spec("jet_tagger"), signature=SIGNATURES[kind])
    for path, data in render(made).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    tree, line = scan_tree(tmp_path), _line(made)
    require_told(tmp_path, tree, line)
    with pytest.raises(TrustError):
        require_told(tmp_path, tree, replace(line, license="CC0-1.0"))
    with pytest.raises(TrustError):
        require_told(tmp_path, tree, replace(line, signature=replace(made.signature, inputs=made.signature.inputs[1:])))
