"""Decision trees of libraries: read in the library's environment, written as a SavedModel in TensorFlow's."""
