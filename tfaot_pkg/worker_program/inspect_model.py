"""What a SavedModel offers, without loading it: signatures and operations."""

import saved_model


def inspect(args: dict, report) -> dict:
    """`folder` -> {"tags", "signatures": {name: {"inputs": [...], "outputs": [...]}}}.

    A tensor is {name, dtype, shape}.
    """
    from tensorflow.python.framework import dtypes

    model = saved_model.read(args["folder"])
    graph = saved_model.meta_graph(model, args["tags"])

    def tensors(infos) -> list:
        return [
            {
                "name": name,
                "dtype": dtypes.as_dtype(info.dtype).name,
                "shape": None
                if info.tensor_shape.unknown_rank
                else [dim.size if dim.size >= 0 else None for dim in info.tensor_shape.dim],
            }
            for name, info in sorted(infos.items())
        ]

    signatures = {
        name: {
            "inputs": tensors(graph.signature_def[name].inputs),
            "outputs": tensors(graph.signature_def[name].outputs),
        }
        for name in saved_model.signature_names(graph)
    }
    return {"tags": args["tags"], "signatures": signatures}
