from conan import ConanFile


class Recipe(ConanFile):
    name = "tfaot-model-digits"
    description = "Handwritten digits, 8 x 8 pixels, recognised by a small convolutional network"
    license = "Apache-2.0"
    exports_sources = "spec.yaml", "spec.tune.json", "saved_model", "saved_model/*"
    python_requires = "tfaot-pkg/[>=0.1 <1]"
    python_requires_extend = "tfaot-pkg.CompiledModel"
