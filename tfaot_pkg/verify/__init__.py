"""Compares the built library's answers with TensorFlow's; nothing is published without this."""
