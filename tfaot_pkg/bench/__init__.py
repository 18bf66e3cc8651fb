"""Compiled models beside other inference engines: one process each, measured in turns (`tfaot-pkg bench`)."""
