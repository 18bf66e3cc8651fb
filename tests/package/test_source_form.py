"""The source form in a package: where it stands, and what it has of the package."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from tests.package.conftest import make_contents, make_spec
from tfaot_pkg.ground.targets import DEFAULT_TARGETS
from tfaot_pkg.package.listing import foreign_paths
from tfaot_pkg.package.tree import PackageContents, render

CODE = {"src/program.cc": b"// code\n", "weights.bin": bytes(8)}


def contents(name: str = "affine", *targets: str) -> PackageContents:
    spec = make_spec(name)
    spec = replace(spec, compilation=replace(spec.compilation, targets=targets or spec.compilation.targets))
    return replace(make_contents(spec), bits={"reproducible": "cpus"})


def sources(made: PackageContents) -> dict[str, bytes]:
    """The files of the source form, by path in it."""
    start = f"share/{made.package_name}/source/"
    rendered = render(replace(made, code=CODE))
    return {path.removeprefix(start): data for path, data in rendered.items() if path.startswith(start)}


@pytest.mark.parametrize("name", ["affine", "deep_tau"])
def test_it_changes_no_other_file_and_stands_where_packages_may_have_files(name: str) -> None:
    made = contents(name)
    rendered, without = render(replace(made, code=CODE)), render(made)
    assert {path: data for path, data in rendered.items() if "/source/" not in path} == without
    assert foreign_paths(made.package_name, rendered) == ()


@pytest.mark.parametrize("name", ["affine", "deep_tau"])
def test_it_has_the_headers_and_build_files_of_the_package(name: str) -> None:
    made = contents(name)
    packaged, found = render(made), sources(made)
    assert found.items() >= CODE.items()
    for path, data in packaged.items():
        if path.startswith("include/"):
            assert found[path] == data
        elif path.startswith("lib/cmake/") or path.endswith(".pc"):
            place = [p for p in found if p.removesuffix(".in").endswith(path)]
            assert len(place) == (2 if path.endswith(f"/{made.package_name}ConfigVersion.cmake") else 1), path
    of_machine = f"lib/cmake/{made.package_name}/{made.package_name}ConfigVersion.cmake"
    assert found[f"install/x86_64/{of_machine}"] == packaged[of_machine]
    assert b"aarch64" in found[f"install/aarch64/{of_machine}"]


@pytest.mark.parametrize(
    ("targets", "x86_64", "aarch64"),
    [
        (("x86-64-v3", "x86-64-v4"), "x86-64-v3 x86-64-v4", "aarch64"),
        (("aarch64",), " ".join(DEFAULT_TARGETS), "aarch64"),
    ],
)
def test_it_is_built_for_the_targets_of_the_package_or_the_default_ones(
    targets: tuple[str, ...], x86_64: str, aarch64: str
) -> None:
    lists = sources(contents("affine", *targets))["CMakeLists.txt"].decode()
    assert f"set(known x86-64 x86-64-v2 x86-64-v3 x86-64-v4)\n  set(default {x86_64})" in lists
    assert f"set(known aarch64)\n  set(default {aarch64})" in lists
    # By instruction sets: GCC 9 and Clang 11 do not know -march=x86-64-v3.
    assert "-march=x86-64-v" not in lists


@pytest.mark.parametrize("targets", [("x86-64-v2", "x86-64-v3"), ("aarch64",)])
def test_labels_of_its_bazel_file_name_targets_of_it_and_files_that_are_there(targets: tuple[str, ...]) -> None:
    found = sources(contents("affine", *targets))
    # Starlark's syntax is a part of Python's.
    calls = [each for each in ast.walk(ast.parse(found["BUILD.bazel"])) if isinstance(each, ast.Call)]
    rules = [{k.arg: k.value for k in each.keywords} for each in calls if ast.unparse(each.func) == "cc_library"]
    names = {ast.literal_eval(rule["name"]) for rule in rules}
    assert {"tfaot-model-affine", *(f"program_{name.replace('-', '_')}" for name in targets)} <= names
    assert [ast.literal_eval(rule["name"]) for rule in rules if "visibility" in rule] == ["tfaot-model-affine"]
    for rule in rules:
        texts = [each.value for key in ("deps", "srcs", "hdrs") if key in rule for each in ast.walk(rule[key])
                 if isinstance(each, ast.Constant)]  # fmt: skip
        for text in map(str, texts):
            assert (
                text.startswith("@platforms//cpu:")
                or "*" in text
                or text.removeprefix(":")
                in names
                | found.keys()
                | {
                    "src/" + name
                    for name in (
                        "cpu.cc",
                        "library.cc",
                        "model.cc",
                        "runtime.cc",
                        "state.cc",
                        "thread_pool.cc",
                        "units.cc",
                        "weights.cc",
                    )
                }
                | {"kernels/src/kernels.cpp", "src/program.cc", "weights.bin"}
            ), text
