"""Names that both sides share: of types that carry others (elements.py), of custom calls.

Without NumPy, because every command imports this module.
"""

CARRIERS = {"bfloat16": "uint16", "complex128": "float64", "complex64": "float32", "float16": "uint16"}
"""Types of the model -> the types that carry them at the border of compiled code: their bits, or their two parts."""
PARTS = {"complex128": "float64", "complex64": "float32"}
MADE = "/rewritten/"
"""Part of the names of nodes that replace others (rewrites.py, complex_arithmetic.py)."""

OWN = "tfaot."
"""Prefix of the targets of our own custom calls (authored.py)."""
TREES = "tfaot.trees"
"""The target by which a listing names forests (compiler/listing.py)."""
OPERATION = "tfaot.operation"
"""The target of calls of operations that the author of a model supplies (authored.py)."""
