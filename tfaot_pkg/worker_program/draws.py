"""Numbers that a model draws in TensorFlow, call by call, as its operations with a state give them."""

import numpy as np
import signatures
from messages import elements
from messages.archives import write_arrays
from messages.draws import features
from messages.requests import DrawNumbers, Nothing
from reference_tensorflow import tensor_of


def draw(request: DrawNumbers, report) -> Nothing:
    """Call the signature `count` times on the arrays in `inputs`; write what is kept of each output to `out`."""
    signature = signatures.load_signature(request.folder, request.tags, request.signature)
    types = dict(zip(signature.inputs, (tensor.dtype.name for tensor in signature.function.inputs), strict=False))
    with np.load(request.inputs, allow_pickle=False) as file:
        feeds = {name: tensor_of(file[name], dtype) for name, dtype in types.items()}
    found: dict = {}
    for _ in range(request.count):
        for name, tensor in signature(**feeds).items():
            found.setdefault(name, []).append(features(elements.numbers(tensor.numpy(), tensor.dtype.name)))
    write_arrays(request.out, {name: np.stack(rows) for name, rows in found.items()})
    return Nothing()
