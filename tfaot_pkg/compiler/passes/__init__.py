"""Passes over programs, one in each module, by the names that `pipeline` gives them."""
