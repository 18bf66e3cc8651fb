"""Who computes what, as builds tell it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from tests.compiled.test_assignment import ALL, LAYERS, NONE, THUNKS, V2, V3, _spec
from tests.package.conftest import make_spec
from tests.samples import recipe, tfaot
from tfaot_pkg.compiled.kernel_report import kernel_share
from tfaot_pkg.documents import plain
from tfaot_pkg.spec.types import LayerChoice
from tfaot_pkg.toolchain.definition import Toolchain, toolchain

CLASSIC = toolchain("2.17.1")
POOL = replace(LAYERS[0], name="pool", operation={"kind": "max_pool"}, parameters=None)


def test_a_share_counts_the_products_of_each_unit_and_says_who_decided() -> None:
    spec = _spec({V2: {2: NONE, 4: ALL}, V3: {2: LayerChoice(named=("b",)), 4: ALL}})
    share = kernel_share(spec, LAYERS, CLASSIC)
    said = plain(share)
    assert said["products"] == 3
    computed = {(each["batch_size"], each["target"]): each["products"] for each in said["computed"]}
    assert computed == {(2, V2): 0, (4, V2): 3, (2, V3): 1, (4, V3): 3}
    assert str(share) == (
        "kernels: 0 to 3, by batch size and target, of 3 products (others: XLA's code was measured to be as fast)"
    )
    assert share.layers[1].units == ((4, V2), (2, V3), (4, V3))


def test_where_all_products_are_theirs_nothing_is_explained() -> None:
    assert str(kernel_share(make_spec(), LAYERS, CLASSIC)) == "kernels: 3 of 3 products"
    assert str(kernel_share(make_spec(), LAYERS[:1], CLASSIC)).startswith("kernels: 1 of 1 product")


@pytest.mark.parametrize(
    ("changes", "chain", "why"),
    [
        ({"kernels": "none"}, CLASSIC, "compilation.kernels is none"),
        ({"weights": "embedded"}, CLASSIC, "compilation.weights is embedded"),
        ({}, THUNKS, "this toolchain has no calls for parts of a model"),
    ],
    ids=["none", "embedded", "thunks"],
)
def test_the_reason_is_told_where_nothing_is_theirs(changes: Mapping[str, str], chain: Toolchain, why: str) -> None:
    spec = make_spec()
    spec = replace(spec, compilation=replace(spec.compilation, **changes))  # type: ignore[arg-type]
    assert str(kernel_share(spec, LAYERS, chain)) == f"kernels: 0 of 3 products (others: {why})"


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_a_build_tells_what_became_of_the_products_of_its_graph(shared_home_folder: Path, tmp_path: Path) -> None:
    folder, prefix = copytree(recipe("digits"), tmp_path / "digits"), tmp_path / "prefix"
    spec = folder / "spec.yaml"
    spec.write_text(spec.read_text().replace("compilation:", "compilation:\n  engine: xla", 1))
    built = json.loads(tfaot(shared_home_folder, "build", spec, "-o", prefix, "--json"))["kernels"]
    graph = json.loads((prefix / "share/tfaot-model-digits/graph.json").read_text())
    products = [node["op"] for node in graph["nodes"] if node["op"] in ("MatMul", "Conv2D")]
    kinds = {"MatMul": "dense", "Conv2D": "conv2d"}
    assert [each["kind"] for each in built["layers"] if each["kind"] in kinds.values()] == [
        kinds[op] for op in products
    ]
    assert [each["products"] for each in built["computed"]] == [len(products)] * len(built["computed"])
    said = tfaot(shared_home_folder, "build", spec, "-o", prefix).splitlines()
    assert f"kernels: {len(products)} of {len(products)} products" in said


def test_a_graph_without_products_says_so() -> None:
    assert "no product" in str(kernel_share(make_spec(), [], CLASSIC))
    share = kernel_share(make_spec(), [POOL], CLASSIC)
    assert "no product" in str(share) and plain(share)["layers"]
