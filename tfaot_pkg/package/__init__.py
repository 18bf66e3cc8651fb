"""`PackageTree`: the relocatable install tree of a model. `render` serves other generated files too."""
