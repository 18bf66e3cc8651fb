"""What is to come of each model of tests/models/zoo.py: a library that gives TensorFlow's answers, or a certain error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tfaot_pkg.errors import ModelError, TfaotError, ValidationError
from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS
from tfaot_pkg.spec.rules import INPUT_CLASSES

NEWEST_VERSION = "2.21.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error that is right: its class and a regular expression that its message matches somewhere."""

    error: type[TfaotError]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One model. `faults` by version of TensorFlow; a version that is not there builds the model."""

    name: str
    faults: Mapping[str, Fault] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    rtol: float = 1e-4
    classes: tuple[str, ...] = INPUT_CLASSES
    everywhere: bool = False
    """Whether toolchains other than the default one build it in the tests too: some of each kind of model are."""


def _built(name: str, *, everywhere: bool = False, rtol: float = 1e-4, **shapes: tuple[int | None, ...]) -> Case:
    return Case(name=name, everywhere=everywhere, rtol=rtol, shapes=shapes)


def _refused(name: str, message: str, *, error: type[TfaotError] = ModelError, everywhere: bool = False) -> Case:
    return Case(name=name, faults=dict.fromkeys(TOOLCHAINS, Fault(error=error, message=message)), everywhere=everywhere)


_CONV3D = {
    "2.20.0": Fault(error=ValidationError, message="does not give TensorFlow's answers"),  # for NaN and infinities
    NEWEST_VERSION: Fault(error=ModelError, message="3D convolution is not implemented"),
}

CASES = (
    # Keras
    _built("dense", everywhere=True),
    _built("activations"),
    _built("batch_norm"),
    _built("conv1d", everywhere=True),
    _built("conv2d"),
    _built("conv_kinds", everywhere=True),
    _built("conv_transposed", everywhere=True),
    replace(_built("conv3d", everywhere=True), faults=_CONV3D),
    _built("pooling"),
    _built("lstm", everywhere=True),
    _built("gru"),
    _built("bidirectional"),
    _built("masked_rnn"),
    _built("attention", everywhere=True),
    _built("embedding"),
    _built("several_inputs", everywhere=True),
    _built("keras_saved"),
    _built("jet_tagger", everywhere=True),
    _built("einsum_dense"),
    _built("residual", everywhere=True),
    # Borders
    _built("same_output_twice", everywhere=True),
    _built("identity_output", everywhere=True),
    _built("only_identity"),
    _built("constant_output", everywhere=True),
    _built("large_constant_output"),
    _built("only_constants"),
    _built("no_inputs", everywhere=True),
    _built("forty_inputs", everywhere=True),
    _built("scalars", everywhere=True),
    _built("only_scalars"),
    _built("mixed_batch_axes"),
    _built("no_batch_axis"),
    _built("unknown_second_axis", x=(None, 6)),
    _built("unknown_rank", x=(None, 4)),
    _built("unused_input", everywhere=True),
    _built("unused_weight"),
    _built("dtypes", everywhere=True),
    _built("double"),
    _built("half_inside", rtol=1e-3, everywhere=True),
    _built("bfloat16_inside", rtol=1e-2),
    _built("half_border"),
    _built("short_and_complex_borders", everywhere=True),
    _built("complex_scalar"),
    _built("complex_inside", everywhere=True),
    _built("integer_matmul"),
    _refused("wide_output", r"output 'y' has the shape \[15\] at batch size 5 and \[21\] at batch size 7"),
    _refused(
        "dynamic_output", "the shape of output 'y' depends on the values .*, because of Where \\(node", everywhere=True
    ),
    _built("unbatched_output_from_batch"),
    _built("strange_names", everywhere=True),
    _built("version1"),
    _built("version1_loop", everywhere=True),
    _built("two_signatures"),
    # Operations
    _built("while_loop", everywhere=True),
    _built("cond"),
    _built("case", everywhere=True),
    _built("map_and_scan"),
    _built("sorting", everywhere=True),
    _built("sort_kinds"),
    _built("top_k_kinds"),
    _built("indexing"),
    _refused("where_positions", "the shape of output 'y' depends on the values of the inputs"),
    _built("unique"),
    _built("segments"),
    _built("einsum"),
    _built("reductions"),
    _built("mathematics"),
    _built("double_mathematics"),
    # XLA's series of igamma takes 10 s and more per call from 1e8 on, TensorFlow's stops after 2,000 terms.
    replace(_built("bessel"), classes=tuple(n for n in INPUT_CLASSES if n not in ("large", "huge", "boundary"))),
    _built("integers"),
    _built("linear_algebra"),
    _built("determinant", everywhere=True),
    _built("matrix_exponential"),
    _built("rewritten", everywhere=True),
    _built("second_gradients", everywhere=True),
    _built("running_integers"),
    _built("wide_bits"),
    _built("svd"),
    _built("qr"),
    _built("fft", everywhere=True),
    _built("fft_lengths", everywhere=True),
    _built("fft_axes"),
    _built("complex_arithmetic", everywhere=True),
    _built("stateless_random", everywhere=True),
    _built("stateful_random", everywhere=True),
    _refused("visible_random", "does not give TensorFlow's answers", error=ValidationError),
    _built("large_constants"),
    _built("large_shape_constant"),
    _built("large_loop_bound", everywhere=True),
    _built("integer_table_matmul"),
    _built("shared_in_two_functions"),
    _built("image"),
    _built("asserts"),
    _refused("counter", r"changes variables \(AssignAddVariableOp\)"),
    _refused("strings", "output 'y' has dtype string"),
    _refused("string_inside", r"AsString \(node .*\): XLA has no kernel for it"),
    _refused("growing_array", r"TensorListReserve \(node .*\): XLA's arrays cannot grow", everywhere=True),
    _built("lookup", everywhere=True),
    _refused("python_function", r"PyFunc \(node .*\): runs Python"),
    _refused("ragged_rows", "RaggedTensorToTensor .* the length of its rows depends on values"),
    _refused("gamma", "StatelessRandomGamma.*: make the numbers an input"),
    _refused("three_fry", "TensorFlow cannot run the model on the inputs of the validation"),
    _refused("ragged", "must be known while the model is compiled, but it depends on the values of the model's inputs"),
)

BY_NAME = {case.name: case for case in CASES}
