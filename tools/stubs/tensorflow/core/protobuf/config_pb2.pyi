from google.protobuf.message import Message
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

class GraphOptions(Message):
    rewrite_options: RewriterConfig

class ConfigProto(Message):
    graph_options: GraphOptions
