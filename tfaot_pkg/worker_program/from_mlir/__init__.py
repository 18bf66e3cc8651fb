"""Artifacts of jax.export, StableHLO, and the TensorFlow dialect of MLIR.

JAX's environment, whose MLIR reads them all, reads and runs them; TensorFlow's environment builds SavedModels of them.
"""
