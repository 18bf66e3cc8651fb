"""The kernels for dense layers, convolutions and pooling, as sources, which users compile for each target."""

from __future__ import annotations

from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy
from conan.tools.layout import basic_layout

required_conan_version = ">=2.4"


class TfaotKernels(ConanFile):
    name = "tfaot-kernels"
    license = "Apache-2.0"
    description = "C++17 kernels for models that were compiled ahead of time, one source for every target"
    package_type = "header-library"
    # For the check of the language standard only: the package is the same for all of them.
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "include/*", "src/*"
    no_copy_source = True

    def layout(self) -> None:
        basic_layout(self)

    def validate(self) -> None:
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 17)

    def package_id(self) -> None:
        self.info.clear()

    def package(self) -> None:
        for pattern in ("include/*", "src/*"):
            copy(self, pattern, self.source_folder, str(Path(self.package_folder)))

    def package_info(self) -> None:
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.srcdirs = ["src"]
