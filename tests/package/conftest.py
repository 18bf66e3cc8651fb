"""A package around a fake native library: real compiler, real CMake, no TensorFlow."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tfaot_pkg.analysis.rows import INDEPENDENT, Rows
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.package.tree import PackageContents, PackageTree, make_package
from tfaot_pkg.spec.rules import package_name
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec, Validation

HERE = Path(__file__).parent
TOOLS = Path(sys.executable).parent
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")

SIGNATURE = Signature(
    inputs=(
        Tensor(name="bias-in", dtype=DType.FLOAT32, shape=(3,)),
        Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3)),
    ),
    outputs=(
        Tensor(name="label", dtype=DType.INT64, shape=(None,)),
        Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 3)),
    ),
)


def make_spec(
    name: str = "affine",
    *,
    version: str = "1.2.0",
    description: str = "Multiplies, adds, and finds the largest",
    homepage: str = "https://example.org/affine?a=1&b=2",
    batch_sizes: tuple[int, ...] = (2, 4),
    namespace: str = "tfaot_model",
) -> ModelSpec:
    return ModelSpec(
        path=Path("/models/spec.yaml"),
        model=ModelInfo(
            name=name, version=version, description=description, homepage=homepage, author="A. Author", license="MIT"
        ),
        source=FolderSource(path=Path("/models/affine")),
        compilation=Compilation(batch_sizes=batch_sizes, targets=("x86-64-v2", "x86-64-v3"), namespace=namespace),
        validation=Validation(),
    )


def make_uid(version: str) -> str:
    """What stands for the digest of a model's content."""
    return "0123456789ab" if version == "1.2.0" else f"{version.encode().hex():0<12.12}"


def make_contents(
    spec: ModelSpec | None = None,
    *,
    signature: Signature = SIGNATURE,
    rows: Rows = INDEPENDENT,
    any_batch_size: bool = False,
    libraries: Path = Path("/nowhere"),
) -> PackageContents:
    spec = spec or make_spec()
    name, uid = spec.model.name, make_uid(spec.model.version)
    return PackageContents(
        spec=spec,
        signature=signature,
        rows=rows,
        any_batch_size=any_batch_size,
        bits={"reproducible": "no", "difference": "XLA's code"},
        symbol=f"tfaot_model_{name}_{uid}",
        uid=uid,
        toolchain="tensorflow 2.17.1",
        static_library=libraries / f"lib{package_name(name)}.a",
        shared_library=libraries / f"lib{package_name(name)}.so",
        notices={"LICENSE.tensorflow": b"Apache License 2.0\n"},
        validation={"passed": True, "results": []},
    )


def write_tree(contents: PackageContents, folder: Path) -> PackageTree:
    """The package of `contents`, copied out of a build cache into `folder`, which may hold others."""
    with tempfile.TemporaryDirectory() as cache:
        tree = make_package(contents, BuildCache(root=Path(cache)))
        shutil.copytree(tree.root, folder, symlinks=True, dirs_exist_ok=True)
    return replace(tree, root=folder)


def build_fake_libraries(folder: Path, name: str, *, slope: float, version: str = "1.2.0") -> None:
    """The two files that `native` would make, for the model `y = slope * x + bias-in`."""
    package = package_name(name)
    definitions = {
        "MODEL_NAME": f'"{name}"',
        "MODEL_VERSION": f'"{version}"',
        "MODEL_UID": f'"{make_uid(version)}"',
        "MODEL_SYMBOL": f"tfaot_model_{name}_{make_uid(version)}",
        "MODEL_SLOPE": f"{slope:.1f}f",
    }
    flags = [f"-D{key}={value}" for key, value in definitions.items()]
    include = f"-I{resources.headers()}"
    object_file = folder / f"{name}.o"
    run(["g++", "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", *WARNINGS, *flags, include, "-c",
         HERE / "fake_model.cpp", "-o", object_file])  # fmt: skip
    run(["ar", "rcsD", folder / f"lib{package}.a", object_file])
    run(
        [
            "g++",
            "-shared",
            "-nostartfiles",
            "-Wl,--as-needed",
            f"-Wl,-soname,lib{package}.so.{make_uid(version)}",
            object_file,
            "-o",
            folder / f"lib{package}.so",
        ]
    )


@pytest.fixture(scope="session")
def make_tree(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., PackageTree]:
    """Make a package of a fake model in `prefix` (several may share one)."""

    def make(prefix: Path, name: str = "affine", *, slope: float = 2, version: str = "1.2.0") -> PackageTree:
        libraries = tmp_path_factory.mktemp("libraries")
        build_fake_libraries(libraries, name, slope=slope, version=version)
        return write_tree(make_contents(make_spec(name, version=version), libraries=libraries), prefix)

    return make


def cmake(*arguments: str | Path) -> str:
    """Run the CMake that comes with this Python, with its Ninja; return what it printed."""
    tools = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", "CMAKE_GENERATOR": "Ninja"}
    finished = run([TOOLS / "cmake", *arguments], env=tools, timeout=300)
    return finished.stdout + finished.stderr


@pytest.fixture(scope="session")
def prefix(make_tree: Callable[..., PackageTree], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix with the models `affine` (y = 2 x + bias) and `steep` (y = 3 x + bias). Read only."""
    folder = tmp_path_factory.mktemp("prefix")
    make_tree(folder, "affine", slope=2)
    make_tree(folder, "steep", slope=3)
    return folder
