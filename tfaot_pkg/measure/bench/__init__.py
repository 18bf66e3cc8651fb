"""Compiled models beside other inference engines: one process each, measured alternately (`tfaot-pkg bench`)."""
