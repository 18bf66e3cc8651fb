"""Depending on packages: which versions serve a set of requirements, and the lock file that keeps the answer."""
