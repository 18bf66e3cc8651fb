"""Programs of PyTorch's core operators, as export.py writes them, to a `Program`, operator by operator."""
