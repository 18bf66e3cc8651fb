"""Programs of PyTorch's core operators, as tfaot_pkg/export writes them, to a `Program`, operator by operator."""
