"""Decide whether the model becomes a program of this project's compiler (compiler/), and write its code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tfaot_pkg.analysis.program.hlo import Unlike, read_program, read_samples
from tfaot_pkg.analysis.program.independence import CONVERGING
from tfaot_pkg.compiler.attributes import CustomCall
from tfaot_pkg.compiler.bfloat16 import BLOCK, PARTS
from tfaot_pkg.compiler.calibration import LayerPrice
from tfaot_pkg.compiler.emit import TILES_SUFFIX, Emitted, emit, emit_parts
from tfaot_pkg.compiler.fitting import check_extents
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.memory import ALIGNMENT
from tfaot_pkg.compiler.passes.narrow_weights import MANY_WEIGHTS
from tfaot_pkg.compiler.passes.pipeline import IMPORT, PASSES, Pass, passes_for, run
from tfaot_pkg.compiler.passes.quantize_layers import LEAST_INPUTS
from tfaot_pkg.compiler.program import ROWS, Border, Operation, Program, Size, Symbol, Unsupported
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.compiler.work import Counted, work, work_of_row
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen.model import FrozenModel, Segment
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.frontends.toolchain.worker import from_worker
from tfaot_pkg.ground import reproducible
from tfaot_pkg.ground.documents import convert
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.ground.wording import counted, flops
from tfaot_pkg.native.compiled.calibrated import quantized, table_of, told_layers
from tfaot_pkg.native.compiled.flags import tuned_code
from tfaot_pkg.native.compiled.operations import OperationCode, read_operations, write_operations
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.worker_program.messages.carriers import OPERATION
from tfaot_pkg.worker_program.messages.formulas import Formula
from tfaot_pkg.worker_program.messages.graph import Fetch

FUNCTION = "tfaot_program"
TILES_FUNCTION = f"{FUNCTION}{TILES_SUFFIX}"

# A call of a segment takes about 120 ns per row, which the rest must gain: programs with one segment took 0.8 to 1.0 of
# XLA's time for 40,000 operations per row and 0.4 to 0.8 for 145,000; with 100 per segment, 1.6 to 1.9 (decision 042).
_PAYS_FOR_A_SEGMENT = 30_000
_SHOWN = 2
_LEAST_INPUTS = {**dict.fromkeys(PARTS, BLOCK), "int8": LEAST_INPUTS}
_SOURCE, _CONSTANTS, _FACTS = "program.cc", "program.bin", "program.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOfXla:
    """A part of a program that XLA compiles, because the compiler lacks the operation `reason`."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What computes the model: a program, or XLA for a `reason`.

    `work` is the computation of one row in the program itself, or, if no array has a batch axis (not `by_row`), that of
    a call with the largest sizes. `scratch` is in bytes, `block` the number of rows that
    the program computes at a time; `symbols` are the sizes that a call sets, with their ranges. XLA computes the
    `segments` row by row; the author's operations that are `called` compute single rows as well. `difference` says why
    the bits of a program's results may depend on the CPU; it is empty if they do not. The bits of the targets `unfused`
    differ from those of all others in any case. Each thread of a team that computes layers together needs
    `member_scratch` bytes; it is None if no layer is large enough. If `compute` is not float32, `reduced` layers
    multiply in it; of int8, `layers` are the prices of all that could. Otherwise these have `weights` of fewer bits.
    With `uses_tiles` layers use tiles of the CPU (AMX).
    """

    operations: int = 0
    work: Counted = field(default_factory=Counted)
    by_row: bool = True
    scratch: int = 0
    block: int = 0
    symbols: tuple[str, ...] = ()
    segments: tuple[SegmentOfXla, ...] = ()
    called: tuple[str, ...] = ()
    reason: str = ""
    difference: str = ""
    unfused: tuple[str, ...] = ()
    member_scratch: int | None = None
    compute: str = "float32"
    weights: str = "float32"
    reduced: int = 0
    layers: tuple[LayerPrice, ...] = ()
    uses_tiles: bool = False

    @property
    def is_program(self) -> bool:
        return not self.reason

    def as_dict(self) -> dict[str, object]:
        if not self.is_program:
            return {"name": "xla", "reason": self.reason, **self.bits}
        return {
            "name": "program",
            "operations": self.operations,
            "products": self.work.products,
            "kernels": self.work.kernels,
            f"operations_per_{self._unit}": self.work.operations,
            "share_of_kernels": round(self.work.share, 4),
            **({"open_loops": list(self.work.open_loops)} if self.work.open_loops else {}),
            "scratch": self.scratch,
            "block": self.block,
            **({"symbols": list(self.symbols)} if self.symbols else {}),
            **({"segments": list(self.segments)} if self.segments else {}),
            **({"custom_operations": list(self.called)} if self.called else {}),
            **self.precision,
            **self.bits,
        }

    @property
    def precision(self) -> dict[str, object]:
        """In what layers multiply, and how many of them, if it is not float32."""
        if not self.reduced:
            return {}
        weights = {"weights": self.weights} if self.weights != "float32" else {}
        prices = {"prices": list(self.layers)} if self.layers else {}
        return {"precision": {"compute": self.compute, **weights, "layers": self.reduced, **prices}}

    @property
    def bits(self) -> dict[str, object]:
        """Whether results have the same bits on every CPU (decision 039), and the targets whose bits differ."""
        if difference := self.difference or ("" if self.is_program else "XLA's code"):
            return {"reproducible": "no", "difference": difference}
        return {"reproducible": "cpus", **({"other_bits": list(self.unfused)} if self.unfused else {})}

    def __str__(self) -> str:
        if not self.is_program:
            return f"engine: XLA, because {self.reason}"
        parts = "".join(f"; XLA computes {each.reason}" for each in self.segments)
        parts += f"; operations of the model's author: {', '.join(self.called)}" if self.called else ""
        if self.weights != "float32":
            parts += f"; {counted(self.reduced, 'layer')} with weights in {self.weights}"
        elif self.reduced:
            parts += f"; {told_layers(self.compute, self.reduced, self.layers)}"
        operations = counted(self.operations, "operation")
        sizes = [*(["any number of rows"] if self.by_row else []), *self.symbols]
        taken = f" for {' and '.join(sizes)}" if sizes else ""
        bits = reproducible.told(difference=self.difference, unfused=self.unfused)
        return f"engine: a program of {operations}{taken}; {_told(self.work, self._unit)}{parts}; {bits}"

    @property
    def _unit(self) -> str:
        return "row" if self.by_row else "call"


def _told(work: Counted, unit: str) -> str:
    """A phrase: how much of the products of a row, or of a call, the kernel library computes."""
    if not work.products:
        return "no products"
    told = f"kernels: {work.kernels} of {counted(work.products, 'product')}, {work.share:.0%} of "
    told += f"{flops(work.operations)} a {unit}"
    if work.open_loops:
        told += f" (one iteration of loops whose iterations depend on values: {', '.join(work.open_loops)})"
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCode:
    """The code of a program in `folder`: one C++ function for all targets, and the constants that it reads.

    `scratch` is the memory that it needs, in bytes. With `has_sizes`, each call sets the sizes of its symbols.
    `member_scratch` is that of each thread of a team for layers; with `uses_tiles` it has the function TILES_FUNCTION.
    """

    folder: Path
    scratch: int
    has_sizes: bool = False
    member_scratch: int | None = None
    uses_tiles: bool = False

    @property
    def divides_layers(self) -> bool:
        return self.member_scratch is not None

    @property
    def member_bytes(self) -> int:
        """`member_scratch`, such that the memory of each thread is aligned."""
        return -(-(self.member_scratch or 0) // ALIGNMENT) * ALIGNMENT

    @property
    def operations(self) -> tuple[OperationCode, ...]:
        """The code of the author's operations that it calls."""
        return read_operations(self.folder)

    @property
    def source(self) -> Path:
        return self.folder / _SOURCE

    @property
    def constants(self) -> Path:
        return self.folder / _CONSTANTS


def make_program(
    spec: ModelSpec, frozen: FrozenModel, toolchain: Toolchain, folder: Path, *, calibration: str = ""
) -> Engine:
    """Write the code of the program to `folder`, if the model becomes one; `calibration` as in `finished_program`.

    Raises ModelError if the spec demands a program and the model cannot become one.
    """
    engine, emitted = engine_of(spec, frozen, toolchain, calibration=calibration)
    # Before anything is written: XLA would fail later, with an error about its own limits instead of this reason.
    require_engine(spec, frozen, engine)
    require_sources(spec, engine)
    if emitted is not None:
        _write(emitted, folder)
        write_operations(emitted.called, spec, frozen, folder)
    (folder / _FACTS).write_text(json.dumps(asdict(engine)))
    return engine


def require_engine(spec: ModelSpec, frozen: FrozenModel, engine: Engine) -> None:
    """Raise ModelError if only a program could compute the model, and it does not become one."""
    if not engine.is_program and (need := _need_of_program(spec, frozen)):
        raise ModelError(f"the model cannot become a program{need[0]}: {engine.reason}", hint=need[1])
    precision = spec.compilation.precision
    if precision.is_reduced and engine.layers and not engine.reduced:
        raise ModelError(
            f"compilation.precision asks for {precision.name}, and no layer alone keeps the bars of "
            f"validation.accuracy on the rows of calibration:\n{table_of(engine.layers)}",
            hint="set bars that the model's users accept, give typical rows, or remove compilation.precision",
        )
    if precision.is_reduced and not engine.reduced:
        wanted = f"dense layer with at least {MANY_WEIGHTS:,} constant weights"
        if precision.weights == "float32":
            least = _LEAST_INPUTS[precision.compute]
            wanted = f"dense layer or convolution with constant weights, at least {least} inputs of a sum"
        raise ModelError(
            f"compilation.precision asks for {precision.name}, and the model has no layer for it: no {wanted} and five "
            "outputs",
            hint="remove compilation.precision: the package would be that of float32",
        )


def _need_of_program(spec: ModelSpec, frozen: FrozenModel) -> tuple[str, str] | None:
    """Why XLA cannot compute the model instead, and what to do; None if it can."""
    signature = frozen.signature
    if signature.symbols:
        name = signature.symbols[0].name
        hint = (
            f"give the axis {name} a number in model.shapes; or, for a comparison, a range in which it always has the "
            "same answer, with a package for each range; or remove the part that the reason names"
        )
        return ", and XLA compiles for fixed sizes", hint
    if frozen.is_program and not frozen.rows.independent:
        hint = (
            "a program computes rows of a batch apart: let the rows be no batch, but an axis with a range in "
            'model.shapes, such as `x: ["rows <= 64", 8]`; calls then give all rows at once'
        )
        return "", hint
    if frozen.is_program:
        hint = "leave compilation.engine at auto, without flags for XLA, or remove the part that the reason names"
        return ", and no TensorFlow reads it", hint
    if spec.model.operations:
        hint = "change the part of the model or the spec that the reason names"
        return ", and nothing else calls operations of its author's", hint
    if signature.parts:
        hint = "make a package of each signature (model.serving_key), or remove the part that the reason names"
        return ", and XLA's code would compute all signatures in each call", hint
    if spec.compilation.precision.is_reduced:
        return ", and XLA computes in float32", "remove compilation.precision, or the part that the reason names"
    if spec.compilation.engine == "program":
        return "", "set compilation.engine to auto, so that XLA compiles the model"
    return None


def require_sources(spec: ModelSpec, engine: Engine) -> None:
    """Raise ModelError if the package is to have a source form and the model has none."""
    if spec.package.source and not engine.is_program:
        raise ModelError(
            f"package.source needs a model that is a program, and XLA compiles this one: {engine.reason}",
            hint="XLA writes machine code only: remove package.source from the spec, or change what the reason names",
        )
    if spec.package.source and engine.segments:
        raise ModelError(
            f"package.source needs a model that is a program alone, and XLA computes {engine.segments[0].reason}",
            hint="XLA writes machine code only: remove package.source from the spec, or change what the reason names",
        )


def read_engine(folder: Path) -> Engine:
    """The decision of `make_program`."""
    return convert(Engine, json.loads((folder / _FACTS).read_text()))


def program_code(folder: Path) -> ProgramCode | None:
    """The code that `make_program` wrote; None if XLA compiles the model."""
    engine = read_engine(folder)
    if not engine.is_program:
        return None
    return ProgramCode(
        folder=folder,
        scratch=engine.scratch,
        has_sizes=bool(engine.symbols),
        member_scratch=engine.member_scratch,
        uses_tiles=engine.uses_tiles,
    )


def engine_of(
    spec: ModelSpec, frozen: FrozenModel, toolchain: Toolchain, *, calibration: str = ""
) -> tuple[Engine, Emitted | None]:
    """What computes the model, and the program's code if it is one; `calibration` as in `finished_program`."""
    if reason := _reason(spec, frozen, toolchain):
        return Engine(reason=reason), None
    try:
        program, layers = finished_program(spec, frozen, calibration=calibration)
        profile, borders = spec.package.profile, _borders(frozen.signature)
        emitted = (
            emit_parts(program, borders, FUNCTION, profile=profile)
            if borders
            else emit(program, FUNCTION, profile=profile)
        )
    # Passes recurse into regions and expressions, whose depth the model decides: too deep ones are left to XLA.
    except (Unsupported, Unlike, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return Engine(reason=f"the compiler does not support all of it: {said}"), None
    operations = [each for each in program.entry.everything() if each.opcode not in ("constant", "parameter")]
    of_row = work_of_row(program)
    # Only now: the count needs the finished program.
    if spec.compilation.engine == "auto" and (reason := _better_whole(frozen.segments, of_row.operations)):
        return Engine(reason=reason), None
    by_row = any(each.has_batch_axis for each in (*frozen.signature.inputs, *frozen.signature.outputs))
    engine = Engine(
        operations=len(operations),
        work=of_row if by_row else work(program, 1),
        by_row=by_row,
        scratch=emitted.scratch,
        block=emitted.block,
        symbols=tuple(map(str, frozen.signature.symbols)),
        segments=tuple(
            SegmentOfXla(name=each.found.name, reason=each.found.reason)
            for each in frozen.segments
            if each.found.name in emitted.segments
        ),
        called=tuple(sorted({each.operation for each in emitted.called})),
        difference=difference(program),
        unfused=unfused(spec.compilation.targets) if may_fuse(program) else (),
        member_scratch=emitted.member_scratch,
        compute=spec.compilation.precision.compute,
        weights=spec.compilation.precision.weights,
        reduced=sum(each.opcode.startswith(("bfloat16_", "narrow_")) for each in operations)
        + sum(each.compute == "int8" for each in layers),
        layers=layers,
        uses_tiles=emitted.uses_tiles,
    )
    return engine, emitted


def _borders(signature: Signature) -> list[Border]:
    """The inputs and outputs of each of several signatures."""
    inputs, outputs = ([tensor.name for tensor in each] for each in (signature.inputs, signature.outputs))
    return [
        Border(inputs=tuple(map(inputs.index, part.inputs)), outputs=tuple(map(outputs.index, part.outputs)))
        for part in signature.parts
    ]


def finished_program(
    spec: ModelSpec, frozen: FrozenModel, *, calibration: str = ""
) -> tuple[Program, tuple[LayerPrice, ...]]:
    """The program after all passes, in the precision of the spec; of int8 with the prices of its layers.

    `calibration` is the SHA-256 that the file of calibration must have, or "" for any. Raises as `program_of`, and
    SpecError, SourceError for that file.
    """
    precision = spec.compilation.precision
    program = program_of(frozen, passes_for(precision.compute, precision.weights))
    if precision.calibration is None:
        return program, ()
    return quantized(spec, frozen.signature, program, precision.calibration, sha256=calibration)


def program_of(frozen: FrozenModel, passes: Sequence[Pass] = PASSES) -> Program:
    """The program after `passes`: code is written after all of them. Raises Unsupported, Unlike, RecursionError."""
    with from_worker():
        program = _imported(frozen)
        # Before its types are verified: a right model may leave its arrays at sizes that its spec should not allow.
        check_extents(program)
        program = verified(program, IMPORT)
    return run(program, passes)


def _better_whole(segments: Sequence[Segment], operations_per_row: float) -> str:
    """Why XLA should compile the whole model instead of `segments` of it; empty if not (docs/decisions/042)."""
    for found, facts in ((each.found, each.facts) for each in segments):
        if facts.has_weights:
            return f"the compiler lacks {found.reason}, which multiplies by weights, and would for each row apart"
        if facts.iterates:
            return f"the compiler lacks {found.reason}, and a row alone may get other answers than TensorFlow gives"
    if segments and operations_per_row < _PAYS_FOR_A_SEGMENT * len(segments):
        lacking = " and ".join(each.found.reason for each in segments[:_SHOWN])
        return f"the compiler lacks {lacking}, and to call XLA for each row would cost more than the rest gains"
    return ""


def _reason(spec: ModelSpec, frozen: FrozenModel, toolchain: Toolchain) -> str:
    """Why XLA compiles the model, because of the spec or its rows; empty if it may become a program."""
    compilation = spec.compilation
    # Rows come before `engine: program`, which cannot make them independent; settings of XLA's code come after it.
    if compilation.engine == "xla":
        return "compilation.engine is xla"
    if not frozen.rows.independent:
        return f"rows depend on one another: {frozen.rows.meetings[0]}"  # the program computes rows in blocks
    if compilation.engine == "program":
        return ""
    if compilation.kernels != "auto":
        return f"compilation.kernels is {compilation.kernels}"
    if compilation.weights != "shared":
        return f"compilation.weights is {compilation.weights}"
    if compilation.xla_flags or compilation.tf_xla_flags:
        return "the spec has flags for XLA"
    if tuned_code(spec, toolchain).xla_flags:
        return "the tuning file has flags for XLA"
    return ""


def _imported(frozen: FrozenModel) -> Program:
    if frozen.is_program:
        return frozen.program()
    with from_worker():
        listing, constants = frozen.listing(), frozen.listed_constants()
        if listing.fault:
            raise Unsupported(f"it does not compile at other batch sizes: {listing.fault}")
        if found := next((each for each in listing.choices if each.symbols), None):
            raise Unsupported(
                f"node '{found.node}' ({found.operation}) computes something of {' and '.join(found.symbols)} that is "
                "no polynomial, such as a branch, a remainder or a minimum: it may be something else at other sizes"
            )
        if mixed := next((each for each in frozen.segments if not each.facts.is_independent), None):
            raise Unsupported(f"{mixed.found.reason}, in a part whose rows depend on one another")
        read = read_program(listing.modules)
        for each in (each for computation in read.computations.values() for each in computation.instructions):
            if each.opcode == "while" and each.operation in CONVERGING:
                raise Unsupported(f"a row's last bits depend on other rows in {each.operation} (node '{each.node}')")
        symbols = [Symbol(s.name, s.maximum, s.minimum) for s in frozen.signature.symbols]
        program = import_program(read, len(frozen.inputs), constants, read_samples(listing), symbols)
        _require_sizes(program, frozen.outputs)
        return program


def _require_sizes(program: Program, outputs: Sequence[Fetch]) -> None:
    """Raise ValueError if results have other sizes than a worker told: callers allocate their memory by these."""
    known = program.entry.by_id()
    for result, told in zip(program.entry.results, outputs, strict=True):
        axes = told.axes or ("",) * len(told.shape)
        sizes = (
            Size.of(Formula.read(axis).terms) if axis else ROWS if size is None else Size(size)
            for axis, size in zip(axes, told.shape, strict=True)
        )
        if known[result].shape.sizes != tuple(sizes):
            raise ValueError(f"the output {told.name!r} has other sizes in the listing: {known[result].shape}")


def _write(emitted: Emitted, folder: Path) -> None:
    (folder / _SOURCE).write_text(emitted.source)
    with (folder / _CONSTANTS).open("wb") as file:
        for offset, values in emitted.constants:
            file.write(bytes(offset - file.tell()))  # zeros up to the next aligned offset
            file.write(np.ascontiguousarray(values).data)


_OF_THE_C_LIBRARY = {
    "atan2": "atan2", "cbrt": "cbrt", "cosine": "cos", "erf": "erf", "power": "pow", "sine": "sin", "tan": "tan",
}  # fmt: skip
"""Functions of float64 that the C library computes, whose bits depend on its version and the CPU (decision 039)."""


def unfused(targets: Sequence[str]) -> tuple[str, ...]:
    """The `targets` without fused multiply-add, if others have it: their last bits differ."""
    found = tuple(name for name in targets if not TARGETS[name].has_fma)
    return found if len(found) < len(targets) else ()


_ROUNDED_ALONE = frozenset(
    "abs add and broadcast clamp compare concatenate constant convert divide get-tuple-element iota max_pool maximum "
    "look_up minimum multiply negate not or pad parameter quantize quantized_conv2d quantized_dense reshape reverse "
    "round-nearest-even select slice subtract transpose xor".split()
)
"""Operations that round each result once, or not at all: none is computed by fused multiply-adds."""


def may_fuse(program: Program) -> bool:
    """Whether an operation may have other last bits on CPUs without fused multiply-add."""
    return not all(each.opcode in _ROUNDED_ALONE for each in program.entry.everything())


def difference(program: Program) -> str:
    """Another reason why bits may depend on the CPU. Empty if there is none."""
    known = {each.id: each for each in program.entry.everything()}
    called = {_OF_THE_C_LIBRARY[each.opcode] for each in known.values() if _is_of_the_c_library(each)}
    targets = [CustomCall.of(each).target for each in known.values() if each.opcode == "custom-call"]
    if any(target != OPERATION for target in targets):
        return "XLA computes parts of it"
    if targets:
        return "it calls operations of the model's author"
    if called:
        return f"it calls {', '.join(sorted(called))} of the C library"
    if any(each.opcode == "bitcast-convert" and _reads_a_float(each, known) for each in known.values()):
        return "it reads the bits of floats, and those of NaN depend on the CPU"
    return ""


def _is_of_the_c_library(operation: Operation) -> bool:
    return operation.opcode in _OF_THE_C_LIBRARY and operation.shape.dtype == "f64"


def _reads_a_float(operation: Operation, known: dict[int, Operation]) -> bool:
    return known[operation.operands[0]].shape.dtype in ("f32", "f64")
