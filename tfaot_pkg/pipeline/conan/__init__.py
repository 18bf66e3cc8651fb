"""The Conan package of a model: its recipe, and a Conan home of our own to make it in."""
