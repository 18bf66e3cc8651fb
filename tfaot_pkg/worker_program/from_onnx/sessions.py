"""ONNX Runtime's sessions of ONNX files: one thread, no graph that is rewritten for speed."""

from messages.requests import ModelFault, one_line

_RUN = (
    "cast bfloat16 and other types that it has no kernels for to float32 in the model, give nodes different names, or "
    "export again; try it: python -c \"import onnxruntime; onnxruntime.InferenceSession('FILE.onnx')\""
)


def session(file: str | bytes, *, rewriting: bool = True):
    """A session of a file, or of a model as bytes; ModelFault for what ONNX Runtime cannot run.

    Without `rewriting`, constants are not folded: for those that only ask whether a file can be run.
    """
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Fusions replace functions by approximations, and differ from release to release.
    options.graph_optimization_level = levels.ORT_ENABLE_BASIC if rewriting else levels.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    # ONNX Runtime's exceptions have no base of their own.
    except Exception as error:
        raise ModelFault(
            f"ONNX Runtime {onnxruntime.__version__}, which answers are compared with, cannot run the file: "
            f"{one_line(error)}",
            _RUN,
        ) from error
