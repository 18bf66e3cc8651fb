"""Which types carry others into and out of compiled code (elements.py). Without NumPy: every command reads it."""

CARRIERS = {"bfloat16": "uint16", "complex128": "float64", "complex64": "float32", "float16": "uint16"}
"""The types by which compiled code takes and gives others: of the same bits, or of each of the two parts."""
PARTS = {"complex128": "float64", "complex64": "float32"}
MADE = "/rewritten/"
"""In the names of nodes that stand for others (rewrites.py, parts.py)."""
