"""Decision trees of libraries: read beside the library, written as a SavedModel beside TensorFlow."""
