from google.protobuf.internal.containers import RepeatedScalarFieldContainer
from google.protobuf.message import Message

class RewriterConfig(Message):
    ONE: int
    optimizers: RepeatedScalarFieldContainer[str]
    min_graph_nodes: int
    meta_optimizer_iterations: int
