"""Operations whose result the framework does not define for some operands, by the freedom that it leaves.

An operation of TensorFlow has its own name here, one of ONNX the prefix `ai.onnx.`, one of StableHLO `stablehlo.`, and
one of PyTorch `aten.`, and one of QONNX `qonnx.`.
messages/open_results.py finds the rows of a batch in which such operands occur, verify/rules.py what they excuse.
"""

CONVERSION, SHIFT, DIVISION = "conversion", "shift", "division"
MAXIMUM, ORDER, TIES, STEP, OVERFLOW = "maximum", "order", "ties", "step", "overflow"
QUANTIZED = "quantized"


def _named(tensorflow: str, onnx: str, stablehlo: str = "", aten: str = "") -> frozenset[str]:
    return frozenset(
        [*tensorflow.split(), *(f"ai.onnx.{each}" for each in onnx.split()),
         *(f"stablehlo.{each}" for each in stablehlo.split()), *(f"aten.{each}" for each in aten.split())]
    )  # fmt: skip


_SORTS = _named(
    "ArgMax ArgMin InTopK InTopKV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 NthElement TopK TopKV2 "
    "Unique UniqueV2 XlaKeyValueSort XlaSort XlaVariadicSort",
    "ArgMax ArgMin Hardmax NonMaxSuppression TopK Unique",
    "sort",
    "argmax argmin argsort kthvalue max median min sort topk",
)
_SUMS = _named(
    "AddN AvgPool AvgPool3D BatchMatMul BatchMatMulV2 BatchMatMulV3 BiasAdd ComplexAbs Conv2D Conv2DBackpropInput "
    "Conv3D Cumsum DepthwiseConv2dNative Einsum FFT FFT2D FFT3D FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 IFFT "
    "IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D L2Loss MatMul Mean RFFT RFFT2D RFFT3D ResizeArea ResizeBicubic "
    "ResizeBilinear SparseDenseMatMul Sum UnsortedSegmentSum",
    "AveragePool BatchNormalization Conv ConvTranspose CumSum DFT DynamicQuantizeLSTM Einsum GRU Gemm "
    "GlobalAveragePool InstanceNormalization LSTM LayerNormalization LpNormalization MatMul RNN ReduceL1 ReduceL2 "
    "ReduceMean ReduceSum ReduceSumSquare Resize STFT Sum",
    "convolution dot_general reduce",
    "_fft_c2c _fft_c2r _fft_r2c addmm avg_pool1d avg_pool2d avg_pool3d bmm cdist convolution cumsum embedding_bag "
    "group_norm gru index_add instance_norm layer_norm linalg_vector_norm linear logsumexp lstm matmul mean mm "
    "rms_norm rnn_relu rnn_tanh scaled_dot_product_attention scatter_add scatter_reduce std sum var",
)
_PRODUCTS = _named(
    "Add AddV2 Cast Cosh Cumprod Div Elu Exp Expm1 Inv Mul Pow Prod RealDiv Reciprocal Selu Sinh Square "
    "SquaredDifference Sub",
    "Add Div Exp Mul Pow ReduceProd Reciprocal Selu Sub",
    "add divide exponential multiply power subtract",
    "_to_copy add addcdiv addcmul cosh cumprod div elu exp expm1 gelu mul pow prod reciprocal rsub selu sinh sub",
)

_DYNAMIC = "DynamicQuantizeLSTM DynamicQuantizeLinear DynamicQuantizeMatMul"
_OF_FEW_BITS = frozenset(f"qonnx.{each}" for each in ("BipolarQuant", "IntQuant", "Quant", "Trunc"))

OPERATIONS = {
    # C++ and NumPy leave a conversion of NaN, or of a number out of the integers' range, undefined; so do TensorFlow's
    # kernels (static_cast), ONNX ("undefined" in Cast's text) and StableHLO ("implementation-defined").
    CONVERSION: _named("Cast", "Cast", "convert", "_to_copy"),
    # TensorFlow's documentation of tf.bitwise: "implementation defined" for negative and too large numbers of bits.
    SHIFT: _named(
        "LeftShift RightShift",
        "BitShift",
        "shift_left shift_right_arithmetic shift_right_logical",
        "__lshift__ __rshift__ bitwise_left_shift bitwise_right_shift",
    ),
    DIVISION: _named(
        "Div FloorDiv FloorMod Mod TruncateDiv TruncateMod",
        "Div Mod",
        "divide remainder",
        "div floor_divide fmod remainder",
    ),
    # Eigen's maxima propagate NaN or not by its place in a vector register ("PropagateFast"); ONNX Runtime uses these.
    # Some keep what follows the last NaN (UnsortedSegmentMax; ScatterElements of ONNX Runtime). `ArgMax`, `ArgMin`,
    # `TensorScatterMax` and `TensorScatterMin` have a rule that programs follow (worker_program/maximum_rules.py).
    MAXIMUM: _named(
        "ClipByValue CumulativeLogsumexp Elu LeakyRelu LogSoftmax Max MaxPool MaxPool3D "
        "MaxPool3DGradGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolV2 Maximum Min Minimum Relu Relu6 ReluGrad Selu "
        "Softmax SegmentMax SegmentMin UnsortedSegmentMax UnsortedSegmentMin AdjustHue AdjustSaturation HSVToRGB "
        "RGBToHSV",
        "ArgMax ArgMin Clip DynamicQuantizeLSTM Elu GRU GlobalMaxPool HardSigmoid HardSwish Hardmax LSTM LeakyRelu "
        "LogSoftmax Max MaxPool Min PRelu RNN ReduceLogSumExp ReduceMax ReduceMin Relu ScatterElements ScatterND Selu "
        "Softmax ThresholdedRelu",
        "clamp maximum minimum reduce reduce_window",
    ),
    # No order contains NaN, and none of the frameworks documents where it puts them.
    # TensorFlow's graph optimizer computes ArgMin(Sqrt(x)) as ArgMin(x), whose places of NaN are those of numbers.
    ORDER: _SORTS,
    # Numbers that differ by less than the roundings of what computed them.
    TIES: _SORTS,
    STEP: _named(
        "Cast Ceil Equal FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel Floor "
        "FloorDiv FloorMod Greater GreaterEqual Less LessEqual NotEqual QuantizeAndDequantizeV2 "
        "QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 Rint Round Sign",
        f"Cast Ceil {_DYNAMIC} Equal Floor Greater GreaterOrEqual Less LessOrEqual Mod "
        "QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu "
        "QLinearMatMul QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax QuantizeLinear Round Sign",
        "ceil compare convert floor round_nearest_afz round_nearest_even sign",
        "_to_copy bucketize ceil div eq floor floor_divide fmod ge gt le lt ne remainder round searchsorted sign trunc",
    )
    | _OF_FEW_BITS,
    # No integer is NaN: QONNX's executor has floats, a network of integers does not. ONNX does not say which byte NaN
    # becomes.
    QUANTIZED: _OF_FEW_BITS | _named("", f"{_DYNAMIC} QuantizeLinear"),
    OVERFLOW: _SUMS | _PRODUCTS,
}
