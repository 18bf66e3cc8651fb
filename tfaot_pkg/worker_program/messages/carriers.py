"""Names that both sides know: types that carry others (elements.py), calls. Without NumPy: every command reads it."""

CARRIERS = {"bfloat16": "uint16", "complex128": "float64", "complex64": "float32", "float16": "uint16"}
"""The types by which compiled code takes and gives others: of the same bits, or of each of the two parts."""
PARTS = {"complex128": "float64", "complex64": "float32"}
MADE = "/rewritten/"
"""In the names of nodes that replace others (rewrites.py, parts.py)."""

OWN = "tfaot."
"""Targets of custom calls that are ours (own_calls.py) begin so."""
TREES = "tfaot.trees"
"""The target of forests: operands are x and the bytes of the forest (forest.py)."""
OPERATION = "tfaot.operation"
"""The target of operations that the author of a model supplies (authored.py)."""
