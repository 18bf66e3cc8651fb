"""A frozen graph prepared for finding patterns: consumers of tensors, constant values, how shapes grow."""

import math

_PASSED_THROUGH = frozenset("Identity IdentityN StopGradient PreventGradient Snapshot".split())
"""Operations whose output N is their input N."""
_COMPUTABLE = _PASSED_THROUGH | frozenset(
    "Const Add AddV2 Sub Mul RealDiv Neg Rsqrt Sqrt Square Reciprocal Reshape Squeeze ExpandDims Transpose Cast "
    "Pack ConcatV2 Maximum Minimum".split()
)
"""Operations without effects: values made by these of constants alone are constants."""

_ASKING = frozenset("Shape ShapeN Size Rank".split())
"""Operations that use no values: shapes are known when a graph is compiled."""
_FRAMES = frozenset("Enter Exit NextIteration Switch Merge".split())


class GraphView:
    """`graph_def` between `inputs` and `outputs` (messages.graph). Tensors are named (node, index), Identity nodes are
    looked through. `batch_sizes` are two at which the shapes are inferred.
    """

    def __init__(self, graph_def, inputs, outputs, batch_sizes) -> None:
        import specialize

        self._nodes = {node.name: node for node in graph_def.node}
        self._batch_sizes = batch_sizes
        self._graphs = [_imported(specialize.at_batch_size(graph_def, inputs, size)) for size in batch_sizes]
        self._constants: dict = {}
        fetched = [(output.node, output.index) for output in outputs]
        self.used = self._ancestors([node for node, _ in fetched])
        self.outputs = [self.resolved(tensor) for tensor in fetched]
        self.fetched = set(self.outputs)
        self._consumers: dict = {}
        for name in sorted(self.used):
            node = self._nodes[name]
            if node.op not in _PASSED_THROUGH | _ASKING:
                for index in range(len(data_inputs(node))):
                    self._consumers.setdefault(self.input(node, index), []).append(node)
        self._several = {name for name, index in (*self._consumers, *self.fetched) if index}
        self.has_frames = any(self._nodes[name].op in _FRAMES for name in self.used)
        """Whether loops or branches of TensorFlow 1 are in the graph itself, not in functions."""

    def ordered(self) -> list:
        """The used nodes, each after its inputs, except in cycles (loops)."""
        order, entered = [], set()
        waiting = sorted(self.used, reverse=True)
        while waiting:
            name = waiting.pop()
            if name is None:  # all before the last one entered are done
                order.append(self._nodes[waiting.pop()])
            elif name not in entered:
                entered.add(name)
                waiting += [name, None, *(one for one, _ in map(tensor_of, data_inputs(self._nodes[name])))]
        return order

    def node(self, tensor: tuple):
        """The operation that gives `tensor`."""
        return self._nodes[tensor[0]]

    def input(self, node, index: int) -> tuple:
        """What input `index` of `node` is, Identity nodes left out."""
        return self.resolved(tensor_of(data_inputs(node)[index]))

    def resolved(self, tensor: tuple) -> tuple:
        while self._nodes[tensor[0]].op in _PASSED_THROUGH:
            tensor = tensor_of(data_inputs(self._nodes[tensor[0]])[tensor[1]])
        return tensor

    def consumers(self, tensor: tuple) -> list:
        """The operations that use the values of `tensor`, one entry per use."""
        return self._consumers.get(tensor, [])

    def only_consumer(self, tensor: tuple):
        """The operation that alone uses `tensor`; None if there are several, or it is an output of the model."""
        found = self.consumers(tensor)
        return found[0] if len(found) == 1 and tensor not in self.fetched else None

    def gives_one(self, node) -> bool:
        """Whether only the first output of `node` is used."""
        return node.name not in self._several

    def constant(self, tensor: tuple):
        """The value of `tensor` if it is made of constants alone, as an array, else None."""
        if tensor not in self._constants:
            self._constants[tensor] = self._computed(tensor)
        return self._constants[tensor]

    def _computed(self, tensor: tuple):
        from tensorflow.compat import v1
        from tensorflow.core.framework import graph_pb2
        from tensorflow.python.framework import tensor_util

        made_of = sorted(self._ancestors([tensor[0]]))
        if not all(self._nodes[name].op in _COMPUTABLE for name in made_of):
            return None
        if self._nodes[tensor[0]].op == "Const":
            return tensor_util.MakeNdarray(self._nodes[tensor[0]].attr["value"].tensor)
        alone = graph_pb2.GraphDef()
        for name in made_of:
            node = alone.node.add()
            node.CopyFrom(self._nodes[name])
            values = data_inputs(node)  # what a constant waits for does not change it
            del node.input[:]
            node.input.extend(values)
        with v1.Session(graph=_imported(alone)) as session:
            return session.run(f"{tensor[0]}:{tensor[1]}")

    def row_shape(self, tensor: tuple):
        """(k, shape): at batch size B, `tensor` has the shape (k * B, *shape). None if it is of another form."""
        small, large = (self._shape(graph, tensor) for graph in self._graphs)
        if not small or not large or None in small + large or small[1:] != large[1:]:
            return None
        per_row = [shape[0] / size for shape, size in zip((small, large), self._batch_sizes, strict=True)]
        if per_row[0] != per_row[1] or per_row[0] != int(per_row[0]) or per_row[0] == 0:
            return None
        return int(per_row[0]), tuple(small[1:])

    def row_size(self, tensor: tuple):
        """Elements of `tensor` per row of the batch, None if that is not a fixed number."""
        shape = self.row_shape(tensor)
        return None if shape is None else shape[0] * math.prod(shape[1])

    def same_size(self, first: tuple, second: tuple) -> bool:
        """Whether both have the same fixed number of elements per row of the batch."""
        size = self.row_size(first)
        return size is not None and size == self.row_size(second)

    def keeps_order(self, node) -> bool:
        """Whether `node` only changes the shape: its elements keep their order."""
        if node.op not in ("Reshape", "Squeeze", "ExpandDims", "Transpose"):
            return False
        source = self.input(node, 0)
        if not self.same_size(source, (node.name, 0)):
            return False
        if node.op != "Transpose":
            return True
        axes = self.constant(self.input(node, 1))
        sizes = (0, *self.row_shape(source)[1])  # the axis of rows counts, whatever its size
        return axes is not None and sorted(kept := [axis for axis in axes if sizes[axis] != 1]) == kept

    def reshaped(self, tensor: tuple) -> tuple:
        """`tensor`, or the last of what alone is made of it and has its elements in their order."""
        while (node := self.only_consumer(tensor)) is not None and self.keeps_order(node):
            tensor = (node.name, 0)
        return tensor

    def dtype(self, tensor: tuple) -> str:
        return self._tensor(self._graphs[0], tensor).dtype.name

    def _tensor(self, graph, tensor: tuple):
        return graph.get_tensor_by_name(f"{tensor[0]}:{tensor[1]}")

    def _shape(self, graph, tensor: tuple):
        shape = self._tensor(graph, tensor).shape
        return None if shape.rank is None else shape.as_list()

    def _ancestors(self, names: list) -> set:
        """`names` and all nodes that their values are computed from."""
        seen, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(tensor_of(text)[0] for text in data_inputs(self._nodes[name]))
        return seen


def data_inputs(node) -> list:
    """The inputs of `node` that are values: control inputs come after them."""
    return [text for text in node.input if not text.startswith("^")]


def tensor_of(text: str) -> tuple:
    """(node, index) of an input such as `a/b:1`."""
    name, _, index = text.partition(":")
    return name, int(index or 0)


def _imported(graph_def):
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    return graph
