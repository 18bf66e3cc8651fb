"""Computations as plain instructions of HLO, and what can be shown of them. No TensorFlow, no files."""
