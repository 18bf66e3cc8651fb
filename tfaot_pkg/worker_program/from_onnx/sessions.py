"""ONNX Runtime's sessions of ONNX files: one thread, and no fusion of operators."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from messages.requests import ModelFault, one_line

if TYPE_CHECKING:
    from framework_types import Session


_HINTS = {
    "Could not find an implementation": "it has no kernel for the operator with this type: cast bfloat16, float64 and "
    "other types to float32 in the model",
    "Type Error": "an operator does not take this type of tensor: export the model with float32, or insert a Cast node",
    "same node name": "give the nodes different names, or none",
}
"""Words of ONNX Runtime's message -> a hint."""
_TRY = "export again; try it: python -c \"import onnxruntime; onnxruntime.InferenceSession('FILE.onnx')\""


def session(file: str | bytes, *, beside: str = "", rewriting: bool = True, fusing: bool = False) -> Session:
    """A session of a file, or of a model as bytes; ModelFault if ONNX Runtime cannot run it.

    Weights in files of their own are beside the file `beside`, or beside `file` if that is a path.
    Without `rewriting`, constants are not folded: enough to find out whether a file can be run. With `fusing`,
    operators are fused and laid out for speed: sums have another order.
    """
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Fusions replace functions by approximations, and differ from release to release.
    usual = levels.ORT_ENABLE_BASIC if rewriting else levels.ORT_DISABLE_ALL
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if fusing else usual
    options.log_severity_level = 3
    # Weights of floats between DequantizeLinear and QuantizeLinear stay what the file says: ONNX Runtime makes bytes of
    # them (WeightBiasQuantization), also without fusions.
    options.add_session_config_entry("session.disable_quant_qdq", "0" if fusing else "1")
    if fusing:
        options.add_session_config_entry("session.x64quantprecision", "1")  # unsigned.py
    if beside:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", os.path.dirname(os.path.abspath(beside))
        )
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    # ONNX Runtime's exceptions have no base of their own.
    except Exception as error:
        reason = one_line(error)
        hint = next((hint for words, hint in _HINTS.items() if words in str(error)), _TRY)
        raise ModelFault(
            f"ONNX Runtime {onnxruntime.__version__}, which answers are compared with, cannot run the file: {reason}",
            hint,
        ) from error
