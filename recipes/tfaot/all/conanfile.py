"""The headers that compiled models build on, as a Conan package."""

from __future__ import annotations

from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy
from conan.tools.layout import basic_layout

required_conan_version = ">=2.4"


class TfaotHeaders(ConanFile):
    name = "tfaot"
    license = "Apache-2.0"
    description = "C and C++17 headers for TensorFlow models that were compiled ahead of time"
    package_type = "header-library"
    # For the check of the language standard only: the package is the same for all of them.
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "include/*"
    no_copy_source = True

    def layout(self) -> None:
        basic_layout(self)

    def validate(self) -> None:
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 17)

    def package_id(self) -> None:
        self.info.clear()

    def package(self) -> None:
        include = "include"
        copy(self, "*.h", str(Path(self.source_folder) / include), str(Path(self.package_folder) / include))

    def package_info(self) -> None:
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
