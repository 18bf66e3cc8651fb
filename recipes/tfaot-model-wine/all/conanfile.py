from conan import ConanFile


class Recipe(ConanFile):
    name = "tfaot-model-wine"
    description = "Which of three cultivars a wine is from, by its chemistry and colour; a dense network"
    license = "Apache-2.0"
    exports_sources = "spec.yaml", "spec.tune.json", "saved_model", "saved_model/*"
    python_requires = "tfaot-pkg/[>=0.1 <1]"
    python_requires_extend = "tfaot-pkg.CompiledModel"
