"""compilation.class_name: the C++ class has a name of its own, with capitals, in every file of the package."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kept import REPOSITORY
from tests.package.conftest import (
    SIGNATURE,
    WARNINGS,
    build_fake_libraries,
    cmake,
    make_contents,
    make_spec,
    write_tree,
)
from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Part, Signature, Symbol, Tensor
from tfaot_pkg.package.first_program import first_program
from tfaot_pkg.package.tree import PackageContents, check_class_name, info_document, render
from tfaot_pkg.pipeline.check import check_model, scaffold_spec
from tfaot_pkg.pipeline.conan.recipe import render_recipe
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.rules import class_name_fault
from tfaot_pkg.spec.types import ModelSpec, PackageOptions

PROJECT = """
cmake_minimum_required(VERSION 3.15)
project(consumer LANGUAGES CXX)
find_package(tfaot-model-matmul-comp REQUIRED COMPONENTS static)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE tfaot-model-matmul-comp::static)
"""
PROGRAM = """
#include <cstdio>
#include <tfaot-model-matmul-comp/matmul_comp_bs2.h>
#include <tfaot-model-matmul-comp/model.h>
#include <tfaot/tfaot.h>
int main() {
  const tfaot::Shared<my::ns::MatMulComp> model;
  const float bias[] = {1, 1, 1}, x[] = {10, 20, 30};
  float y[3];
  std::int64_t label[1];
  model.run(1, {bias, x}, {label, y});
  tfaot::Model<my::ns::MatMulComp> other;
  my::ns::MatMulComp_bs2 two;
  for (int i = 0; i < two.arg1_count(); ++i) two.arg1_data()[i] = 3;
  for (int i = 0; i < two.arg0_count(); ++i) two.arg0_data()[i] = 1;
  if (!two.Run()) return 1;
  std::printf("%s %g %g\\n", my::ns::MatMulComp::name, double(y[2]), double(two.result1(1, 2)));
}
"""


def named(class_name: str, name: str = "matmul_comp", *, cmssw: bool = False) -> ModelSpec:
    spec = make_spec(name, namespace="my::ns")
    return replace(
        spec, compilation=replace(spec.compilation, class_name=class_name), package=PackageOptions(cmssw=cmssw)
    )


def text_of(contents: PackageContents, path: str) -> str:
    return render(contents)[path].decode()


@pytest.mark.slow
def test_a_cmake_project_uses_a_class_with_capitals(tmp_path: Path) -> None:
    build_fake_libraries(tmp_path, "matmul_comp", slope=2)
    spec = named("MatMulComp", cmssw=True)
    write_tree(make_contents(spec, libraries=tmp_path), tmp_path / "prefix")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "project/main.cpp").write_text(PROGRAM)
    build, warnings = tmp_path / "build", " ".join(["-std=c++17", *WARNINGS])
    options = [f"-DCMAKE_PREFIX_PATH={tmp_path}/prefix", f"-DCMAKE_CXX_FLAGS={warnings}"]
    cmake("-S", tmp_path / "project", "-B", build, *options)
    cmake("--build", build)
    assert run([build / "consumer"]).stdout == "matmul_comp 61 7\n"


def test_all_documents_name_the_class() -> None:
    contents = make_contents(named("MatMulComp"))
    info = info_document(contents)
    assert dict(info["cpp"])["class"] == "my::ns::MatMulComp"  # type: ignore[call-overload]
    assert "tfaot::Shared<my::ns::MatMulComp> model" in first_program(info, SIGNATURE, None, reference="TensorFlow")
    assert b"my::ns::MatMulComp" in render_recipe(contents.spec)["all/test_package/example.cpp"]
    assert "my::ns::matmul_comp" not in text_of(contents, "include/tfaot-model-matmul-comp/model.h")
    # What is no class has the model's name: the package, its targets, and C.
    assert "tfaot_model_matmul_comp(void)" in text_of(contents, "include/tfaot-model-matmul-comp/entry.h")


def test_specs_without_a_name_for_the_class_keep_their_keys_and_packages() -> None:
    assert "class_name" not in spec_document(make_spec())["compilation"]
    assert spec_document(named("MatMulComp"))["compilation"]["class_name"] == "MatMulComp"
    plain, same = make_spec("affine", namespace="my::ns"), named("affine", "affine")
    header = "include/tfaot-model-affine/model.h"
    assert text_of(make_contents(plain), header) == text_of(make_contents(same), header)


def test_classes_of_several_signatures_begin_with_it() -> None:
    parts = tuple(Part(name=name, inputs=(f"{name}/x",), outputs=(f"{name}/y",)) for name in ("encode", "decode"))
    tensors = [
        tuple(Tensor(name=f"{part.name}/{end}", dtype=DType.FLOAT32, shape=(None, 2)) for part in parts) for end in "xy"
    ]
    contents = make_contents(named("Codec"), signature=Signature(inputs=tensors[0], outputs=tensors[1], parts=parts))
    classes = re.findall(r"^class (\w+)", text_of(contents, "include/tfaot-model-matmul-comp/model.h"), re.MULTILINE)
    assert classes == ["Codec", "Codec_encode", "Codec_decode"]
    listed = info_document(contents)["signatures"]
    assert [each["class"] for each in listed] == ["my::ns::Codec_encode", "my::ns::Codec_decode"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["Inputs", "run", "instance_", "v2", "uid_0123456789ab"])
def test_a_class_with_the_name_of_its_member_is_refused(name: str) -> None:
    with reported(SpecError):
        render(make_contents(named(name)))


SIZED = Signature(
    inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 8), axes=("", "n")),),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 8), axes=("", "n")),),
    symbols=(Symbol(name="n", minimum=1, maximum=8),),
)


@pytest.mark.slow
@pytest.mark.parametrize("signature", [SIGNATURE, SIZED], ids=["plain", "sized"])
def test_every_word_of_the_header_is_refused_or_can_name_the_class(signature: Signature, tmp_path: Path) -> None:
    header = "include/tfaot-model-matmul-comp/model.h"
    words = set(re.findall(r"[A-Za-z]\w*", text_of(make_contents(named("X"), signature=signature), header)))
    texts = []
    for word in sorted(words):
        spec = named(word)
        if class_name_fault(word):
            continue
        try:
            check_class_name(spec)
        except SpecError:
            continue
        text = text_of(make_contents(spec, signature=signature), header)
        # Each is another header for the compiler: a guard and a namespace of its own.
        text = text.replace("TFAOT_MODEL_MATMUL_COMP_MODEL_H_", f"GUARD_{word}_")
        texts.append(
            text.replace("namespace my::ns", f"namespace of_{word}")
            + f"template class tfaot::Shared<of_{word}::{word}>;\n"
        )
    assert len(texts) > 30
    folder = tmp_path / "include"
    for path, data in render(make_contents(signature=signature)).items():
        if path.startswith("include/tfaot/"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(data)
    (tmp_path / "all.cpp").write_text("\n".join(["#include <tfaot/shared.h>", *texts]))
    run(["g++", "-std=c++17", *WARNINGS, f"-I{folder}", "-fsyntax-only", tmp_path / "all.cpp"])


def test_a_name_that_no_class_can_have_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    unread: Any = SimpleNamespace(spec=make_spec("outputs"))
    model = tmp_path / "outputs.onnx"
    model.write_bytes((REPOSITORY / "examples" / "from-onnx" / "tagger.onnx").read_bytes())
    with reported(SpecError):
        scaffold_spec(
            model, tmp_path / "spec.yaml", name=None, version="1.0.0", signature="", tensorflow=None, beside={},
            pipeline=unread,
        )  # fmt: skip
    assert not (tmp_path / "spec.yaml").exists()
    with reported(SpecError):
        check_model(unread.spec, unread, table=False)
    with reported(SpecError):
        Pipeline.build(unread, unread)
