"""The central job: rebuild every model that must be, prove it, publish it, report it."""
