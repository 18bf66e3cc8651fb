"""The base that the recipe of every compiled model builds on (Conan's `python_requires`).

A model's recipe has only its name and sources; everything else is here. The base is the package `tfaot-pkg`;
inside the repository's local recipes index, `recipes/tfaot-pkg/config.yml` points here.

The conf decides where the library comes from:
- `user.tfaot:prefix=FOLDER`: that folder has it, built and verified (`tfaot-pkg publish` makes packages this way);
- `user.tfaot:command=[...]`: that command builds it;
- neither: `python -m tfaot_pkg` of Conan's own Python, else the `tfaot-pkg` on the PATH.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from conan import ConanFile
from conan.errors import ConanException, ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy

required_conan_version = ">=2.20"


class TfaotPkg(ConanFile):
    """The package that carries `CompiledModel`."""

    name = "tfaot-pkg"
    package_type = "python-require"
    license = "Apache-2.0"
    description = "Base of the recipes of compiled models"
    # A model's binary is built by the tool, not by this file: a new version of this file needs no new binaries.
    # See docs/decisions/ (package ids do not depend on the base).
    package_id_python_mode = "unrelated_mode"

    def set_version(self):
        """The version in `tfaot_pkg/_version.py`, unless one is given. This file is in a checkout or in a wheel."""
        if self.version is None:
            here = Path(self.recipe_folder)
            text = next(
                path.read_text(encoding="utf-8")
                for path in (here / "tfaot_pkg" / "_version.py", here.parent / "_version.py")
                if path.is_file()
            )
            self.version = re.search(r'__version__ = "(.+)"', text).group(1)


class CompiledModel:
    """The common part of all recipes. A recipe adds `name`, `license`, `description` and `exports_sources`."""

    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}  # noqa: RUF012 (Conan's way to declare options)
    default_options = {"shared": False}  # noqa: RUF012

    def set_version(self):
        """The spec's version, unless one is given."""
        if self.version is None:
            spec = yaml.safe_load((Path(self.recipe_folder) / "spec.yaml").read_text(encoding="utf-8"))
            self.version = str(spec["model"]["version"])

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("compiled models are made for Linux")
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 17)

    def build(self):
        spec = Path(self.source_folder) / "spec.yaml"
        self._choose_targets(spec)
        command, folder = self._command()
        argv = [*command, "build", str(spec), "-o", str(self._prefix())]
        self.output.info(f"running {' '.join(argv)}")
        try:
            finished = subprocess.run(argv, check=False, cwd=folder)
        except OSError as error:
            raise ConanException(f"cannot start {argv[0]}: {error.strerror} (conf user.tfaot:command)") from error
        if finished.returncode:
            raise ConanException(f"tfaot-pkg build failed: exit code {finished.returncode}; its message is above")

    def _choose_targets(self, spec):
        """Name the targets of this architecture, if the recipe leaves them to it and they are not the tool's own."""
        document = yaml.safe_load(spec.read_text(encoding="utf-8"))
        compilation = document.setdefault("compilation", {})
        if self.settings.arch == "armv8" and "targets" not in compilation:
            compilation["targets"] = ["aarch64"]
            spec.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")

    def package(self):
        """The whole prefix, with its CMake package: its targets are the same as without Conan.

        The option `shared` decides which kind of library NAME::NAME is; NAME::static and NAME::shared are both there.
        """
        prefix, package = str(self._prefix()), self.package_folder
        if not (self._prefix() / "include").is_dir():
            raise ConanException(f"there is no built package in {prefix}")
        for library in (f"lib{self._library()}.so", f"lib{self._library()}.a"):
            if not (self._prefix() / "lib" / library).is_file():
                raise ConanException(f"{prefix} holds no lib/{library}")
        for folder in ("include", "lib", "share", "etc", "bin"):
            copy(self, "*", os.path.join(prefix, folder), os.path.join(package, folder))
        kind = "ON" if self.options.shared else "OFF"
        kind_file = Path(package, "lib", "cmake", self._library(), f"{self._library()}Kind.cmake")
        kind_file.write_text(f"set({self._library()}_SHARED_LIBS {kind})\n")

    def package_id(self):
        """The library has a C ABI: one binary serves all compilers and build types."""
        del self.info.settings.compiler
        del self.info.settings.build_type

    def package_info(self):
        # The package's own CMake files, found through builddirs, instead of ones that CMakeDeps would make.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", self._library())]
        self.cpp_info.set_property("pkg_config_name", self.name)
        # For other build systems. With -lNAME, linkers would take the shared library, which is there, too.
        self.cpp_info.libs = [self._library() if self.options.shared else f":lib{self._library()}.a"]
        if not self.options.shared:
            self.cpp_info.system_libs = ["m"]

    def _library(self):
        """The package's name has `-`; names of older recipes have the `_` of the model's name."""
        return self.name.replace("_", "-")

    def _prefix(self):
        given = self.conf.get("user.tfaot:prefix", check_type=str)
        return Path(given) if given else Path(self.build_folder) / "prefix"

    def _command(self):
        """The command, and the folder that it runs in (None: this one, which holds files of the recipe)."""
        command = self.conf.get("user.tfaot:command", check_type=list)
        if command:
            return [str(word) for word in command], None
        found = importlib.util.find_spec("tfaot_pkg")
        if found is not None:
            # With -m, Python imports modules of the current folder first.
            return [sys.executable, "-m", "tfaot_pkg"], Path(found.origin).parents[1]
        program = shutil.which("tfaot-pkg")
        if program:
            return [program], None
        raise ConanException(
            f"tfaot-pkg is needed to build {self.ref} and was found neither in Conan's Python ({sys.executable}) "
            "nor on the PATH: install it there, or name it with "
            """-c user.tfaot:command='["/path/to/python", "-m", "tfaot_pkg"]'"""
        )
