"""Objects of a package (`package.objects`): linking all of them is linking the static library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.native.binaries import global_symbols
from tests.native.conftest import Variant, check_answers, compile_c
from tests.samples import Published, Sample, tfaot
from tfaot_pkg._version import __version__
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.provenance.statement import read_statement
from tfaot_pkg.spec.rules import package_name

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

TARGETS = ["x86-64-v2", "x86-64-v3"]
SYSTEM = ("-lm",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A sample model built with objects."""

    name: str
    weights: str = "shared"
    tensorflow: str | None = None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, self.weights, self.tensorflow)))


CASES = [
    Case(name="digits"),
    Case(name="digits", weights="embedded"),
    Case(name="digits", tensorflow="2.21.0"),
    Case(name="wine"),
]
Build = Callable[[Case], Path]


@pytest.fixture(scope="module")
def build(variant: Variant) -> Build:
    def made(case: Case) -> Path:
        more = {"compilation": {"weights": case.weights}, "package": {"objects": True}}
        return variant(case.name, targets=TARGETS, tensorflow=case.tensorflow, more=more)

    return made


def objects(prefix: Path) -> list[Path]:
    return sorted((prefix / "lib").glob("*.o"))


def entry(prefix: Path, name: str) -> str:
    """The entry function, as the generated header declares it."""
    header = (prefix / "include" / package_name(name) / "model.h").read_text()
    found = re.search(rf"\btfaot_model_{name}_[0-9a-f]{{12}}\b", header)
    assert found
    return found[0]


@pytest.mark.sweep(night=["wine shared", "digits embedded"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_program_of_the_objects_alone_gives_tensorflows_answers(
    case: Case, build: Build, samples: Mapping[str, Sample], inputs: Mapping[str, Path], tmp_path: Path
) -> None:
    prefix = build(case)
    flags: list[str | Path] = [f"-DENTRY={entry(prefix, case.name)}", *objects(prefix), *SYSTEM]
    program = compile_c("answers", tmp_path / "answers", *flags)
    outputs = tmp_path / "outputs"
    for target in TARGETS:
        outputs.mkdir()
        assert run([program, "no file", target, inputs[case.name], outputs]).stdout == f"{target}\n"
        check_answers(outputs, samples[case.name])
        outputs.rename(tmp_path / target)


@pytest.mark.sweep(night=["wine shared", "digits embedded"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_there_is_an_object_per_batch_size_and_a_common_one_and_all_but_the_entry_function_is_hidden(
    case: Case, build: Build, samples: Mapping[str, Sample]
) -> None:
    prefix = build(case)
    sizes = (1, 2, 4, 8, 16) if case.name == "digits" else (1, 4)
    names = {f"{case.name}_bs{size}.o" for size in sizes} | {f"{case.name}_common.o"}
    assert {path.name for path in objects(prefix)} == names
    symbol = entry(prefix, case.name)
    for path in objects(prefix):
        defined, undefined = global_symbols(path)
        assert all(name.startswith(symbol) for name in defined)
        assert not [name for name in undefined if re.search("tensorflow|eigen|absl|tsl|xla", name, re.IGNORECASE)
                    and not name.startswith(symbol)]  # fmt: skip
        assert exported(path) == ({symbol} if path.name.endswith("_common.o") else set())


def exported(path: Path) -> set[str]:
    """What a shared library that the object is linked into would show: readelf's view."""
    rows = [line.split() for line in run(["readelf", "-sW", path]).stdout.splitlines()]
    return {r[7] for r in rows if len(r) == 8 and r[4] in ("GLOBAL", "WEAK") and r[5] != "HIDDEN" and r[6] != "UND"}


@pytest.mark.nightly
def test_an_object_that_is_left_out_is_a_linkers_error(build: Build, tmp_path: Path) -> None:
    prefix = build(CASES[1])  # with embedded weights, XLA compiles the model for each batch size
    some = [path for path in objects(prefix) if path.name != "digits_bs4.o"]
    with pytest.raises(CommandFailed) as failure:
        compile_c("answers", tmp_path / "answers", f"-DENTRY={entry(prefix, 'digits')}", *some, *SYSTEM)
    assert re.search("undefined reference to `tfaot_model_digits_[0-9a-f]{12}_b4_x86_64_v[23]'", failure.value.output)


@pytest.mark.nightly
def test_objects_of_two_models_and_of_several_builds_of_one_go_into_one_program(build: Build, tmp_path: Path) -> None:
    """Toolchains that lead to the same program have the same objects, which are linked once (decision 104)."""
    shared, embedded, newer, wine = prefixes = [build(case) for case in CASES]
    assert [path.read_bytes() for path in objects(shared)] == [path.read_bytes() for path in objects(newer)]
    symbols = [entry(prefix, case.name) for prefix, case in zip(prefixes, CASES, strict=True)]
    assert len(set(symbols)) == 3 and symbols[0] == symbols[2]
    (tmp_path / "main.c").write_text(
        "#include <tfaot/c_api.h>\n#include <stdio.h>\n"
        + "".join(f"const tfaot_model_table* {symbol}(void);\n" for symbol in symbols)
        + "int main(void) {\n"
        + "".join(f"  puts({symbol}()->info->toolchain);\n" for symbol in symbols)
        + "  return 0;\n}\n"
    )
    linked = [path for prefix in (shared, embedded, wine) for path in objects(prefix)]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wl,--fatal-warnings", f"-I{prefixes[0]}/include"]
    run(["gcc", *flags, tmp_path / "main.c", *linked, *SYSTEM, "-o", tmp_path / "main"])
    ours = f"tfaot-pkg {__version__}"
    assert run([tmp_path / "main"]).stdout.splitlines() == [ours, f"tensorflow {DEFAULT_VERSION}", ours, ours]


@pytest.mark.nightly
def test_objects_are_made_if_they_are_asked_for_and_are_in_the_packages_documents(
    build: Build, published: Published
) -> None:
    prefix = build(CASES[0])
    assert not objects(published.prefix)
    share = prefix / "share" / "tfaot-model-digits"
    recorded = read_statement((share / "provenance.json").read_bytes(), "digits").files
    names = {f"lib/{path.name}" for path in objects(prefix)}
    assert names < set(recorded)
    assert all(f'"file:{name}"' in (share / "sbom.cdx.json").read_text() for name in names)


@pytest.mark.nightly
def test_a_second_build_gives_the_same_objects(build: Build, published: Published, tmp_path: Path) -> None:
    prefix = build(CASES[1])
    home = tmp_path / "home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "toolchains").symlink_to(published.home / "cache" / "toolchains")
    tfaot(home, "build", prefix.parent / "spec.yaml", "-o", tmp_path / "again")
    first, second = ({p.name: p.read_bytes() for p in objects(root)} for root in (prefix, tmp_path / "again"))
    assert len(first) == 6 and first == second
