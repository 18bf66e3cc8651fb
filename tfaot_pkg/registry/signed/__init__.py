"""Keeping a signed registry: making one, signing anew what grows old, changing who may sign.

Everything is written so that a reader at any moment finds a state that verifies: a key signs only after the root that
names it is there, and is dropped from the root only after everything that it signed was signed by another.
"""
