"""Trace the time that a model takes in TensorFlow: spans of its profiler, in Chrome's trace event format."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import signatures
import tensorflow as tf
from messages.requests import ModelFault, Nothing, Trace, one_line
from tensorflow.tsl.profiler.protobuf import xplane_pb2

if TYPE_CHECKING:
    from framework_types import Report


_WARM = 3
"""Calls before the traced ones: in these, TensorFlow traces and optimizes the function, and XLA compiles it."""
_NOISE = ("ThreadpoolListener::", "TFE_DeleteTensorHandle")
"""Events without a length, from TensorFlow's own bookkeeping."""


def trace(request: Trace, report: Report) -> Nothing:
    """Write the spans of some calls of the signature on the inputs (.npz: one batch) to `request.out`."""
    signature = signatures.load_signature(request.folder, request.tags, request.signature)
    # One argument: tf.function would rename keywords that are not identifiers, such as state/hidden.
    function = tf.function(lambda feeds: signature(**feeds), jit_compile=request.jit or None)
    with np.load(request.inputs, allow_pickle=False) as file:
        feeds = {name: tf.constant(values) for name, values in file.items()}
    try:
        for _ in range(_WARM):
            function(feeds)
    except tf.errors.OpError as error:
        how = " with XLA" if request.jit else ""
        raise ModelFault(f"TensorFlow cannot run the model{how}: {one_line(error)}") from error
    # TensorFlow's own operations are level 2; calls of Python would hide them.
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    tf.profiler.experimental.start(request.scratch, options=options)
    for call in range(request.calls):
        with tf.profiler.experimental.Trace("call", step_num=call):
            # A call is complete only when its results can be read.
            for tensor in function(feeds).values():
                tensor.numpy()
    tf.profiler.experimental.stop()
    events = [event for space in _spaces(request.scratch) for event in _events(space)]
    with open(request.out, "w", encoding="utf-8") as file:
        json.dump({"displayTimeUnit": "ns", "traceEvents": events}, file)
    return Nothing()


def _spaces(folder: str) -> Iterator[Any]:
    for path in glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True):
        space = xplane_pb2.XSpace()
        with open(path, "rb") as file:
            space.ParseFromString(file.read())
        yield space


def _events(space: Any) -> Iterator[dict[str, Any]]:
    """The spans of all threads, and the threads' names."""
    threads = [(plane, line) for plane in space.planes if plane.name.startswith("/host:CPU") for line in plane.lines]
    first = min((line.timestamp_ns for _, line in threads), default=0)
    for number, (plane, line) in enumerate(threads):
        name = line.name or str(line.id)
        yield {"ph": "M", "name": "thread_name", "pid": 0, "tid": number, "args": {"name": name}}
        for event in line.events:
            title = plane.event_metadata[event.metadata_id].name
            if title.startswith(_NOISE):
                continue
            # Microseconds, as the trace event format has them.
            begin = (line.timestamp_ns - first) / 1e3 + event.offset_ps / 1e6
            yield {"ph": "X", "name": title, "ts": begin, "dur": event.duration_ps / 1e6, "pid": 0, "tid": number}
