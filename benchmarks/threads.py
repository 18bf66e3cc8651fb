"""How much faster two threads compute one call than one: a tfaot::Team against the calling thread, in turn.

    .venv/bin/python benchmarks/threads.py [--rounds 9] [--march native] [--no-amx] [--batch-sizes 1,16] [NETWORK...]

Networks are programs of our compiler with random weights, so nothing but a C++ compiler is needed; `_bf16` has products
of bfloat16, `_int8` layers of bytes, both with AMX if the CPU has it, unless --no-amx is given. The answers of both are
compared. Two cores must be free, and it takes two that do not share their arithmetic units (hyper-threads do).
Times are minima; the ratio is that of the minima, and beside it is the median of each round's ratio. The last columns
are processor time of one thread that computes all parts, and what two threads would take if each had a processor: they
do not depend on what else the machine does, and see no second cache.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tfaot_pkg.compiler.attributes import attributes_of  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.compiler.emit import Emitted, emit  # noqa: E402
from tfaot_pkg.compiler.operations import OPERATIONS  # noqa: E402
from tfaot_pkg.compiler.passes.pipeline import passes_for  # noqa: E402
from tfaot_pkg.compiler.passes.pipeline import run as run_passes  # noqa: E402
from tfaot_pkg.compiler.program import NUMPY_TYPES, ROWS, Literal, Number, Operation, Program, Region, Shape, Size  # noqa: E402
from tfaot_pkg.compiler.verifier import verify  # noqa: E402
from tfaot_pkg.ground import resources  # noqa: E402
from tfaot_pkg.ground.process import run  # noqa: E402
from tfaot_pkg.native.library import loop_flags  # noqa: E402

FUNCTION = "tfaot_program"
_NATIVE = ("library.cc", "runtime.cc", "state.cc", "thread_pool.cc")


@dataclass
class Network:
    """A network that is written layer by layer; each method gives the number of a value."""

    operations: list[Operation] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    first: int = 0  # the number of the first value

    def add(
        self, opcode: str, sizes: tuple[int, ...], *operands: int, batch: bool = True, regions: tuple[Region, ...] = (),
        **attributes: object,
    ) -> int:  # fmt: skip
        shape = Shape("f32", (*([ROWS] if batch else []), *map(Size, sizes)))
        return self.made(opcode, shape, *operands, regions=regions, **attributes)

    def made(
        self, opcode: str, type_: Shape | tuple[Shape, ...], *operands: int, regions: tuple[Region, ...] = (),
        **attributes: object,
    ) -> int:  # fmt: skip
        self.operations.append(
            Operation(
                id=self.first + len(self.operations), opcode=opcode, type=type_, operands=operands, regions=regions,
                attributes=attributes_of(OPERATIONS[opcode].attributes, attributes),
            )
        )  # fmt: skip
        return self.operations[-1].id

    def number(self, value: float, *, dtype: str = "f32") -> int:
        literal = Literal(np.array(value, NUMPY_TYPES[dtype]))
        return self.made("constant", Shape(dtype, ()), literal=literal)

    def filled(self, value: float, *sizes: int) -> int:
        return self.add("broadcast", sizes, self.number(value), dimensions=())

    def input(self, *sizes: int) -> int:
        return self.add("parameter", sizes, number=0)

    def weights(self, *sizes: int) -> int:
        values = self.random.standard_normal(sizes) / np.sqrt(np.prod(sizes[:-1]))
        return self.add("constant", sizes, batch=False, literal=Literal(values.astype(np.float32)))

    def sizes(self, value: int) -> tuple[int, ...]:
        return tuple(size.constant for size in self.operations[value - self.first].shape.sizes[1:])

    def dense(self, x: int, outputs: int, activation: str = "relu") -> int:
        *before, inputs = self.sizes(x)
        layer = (x, self.weights(inputs, outputs), self.weights(outputs))
        return self.add("dense", (*before, outputs), *layer, weights_axis=0, activation=activation)

    def convolution(self, x: int, filters: int, side: int = 3, stride: int = 1, activation: str = "relu") -> int:
        height, width, channels = self.sizes(x)
        out = (-(-height // stride), -(-width // stride))
        pads = tuple(
            max((made - 1) * stride + side - size, 0) // 2 for made, size in zip(out, (height, width), strict=True)
        )
        layer = (x, self.weights(side, side, channels, filters), self.weights(filters))
        window = (height, width, channels, *out, side, side, stride, stride, 1, 1, *pads)
        return self.add("conv2d", (*out, filters), *layer, window=window, groups=1, activation=activation)

    def pool(self, x: int, side: int = 2, stride: int = 2) -> int:
        height, width, channels = self.sizes(x)
        out = (height // stride, width // stride)
        window = (height, width, channels, *out, side, side, stride, stride, 1, 1, 0, 0)
        return self.add("max_pool", (*out, channels), x, window=window)

    def sum(self, one: int, other: int) -> int:
        """A residual connection, and ReLU."""
        sizes = self.sizes(one)
        return self.add("maximum", sizes, self.add("add", sizes, one, other), self.filled(0.0, *sizes))

    def mean(self, x: int) -> int:
        """Of the last axis, in its place."""
        sizes = self.sizes(x)
        start = 1_000_000 + 10 * len(self.operations)
        numbers = [
            Operation(id=start + i, opcode="parameter", type=Shape("f32", ()), attributes=Number(number=i))
            for i in (0, 1)
        ]
        sum_ = Operation(id=start + 2, opcode="add", type=Shape("f32", ()), operands=(start, start + 1))
        total = self.add(
            "reduce", sizes[:-1], x, self.number(0.0), dimensions=(len(sizes),),
            regions=(Region(operations=(*numbers, sum_), results=(sum_.id,)),),
        )  # fmt: skip
        mean = self.add("multiply", sizes[:-1], total, self.filled(1.0 / sizes[-1], *sizes[:-1]))
        return self.add("broadcast", sizes, mean, dimensions=tuple(range(len(sizes))))

    def normalized(self, x: int) -> int:
        """Layer normalization, without its weights."""
        sizes = self.sizes(x)
        centred = self.add("subtract", sizes, x, self.mean(x))
        variance = self.mean(self.add("multiply", sizes, centred, centred))
        scale = self.add("rsqrt", sizes, self.add("add", sizes, variance, self.filled(1e-6, *sizes)))
        return self.add("multiply", sizes, centred, scale)

    def attention(self, x: int, heads: int) -> int:
        tokens, width = self.sizes(x)
        size = width // heads
        joined = self.dense(x, 3 * width, "none")
        queries, keys, values = (
            self.add(
                "transpose", (heads, tokens, size),
                self.add("reshape", (tokens, heads, size), self.add(
                    "slice", (tokens, width), joined,
                    slices=((0, ROWS, 1), (0, tokens, 1), (i * width, (i + 1) * width, 1)),
                )), dimensions=(0, 2, 1, 3),
            )
            for i in range(3)
        )  # fmt: skip
        both = ((0, 1), (0, 1))
        pairs = Shape("f32", (ROWS, Size(heads), Size(tokens), Size(tokens)))
        scores = self.made("dot", pairs, queries, keys, contracting=((3,), (3,)), batch=both)
        scaled = self.add("multiply", (heads, tokens, tokens), scores, self.filled(size**-0.5, heads, tokens, tokens))
        shares = self.add("softmax", (heads, tokens, tokens), scaled, axis=3)
        sums = Shape("f32", (ROWS, Size(heads), Size(tokens), Size(size)))
        made = self.made("dot", sums, shares, values, contracting=((3,), (2,)), batch=both)
        made = self.add("transpose", (tokens, heads, size), made, dimensions=(0, 2, 1, 3))
        return self.dense(self.add("reshape", (tokens, width), made), width, "none")

    def lstm(self, x: int, units: int) -> int:
        """The last state."""
        steps, _ = self.sizes(x)
        gates = self.dense(x, 4 * units, "none")
        integer, state, array = (
            Shape("s32", ()), Shape("f32", (ROWS, Size(units))), Shape("f32", (ROWS, Size(steps), Size(4 * units)))
        )  # fmt: skip
        carried = (integer, state, state, array)
        body = Network(first=2_000_000 + 1000 * len(self.operations), random=self.random)
        turn, hidden, cell, given = (body.made("parameter", each, number=i) for i, each in enumerate(carried))
        zero = body.number(0, dtype="s32")
        sizes = (ROWS, Size(1), Size(4 * units))
        part = body.made("dynamic-slice", Shape("f32", sizes), given, zero, turn, zero, sizes=sizes)
        sum_ = body.add(
            "add", (4 * units,), body.add("reshape", (4 * units,), part), body.dense(hidden, 4 * units, "none")
        )
        first, second, new, last = (
            body.add(opcode, (units,), body.add(
                "slice", (units,), sum_, slices=((0, ROWS, 1), (i * units, (i + 1) * units, 1))
            )) for i, opcode in enumerate(("logistic", "logistic", "tanh", "logistic"))
        )  # fmt: skip
        kept, added = body.add("multiply", (units,), second, cell), body.add("multiply", (units,), first, new)
        cell = body.add("add", (units,), kept, added)
        hidden = body.add("multiply", (units,), last, body.add("tanh", (units,), cell))
        after = body.made("add", integer, turn, body.number(1, dtype="s32"))
        test = Network(first=3_000_000 + 1000 * len(self.operations))
        tested, *_ = (test.made("parameter", each, number=i) for i, each in enumerate(carried))
        less = test.made("compare", Shape("pred", ()), tested, test.number(steps, dtype="s32"), direction="LT")
        regions = (
            Region(operations=tuple(body.operations), results=(after, hidden, cell, given)),
            Region(operations=tuple(test.operations), results=(less,)),
        )
        start = (self.number(0, dtype="s32"), self.filled(0.0, units), self.filled(0.0, units), gates)
        loop = self.made("while", carried, *start, regions=regions)
        return self.made("get-tuple-element", state, loop, index=1)

    def flat(self, x: int) -> int:
        return self.add("reshape", (int(np.prod(self.sizes(x))),), x)

    def program(self, result: int) -> Program:
        made = Program(entry=Region(operations=tuple(self.operations), results=(result,)), symbols=())
        verify(made)
        return made


class OfBytes(Network):
    """A network whose values are bytes."""

    def add(
        self, opcode: str, sizes: tuple[int, ...], *operands: int, batch: bool = True, regions: tuple[Region, ...] = (),
        **attributes: object,
    ) -> int:  # fmt: skip
        shape = Shape("u8", (*([ROWS] if batch else []), *map(Size, sizes)))
        return self.made(opcode, shape, *operands, regions=regions, **attributes)

    def input(self, *sizes: int) -> int:
        x = Network.add(self, "parameter", sizes, number=0)
        factor, offset = (
            self.made("broadcast", self._floats(sizes), self.number(each), dimensions=()) for each in (200.0, 128.0)
        )
        scaled = self.made("multiply", self._floats(sizes), x, factor)
        return self.add("convert", sizes, self.made("add", self._floats(sizes), scaled, offset))

    @staticmethod
    def _floats(sizes: tuple[int, ...]) -> Shape:
        return Shape("f32", (ROWS, *map(Size, sizes)))

    def _layer(self, kernel: tuple[int, ...], outputs: int) -> tuple[int, int, int]:
        """Weights, bias, and scales with which results have many values."""
        arrays: tuple[np.ndarray, ...] = (
            self.random.integers(-127, 128, (*kernel, outputs)).astype(np.int8), np.zeros(outputs, np.int32),
            np.full(outputs, 0.01 / np.sqrt(np.prod(kernel)), np.float32),
        )  # fmt: skip
        weights, bias, scales = (
            self.made("constant", Shape(dtype, tuple(map(Size, each.shape))), literal=Literal(each))
            for dtype, each in zip(("s8", "s32", "f32"), arrays, strict=True)
        )
        return weights, bias, scales

    def dense(self, x: int, outputs: int, activation: str = "relu") -> int:
        *before, inputs = self.sizes(x)
        layer = self._layer((inputs,), outputs)
        return self.add("quantized_dense", (*before, outputs), x, *layer, zero=0, low=0, high=255)

    def convolution(self, x: int, filters: int, side: int = 3, stride: int = 1, activation: str = "relu") -> int:
        height, width, channels = self.sizes(x)
        out = (-(-height // stride), -(-width // stride))
        pads = tuple(
            max((made - 1) * stride + side - size, 0) // 2 for made, size in zip(out, (height, width), strict=True)
        )
        window = (height, width, channels, *out, side, side, stride, stride, 1, 1, *pads)
        layer = self._layer((side, side, channels), filters)
        return self.add(
            "quantized_conv2d", (*out, filters), x, *layer, window=window, padding=0, zero=0, low=0, high=255
        )  # fmt: skip

    def sum(self, one: int, other: int) -> int:
        sizes = self.sizes(one)
        return self.add("maximum", sizes, one, other)

    def program(self, result: int) -> Program:
        return super().program(self.made("convert", self._floats(self.sizes(result)), result))


def in_bfloat16(program: Program) -> Program:
    return run_passes(program, passes_for("bfloat16"))


def conv_net(net: Network | None = None) -> Program:
    net = net or Network()
    x = net.input(32, 32, 3)
    for filters in (32, 64, 128):
        x = net.pool(net.convolution(net.convolution(x, filters), filters))
    return net.program(net.dense(net.dense(net.flat(x), 256), 10, "none"))


def resnet_50(net: Network | None = None) -> Program:
    net = net or Network()
    x = net.pool(net.convolution(net.input(224, 224, 3), 64, 7, 2))
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            within = net.convolution(net.convolution(x, width, 1, stride), width)
            made = net.convolution(within, 4 * width, 1, activation="none")
            beside = x if block else net.convolution(x, 4 * width, 1, stride, "none")
            x = net.sum(made, beside)
    return net.program(net.dense(net.flat(net.pool(x, 7, 7)), 1000, "none"))


def mlp(width: int, kind: type[Network] = Network) -> Callable[[], Program]:
    def made() -> Program:
        net = kind()
        x = net.input(width)
        for _ in range(4):
            x = net.dense(x, width)
        return net.program(net.dense(x, 10, "none"))

    return made


def tokens() -> Program:
    """The dense layers of a transformer's blocks, without attention."""
    net = Network()
    x = net.input(197, 384)
    for _ in range(4):
        x = net.dense(net.dense(x, 1152, "none"), 384, "none")
        x = net.sum(net.dense(net.dense(x, 1536, "gelu_erf"), 384, "none"), x)
    return net.program(net.dense(net.flat(x), 10, "none"))


def vit() -> Program:
    """Blocks of a vision transformer, DeiT-S: 197 tokens of 384 numbers, 6 heads."""
    net = Network()
    x = net.input(197, 384)
    for _ in range(4):
        x = net.add("add", (197, 384), net.attention(net.normalized(x), 6), x)
        made = net.dense(net.dense(net.normalized(x), 1536, "gelu_erf"), 384, "none")
        x = net.add("add", (197, 384), made, x)
    return net.program(net.dense(net.flat(x), 10, "none"))


def lstm_towers() -> Program:
    """Two LSTMs of 64 units over the two halves of 30 steps of 32 numbers."""
    net = Network()
    x = net.input(30, 32)
    towers = [
        net.lstm(
            net.add("slice", (30, 16), x, slices=((0, ROWS, 1), (0, 30, 1), (16 * i, 16 * i + 16, 1))), 64
        )
        for i in range(2)
    ]  # fmt: skip
    joined = net.add("concatenate", (128,), *towers, dimensions=(1,))
    return net.program(net.dense(net.dense(joined, 64), 10, "none"))


NETWORKS: Mapping[str, Callable[[], Program]] = {
    "mlp_256": mlp(256),
    "mlp_512": mlp(512),
    "mlp_2048": mlp(2048),
    "conv_net": conv_net,
    "tokens": tokens,
    "vit": vit,
    "lstm_towers": lstm_towers,
    "resnet_50": resnet_50,
    "mlp_2048_bf16": lambda: in_bfloat16(mlp(2048)()),
    "conv_net_bf16": lambda: in_bfloat16(conv_net()),
    "tokens_bf16": lambda: in_bfloat16(tokens()),
    "resnet_50_bf16": lambda: in_bfloat16(resnet_50()),
    "mlp_2048_int8": mlp(2048, OfBytes),
    "conv_net_int8": lambda: conv_net(OfBytes()),
    "resnet_50_int8": lambda: resnet_50(OfBytes()),
}


def measured(
    program: Program, emitted: Emitted, work: Path, *, march: str, rounds: int, sizes: str, amx: bool
) -> str:  # fmt: skip
    """What the program main.cc prints."""
    size = max(offset + values.nbytes for offset, values in emitted.constants)
    content = np.zeros(size, np.uint8)
    for offset, values in emitted.constants:
        content[offset:][: values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
    (work / "weights.bin").write_bytes(content.tobytes())
    (work / "program.cc").write_text(emitted.source)
    known = {each.id: each for each in program.entry.operations}
    numbers = {
        "INPUTS": known[0].shape.elements.per_row.constant,
        "OUTPUTS": known[program.entry.results[0]].shape.elements.per_row.constant,
        "WEIGHTS": size,
        "SCRATCH": emitted.scratch,
        "DIVIDES": int(emitted.member_scratch is not None),
        "MEMBER": -(-(emitted.member_scratch or 0) // 64) * 64,
        "TILES": int(emitted.uses_tiles),
        **({} if amx else {"TFAOT_NO_AMX": 1}),
    }
    native, kernels = resources.templates() / "native", resources.kernels()
    folders = (native, native / "thunks", native / "absl", resources.headers(), kernels / "include", kernels / "src")
    flags = ["-std=c++17", "-O2", "-DNDEBUG", "-ffp-contract=off", f"-march={march}", *loop_flags(is_gcc=True)]
    flags += [f"-I{folder}" for folder in folders] + [f"-D{name}={value}" for name, value in numbers.items()]
    sources = [HERE / "threads_program" / "main.cc", *(native / name for name in _NATIVE)]
    sources += [work / "program.cc", kernels / "src" / "kernels.cpp"]
    run(["g++", *flags, "-D__dso_handle=library_handle", *sources, "-pthread", "-o", work / "program"], timeout=900)
    return run([work / "program", work / "weights.bin", str(rounds), *sizes.split(",")], timeout=900).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[*NETWORKS], metavar="NETWORK")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--march", default="native")
    parser.add_argument("--no-amx", action="store_true")
    parser.add_argument("--batch-sizes", default="1,3,16")
    options = parser.parse_args()
    print(
        "| network | batch | one thread, us | two threads, us | ratio | median of ratios | processor time, us | of two "
        "| ratio |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    for name in options.names or NETWORKS:
        program = run_passes(NETWORKS[name]())
        with tempfile.TemporaryDirectory() as work:
            emitted = emit(program, FUNCTION)
            text = measured(
                program, emitted, Path(work), march=options.march, rounds=options.rounds, sizes=options.batch_sizes,
                amx=not options.no_amx,
            )  # fmt: skip
        for row in text.splitlines():
            size, *times = row.split()
            alone, simulated, *measured_times = (float(time) for time in times)
            one, two = measured_times[::2], measured_times[1::2]
            ratio = statistics.median(first / second for first, second in zip(one, two, strict=True))
            print(
                f"| {name} | {size} | {min(one):.4g} | {min(two):.4g} | {min(one) / min(two):.2f} | {ratio:.2f} | "
                f"{alone:.4g} | {simulated:.4g} | {alone / simulated:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
