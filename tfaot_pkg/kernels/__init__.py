"""Layers that the kernel library (recipes/tfaot-kernels) computes in place of XLA's code."""
