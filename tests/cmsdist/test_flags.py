"""--additional-flags of cms_tfaot_compile: what becomes of them."""

from __future__ import annotations

import platform

import pytest

from tests.wording import reported
from tfaot_pkg.cmsdist.compiling import Wanted, targets_wanted
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.targets import DEFAULT_TARGETS
from tfaot_pkg.spec.types import Compilation

ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="a triple without architecture is this machine's")
USUAL = Compilation(batch_sizes=(1,), targets=("x86-64-v2", "x86-64-v3"))


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--target_triple x86_64-unknown-linux-gnu",
        "--target_triple=x86_64-pc-linux",
        "--target_triple x86_64",
        pytest.param("--target_triple=-pc-linux", marks=ON_X86),
        "  --target_triple   amd64-redhat-linux --target_cpu=''",
    ],
)
def test_a_triple_of_the_specs_architecture_leaves_its_targets(flags: str) -> None:
    assert targets_wanted(flags, USUAL) == Wanted()


def test_another_architecture_replaces_the_targets() -> None:
    wanted = targets_wanted("--target_triple aarch64-unknown-linux-gnu", USUAL)
    assert wanted.targets == ("aarch64",)
    assert wanted.notes == ("--target_triple: code for aarch64 in place of x86-64-v2, x86-64-v3",)
    arm = Compilation(batch_sizes=(1,), targets=("aarch64",))
    assert targets_wanted("--target_triple=x86_64-unknown-linux-gnu", arm).targets == DEFAULT_TARGETS


@pytest.mark.parametrize(
    ("cpu", "target"),
    [
        ("x86-64-v4", "x86-64-v4"),
        ("haswell", "x86-64-v3"),
        ("nehalem", "x86-64-v2"),
        ("generic", "x86-64"),
        ("skylake-avx512", "x86-64-v4"),
    ],
)
def test_a_cpu_is_the_target_of_its_level(cpu: str, target: str) -> None:
    wanted = targets_wanted(f"--target_cpu {cpu}", USUAL)
    assert wanted == Wanted(targets=(target,), notes=(f"--target_cpu: code for the target {target} only",))


def test_a_class_is_the_one_of_the_package() -> None:
    wanted = targets_wanted("--cpp_class my::ns::MatMulComp --target_cpu haswell", USUAL)
    assert (wanted.namespace, wanted.class_name, wanted.targets) == ("my::ns", "MatMulComp", ("x86-64-v3",))
    assert targets_wanted("--cpp_class=MatMulComp", USUAL) == Wanted(class_name="MatMulComp")


def test_what_changes_nothing_is_ignored_and_said() -> None:
    wanted = targets_wanted("--target_features=+avx2,+fma --multithreading False", USUAL)
    assert wanted.targets == ()
    assert [note.split(" is ignored")[0] for note in wanted.notes] == [
        "--target_features +avx2,+fma",
        "--multithreading False",
    ]


@pytest.mark.parametrize(
    "flags",
    [
        "--target_triple powerpc64le-unknown-linux-gnu",
        "--target_triple x86_64-apple-darwin",
        "--target_triple=",
        "--target_cpu native",
        "--target_cpu power9",
        "--target_triple aarch64-linux --target_cpu haswell",
        "--multithreading True",
        "--cpp_class std::Tagger",
        "--cpp_class ns::class",
        "--cpp_class 'ns::A { }; class B'",
        "--cpp_class ::Tagger",
        "--cpp_class ns::",
        "--cpp_class",
        "--tag_set serve",
        "--frobnicate",
        "x86_64",
        "--target_cpu 'x",
    ],
)
def test_the_rest_is_refused(flags: str) -> None:
    with reported(SpecError):
        targets_wanted(flags, USUAL)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        targets_wanted("--target_triple sparc --what 1 --tag_set x", USUAL)
    assert len(caught.value.message.splitlines()) == 3
