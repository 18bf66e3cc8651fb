"""Wheels and conda packages of published or installed packages (decision 110)."""
