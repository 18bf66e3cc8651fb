"""The sizes that a model takes for its symbols, found by running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import freeze
import signatures
import specialize
import tensorflow as tf
from messages.requests import one_line
from messages.size_search import search

if TYPE_CHECKING:
    from framework_types import Report
    from messages.graph import FindSizes, FoundSizes


_BATCH = 2
_EMPTY = "an output would be empty"


def find(request: FindSizes, report: Report) -> FoundSizes:
    """The ranges of sizes at which the model runs (messages/size_search.py)."""
    model = request.model
    meta_graph, found = freeze.reached_graph(model)
    signature = signatures.imported(model.folder, meta_graph, found)
    frozen = freeze.frozen_function(model.signature, signature)
    inputs = freeze.feeds_of(signature.inputs, freeze.inputs_of(frozen), model)

    def fault(sizes: Mapping[str, int]) -> str:
        shapes = [specialize.sized(each, _BATCH, sizes) for each in inputs]
        try:
            # Zeros: indices of the smallest table, too.
            found = signature.function(
                *[tf.zeros(shape, each.dtype) for shape, each in zip(shapes, inputs, strict=True)]
            )
        except (tf.errors.OpError, ValueError) as error:
            return one_line(error)
        # Slices and croppings of too few elements are empty, and XLA compiles no convolutions of them.
        return _EMPTY if any(0 in each.shape for each in tf.nest.flatten(found)) else ""

    return search(model.symbols, fault)
