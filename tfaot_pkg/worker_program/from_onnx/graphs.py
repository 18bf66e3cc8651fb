"""The format of graphs of ONNX files between the front-end's environment and the toolchain's: JSON and arrays.

GRAPH is a document with the fields

    opsets    domain ("" is "ai.onnx") -> version
    inputs    {name, key, dtype, shape, axes}: null stands for sizes that are not known; keys are names in the graph;
              `axes` also have the names of open axes, and null for the batch alone
    outputs   {name, key}
    by_row    whether an axis of size 1 became the batch
    dtypes    name in TENSORS -> the type of arrays that NumPy alone does not have; they are stored as integers
    graph     {inputs, outputs, nodes, tensors, shapes}: `tensors` are names in TENSORS by value, `shapes` are
              sizes of values as far as they are known
    nodes     {op, domain, name, inputs, outputs, attributes}: the value of an attribute is a number, a text, a list, or
              {"tensor": name in TENSORS}, or {"graph": ...} as above
"""

GRAPH = "graph.json"
TENSORS = "tensors.npz"

OWN, FOREST = "tfaot", "Forest"
"""An operator of ours, and its attribute: the sums of trees, which are a packed forest (messages/forest.py)."""

QONNX = "qonnx.custom_op.general"
QONNX_DOMAINS = frozenset((QONNX, "finn.custom_op.general", "onnx.brevitas"))
"""The domain of QONNX's operators, and its earlier names, which exporters still write."""

OLDEST = 7
"""The oldest opset that is read: from 7 on, arithmetic broadcasts as NumPy does."""

NATIVE = frozenset(
    """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization BitCast BitShift
BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Col2Im Compress Concat ConcatFromSequence
Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace
DequantizeLinear Det Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU
Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual
GridSample HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxUnpool
Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Optional
OptionalGetElement OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN
Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round STFT Scan Scatter ScatterElements ScatterND Selu
SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap Shape Shrink
Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split
SplitToSequence Sqrt Squeeze Sub Sum Swish Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique
Unsqueeze Upsample Where Xor
""".split()
)
"""The operators of ONNX's own domain in table.py. Others are replaced by their definitions, if ONNX has them."""
