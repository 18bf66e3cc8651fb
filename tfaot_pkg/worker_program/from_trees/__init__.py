"""Decision trees of libraries: read in the library's environment. The host makes programs of them."""
