"""Measurements for the tuning file: who computes each layer, XLA's flags, and what each batch size costs."""
