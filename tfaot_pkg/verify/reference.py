"""The stored answers: inputs and what TensorFlow made of them, for the program `NAME_test` of a package.

The file's form stands at the top of templates/tools/test.cc, which reads it. The answers are those of the machine that
built the package: another kind of CPU may give others in the last digits, as in the report.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.signature import Signature, Tensor
from tfaot_pkg.spec.types import Validation

FILE = "reference.bin"

_FORMAT = 1


def reference_bytes(
    *,
    signature: Signature,
    uid: str,
    batch_sizes: Sequence[int],
    validation: Validation,
    inputs: Mapping[str, Array],
    answers: Mapping[str, Array],
) -> bytes:
    """The file for the first batch of each size. `inputs` have a row per sample, `answers` are by "SIZE/OUTPUT"."""
    head = struct.pack("<8sIIII", b"TFAOTREF", _FORMAT, len(signature.inputs), len(signature.outputs), len(batch_sizes))
    head += struct.pack("<dd16s", validation.rtol, validation.atol, uid.encode())
    head += struct.pack(f"<{len(batch_sizes)}q", *batch_sizes)
    tensors = [_tensor(tensor, inputs[tensor.name], max(batch_sizes)) for tensor in signature.inputs]
    tensors += [_tensor(t, answers[f"{size}/{t.name}"], size) for size in batch_sizes for t in signature.outputs]
    return head + b"".join(tensors)


def _tensor(tensor: Tensor, values: Array, rows: int) -> bytes:
    part = values[:rows] if tensor.has_batch_axis else values
    content = np.ascontiguousarray(part, np.dtype(tensor.dtype.value).newbyteorder("<")).tobytes()
    return struct.pack("<Q", len(content)) + content
