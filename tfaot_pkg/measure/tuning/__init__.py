"""Measurements for the tuning file: XLA's flags, and what each batch size costs."""
