"""Materials of a package that was never built: the documents need no more than what is known of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfaot_pkg.frontends.toolchain.definition import toolchain
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.sandbox import Level
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.native.compiled.program import Engine
from tfaot_pkg.native.cxx.compiler import ArchiveMember, Compiler
from tfaot_pkg.native.xla_runtime import LinkedPart
from tfaot_pkg.package.listing import Member, Tree
from tfaot_pkg.provenance.materials import Made, Materials, Pin, ToolchainFacts
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.report import Comparison, ValidationReport

SPEC = """
model:
  name: tagger
  version: 2.1.0
  license: MIT
  description: "{{ env.what }} jets"
  author: A. Author
source: {url: https://example.org/tagger.tar.gz, sha256: 00000000000000000000000000000000000000000000000000000000000000ab}
compilation: {batch_sizes: [1, 4], targets: [x86-64-v2, x86-64-v3]}
"""
MATMUL = LinkedPart(target="x86-64-v3", source="runtime/matmul.cc", ours=True, eigen=True)
SORT = LinkedPart(target="x86-64-v3", source="xla/sort.cc", ours=False, eigen=False)
PROGRAM = Engine(operations=3)
TREE = Tree(
    members=(
        Member(path="include/tagger.h", kind="file", content="11" * 32),
        Member(path="lib/libtagger.so", kind="program", content="22" * 32),
    )
)


def make_spec(text: str = SPEC) -> ModelSpec:
    return parse_spec(text.encode(), Path("/home/someone/secret-project/spec.yaml"), {"what": "Tags", "unused": "x"})


def make_materials(
    spec: ModelSpec | None = None, *, compiler: str = "g++ (Debian 12.2.0-14) 12.2.0", pinned: bool = True
) -> Materials:
    facts = ToolchainFacts(
        toolchain=toolchain("2.17.1"),
        identity="aa" * 32,
        lock="bb" * 32 if pinned else "",
        pins=(Pin(name="numpy", version="1.26.4", marker="python_version < '3.12'"),) if pinned else (),
    )
    return Materials(
        spec=spec or make_spec(),
        key=Key("cc" * 32),
        keys={"frozen": Key("dd" * 32)},
        source="ee" * 32,
        validation_inputs={"seed": 0, "samples": 64},
        toolchain=facts,
        compiler=Compiler(
            command=("g++",),
            version=compiler,
            linker="GNU ld 2.40",
            libc="glibc 2.36",
            machine="x86_64-linux-gnu",
            is_gcc="clang" not in compiler,
            tools={},
            log=Path("/home/someone/log"),
            output=lambda _: None,
        ),
        confinement=Level.NAMESPACES,
    )


def make_made(
    *parts: LinkedPart,
    warnings: tuple[str, ...] = (),
    archives: Mapping[str, tuple[ArchiveMember, ...]] | None = None,
    engine: Engine = PROGRAM,
) -> Made:
    comparison = Comparison(
        target="x86-64-v3", batch_size=1, output="y", elements=4, failures=0, max_absolute=1e-7, max_relative=2e-6
    )
    return Made(
        signature=Signature(
            inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3)),),
            outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None,)),),
        ),
        engine=engine,
        parts=parts,
        report=ValidationReport(
            reference="tensorflow 2.17.1",
            inputs={"seed": 0},
            rtol=1e-4,
            atol=1e-5,
            comparisons=(comparison,),
            targets={"x86-64-v3": "native"},
            warnings=warnings,
            confinement="namespaces",
        ),
        binaries={"lib/libtagger.so": "22" * 32},
        archives=archives or {},
    )
