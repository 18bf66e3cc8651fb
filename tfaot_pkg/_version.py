"""The version of the tool. It is defined only here."""

__version__ = "0.2.0"
