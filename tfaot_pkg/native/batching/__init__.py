"""Batches of any size from compiled ones: what each size costs, and the cheapest composition."""
