"""Which layers are found in a graph, and what is made a part of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.substitution.conftest import Model
from tfaot_pkg.kernels.calls import calls_of

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

Chains = list[tuple[str, ...]]
"""Of each call, what its layers are: kind and activation."""

DENSE: Mapping[str, Chains] = {
    **{name: [("dense",)] for name in ("no_bias", "bias_add", "bias_first", "bias_subtracted", "transposed")},
    "subtracted_from": [("dense",)],
    "scalar_bias": [("dense relu",)],
    **{f"to_{name}": [(f"dense {name}",)] for name in ("relu", "elu", "selu", "tanh", "sigmoid", "softplus")},
    **{f"to_{name}": [(f"dense {name}",)] for name in ("swish", "gelu_erf", "gelu_tanh")},
    **{f"to_{name}": [("dense clip",)] for name in ("relu6", "clip", "clip_operation", "relu_limited")},
    **{f"to_{name}": [("dense clip",)] for name in ("hard_sigmoid", "hard_sigmoid_clipped")},
    **{f"to_leaky{name}": [("dense leaky_relu",)] for name in ("", "_maximum", "_greater", "_less")},
    **{f"to_hard_swish{name}": [("dense hard_swish",)] for name in ("", "_last", "_times")},
    "to_relu_maximum": [("dense relu",)],
    "to_gelu_erfc": [("dense gelu_erf",)],
    **{f"to_{name}": [("dense",)] for name in ("leaky_otherwise", "steep_maximum", "one_bound")},
    "softmax": [("dense", "softmax")],
    "norm_before": [("dense",)],
    "norm_behind": [("dense relu",)],
    "norm_of_sums": [("dense relu",)],
    "norm_between": [("dense elu", "dense")],
    "norm_of_sums_between": [("dense", "dense")],
    "no_activation_between": [("dense", "dense")],
    "input_normalized": [("dense",)],
    "input_centred": [("dense",)],
    "chain": [("dense relu", "dense tanh", "dense", "softmax")],
    "apart": [("dense relu", "dense"), ("dense",)],
}
ITEMS: Mapping[str, Chains] = {
    "each_item": [("dense relu",)],
    "softmax_of_items": [("dense", "softmax")],
    "norm_then_flat": [("dense relu", "dense")],
    "flat_then_norm": [("dense relu", "dense")],
    "folded_rows": [("dense relu",)],
    **{name: [("dense",)] for name in ("einsum", "einsum_heads", "einsum_of_heads", "bias_of_heads")},
    **{name: [("dense relu",)] for name in ("einsum_any", "tensordot")},
    "tensordot_twice": [("dense relu", "dense relu")],
    **{name: [("dense",)] for name in ("bias_of_items", "turned_between")},
    "residual_heads": [("dense", "add relu")],
    "sum_over_items": [("dense relu",), ("dense",)],
    "conv1d": [("conv2d",)],  # its bias comes behind a reshape
    "conv1d_padded": [("conv2d relu",)],
}
IMAGES: Mapping[str, Chains] = {
    "valid": [("conv2d elu",)],
    "same": [("conv2d relu",)],
    **{name: [("conv2d",)] for name in ("strides", "uneven_strides", "dilated", "explicit", "grouped")},
    "one_by_one": [("conv2d selu",)],
    "depthwise": [("conv2d relu",)],
    "depthwise_more": [("conv2d",)],
    "norm_behind": [("conv2d relu",)],
    "norm_before_valid": [("conv2d relu", "conv2d")],
    "norm_before_same": [("conv2d relu",), ("conv2d",)],  # the offset is not there in the padding
    "norm_before_stride": [("conv2d",)],
    "norm_before_depthwise": [("conv2d relu", "conv2d")],
    "norm_before_groups": [("conv2d relu", "conv2d")],
    "norm_of_input": [("conv2d",)],
    "flat_norm_dense": [("conv2d relu", "dense")],
    "norm_flat_dense": [("conv2d relu", "dense")],
    "max_pool": [("conv2d relu", "max_pool")],
    "max_pool_same": [("conv2d relu", "max_pool")],
    "average_pool": [("conv2d relu", "average_pool")],
    "average_pool_same": [("conv2d relu", "average_pool")],
    "global_average": [("conv2d relu", "average_pool", "dense")],
    "network": [("conv2d relu", "max_pool", "conv2d elu", "dense relu", "dense", "softmax")],
    "leaky_pool": [("conv2d leaky_relu", "max_pool")],
    "clipped_pool": [("conv2d clip", "max_pool")],
    "residual": [
        ("conv2d relu", "conv2d relu", "conv2d", "add relu", "conv2d", "add relu", "average_pool", "dense"),
    ],
    "residual_pool": [("conv2d", "max_pool", "add")],
    "padded_before": [("conv2d",)],
}
STRUCTURE: Mapping[str, Chains] = {
    "inner": [("dense relu",)],
    "outer": [("dense relu",)],  # of its own: what it reads is an output
    "residual": [("dense relu", "dense relu", "dense", "add relu")],
    "residual_of_input": [("dense relu", "dense", "add elu")],
    "residual_blocks": [("dense relu", *(("dense relu", "dense", "add") * 3), "dense")],
    "residual_inside": [("dense relu", "dense tanh", "dense", "add", "dense", "add", "dense")],
    "residual_used_again": [("dense relu",), ("dense", "add relu", "dense", "add")],
    "residual_of_output": [("dense", "add")],
    "sum_of_two": [("dense tanh",), ("dense tanh",)],
    "sum_of_sizes": [("dense",), ("dense",)],
    "ends_reshaped": [("dense relu",)],
    "weights_twice": [("dense tanh", "dense")],
    "branches": [("dense relu", "dense"), ("dense relu", "dense")],
    "control": [("dense relu", "dense")],
    "computed_weights": [("dense",)],
    "small": [("dense", "dense")],
    "shape_used": [("dense relu", "dense")],
    "swish_used_again": [("dense",)],
    "gelu_used_again": [("dense",)],
    "norm_for_two": [("dense relu",), ("dense",), ("dense",)],
}


@pytest.mark.sweep("dense")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("dense", DENSE), ("items", ITEMS), ("images", IMAGES), ("structure", STRUCTURE)],
    ids=["dense", "items", "images", "structure"],
)
def test_layers_take_along_what_stands_around_them(
    name: str, expected: Mapping[str, Chains], build: Callable[..., Model]
) -> None:
    """What is not expected is XLA's: loops, products of two inputs, other dtypes, arrays without elements."""
    layers = build(name).frozen.layers
    found: dict[str, Chains] = {}
    for call in calls_of(layers, frozenset(layer.name for layer in layers)):
        words = [f"{layer.kind} {layer.operation.get('activation', 'none')}" for layer in call.layers]
        chain = tuple(word.removesuffix(" none") for word in words)
        found.setdefault(_scope(call.layers[0].name), []).append(chain)
    assert found == expected


@pytest.mark.sweep("dense")
@pytest.mark.parametrize(
    ("name", "not_inputs"),
    [
        ("dense", {"input_normalized", "input_centred", "apart"}),  # a difference from the mean is exact
        ("images", {"norm_of_input", "norm_before_same", "norm_before_stride"}),
    ],
    ids=["dense", "images"],
)
def test_scales_and_offsets_are_folded_into_weights_where_that_is_right(
    name: str, not_inputs: set[str], build: Callable[..., Model]
) -> None:
    layers = build(name).frozen.layers
    heads = [call.layers[0] for call in calls_of(layers, frozenset(layer.name for layer in layers))]
    assert {_scope(layer.name) for layer in heads if layer.reads != ("x", 0)} == not_inputs


@pytest.mark.nightly
def test_equal_parameters_are_one(build: Callable[..., Model]) -> None:
    layers = build("structure").frozen.layers
    twice = [layer for layer in layers if _scope(layer.name) == "weights_twice"]
    assert len(twice) == 2 and len({str(layer.parameters) for layer in twice}) == 1


def _scope(node: str) -> str:
    """The output that a node belongs to."""
    return node.split("/")[1]
