"""Replacements that compile, for operations without an XLA kernel; for error messages."""

_UNSORTED = "tf.math.unsorted_segment_{}(data, ids, num_segments), with a fixed number of segments, gives the same rows"
_BOXES = "tf.image.non_max_suppression_padded with pad_to_max_output_size=True compiles"
_CELLS = "build the cell of tf.matmul, tf.sigmoid and tf.tanh, as Keras's layers do"
_BESSEL = "interpolate in a table (tf.gather), or compute it in the calling program"
_SPARSE = "make the matrix dense (tf.sparse.to_dense), or give indices and values as inputs (tf.gather, tf.scatter_nd)"
_QUANTIZED = "export the model in float or with QuantizeAndDequantize, or to ONNX, whose quantized nodes are read"

INSTEAD = {
    **{f"Segment{kind}": _UNSORTED.format(kind.lower()) for kind in ("Max", "Mean", "Min", "Prod", "Sum")},
    **{f"SparseSegment{kind}": _UNSORTED.format("mean" if kind == "Mean" else "sum") for kind in ("Mean", "Sum")},
    **dict.fromkeys(("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV5"), _BOXES),
    "CombinedNonMaxSuppression": f"{_BOXES}, for one class of one image",
    **dict.fromkeys(("BlockLSTM", "BlockLSTMV2", "GRUBlockCell", "LSTMBlockCell"), _CELLS),
    **dict.fromkeys(("BesselI0", "BesselI1"), "tf.math.bessel_i0e and bessel_i1e compile; multiply by exp(abs(x))"),
    **dict.fromkeys(
        (
            "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "Dawsn",
            "Expint", "FresnelCos", "FresnelSin", "Spence",
        ),
        _BESSEL,
    ),
    **dict.fromkeys(("SparseAdd", "SparseConcat", "SparseReorder", "SparseReshape", "SparseSlice"), _SPARSE),
    **dict.fromkeys(("QuantizeV2", "QuantizedConv2D", "QuantizedMatMul", "QuantizedRelu", "Requantize"), _QUANTIZED),
    "BandedTriangularSolve": "tf.linalg.triangular_solve of the whole matrix compiles",
    "CropAndResize": "tf.gather and tf.image.resize of fixed sizes, or weights for tf.einsum, give such crops",
    "Dilation2D": "tf.image.extract_patches, an addition and tf.reduce_max compute it",
    "Eig": "tf.linalg.eigh compiles, for symmetric matrices",
    "ExtractVolumePatches": "slices of the padded volume, joined by tf.concat, are the same patches",
    "FractionalMaxPool": "tf.nn.max_pool2d compiles, with windows of one size",
    "FractionalAvgPool": "tf.nn.avg_pool2d compiles, with windows of one size",
    "HistogramFixedWidth": "compute bins by tf.floor and tf.clip_by_value, count by tf.math.unsorted_segment_sum",
    "ImageProjectiveTransformV3": "tf.gather_nd of the four neighbours of each place, with their weights, compiles",
    "InTopK": "compare with tf.math.top_k",
    "Lu": "tf.linalg.solve, tf.linalg.cholesky and tf.linalg.qr compile",
    "MatrixSolveLs": "tf.linalg.lstsq with fast=True, or tf.linalg.qr and tf.linalg.triangular_solve, compile",
    "MatrixSquareRoot": "of a symmetric matrix, take the roots of the values of tf.linalg.eigh",
    "MaxPoolWithArgmax": "tf.nn.max_pool2d gives the values; tf.argmax of tf.image.extract_patches gives the places",
    "ResizeNearestNeighborGrad": "the gradient of tf.repeat along both axes compiles",
    "ScaleAndTranslate": "tf.image.resize with the method bilinear, bicubic, area or nearest compiles",
    **dict.fromkeys(
        (
            "RandomGamma", "RandomPoisson", "RandomPoissonV2", "StatelessRandomBinomial", "StatelessRandomGammaV2",
            "StatelessRandomGammaV3", "StatelessRandomPoisson",
        ),
        "make the numbers an input of the model",
    ),
    "StatelessShuffle": "tf.argsort of tf.random.stateless_uniform gives an order, which tf.gather takes",
    "TensorListConcat": "give tf.TensorArray its size, and use stack() and tf.reshape",
    "UniqueWithCounts": "tf.unique compiles with model.counts; count by tf.math.unsorted_segment_sum",
    "UnravelIndex": "compute it with tf.math.floordiv and tf.math.floormod",
}  # fmt: skip
"""By operation; names that users call in Python."""


FAILURES = {
    "does not yet support pivoting": "tf.linalg.tridiagonal_solve with partial_pivoting=False compiles",
    "Strides != 1 or -1 are not yet implemented": "assign such elements by scatter_nd_update of the variable",
}
"""What to use instead, by a part of XLA's message."""

_ROWS = "tf.boolean_mask of the same values gives such rows, which model.counts pads and counts"
_PLACES = "make a range of the largest size, and a mask"
SELECTING = {
    **dict.fromkeys(("DynamicPartition", "ListDiff", "Unique", "UniqueV2", "Where"), _ROWS),
    **dict.fromkeys(("NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5"), _BOXES),
    **dict.fromkeys(("RaggedRange", "Range"), _PLACES),
}
"""What to use instead of operations whose number of rows depends on values; `bounded` has more for some."""


def no_kernel(operation: str, why: str = "XLA has no kernel for it") -> str:
    """Why `operation` cannot be compiled, with a replacement if there is one."""
    return f"{why}: {INSTEAD[operation]}" if operation in INSTEAD else why
