"""The known toolchains: data about TensorFlow releases, and this tool's own compiler, without code.

Other modules ask a `Toolchain` for what differs between releases, and never compare version numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import ToolchainError

ObjectKind = Literal["function", "constants"]
Interface = Literal["classic", "thunks"]
Tested = Literal["always", "before releases"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePart:
    """One source of functions that compiled models call; it is compiled only if a model's code needs one of them.

    `symbols` is a regular expression that fully matches exactly the symbols that the part defines: another match would
    leave a symbol undefined. `source` is relative to templates/native, `defines` are flags.
    """

    symbols: str
    source: str
    defines: tuple[str, ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether it is the same for all toolchains: it includes nothing of TensorFlow's."""
        return self.source.startswith("runtime/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """What reads models and makes their code: one TensorFlow release, or OWN.

    `python` is the range of Python versions (PEP 440) of its pinned requirements. `object_kinds` names the objects of
    one compilation that must be linked. `interface` is the form of the generated code: one entry function ("classic"),
    or kernels and C++ that calls them ("thunks"). Every compilation uses `xla_flags`. `tested` says when this
    project's tests build with it (docs/decisions/044).
    """

    version: str
    python: str
    object_kinds: tuple[ObjectKind, ...]
    interface: Interface
    xla_flags: tuple[str, ...]
    tested: Tested
    alignment: int
    """Bytes to which the code expects arguments and results to be aligned."""
    parts: tuple[RuntimePart, ...]
    unstable_symbols: str = ""
    """A regular expression for the part of the objects' symbols that differs between compilations."""
    corrections: tuple[tuple[str, str], ...] = ()
    """Regular expressions and replacements for faults of the generated headers."""
    lowerings: tuple[str, ...] = ()
    """Operations that are replaced before XLA sees them: its own code is wrong (worker_program/lowerings.py)."""
    eigen: str = ""
    """Version of Eigen in the wheel's headers."""
    has_tensorflow: bool = True

    @property
    def name(self) -> str:
        """As packages name it: `tensorflow 2.17.1`."""
        return f"{'tensorflow' if self.has_tensorflow else 'tfaot-pkg'} {self.version}"

    @property
    def title(self) -> str:
        """As messages name it: `TensorFlow 2.17.1`."""
        return f"{'TensorFlow' if self.has_tensorflow else 'tfaot-pkg'} {self.version}"


def _part(symbols: str, source: str, **defines: str) -> RuntimePart:
    return RuntimePart(
        symbols=symbols, source=source, defines=tuple(f"-D{name}={value}" for name, value in defines.items())
    )


# LLVM calls these if the CPU has no instruction for them; not every compiler's own library has them all.
_INTRINSICS = _part(
    "__(trunc[sd]f[hb]f2|extendhf[sd]f2|gnu_f2h_ieee|gnu_h2f_ieee|powi[sd]f2)",
    "runtime/intrinsics.cc",
)


NO_CONTRACTION = "-ffp-contract=off"
"""A flag for the kernel library and code that includes its sources.

Without it a compiler fuses multiplications and additions where the target has an instruction for it, and so gives other
bits for another target (docs/decisions/039).
"""

KERNELS = "runtime/kernels/"
"""Where the sources of parts are that belong to the kernel library."""


def _kernels(names: str, source: str) -> RuntimePart:
    """`names` is a regular expression for names of functions, which begin with small letters, unlike types."""
    # All functions of the kernel library have its namespace and the target's in their mangled names.
    symbols = rf"_ZN13tfaot_kernels\d+\w+?\d({names})"
    return RuntimePart(symbols=symbols, source=f"{KERNELS}{source}", defines=(NO_CONTRACTION,))


# Apart, because most programs need few of them. Seconds of processor time to compile (GCC 12; x86-64-v2, v3, v4):
# activations 1.5, products 2.8, 3.7, 10.8, images 4.4, 4.3, 6.3, reduced 2.9, 3.1, 4.7.
_KERNELS = (
    _kernels(r"(quantized|bfloat16|lookUp|narrow|permi)\w+|maxPoolE\w+PK[ah]P[ah]", "reduced.cc"),
    _kernels(
        r"(pack\w*[cC]onv2d|conv2d|transposedConv2d|convolve|sumPlaces|interleave|maxPool|averagePool)\w*", "images.cc"
    ),
    _kernels(r"(dense|sparseDense|sumBlocks|sumInChains|sumChains)[EI]\w+", "products.cc"),
    _kernels(r"(activate|softmax|pack)\w+", "activations.cc"),
)


def _classic_matmul(suffix: str, scalar: str) -> RuntimePart:
    return _part(
        f"__xla_cpu_runtime_EigenSingleThreadedMatMul{suffix}",
        "classic/matmul.cc",
        TFAOT_SUFFIX=suffix,
        TFAOT_SCALAR=scalar,
    )


_CLASSIC_PARTS = (
    _classic_matmul("F16", "Eigen::half"),
    _classic_matmul("F32", "float"),
    _classic_matmul("F64", "double"),
    _classic_matmul("C64", "std::complex<float>"),
    _classic_matmul("C128", "std::complex<double>"),
    _classic_matmul("S32", "std::int32_t"),
    _part("__xla_cpu_runtime_EigenSingleThreadedConv[23]DF(16|32)", "classic/convolution.cc"),
    _part("__xla_cpu_runtime_(KeyValueSort|TopKF32)", "classic/sort.cc"),
    _part("XlaCustomCallStatusSet(Success|Failure)|__xla_cpu_runtime_StatusIsSuccess", "classic/status.cc"),
    *_KERNELS,
    _INTRINSICS,
)


def _thunks_matmul(mangled: str, scalar: str, result: str) -> RuntimePart:
    """`mangled` is that of the three template arguments (Itanium C++ ABI, 5.1.5)."""
    return _part(
        f"_ZN3xla3cpu8internal11TypedMatMulI{mangled}E.*", "thunks/matmul.cc", TFAOT_SCALAR=scalar, TFAOT_RESULT=result
    )


_THUNKS_PARTS = (
    _thunks_matmul("N5Eigen4halfES4_S4_", "Eigen::half", "Eigen::half"),
    _thunks_matmul("fff", "float", "float"),
    _thunks_matmul("ddd", "double", "double"),
    _thunks_matmul("St7complexIfES4_S4_", "std::complex<float>", "std::complex<float>"),
    _thunks_matmul("St7complexIdES4_S4_", "std::complex<double>", "std::complex<double>"),
    _thunks_matmul("iii", "std::int32_t", "std::int32_t"),
    _thunks_matmul("aai", "std::int8_t", "std::int32_t"),
    _part("_ZN3xla3cpu8internal11EigenConv2DI(f|N5Eigen4halfE)E.*", "thunks/convolution.cc"),
    *_KERNELS,
    _INTRINSICS,
)

_CLASSIC = Toolchain(
    version="2.17.1",
    python=">=3.10,<3.13",
    object_kinds=("function",),
    interface="classic",
    # The runtime is built without a thread pool: one call stays on its caller's thread.
    xla_flags=("--xla_cpu_multi_thread_eigen=false",),
    tested="always",
    alignment=16,
    parts=_CLASSIC_PARTS,
    lowerings=("Tanh",),
    eigen="3.4.90",
)

_KNOWN = (
    _CLASSIC,
    replace(_CLASSIC, version="2.18.1", tested="before releases"),
    replace(_CLASSIC, version="2.19.1", tested="before releases", alignment=64),
    replace(
        _CLASSIC,
        version="2.20.0",
        # It has both forms; the sources in its wheel are those of the one without thunks.
        xla_flags=(*_CLASSIC.xla_flags, "--xla_cpu_use_thunk_runtime=false"),
        tested="before releases",
        alignment=64,
    ),
    Toolchain(
        version="2.21.0",
        python=">=3.10,<3.13",
        object_kinds=("function", "constants"),
        interface="thunks",
        # The empty list of YNN fusions keeps convolutions in the form that ahead-of-time compilation supports.
        xla_flags=("--xla_cpu_multi_thread_eigen=false", "--xla_cpu_experimental_ynn_fusion_type="),
        tested="always",
        alignment=64,
        parts=_THUNKS_PARTS,
        # A counter of the compiling process: without this, objects would differ between runs.
        unstable_symbols=r"tfcompile_xla_generated_tfcompile_[0-9]+_",
        lowerings=("Erf",),
        # Products of complex matrices lack the last bracket of their template arguments.
        corrections=((r"(TypedMatMul<std::complex<(\w+)>, std::complex<\2>, std::complex<\2>)\(", r"\1>("),),
        eigen="5.0.1-dev",
    ),
)

OWN = Toolchain(
    version=__version__,
    python=">=3.10,<3.14",
    object_kinds=(),
    interface="classic",
    xla_flags=(),
    tested="always",
    alignment=_CLASSIC.alignment,
    parts=(*_KERNELS, _INTRINSICS),
    has_tensorflow=False,
)
"""The toolchain of formats that are `LOWERED` (spec/formats.py): the front-end's environment, and our own compiler."""

TOOLCHAINS: Mapping[str, Toolchain] = MappingProxyType({each.version: each for each in _KNOWN})
"""By version, oldest first."""

DEFAULT_VERSION = "2.17.1"
NEWEST_VERSION = _KNOWN[-1].version


def toolchain(version: str) -> Toolchain:
    """The toolchain of the TensorFlow release `version`. Raises ToolchainError if it is not known."""
    try:
        return TOOLCHAINS[version]
    except KeyError:
        raise ToolchainError(
            f"there is no toolchain for TensorFlow {version}", hint=f"known toolchains: {', '.join(TOOLCHAINS)}"
        ) from None
