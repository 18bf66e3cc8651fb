"""What tfcompile is told about a graph: its feeds and fetches, in our order."""


def config(feeds: list, outputs: list, batch_size: int):
    """tf2xla's Config. `feeds` are {node, dtype, shape}, None in a shape meaning `batch_size`; `outputs` {node, index}.

    Names are ours, and C identifiers.
    """
    from tensorflow.compiler.tf2xla import tf2xla_pb2
    from tensorflow.python.framework import dtypes, tensor_shape

    made = tf2xla_pb2.Config()
    for index, tensor in enumerate(feeds):
        feed = made.feed.add(name=f"in{index}", type=dtypes.as_dtype(tensor["dtype"]).as_datatype_enum)
        feed.id.node_name = tensor["node"]
        shape = [batch_size if size is None else size for size in tensor["shape"]]
        feed.shape.CopyFrom(tensor_shape.TensorShape(shape).as_proto())
    for index, tensor in enumerate(outputs):
        fetch = made.fetch.add(name=f"out{index}")
        fetch.id.node_name = tensor["node"]
        fetch.id.output_index = tensor["index"]
    return made
