"""The built library's answers against TensorFlow's: nothing is published without."""
