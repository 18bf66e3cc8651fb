"""Operations of TensorFlow by what their results have to do with sizes, and with positions (shape_transfer.py)."""

SHAPING = frozenset(
    "Identity Snapshot StopGradient PreventGradient EnsureShape ExpandDims Squeeze BroadcastTo Fill Transpose "
    "CheckNumerics IdentityN XlaSharding XlaOptimizationBarrier".split()
)
REARRANGING = frozenset(
    "Reshape Concat ConcatV2 GatherNd Pack Reverse ReverseV2 Roll Slice Split SplitV StridedSlice "
    "Tile Unpack Pad PadV2 MirrorPad DynamicStitch".split()
)
"""Operations after which the number at a position may depend on sizes."""
LINEAR = SHAPING | REARRANGING | frozenset("Add AddV2 AddN Sub Neg Mul Sum Cast".split())

BY_POSITION = frozenset(
    "Abs Acos Acosh Asin Asinh Atan Atan2 Atanh BitwiseAnd BitwiseOr BitwiseXor Cast Ceil ClipByValue Cos Cosh Div "
    "DivNoNan Elu Equal Erf Erfc Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Inv Invert IsFinite IsInf "
    "IsNan LeakyRelu Less LessEqual Log Log1p LogicalAnd LogicalNot LogicalOr MatrixBandPart MatrixDiag MatrixDiagV2 "
    "MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Maximum Minimum Mod Mul MulNoNan NotEqual OneHot Pow "
    "RealDiv Reciprocal Relu Relu6 Rint Round Rsqrt Select SelectV2 Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt "
    "Square SquaredDifference Tan Tanh TruncateDiv TruncateMod Xdivy Xlogy".split()
)
"""Operations whose results depend on the numbers at one position, and on the position itself."""
OF_MATRICES = frozenset(name for name in BY_POSITION if name.startswith("Matrix"))
"""Operations that do something else on diagonals."""
PRODUCTS = {"MatMul": "transpose_a", "BatchMatMul": "adj_x", "BatchMatMulV2": "adj_x", "BatchMatMulV3": "adj_x"}
"""Products of matrices, with the attribute by which the first one is transposed."""
REDUCTIONS = frozenset("All Any ArgMax ArgMin EuclideanNorm Max Mean Min".split())
_JOINED = {"Concat": (0,), "MirrorPad": (1,), "Pad": (1,), "PadV2": (1,), "Tile": (1,)}
PLACING = {
    **_JOINED,
    **dict.fromkeys(("GatherNd", "ReverseV2"), (1,)),
    **dict.fromkeys(("Roll", "Slice", "SplitV"), (1, 2)),
    "Split": (0,),
    "StridedSlice": (1, 2, 3),
}
"""Operands that decide where elements go."""
JOINING = frozenset({*_JOINED, "ConcatV2", "DynamicStitch"})
"""Operations after which the number at a position is one of several arrays, or of the same one again."""
OF_SHAPE = {
    **dict.fromkeys(("BroadcastTo", "MirrorPad", "OneHot", "Pad", "PadV2", "Reshape", "Tile"), (1,)),
    **dict.fromkeys(("Slice", "StridedSlice"), (2,)),
    "Fill": (0,),
}
"""Operands that no number of a result depends on, except by its position."""
SIZES = {
    **dict.fromkeys(
        "BroadcastTo Tile Pad PadV2 MirrorPad Reshape TopKV2 OneHot SplitV Bincount DenseBincount ResizeBilinear "
        "ResizeNearestNeighbor BatchToSpaceND TensorListReserve Slice StridedSlice SpaceToBatchND IRFFT RFFT "
        "TensorListGather XlaPad XlaDynamicSlice TensorListConcatV2".split(),
        (1, 2, 3, 4),
    ),
    **dict.fromkeys(
        "Fill Empty TensorArrayV3 RandomUniform RandomStandardNormal RandomUniformInt TruncatedNormal "
        "StatelessRandomUniform StatelessRandomNormal StatelessRandomUniformV2 StatelessRandomNormalV2 "
        "StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessTruncatedNormal StatelessTruncatedNormalV2 "
        "EmptyTensorList Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput".split(),
        (0,),
    ),
    **dict.fromkeys("Range".split(), (0, 1, 2)),
    **dict.fromkeys(
        "LinSpace ScatterNd UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd SegmentSumV2 "
        "SegmentMaxV2 SegmentMinV2 SegmentProdV2".split(),
        (2,),
    ),
}
"""Operation -> its operands that decide the shape of its result."""
